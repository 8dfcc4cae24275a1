"""Create and update, for every resource; handlers and controllers use these functions.

Nothing here awaits: an object cannot change between being read and being written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.objects.core import Core, Operation, User
from fairlead_sandbox.objects.reviewing import Review
from fairlead_sandbox.patches.apply import tracking
from fairlead_sandbox.patches.apply.managers import FieldManager, Managed, encode
from fairlead_sandbox.resources import metadata
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.schema.errors import FieldError, invalid
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectTooLargeError
from fairlead_sandbox.webhooks.conversation import Conversation


class WriteOptions(NamedTuple):
    """Options of a write: user, field manager, endpoint, dry run and webhooks.

    Objects that the control plane itself creates have neither a user nor a manager.
    """

    user: User | None = None
    """The request's user; None for the control plane itself, whose rights are not checked."""
    manager: str = ""
    """Field manager that owns the changed fields; "" counts an update as the server's own."""
    owners: Managed | None = None
    """Owners of the fields after a server-side apply; None lets the write work them out."""
    subresource: str = ""
    """Subresource of the request; ``status`` writes only the status."""
    through: str = ""
    """A subresource that shows only a part of the object, such as ``scale``."""
    dry_run: bool = False
    patched: bool = False
    """Whether the body was made by patching the stored object.

    A changed uid is then an invalid field, otherwise a failed precondition.
    """
    webhooks: Conversation | None = None
    """The conversation with admission webhooks; None to ask none."""


def create(
    core: Core,
    type_: ResourceType,
    namespace: str,
    body: JSON,
    options: WriteOptions = WriteOptions(),  # noqa: B008 - immutable
) -> Record:
    """Store a new object; ``body`` may be changed and must not be used afterwards.

    Raises:
        StatusError: the object is invalid, refused, or exists already.
        Unanswered: admission webhooks have to be asked first; nothing is stored.
    """
    body, meta = _taken(type_, body, namespace)
    _check_accepts(type_, meta)
    # Before the server fills in the rest: the manager owns only the fields that it has sent.
    new = tracking.NewObject.of(type_.shape, type_.empty, type_.strategy.allocated, body)
    key = _key(meta)
    # Before the webhooks, which need not be asked about a refused write.
    core.admit(Operation("create", type_, key, body, None, user=options.user))
    review = Review(core, type_, None, options.webhooks)
    changed = review.mutated(key, body)
    if changed is not None:
        body, meta = _taken(type_, changed, namespace)
        # Admission checks the changed object again: a webhook may have changed the rules of a
        # role, which the user must hold.
        core.admit(Operation("create", type_, _key(meta), body, None, user=options.user))
    key = _complete(type_, body, options.webhooks)
    field_errors = metadata.validate_metadata(meta, type_.strategy.name_rule, custom=type_.custom)
    field_errors += type_.strategy.validate(body, None)
    if field_errors:
        raise errors.invalid(type_.resource.group, type_.resource.kind, key.name, field_errors)
    if core.get(type_, key) is not None:
        raise errors.already_exists(type_.group_resource, key.name)
    if options.owners is not None:
        meta["managedFields"] = encode(options.owners)
    elif options.manager:
        who = FieldManager(options.manager, "Update", type_.resource.api_version)
        meta["managedFields"] = new.entries(body, who)
    # Validating webhooks come last, as in kube-apiserver: they see the object to be stored.
    review.validate(key, body)
    return _put(core, type_, key, body, dry_run=options.dry_run)


def _taken(type_: ResourceType, body: JSON, namespace: str) -> tuple[JSON, JSON]:
    """Return a body of the right kind and namespace, without unknown fields, and its metadata."""
    check_kind(type_, body)
    body = type_.readable(body)
    meta = metadata.take_metadata(body)
    check_namespace(type_, meta, namespace)
    return body, meta


def _key(meta: JSON) -> Key:
    return Key(meta.get("namespace", ""), meta.get("name", ""))


def _complete(type_: ResourceType, body: JSON, conversation: Conversation | None = None) -> Key:
    """Set uid, time, generation and defaults of a new object; return its key."""
    meta = body["metadata"]
    if meta.get("resourceVersion"):
        # kube-apiserver answers this one with 500 and without a reason.
        text = "resourceVersion should not be set on objects to be created"
        raise errors.StatusError(500, "", text)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = metadata.generated_name(meta["generateName"])
    metadata.stamp(meta)
    if conversation is not None:
        # A question to a webhook is identified by a hash of the object. With a new uid in each
        # attempt the answer would never be found.
        conversation.settle(meta)
    if type_.strategy.generation:
        meta["generation"] = 1
    # A status sent with a create is dropped, as in kube-apiserver; it is written only through its
    # subresource.
    if type_.strategy.status:
        body.pop("status", None)
    type_.strategy.prepare_create(body)
    return _key(meta)


