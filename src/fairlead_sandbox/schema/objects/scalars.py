"""Checks of strings, numbers and enumerations, each compiled from the keywords of a schema.

A check appends the errors of ``value`` at ``path``. As in kube-apiserver, each check reports only
the first of its own errors.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import Effort, ExhaustedError, Report
from fairlead_sandbox.schema.errors import invalid, not_supported, too_long, type_invalid
from fairlead_sandbox.schema.formats import CHECKS
from fairlead_sandbox.schema.patterns import Pattern, compile_pattern


Check = Callable[[Any, str, Report], None]
"""Appends the errors of a value at a path to a report."""


_PYTHON: dict[str, type] = {
    "null": type(None),
    "boolean": bool,
    "integer": int,
    "number": float,
    "string": str,
    "array": list,
    "object": dict,
}


def type_name(value: Any) -> str:
    """Return the JSON Schema type of a value, as messages name it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def type_check(schema: JSON) -> Check | None:
    """Return the check of ``type``, ``nullable`` and int-or-string; None without these."""
    if schema.get("type"):
        expected = schema["type"]
        allowed = {"number", "integer"} if expected == "number" else {expected}
    elif schema.get("x-kubernetes-int-or-string"):
        allowed, expected = {"integer", "string"}, "integer,string"
    else:
        return None
    if schema.get("nullable"):
        allowed = allowed | {"null"}
    whole = "integer" in allowed
    accepted = frozenset(_PYTHON[name] for name in allowed if name in _PYTHON)

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) in accepted:
            return
        name = type_name(value)
        # 1.0 is an integer too: JSON has one type of number.
        if name not in allowed and not (whole and name == "number" and value.is_integer()):
            detail = f'{path} in body must be of type {expected}: "{name}"'
            errors.append(type_invalid(path, name, detail))

    return check


def _is_plain(value: Any) -> bool:
    return not isinstance(value, dict | list)


_CHOICE = 5
"""Steps of effort to list one supported value in an error."""


def enum_check(schema: JSON) -> Check | None:
    """Return the check of ``enum``; None without it."""
    choices = schema.get("enum")
    if not choices:
        return None
    # In Python True equals 1 and False equals 0; in JSON these are different values.
    plain = {(type(choice) is bool, choice) for choice in choices if _is_plain(choice)}
    others = [choice for choice in choices if not _is_plain(choice)]

    def check(value: Any, path: str, errors: Report) -> None:
        is_allowed = (type(value) is bool, value) in plain if _is_plain(value) else value in others
        if not is_allowed:
            errors.effort.spend(len(choices) * _CHOICE)
            errors.append(not_supported(path, value, choices))

    return check


def string_check(schema: JSON) -> Check | None:
    """Return the check of maxLength, minLength (in characters) and pattern; None without these."""
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is None and least is None and not pattern:
        return None
    # The pattern has been compiled within the limit of its CRD, so the objects do not pay for it.
    compiled = compile_pattern(pattern, Effort()) if pattern else None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is not str:
            return
        if most is not None and len(value) > most:
            errors.append(too_long(path, most))
        elif least is not None and len(value) < least:
            detail = f"{path} in body should be at least {least} chars long"
            errors.append(invalid(path, value, detail))
        elif compiled is not None and not _matches(compiled, value, path, errors):
            errors.append(invalid(path, value, f"{path} in body should match '{pattern}'"))

    return check


def _matches(pattern: Pattern, value: str, path: str, errors: Report) -> bool:
    try:
        return pattern.search(value, errors.effort)
    except ExhaustedError as error:
        error.path = path
        raise


def format_check(schema: JSON) -> Check | None:
    """Return the check of ``format``; None for a format that Kubernetes does not check."""
    name = schema.get("format", "")
    holds = CHECKS.get(name)
    if holds is None:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is str and not holds(value):
            detail = f'{path} in body must be of type {name}: "{value}"'
            errors.append(invalid(path, value, detail))

    return check


def number_check(schema: JSON) -> Check | None:
    """Return the check of an integer's range, multipleOf, maximum and minimum; None without."""
    rules = [rule for rule in (_multiple(schema), _maximum(schema), _minimum(schema)) if rule]
    whole = schema.get("type") == "integer"
    if not rules and not whole:
        return None
    bits = 32 if schema.get("format") == "int32" else 64
    form = f"with format {schema['format']}" if schema.get("format") else "(default format)"

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is not int and type(value) is not float:
            return
        if whole and not (value == value // 1 and -(1 << bits - 1) <= value < 1 << bits - 1):
            # kube-apiserver names no field here, since its library returns a bare error.
            detail = f"Checked value must be of type integer {form} in {path}"
            errors.append(invalid("<nil>", "", detail))
        for holds, words in rules:
            if not holds(value):
                errors.append(invalid(path, value, f"{path} in body should be {words}"))
                return

    return check


_Rule = tuple[Callable[[float], bool], str]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _multiple(schema: JSON) -> _Rule | None:
    factor = schema.get("multipleOf")
    if not factor:
        return None

    def holds(value: float) -> bool:
        if isinstance(value, int) and isinstance(factor, int):
            return value % factor == 0
        # Division of floats is inexact: 0.3 / 0.1 is 2.9999999999999996.
        quotient = value / factor
        return isclose(quotient, round(quotient), rel_tol=1e-12, abs_tol=1e-12)

    return holds, f"a multiple of {_number(factor)}"


def _maximum(schema: JSON) -> _Rule | None:
    bound = schema.get("maximum")
    if bound is None:
        return None
    if schema.get("exclusiveMaximum"):
        return (lambda value: value < bound), f"less than {_number(bound)}"
    return (lambda value: value <= bound), f"less than or equal to {_number(bound)}"


def _minimum(schema: JSON) -> _Rule | None:
    bound = schema.get("minimum")
    if bound is None:
        return None
    if schema.get("exclusiveMinimum"):
        return (lambda value: value > bound), f"greater than {_number(bound)}"
    return (lambda value: value >= bound), f"greater than or equal to {_number(bound)}"
