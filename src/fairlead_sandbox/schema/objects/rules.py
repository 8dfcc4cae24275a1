"""x-kubernetes-validations: the CEL rules of a schema, compiled to one check.

Transition rules, which use ``oldSelf``, run only if the old object has a counterpart: a field or
key of the same name, or in a list of type map the item with the same keys. ``optionalOldSelf``
lets them run without one ("Transition rules" in the CRD documentation). All rules together may
cost ``PER_OBJECT`` units for one object. Messages of kube-apiserver 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.cel import (
    PER_OBJECT,
    CelError,
    CostError,
    Declaration,
    Program,
    compile_rule,
    converter,
    declare,
)
from fairlead_sandbox.schema.cel.library.texts import quoted
from fairlead_sandbox.schema.cel.program import Evaluation
from fairlead_sandbox.schema.effort import ExhaustedError, Report
from fairlead_sandbox.schema.errors import (
    OMITTED,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)


_LONGEST_MESSAGE = 5 * 1024
"""Maximum size of a message that messageExpression returns, in bytes; a larger one is not used."""
_RAN_OUT = "running out of cost budget, no further validation rules will be run"


class _SpentError(Exception):
    """The rules have used up the cost units of one object."""


class _Account:
    """The remaining cost units for the rules of one object, and the report of their errors."""

    __slots__ = ("left", "report")

    def __init__(self, report: Report) -> None:
        self.left = PER_OBJECT
        self.report = report

    def run(self, program: Program, value: Any, old: Any, path: str) -> Evaluation | None:
        """Return the result of an evaluation; None if it costs more units than are left."""
        try:
            result = program.run(value, old, self.report.effort)
        except ExhaustedError as error:
            error.path = path
            raise
        if result.cost > self.left:
            return None
        self.left -= result.cost
        return result


_Check = Callable[[Any, Any, str, _Account], None]
Rules = Callable[[Any, Any, Report], None]
"""Checks (object, old object or None, report)."""


def compile_rules(schema: JSON, *, root: bool = True) -> Rules | None:
    """Return the check of (object, old object or None, report); None if there are no rules.

    Raises:
        CompileError: a rule cannot be compiled.
    """
    declared = declare(schema, root=True) if root else _alone(schema)
    compiled = _compile(schema, declared)
    if compiled is None or declared is None:
        return None
    convert = converter(declared) or (lambda value: value)

    def check(value: Any, old: Any, report: Report) -> None:
        try:
            compiled(convert(value), convert(old), "", _Account(report))
        except _SpentError:
            return

    return check


def inner_schemas(
    schema: JSON, declared: Declaration | None
) -> Iterator[tuple[str, str, JSON, Declaration | None]]:
    """Yield the direct subschemas of a schema, each with its keyword, property name and CEL type.

    A subschema that the CEL type of its parent leaves out may still have rules; it then has a
    type of its own.
    """
    members = declared.members if declared is not None else {}
    for name, inner in (schema.get("properties") or {}).items():
        yield "properties", name, inner, members.get(name) or _alone(inner)
    for keyword in ("additionalProperties", "items"):
        inner = schema.get(keyword)
        if isinstance(inner, dict):
            items = declared.items if declared is not None else None
            yield keyword, "", inner, items or _alone(inner)


def _alone(schema: JSON) -> Declaration | None:
    return declare(schema, root=bool(schema.get("x-kubernetes-embedded-resource")))


def _compile(schema: JSON, declared: Declaration | None) -> _Check | None:
    own = [
        _rule(rule, declared, schema)
        for rule in schema.get("x-kubernetes-validations") or ()
        if declared is not None
    ]
    members: dict[str, _Check] = {}
    others: dict[str, _Check] = {}
    for keyword, name, inner, inside in inner_schemas(schema, declared):
        compiled = _compile(inner, inside)
        if compiled is not None and keyword == "properties":
            members[name] = compiled
        elif compiled is not None:
            others[keyword] = compiled
    checks = [*own, *_of_members(members, others.get("additionalProperties"))]
    if "items" in others:
        checks.append(_of_items(others["items"], schema))
    if not checks:
        return None

    def check(value: Any, old: Any, path: str, account: _Account) -> None:
        if value is not None:
            for check_part in checks:
                check_part(value, old, path, account)

    return check


def _of_members(members: Mapping[str, _Check], other: _Check | None) -> Iterator[_Check]:
    if not members and other is None:
        return

    def check(value: Any, old: Any, path: str, account: _Account) -> None:
        if type(value) is not dict:
            return
        before = old if type(old) is dict else {}
        for name, member in value.items():
            if other is not None:
                other(member, before.get(name), f"{path}[{name}]", account)
            elif name in members:
                inner = f"{path}.{name}" if path else name
                members[name](member, before.get(name), inner, account)

    yield check


def _of_items(items: _Check, schema: JSON) -> _Check:
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []

    def check(value: Any, old: Any, path: str, account: _Account) -> None:
        if not isinstance(value, list):
            return
        before: dict[tuple[Any, ...], Any] = {}
        # Backwards, so that of several items with the same keys the first one is kept.
        for item in reversed(old) if keys and isinstance(old, list) else ():
            before[_key(item, keys)] = item
        # Items without a key cannot be identified, so they have no old value.
        before.pop((), None)
        for index, item in enumerate(value):
            old_item = before.get(_key(item, keys)) if before else None
            items(item, old_item, f"{path}[{index}]", account)

    return check


def _key(item: Any, keys: list[str]) -> tuple[Any, ...]:
    """Return the values of the item's keys; () if one is missing."""
    if not isinstance(item, dict) or not all(key in item for key in keys):
        return ()
    # repr tells 1 from true and from the text 1; as keys of a dictionary 1 and true are one.
    return tuple(repr(item[key]) for key in keys)


