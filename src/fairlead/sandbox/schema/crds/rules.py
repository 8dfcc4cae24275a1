"""Whether the defaults and the rules of a structural schema are sound."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from fairlead.api.meta import JSON
from fairlead.sandbox.schema.cel import CompileError, compile_rule
from fairlead.sandbox.schema.cel.types import Type, of_schema, root_type
from fairlead.sandbox.schema.effort import ExhaustedError, Report
from fairlead.sandbox.schema.errors import forbidden, invalid, not_supported, required
from fairlead.sandbox.schema.objects.defaults import compile_defaulter
from fairlead.sandbox.schema.objects.lists import compile_list_check
from fairlead.sandbox.schema.objects.prune import compile_pruner
from fairlead.sandbox.schema.objects.rules import REASONS
from fairlead.sandbox.schema.objects.values import compile_check


def check_defaults(schema: JSON, path: str, errors: Report) -> None:
    """Report defaults that the schema they stand in would refuse or prune."""
    if schema.get("default") is not None:
        _check_default(schema, f"{path}.default", errors)
    for inner, at in _structure(schema, path):
        check_defaults(inner, at, errors)


def _check_default(schema: JSON, path: str, errors: Report) -> None:
    with errors.effort.timed():
        _try_default(schema, path, errors)


def _try_default(schema: JSON, path: str, errors: Report) -> None:
    value = deepcopy(schema["default"])
    pruner, defaulter = compile_pruner(schema), compile_defaulter(schema)
    if pruner is not None:
        pruner(value)
        if value != schema["default"]:
            errors.append(invalid(path, schema["default"], "must not have unknown fields"))
            return
    if defaulter is not None:
        defaulter(value)
    found = Report()
    try:
        for check in (compile_check(schema), compile_list_check(schema)):
            if check is not None:
                check(value, "", found)
    except ExhaustedError as stopped:
        found.append(stopped.found())
    for error in found:
        dot = "" if not error.field or error.field.startswith("[") else "."
        errors.append(error._replace(field=f"{path}{dot}{error.field}"))


def check_rules(schema: JSON, path: str, errors: Report) -> None:
    """Report rules that cannot be compiled, or could never see an old value."""
    _walk_rules(schema, root_type(schema), path, "", errors)


def _walk_rules(schema: JSON, type_: Type, path: str, uncorrelated: str, errors: Report) -> None:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        at = f"{path}.x-kubernetes-validations[{index}]"
        _check_rule(rule, type_, at, uncorrelated, errors)
    for inner, at in _structure(schema, path):
        lost = uncorrelated
        if at.endswith(".items") and schema.get("x-kubernetes-list-type") != "map":
            lost = lost or path
        _walk_rules(inner, of_schema(inner), at, lost, errors)


def _check_rule(rule: Any, type_: Type, path: str, uncorrelated: str, errors: Report) -> None:
    text = rule.get("rule") if isinstance(rule, dict) else None
    if not isinstance(text, str) or not text.strip():
        errors.append(required(f"{path}.rule", "rule is not specified"))
        return
    if not _check_texts(rule, path, errors):
        return
    if rule.get("optionalOldSelf"):
        detail = "optionalOldSelf is not supported by this server"
        errors.append(forbidden(f"{path}.optionalOldSelf", detail))
    if "\n" in (rule.get("message") or ""):
        detail = "message must not contain line breaks"
        errors.append(invalid(f"{path}.message", rule["message"], detail))
    try:
        program = compile_rule(text, type_)
    except CompileError as error:
        errors.append(invalid(f"{path}.rule", text, f"compilation failed: {error}"))
        return
    if program.transition and uncorrelated:
        detail = (
            "oldSelf cannot be used on the uncorrelatable portion of the schema within "
            f"{uncorrelated}"
        )
        errors.append(invalid(f"{path}.rule", text, detail))
    if rule.get("messageExpression"):
        _check_message(rule["messageExpression"], type_, path, errors)


def _check_texts(rule: JSON, path: str, errors: Report) -> bool:
    """Whether the texts beside a rule are texts, and its reason is one of those allowed."""
    before = len(errors)
    for name in ("message", "messageExpression", "reason", "fieldPath"):
        value = rule.get(name)
        if value is not None and not isinstance(value, str):
            errors.append(invalid(f"{path}.{name}", value, "must be a string"))
    reason = rule.get("reason")
    if isinstance(reason, str) and reason and reason not in REASONS:
        errors.append(not_supported(f"{path}.reason", reason, REASONS))
    return len(errors) == before


def _check_message(text: str, type_: Type, path: str, errors: Report) -> None:
    try:
        compile_rule(text, type_, gives="string")
    except CompileError as error:
        detail = f"messageExpression compilation failed: {error}"
        errors.append(invalid(f"{path}.messageExpression", text, detail))


def _structure(schema: JSON, path: str) -> list[tuple[JSON, str]]:
    """The schemas of an object's members and a list's items, with their paths."""
    properties = schema.get("properties") or {}
    found = [(inner, f"{path}.properties[{name}]") for name, inner in properties.items()]
    inner = [
        name for name in ("additionalProperties", "items") if isinstance(schema.get(name), dict)
    ]
    return [*found, *((schema[name], f"{path}.{name}") for name in inner)]
