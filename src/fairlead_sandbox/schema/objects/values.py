"""Compilation of a schema to one check: its own keywords, then the schemas inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import invalid, required, too_many
from fairlead_sandbox.schema.objects.scalars import (
    Check,
    enum_check,
    format_check,
    number_check,
    string_check,
    type_check,
)


_NOWHERE = "<nil>"
"""Path of the errors of anyOf, oneOf, allOf and not, which kube-apiserver reports without one."""
_STEPS = 3
"""Steps of effort to check one item, or to try one alternative."""


def compile_check(schema: JSON) -> Check | None:
    """Return the check of a schema; None if it accepts every value."""
    head = type_check(schema)
    enum = enum_check(schema)
    makers = (_combinations, string_check, format_check, number_check, _array_check)
    checks = [maker(schema) for maker in makers]
    rest = [check for check in (*checks, enum, _object_check(schema)) if check]
    always = [check for check in (head, enum) if check]
    if not rest:
        return head

    def check(value: Any, path: str, errors: Report) -> None:
        if value is None:
            # As in kube-openapi, a null is checked against type and enum alone.
            for check_value in always:
                check_value(value, path, errors)
            return
        if head is not None:
            head(value, path, errors)
        for check_value in rest:
            check_value(value, path, errors)

    return check


def _child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _array_check(schema: JSON) -> Check | None:
    items = compile_check(schema["items"]) if schema.get("items") else None
    most, least = schema.get("maxItems"), schema.get("minItems")
    if items is None and most is None and least is None:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is not list:
            return
        errors.effort.spend(len(value) * _STEPS)
        if items is not None:
            for index, item in enumerate(value):
                items(item, f"{path}[{index}]", errors)
        if least is not None and len(value) < least:
            detail = f"{path} in body should have at least {least} items"
            errors.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))

    return check


def _object_check(schema: JSON) -> Check | None:
    checks = [maker(schema) for maker in (_count_check, _required_check, _members_check)]
    present = [check for check in checks if check]
    if not present:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is dict:
            for check_part in present:
                check_part(value, path, errors)

    return check


def _count_check(schema: JSON) -> Check | None:
    most, least = schema.get("maxProperties"), schema.get("minProperties")
    if most is None and least is None:
        return None

    def check(value: JSON, path: str, errors: Report) -> None:
        if least is not None and len(value) < least:
            detail = f"{path} in body should have at least {least} properties"
            errors.append(invalid(path, len(value), detail))
        if most is not None and len(value) > most:
            errors.append(too_many(path, len(value), most))

    return check


def _required_check(schema: JSON) -> Check | None:
    names = schema.get("required")
    if not names:
        return None

    def check(value: JSON, path: str, errors: Report) -> None:
        errors.effort.spend(len(names))
        errors.extend(required(_child(path, name)) for name in names if name not in value)

    return check


def _members_check(schema: JSON) -> Check | None:
    compiled = {
        name: compile_check(member) for name, member in (schema.get("properties") or {}).items()
    }
    checks = {name: check for name, check in compiled.items() if check}
    additional = schema.get("additionalProperties")
    other = compile_check(additional) if isinstance(additional, dict) else None
    if not checks and other is None:
        return None

    def check(value: JSON, path: str, errors: Report) -> None:
        errors.effort.spend(len(value) * _STEPS)
        for name, member in value.items():
            check_member = checks.get(name)
            # A declared property that needs no check is no additional one.
            if check_member is None and name not in compiled:
                check_member = other
            if check_member is not None:
                check_member(member, f"{path}.{name}" if path else name, errors)

    return check


def _combinations(schema: JSON) -> Check | None:
    makers: tuple[Callable[[JSON], Check | None], ...] = (_any_of, _one_of, _all_of, _not)
    checks = [check for check in (maker(schema) for maker in makers) if check]
    if not checks:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        for check_part in checks:
            check_part(value, path, errors)

    return check


def _compiled(schemas: list[JSON] | None) -> list[Check]:
    return [compile_check(schema) or _accept for schema in schemas or ()]


def _accept(value: Any, path: str, errors: Report) -> None:
    """Accept every value, as a schema without keywords does."""


def _attempts(checks: list[Check], value: Any, path: str, errors: Report) -> list[Report]:
    errors.effort.spend(len(checks) * _STEPS)
    attempts = [errors.branch() for _ in checks]
    for check, failures in zip(checks, attempts, strict=True):
        check(value, path, failures)
    return attempts


def _least(attempts: list[Report]) -> Report:
    """Return the errors of the alternative that has the fewest."""
    return next(one for one in attempts if len(one) == min(map(len, attempts)))


def _any_of(schema: JSON) -> Check | None:
    checks = _compiled(schema.get("anyOf"))
    if not checks:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        attempts = _attempts(checks, value, path, errors)
        if all(attempts):
            detail = f'"{path}" must validate at least one schema (anyOf)'
            errors.append(invalid(_NOWHERE, "", detail))
            errors.extend(_least(attempts))

    return check


def _one_of(schema: JSON) -> Check | None:
    checks = _compiled(schema.get("oneOf"))
    if not checks:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        attempts = _attempts(checks, value, path, errors)
        valid = sum(not failures for failures in attempts)
        if valid == 1:
            return
        text = f"Found {valid} valid alternatives" if valid else "Found none valid"
        detail = f'"{path}" must validate one and only one schema (oneOf). {text}'
        errors.append(invalid(_NOWHERE, "", detail))
        if not valid:
            errors.extend(_least(attempts))

    return check


def _all_of(schema: JSON) -> Check | None:
    checks = _compiled(schema.get("allOf"))
    if not checks:
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        attempts = _attempts(checks, value, path, errors)
        failed = sum(map(bool, attempts))
        if failed:
            for failures in attempts:
                errors.extend(failures)
            none = ". None validated" if failed == len(attempts) else ""
            detail = f'"{path}" must validate all the schemas (allOf){none}'
            errors.append(invalid(_NOWHERE, "", detail))

    return check


def _not(schema: JSON) -> Check | None:
    if not isinstance(schema.get("not"), dict):
        return None
    (inner,) = _compiled([schema["not"]])

    def check(value: Any, path: str, errors: Report) -> None:
        failures = errors.branch()
        inner(value, path, failures)
        if not failures:
            detail = f'"{path}" must not validate the schema (not)'
            errors.append(invalid(_NOWHERE, "", detail))

    return check
