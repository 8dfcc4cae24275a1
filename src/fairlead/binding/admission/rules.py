"""Validation rules of bindings and mappings; each returns the refusal, or ""."""

from __future__ import annotations

from typing import Any

from fairlead.api.jsonpath.nodes import JSONPathError, Path
from fairlead.api.jsonpath.parse import parse
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.common import EXCLUSIVE, IMMUTABLE, READY
from fairlead.binding.expressions.fixedpath import fixed_path


_FIXED = ("name", "env", "volumeMounts")
_TEMPLATE_FIXED = ("annotations", "volumes")


def coreos_binding(new: JSON, old: JSON | None) -> str:
    """Validate a binding of binding.operators.coreos.com.

    It may name workloads in one way only, and may not change while it is Ready.
    """
    if (
        # No update of the main resource changes the status: the new object has the stored one.
        old is not None
        and _is_ready(new)
        and not _same(_member(new, "spec"), _member(old, "spec"))
    ):
        return IMMUTABLE
    application = _member(_member(new, "spec"), "application")
    return _exclusive(application, "labelSelector")


def spec_binding(new: JSON, old: JSON | None) -> str:
    """Validate a binding of servicebinding.io: it may name workloads in one way only."""
    return _exclusive(_member(_member(new, "spec"), "workload"), "selector")


def mapping(new: JSON, old: JSON | None) -> str:
    """Validate a ClusterWorkloadResourceMapping: distinct versions and valid paths."""
    names: set[str] = set()
    for index, template in enumerate(_objects(_member(new, "spec"), "versions")):
        path = f"spec.versions[{index}]"
        version = template.get("version")
        if not isinstance(version, str) or not version.strip():
            return f"{path}.version is blank: name a version, or * for all others"
        if version in names:
            return f"{path}.version {version} is there twice: give one template for each version"
        names.add(version)
        wrong = _fixed(template, _TEMPLATE_FIXED, path) or _containers(template, path)
        if wrong:
            return wrong
    return ""


def _exclusive(reference: JSON, selector: str) -> str:
    # An empty selector counts, too: it selects all workloads.
    both = reference.get("name") and reference.get(selector) is not None
    return EXCLUSIVE if both else ""


def _is_ready(binding: JSON) -> bool:
    conditions = _objects(_member(binding, "status"), "conditions")
    return any(one.get("type") == READY and one.get("status") == "True" for one in conditions)


def _same(value: Any, other: Any) -> bool:
    """Whether two specs are equal, with empty fields counted as absent."""
    return bool(_comparable(value) == _comparable(other))


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {name: _comparable(item) for name, item in value.items()}
        # Clients with typed structs write the empty fields that others leave out.
        return {
            name: item for name, item in fields.items() if item not in (None, "", [], {}, False)
        }
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    return value


def _containers(template: JSON, path: str) -> str:
    for index, container in enumerate(_objects(template, "containers")):
        place = f"{path}.containers[{index}]"
        expression = container.get("path")
        if not isinstance(expression, str) or not expression.strip():
            return f"{place}.path is blank: give the JSONPath of the containers"
        try:
            nodes = parse(f"{{{expression}}}")
        except JSONPathError as error:
            return f"{place}.path cannot be read: {error}"
        if len(nodes) != 1 or not isinstance(nodes[0], Path):
            return f"{place}.path is not a single JSONPath: {expression}"
        wrong = _fixed(container, _FIXED, place)
        if wrong:
            return wrong
    return ""


def _fixed(owner: JSON, members: tuple[str, ...], path: str) -> str:
    for name in members:
        expression = owner.get(name)
        if not expression:
            continue
        try:
            fixed_path(str(expression))
        except JSONPathError as error:
            return f"{path}.{name}: {error}"
    return ""


def _member(owner: JSON, name: str) -> JSON:
    value = owner.get(name)
    return value if isinstance(value, dict) else {}


def _objects(owner: JSON, name: str) -> list[JSON]:
    value = owner.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
