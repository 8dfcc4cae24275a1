"""Quantities of resources, and semantic versions.

Source: Kubernetes' quantity and semver libraries. A quantity is a text that ``resource.Quantity``
accepts, a version one that semver.org specifies.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.overloads import PARSING, Overload, function
from fairlead_sandbox.schema.cel.values import CelError, Quantity, Semver


_NANO = 10**9
_MAX = 2**63 - 1
_FORM = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_EXPONENT = re.compile(r"[eE]([+-]?\d{1,9})", re.ASCII)
_TENS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_TWOS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_LONGEST = 200
"""Maximum length of a quantity or a version, in characters."""


def parse_quantity(text: str) -> Quantity:
    """Return the quantity of a text, rounded up to billionths.

    Raises:
        ValueError: the text is no quantity; the message is Kubernetes'.
    """
    match = _FORM.fullmatch(text[:_LONGEST])
    if match is None or _NUMBER.fullmatch(match[1]) is None or len(text) > _LONGEST:
        raise ValueError(f"quantities must match the regular expression '{_FORM.pattern}'")
    scale = _scale(match[2])
    if scale is None:
        raise ValueError("unable to parse quantity's suffix")
    exact = Fraction(match[1]) * scale * _NANO
    # resource.Quantity rounds away from zero, and stops at the largest signed integer of 64 bits.
    amount = math.ceil(abs(exact))
    limited = min(amount, _MAX * _NANO)
    return Quantity(limited if exact >= 0 else -limited)


def _scale(suffix: str) -> Fraction | None:
    if suffix in _TENS:
        return Fraction(10) ** _TENS[suffix]
    if suffix in _TWOS:
        return Fraction(2) ** _TWOS[suffix]
    exponent = _EXPONENT.fullmatch(suffix)
    if exponent is None:
        return None
    # Beyond these exponents every amount rounds to one billionth or to the largest amount.
    return Fraction(10) ** max(-400, min(int(exponent[1]), 400))


def _to_quantity(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except ValueError as error:
        raise CelError(str(error)) from None


def _is(parse: Callable[..., Any]) -> Callable[..., bool]:
    def check(*args: Any) -> bool:
        try:
            parse(*args)
        except (ValueError, CelError):
            return False
        return True

    return check


def _compare(left: Any, other: Any) -> int:
    return int(left > other) - int(left < other)


def _whole(quantity: Quantity) -> int:
    whole, rest = divmod(quantity.billionths, _NANO)
    if rest or not -_MAX - 1 <= whole <= _MAX:
        raise CelError("cannot convert value to integer")
    return whole


def _sum(left: Quantity, other: Quantity | int, sign: int = 1) -> Quantity:
    more = other.billionths if isinstance(other, Quantity) else other * _NANO
    return Quantity(left.billionths + sign * more)


def _quantities() -> Iterator[Overload]:
    once = costs.read(0)
    yield function("quantity(string) -> quantity", _to_quantity, once, steps=PARSING)
    yield function("isQuantity(string) -> bool", _is(parse_quantity), once, steps=PARSING)
    yield function("<quantity>.sign() -> int", lambda quantity: _compare(quantity.billionths, 0))
    yield function("sign(quantity) -> int", lambda quantity: _compare(quantity.billionths, 0))
    yield function("<quantity>.asInteger() -> int", _whole)
    yield function("<quantity>.isInteger() -> bool", _is(_whole))
    yield function(
        "<quantity>.asApproximateFloat() -> double",
        lambda quantity: float(Fraction(quantity.billionths, _NANO)),
    )
    for other in ("quantity", "int"):
        yield function(f"<quantity>.add({other}) -> quantity", _sum)
        yield function(
            f"<quantity>.sub({other}) -> quantity", lambda left, other: _sum(left, other, -1)
        )
    yield from _order("quantity", lambda quantity: quantity.billionths)


def _order(kind: str, key: Callable[[Any], Any]) -> Iterator[Overload]:
    yield function(
        f"<{kind}>.isLessThan({kind}) -> bool", lambda left, other: key(left) < key(other)
    )
    yield function(
        f"<{kind}>.isGreaterThan({kind}) -> bool", lambda left, other: key(left) > key(other)
    )
    yield function(
        f"<{kind}>.compareTo({kind}) -> int", lambda left, other: _compare(key(left), key(other))
    )


_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?",
    re.ASCII,
)
_LOOSE = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?((?:-.*)?(?:\+.*)?)", re.ASCII | re.DOTALL)


def _to_semver(text: str, normalize: bool = False) -> Semver:
    if normalize:
        text = _normalized(text)
    match = _VERSION.fullmatch(text[:_LONGEST])
    if match is None or len(text) > _LONGEST:
        raise CelError(_complaint(text))
    major, minor, patch, prerelease, build = match.groups()
    parts = tuple((prerelease or "").split(".")) if prerelease else ()
    if any(not part or _has_leading_zero(part) for part in parts):
        raise CelError("Prerelease is empty" if "" in parts else _ZEROS)
    if build is not None and "" in build.split("."):
        raise CelError("Build meta data is empty")
    if max(map(len, (major, minor, patch))) > 19:
        raise CelError(f"Invalid version {text}")
    return Semver(int(major), int(minor), int(patch), parts)


_ZEROS = "Numeric PreRelease version must not contain leading zeroes"


def _has_leading_zero(part: str) -> bool:
    return part.isdigit() and len(part) > 1 and part[0] == "0"


def _complaint(text: str) -> str:
    if not text:
        return "Version string empty"
    return "No Major.Minor.Patch elements found" if text.count(".") < 2 else "Invalid version"


def _normalized(text: str) -> str:
    match = _LOOSE.fullmatch(text[:_LONGEST])
    if match is None:
        return text
    *numbers, rest = match.groups()
    if rest and None in numbers:
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return ".".join(str(int(number or 0)) for number in numbers) + rest


def _compare_parts(left: str, other: str) -> int:
    if left.isdigit() and other.isdigit():
        return _compare(int(left), int(other))
    # By semver.org numeric parts come before all others.
    if left.isdigit() or other.isdigit():
        return -1 if left.isdigit() else 1
    return _compare(left, other)


_part_key = cmp_to_key(_compare_parts)


def _precedence(version: Semver) -> Any:
    """Return the sort key of a version: a prerelease comes before its release."""
    parts = [_part_key(part) for part in version.prerelease]
    return (*version[:3], not parts, parts)


def _versions() -> Iterator[Overload]:
    once = costs.read(0)
    for more in ("", ", bool"):
        yield function(f"semver(string{more}) -> semver", _to_semver, once, steps=PARSING)
        yield function(f"isSemver(string{more}) -> bool", _is(_to_semver), once, steps=PARSING)
    for name in ("major", "minor", "patch"):
        yield function(f"<semver>.{name}() -> int", _number(name))
    yield from _order("semver", _precedence)


def _number(name: str) -> Callable[[Semver], int]:
    return lambda version: int(getattr(version, name))


OVERLOADS = [*_quantities(), *_versions()]