def _rule(rule: JSON, declared: Declaration, schema: JSON) -> _Check:
    optional = bool(rule.get("optionalOldSelf"))
    program = compile_rule(rule["rule"], declared, optional=optional)
    message = _message(rule, declared)
    tell = _REPORTS.get(rule.get("reason") or "FieldValueInvalid", invalid)
    where = field_path(rule.get("fieldPath") or "", schema)
    words = (rule.get("message") or rule["rule"]).strip()
    type_ = schema.get("type") or ""

    def check(value: Any, old: Any, path: str, account: _Account) -> None:
        if program.transition:
            if old is None and not optional:
                return
        elif old is not None and value == old:
            # What an update leaves as it is is not refused.
            return
        here = path or "<nil>"
        result = account.run(program, value, old, here)
        if result is None:
            text = f"validation failed due to {_RAN_OUT}"
            account.report.append(invalid(here, type_, text))
            raise _SpentError
        if result.error is not None:
            account.report.append(invalid(here, type_, _failure(result.error, words)))
            if isinstance(result.error, CostError):
                raise _SpentError
        elif result.value is not True:
            at = f"{path}{where}".removeprefix(".") or "<nil>"
            shown = OMITTED if type_ in {"object", "array"} else value
            account.report.append(tell(at, shown, message(value, old, at, account)))

    return check


def _failure(error: CelError | CostError, words: str) -> str:
    if isinstance(error, CostError):
        text = "no further validation rules will be run due to call cost exceeds limit for rule"
        return f"'{error}': {text}: {words}"
    if str(error).startswith("no such overload"):
        text = "call arguments did not match a supported operator, function or macro signature"
        return f"'{error}': {text} for rule: {words}"
    return f"{error} evaluating rule: {words}"


_Message = Callable[[Any, Any, str, _Account], str]


def _message(rule: JSON, declared: Declaration) -> _Message:
    fixed = (rule.get("message") or "").strip() or f"failed rule: {rule['rule'].strip()}"
    expression = rule.get("messageExpression")
    if not expression:
        return lambda *_: fixed
    optional = bool(rule.get("optionalOldSelf"))
    program = compile_rule(expression, declared, gives="string", optional=optional)

    def message(value: Any, old: Any, path: str, account: _Account) -> str:
        result = account.run(program, value, old, path)
        if result is None:
            text = f"messageExpression evaluation failed due to {_RAN_OUT}"
            return _last_words(account, path, text)
        if isinstance(result.error, CostError):
            text = "no further validation rules will be run due to call cost exceeds limit for"
            return _last_words(account, path, f"{text} messageExpression: {quoted(expression)}")
        text = result.value.strip() if isinstance(result.value, str) else ""
        # As the API documents, a text that is empty, too long or of several lines gives way to the
        # rule's message.
        usable = "\n" not in text and len(text.encode("utf-8", "replace")) <= _LONGEST_MESSAGE
        return text if text and usable else fixed

    def _last_words(account: _Account, path: str, text: str) -> str:
        account.report.append(invalid(path, declared.schema.get("type") or "", text))
        raise _SpentError

    return message


_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANING = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def field_path(text: str, schema: JSON) -> str:
    """Return the place that a rule's ``fieldPath`` names, as messages write it.

    Raises:
        ValueError: the schema has no such field.
    """
    position, path = 0, ""
    here: Any = schema
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise ValueError(text)
        name = step[1]
        if name is None:
            name = _ESCAPE.sub(lambda match: _MEANING.get(match[1], match[1]), step[2])
        properties = here.get("properties")
        path += f".{name}" if properties else f"[{name}]"
        here = properties.get(name) if properties else here.get("additionalProperties")
        if not here or here is True:
            raise ValueError(text)
        position = step.end()
    return path


_REPORTS: Mapping[str, Callable[[str, Any, str], FieldError]] = {
    "FieldValueInvalid": invalid,
    "FieldValueForbidden": lambda field, _value, detail: forbidden(field, detail),
    "FieldValueRequired": lambda field, _value, detail: required(field, detail),
    "FieldValueDuplicate": lambda field, value, _detail: duplicate(field, value),
}
"""Functions that make the error of a failed rule, by its ``reason``."""
REASONS = tuple(sorted(_REPORTS))
"""Values that ``reason`` of a rule may have."""
