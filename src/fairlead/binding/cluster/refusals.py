"""Why a server refused what was to be written, without what that was.

Users with the right to read a binding read its conditions, and may have no right to its workloads
and Secrets. Servers quote in their answers what they refuse, up to the whole object.
"""

from __future__ import annotations

import re

from fairlead.api.status import StatusCause
from fairlead.client import ApiError


LONGEST = 500
"""Characters of a refusal."""

_KIND = re.compile(
    "(Required value|Duplicate value|Invalid value|Unsupported value|Forbidden|Not found|"
    "Too long|Too many|Internal error)(?:: |$)"
)
"""How the message of a cause begins (``ErrorType`` of ``field.Error``)."""
_VALUELESS = {"Required value", "Forbidden", "Too long"}
_VALUE = re.compile(r'(?:"(?:[^"\\{]|\\.)*"|-?[0-9.]+|true|false|null)(?:: |$)')
_QUOTED = re.compile(r"\{|error found in #")
"""Beginnings of a quoted object: JSON, Go's own form, and JSON that could not be read."""


def told(error: ApiError) -> str:
    """Why a server refused, in one line of at most ``LONGEST`` characters.

    Of causes it has the field, what kind of mistake it is, and what the server says about it
    where that does not quote an object; values are left out.
    """
    details = error.status.details
    causes = [one for one in (details.causes if details else ()) if one.field or one.message]
    # Several of one field say the same once their values are left out.
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
    """The first line, as far as it quotes no object."""
    line = text.partition("\n")[0]
    quoted = _QUOTED.search(line)
    return line if quoted is None else f"{line[: quoted.start()]}..."
