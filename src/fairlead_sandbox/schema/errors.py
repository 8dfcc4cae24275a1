"""Field errors with the messages of kube-apiserver.

Messages and reasons are those of ``field.Error`` and ``metav1.StatusCause`` in kube-apiserver
1.37.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from fairlead.api.status import StatusCause


class FieldError(NamedTuple):
    """An error of one field; reason and message are those in ``details.causes``."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> StatusCause:
        """Return the entry for ``Status.details.causes``."""
        return StatusCause(reason=self.reason, message=self.message, field=self.field)


OMITTED = object()
"""A value that its message leaves out, as one that may be large."""


def summarize(errors: Sequence[FieldError]) -> str:
    """Return one error as it is, several in brackets; equal errors appear once."""
    # As Kubernetes' aggregate of errors, which says the same text once.
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def required(field: str, detail: str = "") -> FieldError:
    """Return the error of a missing field."""
    return FieldError("FieldValueRequired", _with("Required value", detail), field)


def invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of an invalid value."""
    return FieldError("FieldValueInvalid", f"{_valued('Invalid value', value)}: {detail}", field)


def type_invalid(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a value whose type is not the schema's."""
    return FieldError(
        "FieldValueTypeInvalid", f"Invalid value: {go_value(value)}: {detail}", field
    )


def not_supported(field: str, value: Any, supported: Sequence[Any]) -> FieldError:
    """Return the error of a value that is not in an enumeration."""
    choices = ", ".join(_quote(_plain(choice)) for choice in supported)
    text = f"Unsupported value: {go_value(value)}: supported values: {choices}"
    return FieldError("FieldValueNotSupported", text, field)


def duplicate(field: str, value: Any) -> FieldError:
    """Return the error of a value that may not be repeated."""
    return FieldError("FieldValueDuplicate", _valued("Duplicate value", value), field)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a field that may not be set."""
    return FieldError("FieldValueForbidden", _with("Forbidden", detail), field)


def too_long(field: str, most: int) -> FieldError:
    """Return the error of a text of more than ``most``, which the message calls bytes."""
    text = f"Too long: may not be more than {most} {'byte' if most == 1 else 'bytes'}"
    return FieldError("FieldValueTooLong", text, field)


def too_many(field: str, count: int, most: int) -> FieldError:
    """Return the error of a list or object with more than ``most`` members."""
    items = "item" if most == 1 else "items"
    return FieldError(
        "FieldValueTooMany", f"Too many: {count}: must have at most {most} {items}", field
    )


def internal(field: str, detail: str) -> FieldError:
    """Return the error of a failure in the server."""
    return FieldError("InternalError", f"Internal error: {detail}", field)


def _valued(head: str, value: Any) -> str:
    return head if value is OMITTED else f"{head}: {go_value(value)}"


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


_HTML = {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else go_value(value)


def go_value(value: Any) -> str:
    """Return a JSON value as kube-apiserver prints it in messages: Go's syntax, and else JSON."""
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # As Go's json.Marshal, which writes what HTML could take for a tag as escapes.
    return "".join(_HTML.get(char, char) for char in text)
