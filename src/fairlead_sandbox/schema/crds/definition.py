"""Validation of names, scope and conversion of a CustomResourceDefinition.

Messages and paths into schemas are those of kube-apiserver 1.37,
which name the version (``spec.versions[0].schema.openAPIV3Schema``).
"""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON
from fairlead_sandbox.schema.crds.versions import check_versions
from fairlead_sandbox.schema.effort import CRD_LIMIT, Effort, ExhaustedError, Report
from fairlead_sandbox.schema.errors import FieldError, invalid, not_supported, required
from fairlead_sandbox.schema.names import dns1035_label, dns1123_subdomain


_APPROVAL = "api-approved.kubernetes.io"
"""Annotation that groups of Kubernetes itself need."""
_MIXED = "may have mixed case, but should otherwise match: "


def validate_crd(crd: JSON, old: JSON | None = None) -> list[FieldError]:
    """Return the errors of a CRD whose names are defaulted.

    Args:
        crd: the CustomResourceDefinition (apiextensions.k8s.io/v1).
        old: the CRD that it replaces, whose group, scope and names may not change.
    """
    errors = Report(Effort(CRD_LIMIT))
    try:
        _check(crd, old, errors)
    except ExhaustedError as error:
        return [*errors, error.error()]
    return errors


def _check(crd: JSON, old: JSON | None, errors: Report) -> None:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    _check_name(crd, spec, names, errors)
    _check_group(crd, spec, errors)
    if not spec.get("scope"):
        errors.append(required("spec.scope"))
    elif spec["scope"] not in {"Cluster", "Namespaced"}:
        errors.append(not_supported("spec.scope", spec["scope"], ["Cluster", "Namespaced"]))
    check_versions(spec, errors)
    _check_names(names, errors)
    _check_conversion(spec, errors)
    _check_stored(crd, spec, errors)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        errors.append(invalid("spec.preserveUnknownFields", True, detail))
    if old is not None:
        _check_immutable(spec, old.get("spec") or {}, errors)


def complete_crd(crd: JSON) -> None:
    """Default, in place, the names and the conversion of a CRD, as in apiextensions-apiserver."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return
    names = spec.get("names")
    if isinstance(names, dict) and isinstance(names.get("kind"), str) and names["kind"]:
        names["singular"] = names.get("singular") or names["kind"].lower()
        names["listKind"] = names.get("listKind") or f"{names['kind']}List"
    if not spec.get("conversion"):
        spec["conversion"] = {"strategy": "None"}


def _check_name(crd: JSON, spec: JSON, names: JSON, errors: Report) -> None:
    name = (crd.get("metadata") or {}).get("name", "")
    wrong = dns1123_subdomain(name) if name else ""
    if not name:
        errors.append(required("metadata.name", "name or generateName is required"))
    elif wrong:
        errors.append(invalid("metadata.name", name, wrong))
    if name and name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        detail = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", name, detail))


def _check_group(crd: JSON, spec: JSON, errors: Report) -> None:
    group = spec.get("group", "")
    if not group:
        errors.append(required("spec.group"))
        return
    wrong = dns1123_subdomain(group)
    if wrong:
        errors.append(invalid("spec.group", group, wrong))
    elif "." not in group:
        errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    protected = group.endswith((".k8s.io", ".kubernetes.io")) or group in {
        "k8s.io",
        "kubernetes.io",
    }
    annotations = (crd.get("metadata") or {}).get("annotations") or {}
    if protected and not annotations.get(_APPROVAL):
        detail = (
            f'protected groups must have approval annotation "{_APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        errors.append(required(f"metadata.annotations[{_APPROVAL}]", detail))


def _check_names(names: JSON, errors: Report) -> None:
    for name in ("plural", "singular", "kind", "listKind"):
        field, value = f"spec.names.{name}", names.get(name, "")
        if not value:
            errors.append(required(field))
            continue
        mixed = name in {"kind", "listKind"}
        wrong = dns1035_label(value.lower() if mixed else value)
        if wrong:
            errors.append(invalid(field, value, f"{_MIXED}{wrong}" if mixed else wrong))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        errors.append(invalid("spec.names.listKind", names["listKind"], detail))
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name) or ()):
            wrong = dns1035_label(value)
            if wrong:
                errors.append(invalid(f"spec.names.{name}[{index}]", value, wrong))


def _check_conversion(spec: JSON, errors: Report) -> None:
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if strategy not in {"None", "Webhook"}:
        field = "spec.conversion.strategy"
        errors.append(not_supported(field, strategy, ["None", "Webhook"]))
    elif strategy == "Webhook":
        field = "spec.conversion.strategy"
        errors.append(
            invalid(field, strategy, "conversion webhooks are not supported by this server")
        )


def _check_stored(crd: JSON, spec: JSON, errors: Report) -> None:
    served = {version.get("name") for version in spec.get("versions") or ()}
    for index, name in enumerate((crd.get("status") or {}).get("storedVersions") or ()):
        if name not in served:
            field = f"status.storedVersions[{index}]"
            # Objects may still be stored in this version. Its name leaves storedVersions only by a
            # write of the CRD's status.
            errors.append(invalid(field, name, "must appear in spec.versions"))


def _check_immutable(spec: JSON, old: JSON, errors: Report) -> None:
    pairs: list[tuple[str, Any, Any]] = [
        (f"spec.{name}", spec.get(name), old.get(name)) for name in ("group", "scope")
    ]
    names, old_names = spec.get("names") or {}, old.get("names") or {}
    pairs += [(f"spec.names.{name}", names.get(name), old_names.get(name)) for name in _FIXED]
    for field, value, before in pairs:
        if value != before:
            errors.append(invalid(field, value, "field is immutable"))


_FIXED = ("kind", "plural")
"""Names that are immutable."""
