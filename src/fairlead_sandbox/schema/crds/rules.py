"""Validation of the defaults and CEL rules of a structural schema, with the cost of the rules.

A rule's estimated cost is its worst evaluation times the number of values that the schema allows;
without limits in the schema, as many values as fit into the largest request. Source: "Resource
use by validation functions" in the CRD documentation; messages of kube-apiserver 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.cel import CompileError, Declaration, Program, compile_rule, declare
from fairlead_sandbox.schema.cel.costs import capped
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import (
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
)
from fairlead_sandbox.schema.objects.defaults import compile_defaulter
from fairlead_sandbox.schema.objects.lists import compile_list_check
from fairlead_sandbox.schema.objects.prune import compile_pruner
from fairlead_sandbox.schema.objects.rules import (
    REASONS,
    compile_rules,
    field_path,
    inner_schemas,
)
from fairlead_sandbox.schema.objects.values import compile_check


# StaticEstimatedCostLimit in k8s.io/apiextensions-apiserver.
PER_RULE = 10_000_000
"""Maximum estimated cost of a rule for all values in one object, in cost units."""
# StaticEstimatedCRDCostLimit in k8s.io/apiextensions-apiserver.
PER_SCHEMA = 100_000_000
"""Maximum estimated cost of all rules of a schema, in cost units."""
_SHOWN = 4
"""Maximum number of rules that the error of a schema's cost names, most expensive first."""


def check_defaults(schema: JSON, path: str, errors: Report) -> None:
    """Report defaults that their own schema would refuse or prune."""
    if schema.get("default") is not None:
        with errors.effort.timed():
            _check_default(schema, f"{path}.default", errors)
    for keyword, name, inner, _ in inner_schemas(schema, None):
        check_defaults(inner, _inside(path, keyword, name), errors)


def _inside(path: str, keyword: str, name: str) -> str:
    return f"{path}.{keyword}[{name}]" if name else f"{path}.{keyword}"


def _check_default(schema: JSON, path: str, errors: Report) -> None:
    value = deepcopy(schema["default"])
    pruner, defaulter = compile_pruner(schema), compile_defaulter(schema)
    if pruner is not None:
        pruner(value)
        if value != schema["default"]:
            errors.append(invalid(path, schema["default"], "must not have unknown fields"))
            return
    if defaulter is not None:
        defaulter(value)
    report = Report(errors.effort)
    for check in (compile_check(schema), compile_list_check(schema)):
        if check is not None:
            check(value, "", report)
    _check_by_rules(schema, value, report)
    for error in report:
        field = error.field.removeprefix("<nil>")
        dot = "" if not field or field.startswith("[") else "."
        errors.append(error._replace(field=f"{path}{dot}{field}"))


def _check_by_rules(schema: JSON, value: Any, report: Report) -> None:
    if report:
        return
    try:
        check = compile_rules(schema, root=False)
    except CompileError:
        # check_rules reports the rule itself.
        return
    if check is not None:
        check(value, None, report)


