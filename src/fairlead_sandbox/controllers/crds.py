"""CustomResourceDefinitions: accepting names, serving kinds, and cleaning up after a deletion."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead_sandbox.builtin import columns
from fairlead_sandbox.controllers.conditions import get_condition, set_condition
from fairlead_sandbox.controllers.reactor import MANY, Reactor
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects import deletes, writes
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.resources.custom import custom_types, storage_type
from fairlead_sandbox.resources.types import ResourceType, Strategy
from fairlead_sandbox.schema.crds import complete_crd, validate_crd
from fairlead_sandbox.schema.errors import FieldError
from fairlead_sandbox.storage.records import Change, Record


FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""Finalizer of a CRD until its objects are deleted; the name is apiextensions-apiserver's."""


_FREE_UNTIL_ESTABLISHED = {"spec.names.kind", "spec.scope"}
"""Fields that are immutable only once the CRD is established, as in apiextensions-apiserver."""


class CrdStrategy(Strategy):
    """Strategy of the kind CustomResourceDefinition itself."""

    generation = True
    status = True
    graceful = False

    def prepare_create(self, body: JSON) -> None:
        """Default the names and set an empty status."""
        complete_crd(body)
        body["status"] = {
            "conditions": [],
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _stored_versions(body),
        }

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Default the names; add a new storage version to ``status.storedVersions``."""
        complete_crd(body)
        status = body.setdefault("status", {})
        stored = list(status.get("storedVersions") or [])
        # Names are only added: objects may still be stored in an earlier version.
        status["storedVersions"] = stored + [
            version for version in _stored_versions(body) if version not in stored
        ]

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Validate the names, the versions and their schemas."""
        errors = validate_crd(body, old)
        if old is not None and not _established(old):
            return [error for error in errors if error.field not in _FREE_UNTIL_ESTABLISHED]
        return errors

    def prepare_delete(self, body: JSON) -> None:
        """Add the finalizer that keeps the CRD until its objects are deleted."""
        finalizers = body["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        text = (
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        )
        set_condition(body["status"], "Terminating", "True", "InstanceDeletionPending", text)


def _stored_versions(body: JSON) -> list[str]:
    versions = (body.get("spec") or {}).get("versions") or []
    return [version["name"] for version in versions if version.get("storage")]


def _established(crd: JSON) -> bool:
    return get_condition(crd.get("status") or {}, "Established").get("status") == "True"


CRD_TYPE = ResourceType(
    resource=names.CUSTOMRESOURCEDEFINITIONS,
    singular="customresourcedefinition",
    collection=names.CUSTOMRESOURCEDEFINITIONS.group_resource,
    strategy=CrdStrategy(),
    list_kind="CustomResourceDefinitionList",
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    subresources=("status",),
    columns=columns.CRD,
)


