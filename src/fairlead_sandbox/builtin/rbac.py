"""Defaults and validation of roles and bindings, with kube-apiserver's messages."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.resource import ROLES
from fairlead_sandbox.resources import metadata
from fairlead_sandbox.resources.types import Strategy
from fairlead_sandbox.schema.errors import FieldError, invalid, not_supported, required


RBAC = ROLES.group
_KINDS = ("ServiceAccount", "User", "Group")
"""Kinds of subjects."""


class RoleStrategy(Strategy):
    """Strategy of Roles and ClusterRoles."""

    creates_on_update = True
    name_rule = staticmethod(metadata.path_segment_name)

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def prepare_create(self, body: JSON) -> None:
        """Set missing rules to null, as kube-apiserver writes them."""
        body.setdefault("rules", None)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors of the rules: each needs resources or, in a ClusterRole, paths."""
        errors: list[FieldError] = []
        for index, rule in enumerate(body.get("rules") or ()):
            self._check_rule(rule, f"rules[{index}]", errors)
        return errors

    def _check_rule(self, rule: JSON, path: str, errors: list[FieldError]) -> None:
        if not rule.get("verbs"):
            errors.append(required(f"{path}.verbs"))
        urls, field = rule.get("nonResourceURLs"), f"{path}.nonResourceURLs"
        if urls:
            if self._namespaced:
                detail = "namespaced rules cannot apply to non-resource URLs"
                errors.append(invalid(field, urls, detail))
            elif any(rule.get(name) for name in ("apiGroups", "resources", "resourceNames")):
                detail = "rules cannot apply to both regular resources and non-resource URLs"
                errors.append(invalid(field, urls, detail))
            return
        if not rule.get("apiGroups"):
            detail = "resource rules must supply at least one api group"
            errors.append(required(f"{path}.apiGroups", detail))
        if not rule.get("resources"):
            detail = "resource rules must supply at least one resource"
            errors.append(required(f"{path}.resources", detail))


class RoleBindingStrategy(Strategy):
    """Strategy of RoleBindings and ClusterRoleBindings."""

    creates_on_update = True
    name_rule = staticmethod(metadata.path_segment_name)

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced

    def prepare_create(self, body: JSON) -> None:
        """Set the API groups that subjects and roleRef may omit."""
        reference = body.setdefault("roleRef", {})
        if isinstance(reference, dict) and not reference.get("apiGroup"):
            reference["apiGroup"] = RBAC
        for subject in body.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
                subject["apiGroup"] = RBAC

    def prepare_update(self, body: JSON, old: JSON) -> None:
        """Set the API groups that subjects and roleRef may omit."""
        self.prepare_create(body)

    def validate(self, body: JSON, old: JSON | None) -> list[FieldError]:
        """Return the errors in roleRef, which is immutable, and in the subjects."""
        reference = body["roleRef"]
        errors = self._check_reference(reference)
        for index, subject in enumerate(body.get("subjects") or ()):
            errors += self._check_subject(subject, f"subjects[{index}]")
        # So that a user who may update the subjects of a binding cannot change the role that they
        # get ("RoleBinding and ClusterRoleBinding" of the RBAC documentation).
        if old is not None and old["roleRef"] != reference:
            # The internal type of kube-apiserver has no JSON names.
            shown = {
                "APIGroup": reference.get("apiGroup", ""),
                "Kind": reference.get("kind", ""),
                "Name": reference.get("name", ""),
            }
            errors.append(invalid("roleRef", shown, "field is immutable"))
        return errors

    def _check_reference(self, reference: JSON) -> list[FieldError]:
        kinds = ("Role", "ClusterRole") if self._namespaced else ("ClusterRole",)
        errors = []
        if reference.get("apiGroup") != RBAC:
            errors.append(not_supported("roleRef.apiGroup", reference.get("apiGroup"), [RBAC]))
        if reference.get("kind") not in kinds:
            errors.append(not_supported("roleRef.kind", reference.get("kind") or "", kinds))
        if not reference.get("name"):
            errors.append(required("roleRef.name"))
        return errors

    def _check_subject(self, subject: JSON, path: str) -> list[FieldError]:
        kind, group = subject.get("kind") or "", subject.get("apiGroup") or ""
        errors = []
        if not subject.get("name"):
            errors.append(required(f"{path}.name"))
        if kind not in _KINDS:
            errors.append(not_supported(f"{path}.kind", kind, _KINDS))
        elif kind == "ServiceAccount":
            if group:
                errors.append(not_supported(f"{path}.apiGroup", group, [""]))
            if not self._namespaced and not subject.get("namespace"):
                errors.append(required(f"{path}.namespace"))
        elif group != RBAC:
            errors.append(not_supported(f"{path}.apiGroup", group, [RBAC]))
        return errors
