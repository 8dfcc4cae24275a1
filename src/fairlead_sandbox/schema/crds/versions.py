"""Validation of a CRD's versions: schema, printer columns and subresources of each."""

from __future__ import annotations

import re
from typing import Any

from fairlead.api.jsonpath import JSONPath, JSONPathError
from fairlead.api.meta import JSON
from fairlead_sandbox.schema.crds.rules import check_defaults, check_rules
from fairlead_sandbox.schema.crds.structural import check_structural
from fairlead_sandbox.schema.effort import Report
from fairlead_sandbox.schema.errors import FieldError, forbidden, invalid, required
from fairlead_sandbox.schema.names import dns1035_label


MAX_DEPTH = 100
"""Maximum nesting of a schema's JSON; compiling takes a few stack frames for each level."""

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
# Paths of scale name single fields, so they have no indices or filters.
_SIMPLE_PATH = re.compile(r"(\.[A-Za-z_][A-Za-z0-9_-]*)+")


def check_versions(spec: JSON, errors: Report) -> None:
    """Report the errors in ``spec.versions``."""
    versions = spec.get("versions") or []
    if not isinstance(versions, list) or not all(isinstance(one, dict) for one in versions):
        errors.append(invalid("spec.versions", versions, "must be a list of versions"))
        return
    names = [version.get("name", "") for version in versions]
    for index, version in enumerate(versions):
        _check_version(version, f"spec.versions[{index}]", errors)
    if len(set(names)) < len(names):
        errors.append(_invalid_versions(names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(_invalid_versions(names, detail))


def _invalid_versions(names: list[str], detail: str) -> FieldError:
    shown = ", ".join(f'"{name}"' for name in names)
    return FieldError("FieldValueInvalid", f"Invalid value: [{shown}]: {detail}", "spec.versions")


def _check_version(version: JSON, path: str, errors: Report) -> None:
    wrong = dns1035_label(version.get("name") or "")
    if wrong:
        errors.append(invalid(f"{path}.name", version.get("name") or "", wrong))
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    at = f"{path}.schema.openAPIV3Schema"
    if not isinstance(schema, dict) or not schema:
        errors.append(required(at, "schemas are required"))
    else:
        _check_schema(schema, at, errors)
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        _check_column(column, f"{path}.additionalPrinterColumns[{index}]", errors)
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        _check_scale(scale, f"{path}.subresources.scale", errors)


def _too_deep(schema: JSON) -> bool:
    # Level by level: on a schema that is too deep recursion itself would fail.
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _check_schema(schema: JSON, path: str, errors: Report) -> None:
    if _too_deep(schema):
        detail = f"must not nest deeper than {MAX_DEPTH} levels of JSON on this server"
        errors.append(forbidden(path, detail))
        return
    # Only a structural schema can be compiled, which the checks of defaults and rules need.
    if check_structural(schema, path, errors):
        check_defaults(schema, path, errors)
        check_rules(schema, path, errors)


def _check_column(column: JSON, path: str, errors: Report) -> None:
    one_of = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column.get("name"):
        errors.append(required(f"{path}.name"))
    if not column.get("type"):
        errors.append(required(f"{path}.type", one_of))
    elif column["type"] not in _COLUMN_TYPES:
        errors.append(invalid(f"{path}.type", column["type"], one_of))
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
        errors.append(invalid(f"{path}.format", column["format"], detail))
    _check_column_path(column.get("jsonPath") or "", f"{path}.jsonPath", errors)


def _check_column_path(text: str, path: str, errors: Report) -> None:
    if not text:
        errors.append(required(path))
        return
    if not text.startswith((".", "[")):
        errors.append(invalid(path, text, "must be a simple json path starting with ."))
        return
    try:
        JSONPath(f"{{{text}}}")
    except JSONPathError as error:
        errors.append(invalid(path, text, f"is not supported: {error}"))


def _check_scale(scale: JSON, path: str, errors: Report) -> None:
    roots = {
        "specReplicasPath": ("should be a json path under .spec", (".spec.",)),
        "statusReplicasPath": ("should be a json path under .status", (".status.",)),
        "labelSelectorPath": (
            "should be a json path under either .spec or .status",
            (".spec.", ".status."),
        ),
    }
    for name, (detail, prefixes) in roots.items():
        text, field = scale.get(name) or "", f"{path}.{name}"
        if not text:
            if name != "labelSelectorPath":
                errors.append(required(field))
        elif not _SIMPLE_PATH.fullmatch(text):
            errors.append(invalid(field, text, "must be a simple json path starting with ."))
        elif not text.startswith(prefixes):
            errors.append(invalid(field, text, detail))
