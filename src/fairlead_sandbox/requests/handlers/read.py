"""GET of one object or of a collection, with selectors, pages and lists at a given version."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.requests import answers
from fairlead_sandbox.requests.answers import in_turns
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.selection import SelectionPredicate, parse_selection
from fairlead_sandbox.schema.errors import FieldError, go_value
from fairlead_sandbox.storage.records import Record


_HALF = 1 << 63
"""Two to the power of 63, the first number above a signed integer of 64 bits."""
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
"""Message of the 410 for a continue token whose version is compacted."""


def existing(call: Call) -> Record:
    """Return the stored object that the request names.

    Raises:
        StatusError: 404, it does not exist.
    """
    record = call.core.get(call.type, call.key)
    if record is None:
        raise errors.not_found(call.type.group_resource, call.key.name)
    return record


async def get(call: Call) -> Answer:
    """Answer with the object; its status subresource has the same body."""
    record = existing(call)
    # Memory is ahead of the disk. An answer waits until its version is stored, or a crash could
    # take back a state that a client has seen.
    await call.core.store.settle(record.rv)
    return answers.object_answer(call, record)


class ContinueToken(NamedTuple):
    """Start of the next page: its version and the last key before it.

    Version -1 goes on with the newest objects.
    """

    version: int
    namespace: str
    name: str

    def encode(self) -> str:
        """Return the value of the ``continue`` parameter."""
        body = {"v": "meta.k8s.io/v1", "rv": self.version, "start": [self.namespace, self.name]}
        return base64.urlsafe_b64encode(msgspec.json.encode(body)).decode().rstrip("=")


class _TokenBody(msgspec.Struct):
    rv: int
    start: tuple[str, str]


def parse_token(text: str) -> ContinueToken:
    """Return the token in a ``continue`` parameter.

    Raises:
        StatusError: 400, the text is no token of this server.
    """
    try:
        padded = text + "=" * (-len(text) % 4)
        body = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=_TokenBody)
    except (ValueError, msgspec.MsgspecError) as error:
        text = f"invalid continue token: continue key is not valid: {error}"
        raise errors.bad_request(text) from None
    return ContinueToken(body.rv, *body.start)


def parse_version(text: str) -> int:
    """Return the resourceVersion of a query; "" is 0.

    Raises:
        StatusError: 500, as in kube-apiserver, the text is no number.
    """
    try:
        return parse_integer(text, signed=False)
    except ValueError as error:
        text = f"resourceVersion: Invalid value: {go_value(text)}: {error}"
        raise errors.StatusError(500, "", text) from None


def parse_integer(text: str, *, signed: bool = True) -> int:
    """Return an integer of 64 bits from a query, as Go's ``strconv`` reads it; "" is 0.

    Raises:
        ValueError: the text is no such number; the message is Go's.
    """
    function, low, high = ("Int", -_HALF, _HALF - 1) if signed else ("Uint", 0, 2 * _HALF - 1)
    digits = text[1:] if signed and text[:1] in {"+", "-"} else text
    if not text:
        return 0
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"strconv.Parse{function}: parsing {go_value(text)}: invalid syntax")
    # int() raises on more than 4300 digits.
    digits = digits.lstrip("0") or "0"
    number = int(digits) if len(digits) <= 20 else 2 * _HALF
    if text[:1] == "-":
        number = -number
    if not low <= number <= high:
        raise ValueError(f"strconv.Parse{function}: parsing {go_value(text)}: value out of range")
    return number


async def list_(call: Call) -> Answer:
    """Answer with the objects of a collection, at most ``limit`` of them.

    All objects are read without an await in between, so they belong to one version. The answer
    waits until that version is stored.
    """
    _check_match(call)
    selection = parse_selection(call.type, call.query)
    limit = _limit(call)
    store = call.core.store
    namespace = call.info.namespace if call.type.resource.namespaced else ""
    # A list at an older version is read from the log, which has only stored changes.
    await store.settle()
    token = call.query.get("continue", "")
    if token:
        version, start, records = _continued(call, parse_token(token), namespace)
    else:
        version, start, records = _fresh(call, namespace)
    # A state from the log has every object of the collection. The token is not signed, so the
    # namespace comes from the request's path, which was authorized.
    records = [
        record
        for record in records
        if (not namespace or record.key.namespace == namespace)
        and (start is None or record.key > start)
    ]
    page, rest = await _page(selection, records, limit)
    metadata: JSON = {"resourceVersion": str(version)}
    # The objects in memory may be ahead of the disk; if it fails, the store takes them back.
    await store.settle(version)
    if rest:
        metadata["continue"] = ContinueToken(version, *page[-1].key).encode()
        # The API omits remainingItemCount with a selector: counting would have to match all
        # objects.
        if selection.everything:
            metadata["remainingItemCount"] = rest
    return await answers.many(call, page, metadata)


async def _page(
    selection: SelectionPredicate, records: list[Record], limit: int
) -> tuple[list[Record], int]:
    """Return the first selected records, and how many follow; with a selector only 1 or 0."""
    if selection.everything:
        page = records[: limit or None]
        return page, len(records) - len(page)
    page = []
    async for some in in_turns(records):
        page += [record for record in some if selection.matches(record)]
        # One record more than the limit proves that there is a next page.
        if limit and len(page) > limit:
            return page[:limit], 1
    return page, 0


def _limit(call: Call) -> int:
    try:
        return max(parse_integer(call.query.get("limit", "")), 0)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def _check_match(call: Call) -> None:
    match = call.query.get("resourceVersionMatch", "")
    if not match:
        return
    text = ""
    if not call.query.get("resourceVersion"):
        text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    elif call.query.get("continue"):
        text = "resourceVersionMatch is forbidden when continue is provided"
    elif match == "Exact" and call.query["resourceVersion"] == "0":
        text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
    reason, shown = "FieldValueForbidden", f"Forbidden: {text}"
    if match not in {"Exact", "NotOlderThan"}:
        reason = "FieldValueNotSupported"
        text = shown = (
            f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        )
    if text:
        wrong = FieldError(reason, shown, "resourceVersionMatch")
        raise errors.invalid("meta.k8s.io", "ListOptions", "", [wrong])


def _fresh(call: Call, namespace: str) -> tuple[int, Key | None, Iterable[Record]]:
    store, collection = call.core.store, call.type.collection
    version = parse_version(call.query.get("resourceVersion", ""))
    if version > store.rv:
        raise errors.version_too_large(version, store.rv)
    match = call.query.get("resourceVersionMatch", "")
    # A resourceVersion above 0 together with limit means Exact if resourceVersionMatch is unset
    # (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions).
    exact = match == "Exact" or (not match and version and call.query.get("limit"))
    if exact and version != store.rv:
        if version < store.compacted:
            raise errors.expired("The resourceVersion for the provided list is too old.")
        return version, None, store.state(collection, version)
    return store.rv, None, store.collection(collection).list(namespace)


def _continued(
    call: Call, token: ContinueToken, namespace: str
) -> tuple[int, Key | None, Iterable[Record]]:
    store, collection = call.core.store, call.type.collection
    if call.query.get("resourceVersion", "0") not in {"", "0"}:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    start = Key(token.namespace, token.name)
    # At the newest version memory has the same objects as the log, and is faster to read.
    if token.version in {-1, store.rv}:
        return store.rv, start, store.collection(collection).list(after=start)
    if token.version < store.compacted:
        # The token in the answer lets a client finish its list inconsistently, as kube-apiserver
        # offers.
        raise errors.expired(_EXPIRED, token=ContinueToken(-1, *start).encode())
    # All pages of a list show the version of its first page (tests/contract/test_lists.py), so
    # later ones are read from the log.
    return token.version, start, store.state(collection, token.version)