class CrdController:
    """Serves the kinds of the established CustomResourceDefinitions.

    Args:
        core: the control plane.
        reactor: runs the work that is put off.
        complete: adds the defaults of a changed schema to the stored objects of a type.
    """

    def __init__(
        self, core: Core, reactor: Reactor, complete: Callable[[ResourceType], None]
    ) -> None:
        self._core = core
        self._reactor = reactor
        self._complete = complete
        self._served: dict[str, tuple[JSON, JSON, str | None]] = {}
        for record in core.store.collection(CRD_TYPE.collection).list():
            self._serve(record.to_dict())

    def __call__(self, change: Change) -> None:
        """React to a changed CRD, or to a deleted object whose CRD is being deleted."""
        if change.collection == CRD_TYPE.collection:
            self._on_crd(change)
        elif change.type == "DELETED":
            key = Key("", change.collection)
            record = self._core.get(CRD_TYPE, key)
            if record is not None and record.meta.deletion_timestamp:
                self._reactor.later(key, self._clean_up)

    def _on_crd(self, change: Change) -> None:
        if change.type == "DELETED":
            self._served.pop(change.record.key.name, None)
            self._core.store.collection(change.record.key.name).close_watches()
            self._core.registry.replace(change.record.key.name, [])
            self._accept_others()
            return
        record = self._core.get(CRD_TYPE, change.record.key)
        # A newer change of this CRD follows in the queue; only that one is handled.
        if record is None or record.rv != change.rv:
            return
        body = record.to_dict()
        if "deletionTimestamp" in body["metadata"]:
            # First: a type that is being deleted takes no creates, so no new objects appear.
            self._serve(body)
            self._clean_up(record.key)
            return
        self._accept(record, body)

    def _accept_others(self) -> None:
        """Try again to accept the names of all CRDs; a deletion may have freed some."""
        for record in list(self._core.store.collection(CRD_TYPE.collection).list()):
            if not record.meta.deletion_timestamp:
                self._accept(record, record.to_dict())

    def _accept(self, record: Record, body: JSON) -> None:
        status = body["status"]
        conflict = self._accept_names(record.key.name, body["spec"], status)
        established = _established(body)
        if conflict:
            set_condition(status, "NamesAccepted", "False", *conflict)
            # An established CRD is still served under the names that were accepted before.
            if not established:
                text = "not all names are accepted"
                set_condition(status, "Established", "False", "NotAccepted", text)
        else:
            set_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
            text = "the initial names have been accepted"
            set_condition(status, "Established", "True", "InitialNamesAccepted", text)
        self._write(record, body)
        self._serve(body)

    def _accept_names(self, own: str, spec: JSON, status: JSON) -> tuple[str, str] | None:
        """Accept each name that no other resource of the group has; return the last conflict."""
        names = spec["names"]
        resources, kinds = self._used(own, spec["group"])
        accepted = status["acceptedNames"] = dict(status.get("acceptedNames") or {})
        conflict = None
        for member, used in (
            ("plural", resources),
            ("singular", resources),
            ("shortNames", resources),
            ("kind", kinds),
            ("listKind", kinds),
        ):
            given = names.get(member) or []
            taken = [
                name for name in ([given] if isinstance(given, str) else given) if name in used
            ]
            if taken:
                reason = f"{member[0].upper()}{member[1:]}Conflict"
                # The last conflict is the one reported: the naming controller of kube-apiserver
                # checks in this order, and each finding overwrites the condition.
                conflict = (reason, ", ".join(f'"{name}" is already in use' for name in taken))
            elif given:
                accepted[member] = given
            else:
                accepted.pop(member, None)
        accepted.pop("categories", None)
        if names.get("categories"):
            # Categories are shared by kinds, so they never conflict.
            accepted["categories"] = names["categories"]
        return conflict

    def _used(self, own: str, group: str) -> tuple[set[str], set[str]]:
        resources: set[str] = set()
        kinds: set[str] = set()
        for type_ in self._core.registry.all():
            if type_.resource.group == group and type_.collection != own:
                resources |= {type_.resource.plural, type_.singular, *type_.short_names}
                kinds |= {type_.resource.kind, type_.list_kind}
        return resources, kinds

    def _serve(self, body: JSON) -> None:
        if not _established(body):
            return
        name = body["metadata"]["name"]
        # With the time of deletion, because it makes the type refuse creates.
        served = (
            body["spec"],
            body["status"]["acceptedNames"],
            body["metadata"].get("deletionTimestamp"),
        )
        if self._served.get(name) == served:
            return
        before, self._served[name] = self._served.get(name), served
        types = custom_types(body)
        self._core.registry.replace(name, types)
        if before is None:
            # After a start it is unknown under which schema the objects were stored; only a CRD of
            # generation 1 can have had no other schema.
            changed = body["metadata"].get("generation", 1) > 1
        else:
            changed = before[0] != body["spec"]
        if changed:
            # The watches have sent objects of the old schema, so their clients must list again;
            # kube-apiserver ends the watches of a changed CRD too.
            self._core.store.collection(name).close_watches()
            for type_ in types:
                if type_.resource.api_version == type_.stored_as:
                    self._complete(type_)

    def _write(self, record: Record, body: JSON) -> Record:
        if body == record.to_dict():
            return record
        return writes.finish(self._core, CRD_TYPE, record.key, body)

    def _clean_up(self, key: Key) -> None:
        """Delete the CRD's objects; remove the finalizer once none is left."""
        record = self._core.get(CRD_TYPE, key)
        if record is None or not record.meta.deletion_timestamp:
            return
        body = record.to_dict()
        if FINALIZER not in (body["metadata"].get("finalizers") or []):
            return
        collection = self._core.store.collection(record.key.name)
        waiting = [one for one in collection.list() if not one.meta.deletion_timestamp]
        if waiting:
            # Not the served types: a CRD may serve no version any more, and kube-apiserver deletes
            # its objects all the same.
            type_ = storage_type(body)
            for instance in waiting[:MANY]:
                with contextlib.suppress(StatusError):
                    deletes.delete(self._core, type_, instance)
            if len(waiting) > MANY:
                self._reactor.later(key, self._clean_up)
        if collection.count():
            text = "CustomResource deletion is in progress"
            set_condition(
                body["status"], "Terminating", "True", "InstanceDeletionInProgress", text
            )
        else:
            text = "removed all instances"
            set_condition(
                body["status"], "Terminating", "False", "InstanceDeletionCompleted", text
            )
            body["metadata"]["finalizers"].remove(FINALIZER)
        self._write(record, body)
