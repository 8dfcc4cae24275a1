"""String formats that Kubernetes checks in custom resources; any other is documentation.

The list is that of the CRD documentation ("format" under "Validation"). int32, int64, float and
double are not checked, as in kube-apiserver.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime


_DATE_TIME = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:|/)\S*")
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
_MAC = re.compile(
    r"[0-9A-Fa-f]{2}([:-])([0-9A-Fa-f]{2}\1){4}([0-9A-Fa-f]{2}\1){0,2}[0-9A-Fa-f]{2}"
)
_HEX = "[0-9A-Fa-f]"
# Possessive (++), so that a long run of digits cannot backtrack.
_GO_DURATION = re.compile(r"[+-]?(0|((\d++(\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h))++)")
_UNITS = r"(ns|us|ms|s|m|h|d|w|nano(second)?|micro(second)?|milli(second)?|second|sec|minute"
_LONG_DURATION = re.compile(rf"\d+(\.\d+)?\s*{_UNITS}|min|hour|hr|day|week|wk)s?")
_COLOR = re.compile(r"#?([A-Fa-f0-9]{3}|[A-Fa-f0-9]{6})")
_NUMBER = r"([01]?\d?\d|2[0-4]\d|25[0-5])"
_RGB = re.compile(rf"rgb\(\s*{_NUMBER}\s*,\s*{_NUMBER}\s*,\s*{_NUMBER}\s*\)")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _uuid(version: str) -> Callable[[str], bool]:
    variant = "[89ABab]" if version in {"4", "5"} else _HEX
    digit = version or _HEX
    return _matches(
        re.compile(
            rf"{_HEX}{{8}}-?{_HEX}{{4}}-?{digit}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}"
        )
    )


def _date_time(text: str) -> bool:
    if _DATE_TIME.fullmatch(text) is None:
        return False
    # The expression has checked fraction and offset; what is left must be a date and a time that
    # exist.
    return _parses(datetime.fromisoformat)(text[:19].upper())


def _cidr(text: str) -> object:
    if "/" not in text:
        raise ValueError(text)
    return ipaddress.ip_interface(text)


def _duration(text: str) -> bool:
    return bool(_GO_DURATION.fullmatch(text) or _LONG_DURATION.fullmatch(text.strip()))


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _parses(_cidr),
    "creditcard": _matches(re.compile(r"[\d -]{13,19}")),
    "date": lambda text: bool(_DATE.fullmatch(text)) and _parses(date.fromisoformat)(text),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _duration,
    "email": _matches(_EMAIL),
    "hexcolor": _matches(_COLOR),
    "hostname": lambda text: len(text) <= 255 and _HOSTNAME.fullmatch(text) is not None,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "isbn": _matches(re.compile(r"(\d[ -]?){9}[\dXx]|(\d[ -]?){13}")),
    "mac": _matches(_MAC),
    "password": lambda _: True,
    "rgbcolor": _matches(_RGB),
    "ssn": _matches(re.compile(r"\d{3}[- ]?\d{2}[- ]?\d{4}")),
    "uri": _matches(_URI),
    "uuid": _uuid(""),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
"""Functions that check a string, by the name of its format."""
