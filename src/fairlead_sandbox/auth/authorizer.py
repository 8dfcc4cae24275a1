"""RBAC decisions on requests, cached until a role or a binding changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fairlead_sandbox import errors
from fairlead_sandbox.auth.index import RbacIndex
from fairlead_sandbox.auth.rules import RequestAttributes, Rule
from fairlead_sandbox.errors import QualifiedResource, StatusError
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.info import RequestInfo


MASTERS = "system:masters"
"""Group whose members may do everything; RBAC is not asked, as in kube-apiserver."""
_CACHE_SIZE = 20_000
"""Maximum number of cached decisions; a full cache is emptied."""


class Decision(NamedTuple):
    """Whether a request is allowed; the reason is added to a refusal's message."""

    allowed: bool
    reason: str = ""


_YES = Decision(True)


class HeldRules(NamedTuple):
    """The rules that a user holds, and the errors met while they were gathered."""

    rules: list[Rule]
    problems: list[str]


class Authorizer(Protocol):
    """Decides which requests a user may make."""

    def decide(self, user: User, attributes: RequestAttributes) -> Decision:
        """Return whether the user may make the request."""

    def rules(self, user: User, namespace: str) -> HeldRules:
        """Return the rules of the user in a namespace ("" for the cluster)."""


class AlwaysAllow:
    """Allows every request of every user."""

    def decide(self, user: User, attributes: RequestAttributes) -> Decision:
        """Allow the request."""
        return _YES

    def rules(self, user: User, namespace: str) -> HeldRules:
        """Return the rules that allow all verbs on all resources and paths."""
        everything = Rule(verbs=("*",), groups=("*",), resources=("*",))
        return HeldRules([everything, Rule(verbs=("*",), urls=("*",))], [])


class _Known(NamedTuple):
    """A cached decision on all objects of one kind, except those that rules name.

    ``by_name`` maps the name of an allowed object to the reason.
    """

    decision: Decision
    by_name: dict[str, str]


class Rbac:
    """Role-based access control; members of system:masters may do everything."""

    def __init__(self, index: RbacIndex) -> None:
        self._index = index
        self._cache: dict[tuple[str, tuple[str, ...], RequestAttributes], _Known] = {}
        index.on_change(self._cache.clear)

    def decide(self, user: User, attributes: RequestAttributes) -> Decision:
        """Return whether a rule that reaches the user allows the request."""
        if MASTERS in user.groups:
            return _YES
        # The key has no object name: the cache grows with the kinds, not with the objects.
        kind = attributes._replace(name="") if attributes.name else attributes
        # Bindings name users and groups alone; uid and extra fields of a user decide nothing.
        key = (user.name, user.groups, kind)
        decision = self._cache.get(key)
        if decision is None:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            decision = self._cache[key] = self._evaluate(user, kind)
        if not decision.decision.allowed and attributes.name in decision.by_name:
            return Decision(True, decision.by_name[attributes.name])
        return decision.decision

    def _evaluate(self, user: User, attributes: RequestAttributes) -> _Known:
        by_name: dict[str, str] = {}
        missing: list[str] = []
        for grant in self._index.grants(user, attributes.namespace):
            if grant.rules is None:
                missing.append(f"{grant.role} not found")
                continue
            for rule in grant.rules:
                # RBAC has no rules that deny, so the first rule that matches decides.
                if rule.matches(attributes):
                    if not rule.names:
                        return _Known(Decision(True, grant.reason), {})
                    by_name |= dict.fromkeys(rule.names, grant.reason)
        return _Known(Decision(False, _problems(missing)), by_name)

    def rules(self, user: User, namespace: str) -> HeldRules:
        """Return the rules of every binding that reaches the user."""
        grants = list(self._index.grants(user, namespace))
        rules = [rule for grant in grants for rule in grant.rules or ()]
        return HeldRules(rules, [f"{one.role} not found" for one in grants if one.rules is None])


def _problems(missing: Sequence[str]) -> str:
    if not missing:
        return ""
    return f"RBAC: {missing[0]}" if len(missing) == 1 else f"RBAC: [{', '.join(missing)}]"


def attributes(info: RequestInfo) -> RequestAttributes:
    """Return the attributes that authorization decides a request by."""
    if not info.is_resource:
        return RequestAttributes(info.verb, path=info.path)
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    # A list or watch with the field selector metadata.name=x counts as a request for x, so that a
    # rule with resourceNames can allow it
    # (https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources).
    return RequestAttributes(
        info.verb, info.group, resource, info.namespace, info.name or info.selected_name
    )


def forbidden(user: User, info: RequestInfo, reason: str) -> StatusError:
    """Return the 403 of a refused request, worded as kube-apiserver words it."""
    if not info.is_resource:
        text = f'User "{user.name}" cannot {info.verb} path "{info.path}"'
        text = f"{text}: {reason}" if reason else text
        details: dict[str, str] = {}
        return StatusError(403, "Forbidden", f"forbidden: {text}", details=details)
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    text = (
        f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group "{info.group}"'
    )
    if info.namespace:
        text += f' in the namespace "{info.namespace}"'
    else:
        text += " at the cluster scope"
    if reason:
        text += f": {reason}"
    return errors.forbidden(QualifiedResource(info.group, info.resource), info.name, text)
