"""JSON patch (RFC 6902), with the answers of kube-apiserver.

``tests/golden/jsonpatches.jsonl`` has recorded answers of kube-apiserver 1.20;
``tests/contract/test_json_patches.py`` names the six that differ here on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.errors import PatchError, rejected


MAX_OPERATIONS = 10_000
"""Maximum number of operations in one patch; the limit of kube-apiserver."""
MAX_COPIED = 3 * 1024 * 1024
"""Maximum size of all values that one patch copies, in bytes of JSON, as in kube-apiserver."""
_MAX_DIGITS = 19
"""Maximum number of digits of an index, as kube-apiserver reads it into 64 bits.

Python's ``int`` refuses texts of more than 4,300 digits by a ValueError.
"""

_MISSING = object()


def json_patch(doc: JSON, ops: Any) -> JSON:
    """Return a copy of the document with the operations applied in order.

    Raises:
        PatchError: 400 if ``ops`` is no list of operations, 413 if there are too many, 422 if
            one of them fails; nothing is applied then.
    """
    if not isinstance(ops, list):
        kind = "object" if isinstance(ops, dict) else type(ops).__name__
        text = f"json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
        raise PatchError(text, 400)
    if len(ops) > MAX_OPERATIONS:
        text = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}"
        raise PatchError(f"Request entity too large: {text}, got {len(ops)}", 413)
    result: Any = _copied(doc)
    budget = _Budget()
    for op in ops:
        result = _apply(result, op, budget)
    if not isinstance(result, dict):
        raise rejected("the patched document is no object")
    return result


class _Budget:
    """Bytes that the copy operations of one patch may still add."""

    def __init__(self) -> None:
        self._left = MAX_COPIED

    def copy(self, value: Any) -> Any:
        """Return a copy of a value and take its size off the budget.

        Raises:
            _PathError: the copies are larger than allowed in total.
        """
        encoded = msgspec.json.encode(value)
        self._left -= len(encoded)
        if self._left < 0:
            raise _PathError(f"the copies have more than {MAX_COPIED} bytes")
        return msgspec.json.decode(encoded)


def _copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _apply(doc: Any, op: Any, budget: _Budget) -> Any:
    if op is None:
        op = {}
    if not isinstance(op, dict):
        raise PatchError("json: cannot unmarshal into Go value of type jsonpatch.Operation", 400)
    handler = _HANDLERS.get(str(op.get("op")))
    if handler is None:
        raise rejected(f"unexpected operation: {op.get('op')!r}")
    try:
        return handler(doc, op, budget)
    except _PathError as error:
        raise rejected(f"{op['op']} operation does not apply: {error}") from None


class _PathError(Exception):
    """A JSON pointer leads nowhere in this document, or an operation is not allowed."""


def _pointer(op: JSON, name: str) -> list[str]:
    text = op.get(name)
    # By RFC 6901; kube-apiserver 1.20 takes pointers without the slash (patch-105 and patch-106).
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _PathError(f"{name} must be a JSON pointer, not {text!r}")
    # "~1" before "~0" (RFC 6901, section 4): the other way round "~01" would become a slash.
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[Any], part: str, *, end: int) -> int:
    """Return an index of a list; kube-apiserver lets negative ones count from the end."""
    digits = part.removeprefix("-")
    # RFC 6901 allows no leading zero; kube-apiserver 1.20 takes it (patch-013).
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
        raise _PathError(f"{part!r} is no index of a list")
    if len(digits) > _MAX_DIGITS:
        shown = f"{part[:_MAX_DIGITS]}..."
        raise _PathError(f"index {shown} is out of bounds for a list of {len(container)}")
    index = int(part)
    if index < 0:
        index += end
    if not 0 <= index < end:
        raise _PathError(f"index {part} is out of bounds for a list of {len(container)}")
    return index


def _step(container: Any, part: str) -> Any:
    if isinstance(container, dict):
        return container.get(part, _MISSING)
    if isinstance(container, list):
        return container[_index(container, part, end=len(container))]
    return _MISSING


def _parent(doc: Any, path: list[str]) -> Any:
    for depth, part in enumerate(path[:-1]):
        doc = _step(doc, part)
        if doc is _MISSING or not isinstance(doc, dict | list):
            raise _PathError(f"doc is missing path: /{'/'.join(path[: depth + 1])}")
    return doc


def _find(doc: Any, path: list[str]) -> Any:
    return _step(_parent(doc, path), path[-1]) if path else doc


def _must_find(doc: Any, path: list[str]) -> Any:
    value = _find(doc, path)
    if value is _MISSING:
        raise _PathError(f"doc is missing path: /{'/'.join(path)}")
    return value


def _insert(doc: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    parent, last = _parent(doc, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = value
    elif last == "-":
        parent.append(value)
    else:
        # One past the end is allowed: it appends, as "-" does (RFC 6902, section 4.1).
        parent.insert(_index(parent, last, end=len(parent) + 1), value)
    return doc


def _take(doc: Any, path: list[str]) -> Any:
    value = _must_find(doc, path)
    if not path:
        raise _PathError("the whole document cannot be removed")
    parent, last = _parent(doc, path), path[-1]
    if isinstance(parent, dict):
        del parent[last]
    else:
        del parent[_index(parent, last, end=len(parent))]
    return value


def _add(doc: Any, op: JSON, budget: _Budget) -> Any:
    # A copy: a later operation may change the value inside the document, and the patch must stay
    # as it is.
    return _insert(doc, _pointer(op, "path"), _copied(op.get("value")))


def _remove(doc: Any, op: JSON, budget: _Budget) -> Any:
    _take(doc, _pointer(op, "path"))
    return doc


def _replace(doc: Any, op: JSON, budget: _Budget) -> Any:
    path = _pointer(op, "path")
    # kube-apiserver 1.20 adds a missing member here (patch-045); later releases refuse it.
    _must_find(doc, path)
    if not path:
        return _copied(op.get("value"))
    parent, last = _parent(doc, path), path[-1]
    if isinstance(parent, dict):
        parent[last] = _copied(op.get("value"))
    else:
        parent[_index(parent, last, end=len(parent))] = _copied(op.get("value"))
    return doc


def _move(doc: Any, op: JSON, budget: _Budget) -> Any:
    source, path = _pointer(op, "from"), _pointer(op, "path")
    # RFC 6902, section 4.4: the source must not be a prefix of the target.
    if source != path and path[: len(source)] == source:
        raise _PathError("a value cannot be moved into itself")
    return _insert(doc, path, _take(doc, source))


def _copy(doc: Any, op: JSON, budget: _Budget) -> Any:
    # Later releases refuse to copy a missing member; kube-apiserver 1.20 does it (patch-085).
    value = budget.copy(_must_find(doc, _pointer(op, "from")))
    return _insert(doc, _pointer(op, "path"), value)


def _test(doc: Any, op: JSON, budget: _Budget) -> Any:
    path = _pointer(op, "path")
    value = _find(doc, path)
    expected = op.get("value")
    # By RFC 6902 a test of a missing member fails; kube-apiserver's library takes it for null
    # (patch-066 of the golden file).
    if value is _MISSING:
        value = None
    if not _same(value, expected):
        raise _PathError(f"testing value /{'/'.join(path)} failed")
    return doc


def _same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, true equals no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    # RFC 6902, section 4.6, compares numbers by value. kube-apiserver compares their texts: 1 is
    # not 1.0 there (patch-059 of the golden file).
    return bool(left == right)


_HANDLERS: dict[str, Callable[[Any, JSON, _Budget], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
