"""Messages on refused writes, without the refused values.

Users who may read a binding read its conditions, and may have no right to its workloads and
Secrets. Servers quote refused values in their answers, up to the whole object.
"""

from __future__ import annotations

import re

from fairlead.api.status import StatusCause
from fairlead.client import ApiError


LONGEST = 500
"""Longest message of a refusal, in characters."""

_KIND = re.compile(
    "(Required value|Duplicate value|Invalid value|Unsupported value|Forbidden|Not found|"
    "Too long|Too many|Internal error)(?:: |$)"
)
"""Beginning of a cause's message (``ErrorType`` of ``field.Error``)."""
_VALUELESS = {"Required value", "Forbidden", "Too long"}
_VALUE = re.compile(r'(?:"(?:[^"\\{]|\\.)*"|-?[0-9.]+|true|false|null)(?:: |$)')
_QUOTED = re.compile(r"\{|error found in #")
"""Beginnings of a quoted object: JSON, Go's form, and malformed JSON."""


def refusal_text(error: ApiError) -> str:
    """Return why a server refused, in one line of at most ``LONGEST`` characters.

    It has each cause's field, type and message, up to a quoted object; values are left out.
    """
    details = error.status.details
    causes = [one for one in (details.causes if details else ()) if one.field or one.message]
    # Without values several causes of one field may be equal.
    said = dict.fromkeys(map(_cause, causes)) if causes else [_unquoted(str(error))]
    text = "; ".join(said)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _cause(cause: StatusCause) -> str:
    kind = _KIND.match(cause.message)
    if kind is None:
        text = _unquoted(cause.message)
    elif kind[1] in _VALUELESS:
        text = f"{kind[1]}: {_unquoted(cause.message[kind.end() :])}"
    else:
        value = _VALUE.match(cause.message, kind.end())
        more = _unquoted(cause.message[value.end() :]) if value else ""
        text = f"{kind[1]}: {more}"
    return ": ".join(filter(None, [cause.field, text.rstrip(": ") or cause.reason]))


def _unquoted(text: str) -> str:
    """Return the first line, up to a quoted object."""
    line = text.partition("\n")[0]
    quoted = _QUOTED.search(line)
    return line if quoted is None else f"{line[: quoted.start()]}..."
