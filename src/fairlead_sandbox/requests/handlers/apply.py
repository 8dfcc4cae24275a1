"""PATCH with ``application/apply-patch+yaml``: server-side apply."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.timestamps import now
from fairlead_sandbox import errors
from fairlead_sandbox.objects import writes
from fairlead_sandbox.patches.apply import lastapplied, managers, tracking
from fairlead_sandbox.patches.apply.managers import ConflictsError, FieldManager, Managed
from fairlead_sandbox.patches.apply.paths import NOTHING
from fairlead_sandbox.patches.apply.walk import ShapeError
from fairlead_sandbox.requests.bodies import decode_yaml, go_kind
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers.write import answer, check_request, with_warnings
from fairlead_sandbox.requests.info import query_flag
from fairlead_sandbox.resources.metadata import take_metadata
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.schema.errors import FieldError, invalid, required
from fairlead_sandbox.storage.records import Record


APPLY_PATCH = "application/apply-patch+yaml"
MOST_LETTERS = 128
"""Maximum length of a field manager's name in characters, by kube-apiserver's validation."""


async def apply(call: Call) -> Answer:
    """Apply a configuration: merge it into its object, or create the object."""
    force = _options(call)
    config = _configuration(call)
    warnings = check_request(call, "PatchOptions", config)
    record = call.core.get(call.type, call.key)
    if record is None:
        created = _create(call, config, force=force)
        return with_warnings(await answer(call, created, 201), warnings)
    updated = _update(call, record, config, force=force)
    return with_warnings(await answer(call, updated), warnings)


def _options(call: Call) -> bool:
    """Whether the apply is forced.

    Raises:
        StatusError: an option is missing or wrong.
    """
    manager = call.query.get("fieldManager", "")
    field_errors: list[FieldError] = []
    if not manager:
        field_errors.append(required("fieldManager", "is required for apply patch"))
    if len(manager) > MOST_LETTERS:
        field_errors.append(
            invalid("fieldManager", manager, f"may not be longer than {MOST_LETTERS}")
        )
    if not manager.isprintable():
        field_errors.append(
            invalid("fieldManager", manager, "should only contain printable characters")
        )
    if field_errors:
        raise errors.invalid("meta.k8s.io", "PatchOptions", "", field_errors)
    return query_flag(call.query, "force")


def _configuration(call: Call) -> JSON:
    try:
        config = decode_yaml(call.body)
    except ValueError as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(config, dict):
        raise errors.bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {go_kind(config)} into Go value of type map[string]interface {{}}"
        )
    if not isinstance(config.get("metadata"), dict | None):
        raise errors.bad_request("the metadata of the configuration to apply is no object")
    for name in ("apiVersion", "kind"):
        if not isinstance(config.get(name), str):
            raise errors.bad_request(f"the configuration to apply needs {name}")
    if tracking.entries_of(config):
        raise errors.bad_request("metadata.managedFields must be nil")
    resource = call.type.resource
    if (config["apiVersion"], config["kind"]) != (resource.api_version, resource.kind):
        group, _, version = config["apiVersion"].rpartition("/")
        raise errors.bad_request(f"invalid object type: {group}/{version}, Kind={config['kind']}")
    metadata = dict(config.get("metadata") or {})
    writes.check_name(metadata, call.key)
    config["metadata"] = metadata
    # On copies: these checks also complete and remove fields, but the manager must own exactly
    # the fields that it sent.
    if not call.info.subresource:
        writes.check_kind(call.type, _copy(config))
    take_metadata(_copy(config))
    return config


def _copy(config: JSON) -> JSON:
    return msgspec.json.decode(msgspec.json.encode(config), type=JSON)


def _create(call: Call, config: JSON, *, force: bool) -> Record:
    if call.info.subresource:
        raise errors.not_found(call.type.group_resource, call.key.name)
    # The right to create is checked here, when the object is known to be missing; it may have been
    # deleted while a webhook was asked. As in kube-apiserver, the request itself needs only patch.
    if call.require is not None:
        call.require("create")
    uid = config["metadata"].get("uid")
    if uid:
        raise errors.conflict(
            call.type.group_resource,
            call.key.name,
            f"uid mismatch: the provided object specified uid {uid}, and no existing object was "
            "found",
        )
    resource = call.type.resource
    config["metadata"].pop("resourceVersion", None)
    empty = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    body, owners = _applied(call, empty, {}, config, force=force)
    return writes.create(
        call.core, call.type, call.info.namespace, body, call.writing._replace(owners=owners)
    )


def _update(call: Call, record: Record, config: JSON, *, force: bool) -> Record:
    stored = call.type.to_dict(record)
    live = tracking.without_entries(stored)
    owners = tracking.managed_by(stored)
    if not owners:
        version = call.type.resource.api_version
        # The object was stored without managedFields. kube-apiserver then gives all its fields to
        # the manager before-first-apply; without that an apply would take over fields of other
        # writers without a conflict.
        owners = managers.owner_of_all(call.type.shape, live, version, now())
    body, owners = _applied(call, live, owners, config, force=force)
    return writes.update(
        call.core,
        call.type,
        record,
        body,
        call.writing._replace(owners=owners, patched=True),
    )


def _applied(
    call: Call, live: JSON, owners: Managed, config: JSON, *, force: bool
) -> tuple[JSON, Managed]:
    resource, name = call.type.resource, call.key.name
    who = FieldManager(call.manager, "Apply", resource.api_version, call.info.subresource)
    shape = call.type.shape
    try:
        forced = force or lastapplied.explains(shape, live, config, owners, who)
        body, owned = managers.applied(shape, live, config, owners, who, now(), force=forced)
    except ShapeError as error:
        place = f"{call.info.namespace}/{name}" if resource.namespaced else f"/{name}"
        text = (
            f"failed to create typed patch object ({place}; {resource.api_version}, "
            f"Kind={resource.kind}): {error}"
        )
        # kube-apiserver answers a configuration that does not fit the schema with 500 and without
        # a reason.
        raise errors.StatusError(500, "", text) from None
    except ConflictsError as error:
        raise _conflict(error) from None
    lastapplied.refresh(body, live, config, who)
    return body, _of_endpoint(call.type, owned, who)


def _of_endpoint(type_: ResourceType, owners: Managed, who: FieldManager) -> Managed:
    """Return the owners; ``who`` keeps only fields that its endpoint writes: status or others."""
    if not type_.strategy.status:
        return owners
    fields = owners[who].fields if who in owners else NOTHING
    through_status = bool(who.subresource)
    # As by the reset fields of kube-apiserver's strategies, which drop the fields that an endpoint
    # ignores before it records owners.
    paths = [path for path in fields if (path[0] == "f:status") == through_status]
    return managers.only(owners, who, paths)


def _conflict(error: ConflictsError) -> errors.StatusError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {conflict.manager}",
            "field": conflict.place,
        }
        for conflict in error.conflicts
    ]
    return errors.StatusError(409, "Conflict", str(error), details={"causes": causes})
