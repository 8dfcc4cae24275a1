"""Messages on refused writes, without the refused values.

Users who may read a binding read its conditions, and may have no right to its workloads and
Secrets. Servers quote refused values in their answers, up to the whole object.
"""

from __future__ import annotations

import json
import re

from fairlead.api.status import StatusCause
from fairlead.binding import bounds
from fairlead.client import ApiError


_KIND = re.compile(
    "(Required value|Duplicate value|Invalid value|Unsupported value|Forbidden|Not found|"
    "Too long|Too short|Too many|Too few|Internal error)(?:: |$)"
)
"""Beginning of a cause's message (``ErrorType`` of ``field.Error``)."""
_VALUELESS = {"Required value", "Forbidden", "Too long", "Too short"}
_VALUE = re.compile(r'(?:"(?:[^"\\{]|\\.)*"|-?[0-9.]+|true|false|null)(?:: |$)')
_GO_VALUE = re.compile(r"[\w.*\[\]]*\{")
"""Beginning of a value in Go's syntax, as older servers write objects and lists."""
_QUOTED = re.compile(r"\{|error found in #")
"""Beginnings of a quoted object: JSON, Go's form, and malformed JSON."""


def refusal_text(error: ApiError) -> str:
    """Return why a server refused, in one line of at most ``bounds.TEXT_CHARACTERS`` characters.

    It has each cause's field, type and message, up to a quoted object; values are left out.
    """
    details = error.status.details
    causes = [one for one in (details.causes if details else ()) if one.field or one.message]
    # Without values several causes of one field may be equal.
    said = dict.fromkeys(map(_cause, causes)) if causes else [_unquoted(str(error))]
    text = "; ".join(said)
    return (
        text
        if len(text) <= bounds.TEXT_CHARACTERS
        else f"{text[: bounds.TEXT_CHARACTERS - 4]} ..."
    )


def _cause(cause: StatusCause) -> str:
    kind = _KIND.match(cause.message)
    if kind is None:
        text = _unquoted(cause.message)
    elif kind[1] in _VALUELESS:
        text = f"{kind[1]}: {_unquoted(cause.message[kind.end() :])}"
    else:
        text = f"{kind[1]}: {_unquoted(_after_value(cause.message[kind.end() :]))}"
    return ": ".join(filter(None, [cause.field, text.rstrip(": ") or cause.reason]))


def _after_value(text: str) -> str:
    """Return what follows the value that a message begins with; "" where its end is not clear.

    A rule of a CRD that refuses an object or a list names no value on servers of today.
    """
    value = _VALUE.match(text)
    if value:
        return text[value.end() :]
    if text[:1] in {"{", "["}:
        try:
            _, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            return ""
        return text[end + 2 :] if text[end:].startswith(": ") else ""
    return "" if text.startswith('"') or _GO_VALUE.match(text) else text


def _unquoted(text: str) -> str:
    """Return the first line, up to a quoted object."""
    line = text.partition("\n")[0]
    quoted = _QUOTED.search(line)
    return line if quoted is None else f"{line[: quoted.start()]}..."
