"""Refuses roles and bindings that grant more than their author holds.

The verb ``escalate`` on a role, or ``bind`` on the role of a binding, lifts this. Source:
"Privilege escalation prevention" of the RBAC documentation.
"""

from __future__ import annotations

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import MASTERS, Authorizer
from fairlead_sandbox.auth.bootstrap import RBAC
from fairlead_sandbox.auth.index import RbacIndex
from fairlead_sandbox.auth.rules import (
    RequestAttributes,
    Rule,
    TooManyPartsError,
    parse_rules,
    quoted,
    uncovered,
)
from fairlead_sandbox.errors import QualifiedResource
from fairlead_sandbox.objects.core import Operation, User


_EVERYTHING = [Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",))]


class EscalationCheck:
    """The admission check of roles and bindings."""

    def __init__(self, index: RbacIndex, authorizer: Authorizer) -> None:
        self._index = index
        self._authorizer = authorizer

    def __call__(self, operation: Operation) -> None:
        """Refuse a write that would grant more than its user holds.

        Raises:
            StatusError: 403, or 404 for a binding to a role that does not exist.
        """
        user, body = operation.user, operation.body
        if operation.type.resource.group != RBAC or operation.verb == "delete":
            return
        if user is None or body is None or MASTERS in user.groups:
            return
        plural = operation.type.resource.plural
        if plural in {"roles", "clusterroles"}:
            self._check_role(operation, user, body)
        else:
            self._check_binding(operation, user, body)

    def _check_role(self, operation: Operation, user: User, body: JSON) -> None:
        resource, key = operation.type.group_resource, operation.key
        old = operation.old.to_dict() if operation.old else {}
        attributes = RequestAttributes(
            "escalate", RBAC, resource.resource, key.namespace, key.name
        )
        if self._authorizer.decide(user, attributes).allowed:
            return
        aggregation = body.get("aggregationRule")
        # An aggregationRule can collect any rule later, so only a user who holds all rules may
        # write it.
        if aggregation and aggregation != old.get("aggregationRule"):
            granted = self._authorizer.rules(user, "")
            if uncovered(granted.rules, _EVERYTHING):
                text = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(resource, key.name, text)
        # A user who holds less than the rules of a role may still change its labels.
        if operation.old and (body.get("rules") or []) == (old.get("rules") or []):
            return
        self._confirm(resource, key, user, parse_rules(body))

    def _check_binding(self, operation: Operation, user: User, body: JSON) -> None:
        resource, key = operation.type.group_resource, operation.key
        reference = body.get("roleRef") or {}
        kind, role = reference.get("kind", ""), reference.get("name", "")
        # An update of labels grants nothing, so it needs no rights to what the binding granted
        # before.
        if operation.old and _unchanged(body, operation.old.to_dict()):
            return
        target = names.ROLES if kind == "Role" else names.CLUSTERROLES
        attributes = RequestAttributes("bind", RBAC, target.plural, key.namespace, role)
        if self._authorizer.decide(user, attributes).allowed:
            return
        rules = self._index.rules(Key(key.namespace if kind == "Role" else "", role))
        if rules is None:
            raise errors.not_found(resource, role)
        self._confirm(resource, key, user, rules)

    def _confirm(
        self, resource: QualifiedResource, key: Key, user: User, rules: tuple[Rule, ...]
    ) -> None:
        granted = self._authorizer.rules(user, key.namespace)
        try:
            missing = uncovered(granted.rules, rules)
        except TooManyPartsError as error:
            text = (
                f"{error}, more than can be compared with the user's rights: write fewer at once"
            )
            raise errors.forbidden(resource, key.name, text) from None
        if not missing:
            return
        text = (
            f'user "{user.name}" (groups={quoted(user.groups)}) is attempting to grant RBAC '
            "permissions not currently held:\n" + "\n".join(map(str, missing))
        )
        if granted.problems:
            text += f"; resolution errors: [{', '.join(granted.problems)}]"
        raise errors.forbidden(resource, key.name, text)


def _unchanged(body: JSON, old: JSON) -> bool:
    """Whether a binding still grants the same role to the same subjects."""
    same_role = (body.get("roleRef") or {}).get("name") == old["roleRef"].get("name")
    return same_role and _subjects(body) == _subjects(old)


def _subjects(body: JSON) -> list[tuple[str, ...]]:
    fields = ("kind", "namespace", "name")
    subjects = body.get("subjects") or []
    return [tuple(str(one.get(field) or "") for field in fields) for one in subjects]
