"""x-kubernetes-validations: the rules of a schema, compiled to one check.

Transition rules, those that name ``oldSelf``, run only where the old object has a counterpart: a
field or key of the same name, in a map list the item of the same keys ("Transition rules" in the
CRD documentation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox.schema.cel import CelError, Program, compile_rule
from fairlead.sandbox.schema.cel.types import Type, of_schema, root_type
from fairlead.sandbox.schema.errors import FieldError, duplicate, forbidden, invalid, required
from fairlead.sandbox.schema.objects.scalars import type_name


Rules = Callable[[Any, Any, str, list[FieldError]], None]


def compile_rules(schema: JSON, *, root: bool = True) -> Rules | None:
    """A check of (value, old value or None, path, errors); None when there are no rules.

    Raises:
        CompileError: a rule that cannot be compiled.
    """
    type_ = root_type(schema) if root else of_schema(schema)
    own = [_rule(rule, type_, schema) for rule in schema.get("x-kubernetes-validations") or ()]
    inside = [one for one in (_members(schema), _items(schema)) if one]
    if not own and not inside:
        return None

    def check(value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        if value is None:
            return
        for one in own:
            one(value, old, path, errors)
        for one in inside:
            one(value, old, path, errors)

    return check


def _members(schema: JSON) -> Rules | None:
    properties = schema.get("properties") or {}
    members = {
        name: inner
        for name, member in properties.items()
        if (inner := compile_rules(member, root=False))
    }
    additional = schema.get("additionalProperties")
    other = compile_rules(additional, root=False) if isinstance(additional, dict) else None
    if not members and other is None:
        return None

    def check(value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is not dict:
            return
        before = old if type(old) is dict else {}
        for name, member in value.items():
            inner = members.get(name) or (None if name in properties else other)
            if inner is not None:
                inner(member, before.get(name), f"{path}.{name}" if path else name, errors)

    return check


def _items(schema: JSON) -> Rules | None:
    items = compile_rules(schema["items"], root=False) if schema.get("items") else None
    if items is None:
        return None
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    def check(value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        if type(value) is not list:
            return
        before = {_key(item, keys): item for item in old or ()} if keys else {}
        for index, item in enumerate(value):
            old_item = before.get(_key(item, keys)) if keys else None
            items(item, old_item, f"{path}[{index}]", errors)

    return check


def _key(item: Any, keys: list[str]) -> tuple[str, ...]:
    return tuple(repr(item.get(key)) for key in keys) if isinstance(item, dict) else ()


def _rule(rule: JSON, type_: Type, schema: JSON) -> Rules:
    program = compile_rule(rule["rule"], type_)
    message = _message(rule, type_)
    report = _REPORTS.get(rule.get("reason") or "FieldValueInvalid", invalid)
    where = rule.get("fieldPath") or ""
    failed = f"failed rule: {rule['rule'].strip()}"

    def check(value: Any, old: Any, path: str, errors: list[FieldError]) -> None:
        if program.transition and old is None:
            return
        name = schema.get("type") or type_name(value)
        at = f"{path}{where}".removeprefix(".") or "<nil>"
        try:
            if program.run(value, old) is not True:
                errors.append(report(at, name, message(value, old) or failed))
        except CelError as error:
            text = f"{error} evaluating rule: {message(value, old) or failed}"
            errors.append(invalid(at, name, text))

    return check


def _message(rule: JSON, type_: Type) -> Callable[[Any, Any], str]:
    fixed = (rule.get("message") or "").strip()
    expression = rule.get("messageExpression")
    if not expression:
        return lambda _value, _old: fixed
    program: Program = compile_rule(expression, type_, gives="string")

    def message(value: Any, old: Any) -> str:
        try:
            text = program.run(value, old)
        except CelError:
            return fixed
        usable = isinstance(text, str) and text.strip() and "\n" not in text
        return text.strip() if usable else fixed

    return message


_REPORTS: Mapping[str, Callable[[str, Any, str], FieldError]] = {
    "FieldValueInvalid": invalid,
    "FieldValueForbidden": lambda field, _value, detail: forbidden(field, detail),
    "FieldValueRequired": lambda field, _value, detail: required(field, detail),
    "FieldValueDuplicate": lambda field, value, _detail: duplicate(field, value),
}
REASONS = tuple(_REPORTS)
"""What a rule's ``reason`` may be."""
