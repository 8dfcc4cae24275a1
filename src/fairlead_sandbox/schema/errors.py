"""Field errors with the messages of kube-apiserver.

Messages and reasons are those of ``field.Error`` and ``metav1.StatusCause`` in kube-apiserver
1.20, and for later reasons in 1.30.
"""

from __future__ import annotations

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
    return FieldError("FieldValueInvalid", f"Invalid value: {go_value(value)}: {detail}", field)


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
    return FieldError("FieldValueDuplicate", f"Duplicate value: {go_value(value)}", field)


def forbidden(field: str, detail: str) -> FieldError:
    """Return the error of a field that may not be set."""
    return FieldError("FieldValueForbidden", _with("Forbidden", detail), field)


def too_long(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a string with too many characters."""
    return FieldError("FieldValueTooLong", f"Invalid value: {go_value(value)}: {detail}", field)


def too_many(field: str, value: Any, detail: str) -> FieldError:
    """Return the error of a list or object with too many members."""
    return FieldError("FieldValueTooMany", f"Invalid value: {go_value(value)}: {detail}", field)


def internal(field: str, detail: str) -> FieldError:
    """Return the error of a failure in the server."""
    return FieldError("InternalError", f"Internal error: {detail}", field)


def _with(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _quote(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(char, char) for char in text) + '"'


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else go_value(value).strip('"')


def go_value(value: Any) -> str:
    """Return a JSON value as kube-apiserver prints it in messages, in Go's syntax."""
    if isinstance(value, str):
        return _quote(value)
    if value is None:
        # field.Error prints a nil value as the quoted word; inside of lists and maps Go's syntax
        # is used.
        return '"null"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return _go_syntax(value)


def _go_syntax(value: Any) -> str:
    if isinstance(value, dict):
        items = ", ".join(f"{_quote(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{items}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if value is None:
        return "interface {}(nil)"
    return str(value) if type(value) is int else go_value(value)
