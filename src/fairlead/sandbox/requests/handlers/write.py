"""POST and PUT."""

from __future__ import annotations

from dataclasses import replace

from fairlead.api.meta import JSON
from fairlead.sandbox import errors
from fairlead.sandbox.objects import writes
from fairlead.sandbox.objects.core import Answer, Call
from fairlead.sandbox.objects.deletes import check_dry_run
from fairlead.sandbox.requests import answers
from fairlead.sandbox.requests.handlers.read import existing
from fairlead.sandbox.requests.negotiation import decode_body
from fairlead.sandbox.storage.records import Record


def read_body(call: Call) -> JSON:
    """The object in the request's body.

    Raises:
        StatusError: it cannot be read.
    """
    return decode_body(call.content_type, call.body, call.type.resource.kind)


async def answer(call: Call, record: Record, code: int = 200) -> Answer:
    """The written object, once it is stored."""
    await call.core.store.settle(record.rv)
    return answers.one(call, record, code)


def check_request(call: Call, options: str, body: JSON) -> list[str]:
    """Check the options of a write, and warn of fields that it would drop.

    Raises:
        StatusError: a wrong option, or unknown fields where ``fieldValidation=Strict``.
    """
    if call.dry_run:
        check_dry_run(options, [call.query["dryRun"]])
    validation = call.query.get("fieldValidation", "")
    if validation not in {"Strict", "Warn"}:
        return []
    found = [f'unknown field "{path}"' for path in call.type.unknown_fields(body)]
    if found and validation == "Strict":
        resource = call.type.resource
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(found)}"
        )
    return found


def with_warnings(answer: Answer, warnings: list[str]) -> Answer:
    """The answer with a Warning header for each text."""
    return replace(answer, warnings=(*answer.warnings, *warnings)) if warnings else answer


async def create(call: Call) -> Answer:
    """Create an object in a collection."""
    body = read_body(call)
    warnings = check_request(call, "CreateOptions", body)
    record = writes.create(
        call.core,
        call.type,
        call.info.namespace,
        body,
        user=call.user,
        manager=call.manager,
        dry_run=call.dry_run,
    )
    return with_warnings(await answer(call, record, 201), warnings)


async def update(call: Call) -> Answer:
    """Replace an object or its status."""
    body = read_body(call)
    if not call.type.custom:
        _check_name(call, body)
    warnings = check_request(call, "UpdateOptions", body)
    if call.type.strategy.creates_on_update and call.core.get(call.type, call.key) is None:
        return with_warnings(await _create_by_update(call, body), warnings)
    record = writes.update(
        call.core,
        call.type,
        existing(call),
        body,
        subresource=call.info.subresource,
        user=call.user,
        manager=call.manager,
        dry_run=call.dry_run,
    )
    return with_warnings(await answer(call, record), warnings)


async def _create_by_update(call: Call, body: JSON) -> Answer:
    metadata = body["metadata"]
    if metadata.get("name") != call.key.name:
        raise errors.bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL "
            f"({call.key.name})"
        )
    if metadata.get("uid"):
        raise writes.foreign_uid(call.type, call.key, str(metadata["uid"]), "")
    body["metadata"] = {
        name: value for name, value in metadata.items() if name != "resourceVersion"
    }
    record = writes.create(
        call.core,
        call.type,
        call.info.namespace,
        body,
        user=call.user,
        manager=call.manager,
        dry_run=call.dry_run,
    )
    return await answer(call, record, 201)


def _check_name(call: Call, body: JSON) -> None:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        raise errors.bad_request("name must be provided")