def update(
    core: Core,
    type_: ResourceType,
    old: Record,
    body: JSON,
    options: WriteOptions = WriteOptions(),  # noqa: B008 - immutable
) -> Record:
    """Replace an object; return its last record if its last finalizer has gone with it.

    Raises:
        StatusError: the object is invalid, refused, or has changed.
        Unanswered: admission webhooks have to be asked first; nothing is stored.
    """
    check_kind(type_, body)
    # Read first, because _taken drops the managedFields that the writer sent.
    given = tracking.entries_of(body)
    body, meta = _taken(type_, body, old.key.namespace)
    check_name(meta, old.key)
    core.admit(Operation("update", type_, old.key, body, old, options.subresource, options.user))
    # kube-apiserver sends the Scale to webhooks. The sandbox asks none about it, which
    # fairlead_sandbox.webhooks lists among the differences.
    webhooks = None if options.through else options.webhooks
    review = Review(core, type_, old, webhooks, options.subresource)
    changed = review.mutated(old.key, body)
    if changed is not None:
        body, meta = _taken(type_, changed, old.key.namespace)
        check_name(meta, old.key)
        operation = Operation("update", type_, old.key, body, old, options.subresource)
        core.admit(replace(operation, user=options.user))
    before = type_.to_dict(old)
    _check_version(type_, meta, old, patched=options.patched)
    body = _merge(type_, body, before, options.subresource)
    type_.strategy.prepare_update(body, before)
    field_errors = metadata.validate_metadata_update(
        body["metadata"], before["metadata"], custom=type_.custom
    )
    field_errors += type_.strategy.validate(body, before)
    if field_errors:
        resource = type_.resource
        raise errors.invalid(resource.group, resource.kind, old.key.name, field_errors)
    if type_.strategy.generation and _content(type_, body) != _content(type_, before):
        body["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
    # With the old resourceVersion a body that changes nothing equals the stored one.
    body["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    entries = _entries(type_, before, body, given, options)
    body["metadata"].pop("managedFields", None)
    if entries:
        body["metadata"]["managedFields"] = entries
    review.validate(old.key, body)
    # As in kube-apiserver, a write that changes nothing makes no new resourceVersion and no event.
    if body == before:
        return old
    return finish(core, type_, old.key, body, dry_run=options.dry_run)


def _entries(
    type_: ResourceType, before: JSON, body: JSON, given: Any, options: WriteOptions
) -> list[JSON]:
    if options.owners is not None:
        return encode(options.owners)
    who = FieldManager(
        options.manager or tracking.SERVER,
        "Update",
        type_.resource.api_version,
        options.subresource or options.through,
    )
    return tracking.after_update(type_.shape, before, body, given, who)


def finish(
    core: Core, type_: ResourceType, key: Key, body: JSON, *, dry_run: bool = False
) -> Record:
    """Store a changed object, or remove it if it is being deleted and no finalizer is left."""
    # The write that takes the last finalizer away is the deletion itself; its DELETED event has
    # this body.
    if body["metadata"].get("deletionTimestamp") and not type_.strategy.stays(body):
        if dry_run:
            return _unstored(type_, key, body)
        return core.store.remove(type_.collection, key, type_.stored(body))
    return _put(core, type_, key, body, dry_run=dry_run)


def _put(core: Core, type_: ResourceType, key: Key, body: JSON, *, dry_run: bool) -> Record:
    if dry_run:
        return _unstored(type_, key, body)
    return store(core, type_, key, type_.stored(body))


def store(core: Core, type_: ResourceType, key: Key, stored: JSON) -> Record:
    """Put an object in its stored form into the store.

    Raises:
        StatusError: 413, the object is larger than the store's limit.
    """
    try:
        return core.store.put(type_.collection, key, stored)
    except ObjectTooLargeError as error:
        raise errors.too_large(str(error)) from None


def _unstored(type_: ResourceType, key: Key, body: JSON) -> Record:
    return type_.record(key, body)


def _check_accepts(type_: ResourceType, meta: JSON) -> None:
    if not type_.accepts_create:
        text = "create not allowed while custom resource definition is terminating"
        raise errors.forbidden(type_.group_resource, meta.get("name") or "", text)


def check_kind(type_: ResourceType, body: JSON) -> None:
    """Compare apiVersion and kind with the resource's; set those that a built-in kind may omit.

    Raises:
        StatusError: the body is of another kind or version, or a field has a wrong type.
    """
    resource = type_.resource
    version, kind = body.get("apiVersion"), body.get("kind")
    if not isinstance(version, str | None) or not isinstance(kind, str | None):
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): apiVersion "
            "and kind must be strings"
        )
    if type_.custom:
        _check_custom_kind(type_, body)
    elif kind not in {None, "", resource.kind}:
        given = (version or resource.version).rpartition("/")[2]
        # Go prints a type with its package. The package of a group's internal types has the
        # group's first label as its name, core for the legacy group.
        internal = resource.group.partition(".")[0] or "core"
        raise errors.bad_request(
            f'{kind} in version "{given}" cannot be handled as a {resource.kind}: converting '
            f"({given}.{kind}) to ({internal}.{resource.kind}): unknown conversion"
        )
    elif version not in {None, "", resource.api_version}:
        raise errors.bad_request(
            f'{resource.kind} in version "{version}" cannot be handled as a {resource.kind}: no '
            f'kind "{resource.kind}" is registered for version "{version}"'
        )
    body["apiVersion"] = resource.api_version
    body["kind"] = resource.kind
    misfit = type_.misfit(body)
    if misfit:
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {misfit}"
        )


