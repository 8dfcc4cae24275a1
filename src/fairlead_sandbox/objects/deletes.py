"""Deletion of one object: preconditions, propagation policies, finalizers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fairlead.api.meta import JSON
from fairlead.api.timestamps import now
from fairlead_sandbox import errors
from fairlead_sandbox.errors import QualifiedResource
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core, Operation, User
from fairlead_sandbox.objects.reviewing import Review
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.schema.errors import FieldError, go_value
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.webhooks.conversation import Conversation


_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}
"""Finalizers by the propagation policy that they carry out."""
_POLICIES = {"", "Orphan", "Background", "Foreground"}


class DeleteOptions(NamedTuple):
    """The honored part of ``metav1.DeleteOptions``."""

    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False


def parse_options(body: JSON, query: dict[str, str]) -> DeleteOptions:
    """Return the options of a delete request; its body takes precedence over its query.

    Raises:
        StatusError: an option has an unknown value, or two contradict each other.
    """
    preconditions = body.get("preconditions") or {}
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy") or ""
    orphan = body.get("orphanDependents")
    if orphan is not None and propagation:
        both = "orphanDependents and deletionPropagation cannot be both set"
        text = f'Invalid value: "{propagation}": {both}'
        raise _invalid_option("DeleteOptions", "propagationPolicy", "FieldValueInvalid", text)
    if propagation not in _POLICIES:
        text = (
            f'Unsupported value: "{propagation}": supported values: "Foreground", "Background", '
            '"Orphan", "nil"'
        )
        raise _invalid_option("DeleteOptions", "propagationPolicy", "FieldValueNotSupported", text)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    dry_run = body.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    check_dry_run("DeleteOptions", dry_run)
    return DeleteOptions(
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=propagation,
        dry_run=bool(dry_run),
    )


def check_dry_run(options: str, values: Sequence[str]) -> None:
    """Raise unless every value of ``dryRun`` is "All".

    Raises:
        StatusError: 422, there is another value.
    """
    if any(value != "All" for value in values):
        text = f'Unsupported value: {go_value([*values])}: supported values: "All"'
        raise _invalid_option(options, "dryRun", "FieldValueNotSupported", text)


def _invalid_option(options: str, field: str, reason: str, text: str) -> errors.StatusError:
    # These options are types of meta.k8s.io in kube-apiserver, so the Status names that group.
    return errors.invalid("meta.k8s.io", options, "", [FieldError(reason, text, field)])


def delete(
    core: Core,
    type_: ResourceType,
    old: Record,
    options: DeleteOptions = DeleteOptions(),  # noqa: B008 - immutable
    *,
    user: User | None = None,
    webhooks: Conversation | None = None,
) -> Record | None:
    """Delete an object; return it while finalizers hold it, None once it is gone.

    Raises:
        StatusError: the delete is refused, or a precondition does not hold.
        Unanswered: admission webhooks have to be asked first; nothing is deleted.
    """
    core.admit(Operation("delete", type_, old.key, None, old, user=user))
    _check_preconditions(type_, old, options)
    Review(core, type_, old, webhooks).delete(old.key)
    body = type_.to_dict(old)
    meta = body["metadata"]
    # Also at a second delete, whose policy replaces that of the first.
    _set_propagation(meta, options.propagation)
    first = "deletionTimestamp" not in meta
    if first:
        type_.strategy.prepare_delete(body)
    if not type_.strategy.stays(body):
        if not options.dry_run:
            core.store.remove(type_.collection, old.key, type_.stored(body))
        return None
    if first:
        meta["deletionTimestamp"] = now()
        if type_.strategy.graceful:
            meta["deletionGracePeriodSeconds"] = 0
            # BeforeDelete in k8s.io/apiserver's registry/rest/delete.go counts the deletion as a
            # change of the spec.
            if meta.get("generation"):
                meta["generation"] += 1
    # Clients repeat deletes. One that changes nothing makes no new resourceVersion and wakes no
    # watch.
    if body == type_.to_dict(old):
        return old
    return writes.finish(core, type_, old.key, body, dry_run=options.dry_run)


def _check_preconditions(type_: ResourceType, old: Record, options: DeleteOptions) -> None:
    # BeforeDelete of kube-apiserver names the kind in this conflict, where others name the plural.
    named = QualifiedResource(type_.resource.group, type_.resource.kind)
    if options.uid and options.uid != old.meta.uid:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({old.meta.uid}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(named, old.key.name, text)
    if options.resource_version and options.resource_version != str(old.rv):
        text = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not "
            f"match the ResourceVersion in record ({old.rv}). The object might have been modified"
        )
        raise errors.conflict(named, old.key.name, text)


def _set_propagation(meta: JSON, propagation: str) -> None:
    """Replace the finalizer of the propagation policy; an empty policy keeps the present one."""
    if not propagation:
        return
    finalizer = _FINALIZERS.get(propagation)
    finalizers = [
        name for name in meta.get("finalizers") or [] if name not in _FINALIZERS.values()
    ]
    if finalizer:
        finalizers.append(finalizer)
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
