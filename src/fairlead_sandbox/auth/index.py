"""Index of roles and bindings by subject; the store's changes keep it current."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead_sandbox.auth.rules import Rule, parse_rules
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.storage.records import Change, Record
from fairlead_sandbox.storage.store import ObjectStore


_ROLES = {names.ROLES.group_resource, names.CLUSTERROLES.group_resource}
_BINDINGS = {names.ROLEBINDINGS.group_resource, names.CLUSTERROLEBINDINGS.group_resource}


class RbacGrant(NamedTuple):
    """A binding that reaches a user: its rules (None if the role is missing) and the reason."""

    rules: tuple[Rule, ...] | None
    reason: str
    role: str
    """The role as a message names it: ``clusterrole.rbac.authorization.k8s.io "x"``."""


class _RoleBinding(NamedTuple):
    key: Key
    subjects: dict[str, str]
    role_kind: str
    role: Key


class RbacIndex:
    """The roles and bindings of the cluster, by the subject that they grant rules to."""

    def __init__(self, store: ObjectStore) -> None:
        self._roles: dict[Key, tuple[Rule, ...]] = {}
        self._bindings: dict[Key, _RoleBinding] = {}
        self._by_subject: dict[tuple[str, str], dict[Key, _RoleBinding]] = {}
        self._listeners: list[Callable[[], None]] = []
        for collection in store.collections():
            if collection.name in _ROLES | _BINDINGS:
                for record in collection.list():
                    self._put(collection.name, record)
        store.observe(self._observe)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` after each change of a role or binding."""
        self._listeners.append(listener)

    def rules(self, key: Key) -> tuple[Rule, ...] | None:
        """Return the rules of a Role, or of a ClusterRole if the key has no namespace."""
        return self._roles.get(key)

    def grants(self, user: User, namespace: str) -> Iterator[RbacGrant]:
        """Yield the grants of a user in a namespace, those of the whole cluster first."""
        subjects = [f"User:{user.name}", *(f"Group:{group}" for group in user.groups)]
        # A request without a namespace has one scope alone.
        for scope in dict.fromkeys(("", namespace)):
            for subject in subjects:
                for binding in self._by_subject.get((scope, subject), {}).values():
                    yield self._grant(binding, subject)

    def _grant(self, binding: _RoleBinding, subject: str) -> RbacGrant:
        namespace, name = binding.key
        kind = "RoleBinding" if namespace else "ClusterRoleBinding"
        # kube-apiserver writes the name before the namespace in these reasons.
        shown = f"{name}/{namespace}" if namespace else name
        role = binding.role.name
        reason = (
            f'RBAC: allowed by {kind} "{shown}" of {binding.role_kind} "{role}" '
            f"to {binding.subjects[subject]}"
        )
        named = f'{binding.role_kind.lower()}.rbac.authorization.k8s.io "{role}"'
        return RbacGrant(self._roles.get(binding.role), reason, named)

    def _observe(self, change: Change) -> None:
        if change.collection not in _ROLES and change.collection not in _BINDINGS:
            return
        if change.type == "DELETED":
            self._remove(change.collection, change.record.key)
        else:
            self._put(change.collection, change.record)
        for listener in self._listeners:
            listener()

    def _put(self, collection: str, record: Record) -> None:
        body = record.to_dict()
        if collection in _ROLES:
            self._roles[record.key] = parse_rules(body)
            return
        self._remove(collection, record.key)
        binding = _binding(record.key, body)
        self._bindings[record.key] = binding
        for subject in binding.subjects:
            bindings = self._by_subject.setdefault((record.key.namespace, subject), {})
            bindings[record.key] = binding

    def _remove(self, collection: str, key: Key) -> None:
        if collection in _ROLES:
            self._roles.pop(key, None)
            return
        binding = self._bindings.pop(key, None)
        for subject in binding.subjects if binding else ():
            bindings = self._by_subject[key.namespace, subject]
            del bindings[key]
            if not bindings:
                del self._by_subject[key.namespace, subject]


def _binding(key: Key, body: JSON) -> _RoleBinding:
    reference = body.get("roleRef") or {}
    kind, role = reference.get("kind", ""), reference.get("name", "")
    subjects: dict[str, str] = {}
    for subject in body.get("subjects") or ():
        identity, shown = _subject(subject, key.namespace)
        subjects[identity] = shown
    return _RoleBinding(key, subjects, kind, Key(key.namespace if kind == "Role" else "", role))


def _subject(subject: JSON, namespace: str) -> tuple[str, str]:
    kind, name = subject.get("kind", ""), subject.get("name", "")
    if kind != "ServiceAccount":
        return f"{kind}:{name}", f'{kind} "{name}"'
    namespace = subject.get("namespace") or namespace
    # To RBAC a ServiceAccount is the user of this name; a subject without namespace is in that of
    # its binding.
    return f"User:system:serviceaccount:{namespace}:{name}", f'ServiceAccount "{name}/{namespace}"'
