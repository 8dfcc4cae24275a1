"""POST, PUT and DELETE of objects, and DELETE of collections."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox import errors
from fairlead_sandbox.kinds import load, misfit
from fairlead_sandbox.objects import deletes, writes
from fairlead_sandbox.requests import answers
from fairlead_sandbox.requests.attempts import answered
from fairlead_sandbox.requests.bodies import decode_body
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers.read import existing
from fairlead_sandbox.requests.info import query_flag
from fairlead_sandbox.requests.selection import parse_selection
from fairlead_sandbox.storage.records import Record


MOST_UNKNOWN_FIELDS = 100
"""Maximum number of unknown fields in one answer, as in kube-apiserver."""
_WARNING_LETTERS = 4096
"""Maximum length of all warnings of an answer in characters, as in kube-apiserver."""


def read_body(call: Call) -> JSON:
    """Return the object in the request's body.

    Raises:
        StatusError: the body cannot be read.
    """
    return decode_body(call.content_type, call.body, call.type.resource.kind)


async def answer(call: Call, record: Record, code: int = 200) -> Answer:
    """Return the answer that holds a written object, once the write is stored."""
    await call.core.store.settle(record.rv)
    return answers.object_answer(call, record, code)


def check_request(call: Call, options: str, body: JSON) -> list[str]:
    """Check the options of a write; return warnings about fields that it would drop.

    Raises:
        StatusError: a wrong option, or unknown fields with ``fieldValidation=Strict``.
    """
    if call.dry_run:
        deletes.check_dry_run(options, [call.query["dryRun"]])
    validation = call.query.get("fieldValidation", "")
    if validation not in {"Strict", "Warn"}:
        return []
    unknown = call.type.unknown_fields(body)[:MOST_UNKNOWN_FIELDS]
    warnings = [f'unknown field "{path}"' for path in unknown]
    if warnings and validation == "Strict":
        resource = call.type.resource
        raise errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(warnings)}"
        )
    return warnings


def with_warnings(answer: Answer, warnings: list[str]) -> Answer:
    """Return the answer with a Warning header for each text, cut to the total length."""
    if not warnings:
        return answer
    texts = [*answer.warnings, *warnings]
    if sum(map(len, texts)) > _WARNING_LETTERS:
        # Above the limit kube-apiserver cuts each warning to 256 characters.
        texts = [text[: _WARNING_LETTERS // 16] for text in texts][:16]
    return replace(answer, warnings=tuple(texts))


async def create(call: Call) -> Answer:
    """Create an object in a collection."""
    body = read_body(call)
    warnings = check_request(call, "CreateOptions", body)
    record = writes.create(call.core, call.type, call.info.namespace, body, call.writing)
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
        call.writing,
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
    record = writes.create(call.core, call.type, call.info.namespace, body, call.writing)
    return await answer(call, record, 201)


def _check_name(call: Call, body: JSON) -> None:
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not name:
        raise errors.bad_request("name must be provided")


async def finalize(call: Call) -> Answer:
    """Answer a PUT of the finalize subresource: replace the finalizers in a namespace's spec."""
    old = existing(call)
    given = decode_body(call.content_type, call.body, "Namespace")
    body = call.type.to_dict(old)
    body["spec"] = {"finalizers": (given.get("spec") or {}).get("finalizers") or []}
    # Not by writes.update: the kind's strategy would put the stored finalizers back.
    record = old if call.dry_run else writes.finish(call.core, call.type, old.key, body)
    await call.core.store.settle(record.rv)
    return answers.object_answer(call, record)


async def delete(call: Call) -> Answer:
    """Delete an object; answer with a Status, or with the object while finalizers hold it."""
    options = _delete_options(call)
    old = existing(call)
    left = deletes.delete(
        call.core, call.type, old, options, user=call.user, webhooks=call.webhooks
    )
    if left is not None:
        return await answer(call, left)
    # A deleted object has no version to wait for; the newest change is the deletion or comes after
    # it.
    await call.core.store.settle()
    if call.type.strategy.returns_deleted:
        return answers.object_answer(call, old)
    resource = call.type.group_resource
    details: JSON = {"name": old.key.name}
    if resource.group:
        details["group"] = resource.group
    details |= {"kind": resource.resource, "uid": old.meta.uid}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    return Answer(msgspec.json.encode(status))


async def delete_collection(call: Call) -> Answer:
    """Delete the objects that the selectors match; answer with the list of them."""
    options = _delete_options(call)
    selection = parse_selection(call.type, call.query)
    collection = call.core.store.collection(call.type.collection)
    namespace = call.info.namespace if call.type.resource.namespaced else ""
    records = [record for record in collection.list(namespace) if selection.matches(record)]
    async for some in answers.in_turns(records):
        for record in some:
            await _delete_one(call, record, options)
    await call.core.store.settle()
    return await answers.many(call, records, {"resourceVersion": str(call.core.store.published)})


async def _delete_one(call: Call, record: Record, options: deletes.DeleteOptions) -> None:
    """Delete one object of a collection, with a conversation with webhooks of its own."""

    async def attempt(call: Call) -> None:
        # Other requests get turns between these deletes. Only an object that still has the uid
        # that was listed is deleted, not a new one of the same name.
        now = call.core.get(call.type, record.key)
        if now is not None and now.meta.uid == record.meta.uid:
            deletes.delete(
                call.core, call.type, now, options, user=call.user, webhooks=call.webhooks
            )

    conversation = call.webhooks.another() if call.webhooks is not None else None
    await answered(replace(call, webhooks=conversation), attempt)


def _delete_options(call: Call) -> deletes.DeleteOptions:
    body = decode_body(call.content_type, call.body, "DeleteOptions") if call.body else {}
    wrong = misfit(load().messages["DeleteOptions"], body)
    if wrong:
        raise errors.bad_request(f"DeleteOptions cannot be read: {wrong}")
    if not call.body and "orphanDependents" in call.query:
        body = {"orphanDependents": query_flag(call.query, "orphanDependents")}
    return deletes.parse_options(body, dict(call.query))