def check_rules(schema: JSON, path: str, errors: Report) -> None:
    """Report rules that do not compile, that can never see an old value, or that cost too much."""
    costs: list[tuple[int, str]] = []
    place = _Place(schema, declare(schema, root=True), path, 1, "")
    for inner in _places(place):
        for index, rule in enumerate(inner.schema.get("x-kubernetes-validations") or ()):
            at = f"{inner.path}.x-kubernetes-validations[{index}]"
            with errors.effort.timed():
                costs += _check_rule(rule, inner, at, errors)
    total = capped(sum(cost for cost, _ in costs))
    if total <= PER_SCHEMA:
        return
    # As in apiextensions-apiserver, a rule below 1 % of the limit is not worth naming.
    worst = [one for one in costs if one[0] >= PER_SCHEMA // 100]
    for _, at in sorted(worst, key=lambda item: -item[0])[:_SHOWN]:
        text = "contributed to estimated rule cost total exceeding cost limit for entire"
        errors.append(forbidden(at, f"{text} OpenAPIv3 schema"))
    name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    errors.append(forbidden(path, _exceeds(name, total, PER_SCHEMA)))


class _Place(NamedTuple):
    """A schema inside the root schema.

    ``often`` is the most values of it in one object, None for no limit. ``uncorrelated`` is the
    path of the list around it whose items cannot be matched with old ones.
    """

    schema: JSON
    declared: Declaration | None
    path: str
    often: int | None
    uncorrelated: str


def _places(place: _Place) -> Iterator[_Place]:
    yield place
    often = _times(place.often, place.schema)
    for keyword, name, inner, declared in inner_schemas(place.schema, place.declared):
        lost = place.uncorrelated
        if keyword == "items" and place.schema.get("x-kubernetes-list-type") != "map":
            # Items of other lists have no identity, so an old item cannot be found for a new one.
            # The outermost such list is named.
            lost = lost or place.path
        path = _inside(place.path, keyword, name)
        yield from _places(_Place(inner, declared, path, often, lost))


def _times(often: int | None, schema: JSON) -> int | None:
    """Return the maximum number of inner values in one object; None without a limit."""
    most: int | None = 1
    if schema.get("type") == "array":
        most = schema.get("maxItems")
    elif schema.get("type") == "object" and schema.get("additionalProperties"):
        most = schema.get("maxProperties")
    return None if often is None or most is None else capped(often * max(most, 0))


def _check_rule(rule: Any, place: _Place, at: str, errors: Report) -> Iterator[tuple[int, str]]:
    """Report a rule's errors; yield the worst cost and path of the rule and of its message."""
    before = len(errors)
    _check_texts(rule, place.schema, at, errors)
    if len(errors) > before:
        return
    if place.declared is None:
        text = "internal error: failed to construct type information for x-kubernetes-validations"
        detail = f"{text} rules: unable to convert structural schema to CEL declarations"
        errors.append(internal(at.rpartition("[")[0], detail))
        return
    optional = bool(rule.get("optionalOldSelf"))
    try:
        program = compile_rule(rule["rule"], place.declared, optional=optional)
    except CompileError as error:
        errors.append(invalid(f"{at}.rule", rule["rule"], str(error)))
        return
    cost = _cost(program, place.often)
    yield cost, f"{at}.rule"
    if cost > PER_RULE:
        text = _exceeds("estimated rule cost", cost, PER_RULE)
        errors.append(forbidden(f"{at}.rule", text))
    _check_transition(rule, program, place, at, errors)
    if rule.get("messageExpression"):
        yield from _check_message(rule, place.declared, at, errors)


def _cost(program: Program, often: int | None) -> int:
    return capped(program.cost * (program.cardinality if often is None else often))


def _exceeds(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        shown = "more than 100x"
    else:
        # With one digit a factor just above 1 would read 1.0x, as if the limit were kept.
        shown = f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    remedy = (
        "try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
        "maps, and strings are declared"
    )
    return f"{name} exceeds budget by factor of {shown} ({remedy})"


def _check_transition(
    rule: JSON, program: Program, place: _Place, at: str, errors: Report
) -> None:
    if program.transition and place.uncorrelated:
        text = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
        errors.append(invalid(f"{at}.rule", rule["rule"], f"{text} {place.uncorrelated}"))
    if not program.transition and rule.get("optionalOldSelf") is not None:
        detail = "may not be set if oldSelf is not used in rule"
        errors.append(invalid(f"{at}.optionalOldSelf", rule["optionalOldSelf"], detail))


def _check_message(
    rule: JSON, declared: Declaration, at: str, errors: Report
) -> Iterator[tuple[int, str]]:
    text, optional = rule["messageExpression"], bool(rule.get("optionalOldSelf"))
    try:
        program = compile_rule(text, declared, gives="string", optional=optional)
    except CompileError as error:
        detail = str(error)
        if not detail.startswith("messageExpression"):
            detail = f"messageExpression {detail}"
        errors.append(invalid(f"{at}.messageExpression", text, detail))
        return
    yield program.cost, f"{at}.messageExpression"
    if program.cost > PER_RULE:
        detail = _exceeds("estimated messageExpression cost", program.cost, PER_RULE)
        errors.append(forbidden(f"{at}.messageExpression", detail))


_TEXTS = ("rule", "message", "messageExpression", "reason", "fieldPath")


def _check_texts(rule: Any, schema: JSON, at: str, errors: Report) -> None:
    """Report errors in a rule's members, before the rule is parsed."""
    given = rule if isinstance(rule, dict) else {}
    for name in _TEXTS:
        value = given.get(name)
        if value is not None and not isinstance(value, str):
            errors.append(invalid(f"{at}.{name}", value, "must be a string"))
            return
    text, message = (given.get("rule") or "").strip(), given.get("message") or ""
    if not text:
        errors.append(required(f"{at}.rule", "rule is not specified"))
    elif message and not message.strip():
        errors.append(invalid(f"{at}.message", message, "must be non-empty if specified"))
    elif _breaks(message.strip()):
        errors.append(invalid(f"{at}.message", message, "must not contain line breaks"))
    elif _breaks(text) and not message:
        detail = "message must be specified if rule contains line breaks"
        errors.append(required(f"{at}.message", detail))
    expression = given.get("messageExpression") or ""
    if expression and not expression.strip():
        detail = "messageExpression must be non-empty if specified"
        errors.append(required(f"{at}.messageExpression", detail))
    if given.get("reason") and given["reason"] not in REASONS:
        errors.append(not_supported(f"{at}.reason", given["reason"], REASONS))
    _check_field_path(given.get("fieldPath") or "", schema, f"{at}.fieldPath", errors)


def _breaks(text: str) -> bool:
    return "\n" in text or "\r" in text


def _check_field_path(text: str, schema: JSON, at: str, errors: Report) -> None:
    if text and not text.strip():
        errors.append(invalid(at, text, "must be non-empty if specified"))
    if _breaks(text):
        errors.append(invalid(at, text, "must not contain line breaks"))
    try:
        field_path(text, schema)
    except ValueError:
        errors.append(invalid(at, text, "must be a valid path"))