def _check_custom_kind(type_: ResourceType, body: JSON) -> None:
    resource = type_.resource
    version, kind = body.get("apiVersion"), body.get("kind")
    if not kind:
        raise errors.bad_request("Object 'Kind' is missing in the body")
    if not version:
        raise errors.bad_request("Object 'apiVersion' is missing in the body")
    if version != resource.api_version:
        raise errors.bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    if kind != resource.kind:
        name = (body.get("metadata") or {}).get("name", "")
        wrong = invalid("kind", kind, f"must be {resource.kind}")
        raise errors.invalid(resource.group, str(kind), name, [wrong])


def check_namespace(type_: ResourceType, meta: JSON, namespace: str) -> None:
    """Compare the body's namespace with the path's, and set it if it is missing.

    Raises:
        StatusError: the namespaces differ.
    """
    if not type_.resource.namespaced:
        meta.pop("namespace", None)
        return
    if meta.setdefault("namespace", namespace) != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_name(meta: JSON, key: Key) -> None:
    """Compare the body's name with the path's, and set it if it is missing.

    Raises:
        StatusError: the names differ.
    """
    if meta.setdefault("name", key.name) != key.name:
        raise errors.bad_request(
            f"the name of the object ({meta['name']}) does not match the name on the URL "
            f"({key.name})"
        )


def _check_version(type_: ResourceType, meta: JSON, old: Record, *, patched: bool) -> None:
    given = str(meta.get("resourceVersion") or "")
    if given and not given.isdigit():
        # kube-apiserver parses the resourceVersion as a number and answers 500 if it is none.
        text = f'strconv.ParseUint: parsing "{given}": invalid syntax'
        raise errors.StatusError(500, "", text)
    if given in {"", "0"} and not type_.strategy.unconditional_update:
        # 0x0 is how Go prints the missing version. Custom resources and Leases refuse such
        # updates, other kinds overwrite (tests/contract/test_objects.py).
        text = "Invalid value: 0x0: must be specified for an update"
        wrong = FieldError("FieldValueInvalid", text, "metadata.resourceVersion")
        resource = type_.resource
        raise errors.invalid(resource.group, resource.plural, old.key.name, [wrong])
    uid = meta.get("uid")
    if uid and uid != old.meta.uid and not patched:
        raise foreign_uid(type_, old.key, str(uid), old.meta.uid)
    if given not in {"", "0", str(old.rv)}:
        raise errors.conflict(type_.group_resource, old.key.name)


def foreign_uid(type_: ResourceType, key: Key, given: str, actual: str) -> errors.StatusError:
    """Return the 409 of an update whose uid belongs to another object of the same name."""
    # The key in etcd, which the message shows, has the group only for custom resources.
    group = type_.resource.group if type_.custom else ""
    path = "/".join(part for part in (group, type_.resource.plural, *key) if part)
    return errors.conflict(
        type_.group_resource,
        key.name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{path}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {given}, UID in object "
        f"meta: {actual}",
    )


def _merge(type_: ResourceType, body: JSON, before: JSON, subresource: str) -> JSON:
    """Return the new object; by the endpoint, ``body`` gives its status or all but status."""
    if subresource == "status":
        status = body.get("status")
        result = {**before, "metadata": dict(before["metadata"])}
        result.pop("status", None)
        return result if status is None else {**result, "status": status}
    metadata.carry_over(body["metadata"], before["metadata"])
    if type_.strategy.status:
        body.pop("status", None)
        if "status" in before:
            body["status"] = before["status"]
    return body


def _content(type_: ResourceType, body: JSON) -> JSON:
    # metadata.generation counts changes of the rest; status counts too unless it is a subresource.
    ignored = {"metadata", "status"} if type_.strategy.status else {"metadata"}
    return {key: value for key, value in body.items() if key not in ignored}
