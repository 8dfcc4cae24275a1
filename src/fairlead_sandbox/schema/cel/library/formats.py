"""Named formats: Kubernetes names, identifiers, dates.

Source: Kubernetes' format library; the errors of names are those of API machinery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fairlead.api.label_names import label_value_errors, qualified_name_errors
from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.network import parse_url
from fairlead_sandbox.schema.cel.library.overloads import PARSING, Overload, function
from fairlead_sandbox.schema.cel.library.texts import quoted
from fairlead_sandbox.schema.cel.values import NONE, Format, Optional
from fairlead_sandbox.schema.formats import CHECKS
from fairlead_sandbox.schema.names import dns1035_label, dns1123_label, dns1123_subdomain


def _single(complaint: Callable[[str], str]) -> Callable[[str], list[str]]:
    def find(text: str) -> list[str]:
        complaint_ = complaint(text)
        return [complaint_] if complaint_ else []

    return find


def _prefix(complaint: Callable[[str], str]) -> Callable[[str], list[str]]:
    """Return a check for prefixes of names, which may end with a dash because a suffix follows."""
    # As maskTrailingDash of k8s.io/apimachinery: the dash and the character before it give way to
    # one letter.
    return _single(lambda text: complaint(text[:-2] + "a" if text[1:].endswith("-") else text))


def _checked(name: str, words: str) -> Callable[[str], list[str]]:
    return lambda text: [] if CHECKS[name](text) else [words]


def _uri(text: str) -> list[str]:
    try:
        parse_url(text)
    except ValueError as error:
        return [f"parse {quoted(text)}: {error}"]
    return []


_FORMATS = [
    Format("dns1123Label", _single(dns1123_label), 30),
    Format("dns1123Subdomain", _single(dns1123_subdomain), 60),
    Format("dns1035Label", _single(dns1035_label), 30),
    Format("qualifiedName", lambda text: list(qualified_name_errors(text)), 60),
    Format("dns1123LabelPrefix", _prefix(dns1123_label), 30),
    Format("dns1123SubdomainPrefix", _prefix(dns1123_subdomain), 60),
    Format("dns1035LabelPrefix", _prefix(dns1035_label), 30),
    Format("labelValue", lambda text: list(label_value_errors(text)), 40),
    Format("uri", _uri, 1103),
    Format("uuid", _checked("uuid", "does not match the UUID format"), 70),
    Format("byte", _checked("byte", "invalid base64"), 84),
    Format("date", _checked("date", "invalid date"), 70),
    Format("datetime", _checked("datetime", "invalid datetime"), 70),
]
_BY_NAME = {format_.name: format_ for format_ in _FORMATS}


def _named(name: str) -> Optional:
    format_ = _BY_NAME.get(name)
    return NONE if format_ is None else Optional(there=True, value=format_)


def _validate(format_: Format, text: str) -> Optional:
    complaints = format_.complaints(text)
    return Optional(there=True, value=complaints) if complaints else NONE


def _overloads() -> Iterator[Overload]:
    yield function("format.named(string) -> optional(format)", _named)
    yield function(
        "<format>.validate(string) -> optional(list(string))",
        _validate,
        costs.VALIDATE,
        steps=PARSING,
    )
    for format_ in _FORMATS:
        yield function(f"format.{format_.name}() -> format", lambda format_=format_: format_)


OVERLOADS = list(_overloads())
