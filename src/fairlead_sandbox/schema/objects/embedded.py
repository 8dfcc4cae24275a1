"""Validation of embedded resources, which are whole Kubernetes objects inside of another."""

from __future__ import annotations

from typing import Any

from fairlead.api.label_names import label_value_errors, qualified_name_errors
from fairlead.api.meta import JSON
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import invalid, required, type_invalid
from fairlead_sandbox.schema.names import dns1035_label
from fairlead_sandbox.schema.objects.scalars import Check, type_name


def compile_embedded_check(schema: JSON, *, root: bool = True) -> Check | None:
    """Return the check of apiVersion, kind and metadata in embedded resources, None without."""
    own = not root and bool(schema.get("x-kubernetes-embedded-resource"))
    items = compile_embedded_check(schema["items"], root=False) if schema.get("items") else None
    members = {
        name: inner
        for name, member in (schema.get("properties") or {}).items()
        if (inner := compile_embedded_check(member, root=False))
    }
    additional = schema.get("additionalProperties")
    other = (
        compile_embedded_check(additional, root=False) if isinstance(additional, dict) else None
    )
    if not (own or items or members or other):
        return None

    def check(value: Any, path: str, errors: Report) -> None:
        if type(value) is list and items is not None:
            for index, item in enumerate(value):
                items(item, f"{path}[{index}]", errors)
        if type(value) is not dict:
            return
        if own:
            _envelope(value, path, errors)
        for name, member in value.items():
            check_member = members.get(name, other)
            if check_member is not None:
                check_member(member, f"{path}.{name}" if path else name, errors)

    return check


def _envelope(value: JSON, path: str, errors: Report) -> None:
    for name, complaint in (("apiVersion", _group_version), ("kind", _kind)):
        given = value.get(name)
        if given is None or given == "":
            errors.append(required(f"{path}.{name}"))
        elif not isinstance(given, str):
            errors.append(type_invalid(f"{path}.{name}", type_name(given), "must be a string"))
        elif wrong := complaint(given):
            errors.append(invalid(f"{path}.{name}", given, wrong))
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        _metadata(metadata, f"{path}.metadata", errors)
    elif metadata is not None:
        detail = "must be an object"
        errors.append(type_invalid(f"{path}.metadata", type_name(metadata), detail))


def _group_version(text: str) -> str:
    return f"unexpected GroupVersion string: {text}" if text.count("/") > 1 else ""


def _kind(text: str) -> str:
    wrong = dns1035_label(text.lower())
    return f"may have mixed case, but should otherwise match: {wrong}" if wrong else ""


def _metadata(metadata: JSON, path: str, errors: Report) -> None:
    labels = metadata.get("labels")
    for key, label in labels.items() if isinstance(labels, dict) else ():
        field = f"{path}.labels"
        errors.extend(invalid(field, key, text) for text in qualified_name_errors(key))
        errors.extend(invalid(field, label, text) for text in label_value_errors(str(label)))
