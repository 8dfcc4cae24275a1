"""Selection of the webhooks that a write concerns, by rules, selectors and equivalent versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.errors import QualifiedResource, not_found
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.webhooks.hooks import COLLECTIONS, Hook


NAMESPACES = "namespaces"

Verb = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True)
class ReviewedWrite:
    """A write as admission sees it; the bodies are in the version of ``type``."""

    verb: Verb
    type: ResourceType
    key: Key
    subresource: str
    body: JSON | None
    """The new object; None for a delete."""
    old: JSON | None
    """The old object; None for a create."""

    @property
    def namespace(self) -> str:
        """Namespace of the object; a Namespace counts as being in itself, as in kube-apiserver."""
        if self.type.collection == NAMESPACES:
            return self.key.name
        return self.key.namespace


class Matcher:
    """Finds the version of a resource in which a webhook is asked about a write."""

    def __init__(self, store: ObjectStore, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry

    def match(self, hook: Hook, write: ReviewedWrite) -> ResourceType | None:
        """Return the resource in the version that the webhook wants; None if it does not apply.

        Raises:
            StatusError: the namespace, whose labels are needed, does not exist.
        """
        # As in kube-apiserver, webhooks are never asked about webhook configurations: one that
        # refuses every write could not be removed.
        if write.type.collection in COLLECTIONS or not self._selects(hook, write):
            return None
        rules = hook.spec.get("rules") or []
        if any(_covers(rule, write, write.type) for rule in rules):
            matched: ResourceType | None = write.type
        # matchPolicy is Equivalent by default: a rule for another version of the resource matches
        # too, and the webhook gets the object converted to that version.
        elif hook.spec.get("matchPolicy") == "Exact":
            matched = None
        else:
            matched = next(
                (
                    other
                    for rule in rules
                    for other in self._equivalents(write.type)
                    if _covers(rule, write, other)
                ),
                None,
            )
        if matched is not None and hook.namespaces.requirements:
            labels = self._namespace_labels(write)
            if labels is not None and not hook.namespaces.matches(labels):
                return None
        return matched

    def _equivalents(self, type_: ResourceType) -> Iterator[ResourceType]:
        for other in self._registry.all():
            if other.collection == type_.collection and other is not type_:
                yield other

    def _namespace_labels(self, write: ReviewedWrite) -> Mapping[str, str] | None:
        """Return the namespace's labels; None without a namespace: every selector matches then."""
        if not write.namespace:
            return None
        of_namespace = write.type.collection == NAMESPACES and not write.subresource
        # The labels of a namespace that is being written are in its body, not in the store.
        if of_namespace and write.body is not None:
            return _labels(write.body)
        record = self._store.collection(NAMESPACES).get(Key("", write.namespace))
        if record is None:
            raise not_found(QualifiedResource("", NAMESPACES), write.namespace)
        return record.labels

    @staticmethod
    def _selects(hook: Hook, write: ReviewedWrite) -> bool:
        if not hook.objects.requirements:
            return True
        # objectSelector applies to the new and the old object; one that matches is enough
        # (tests/contract/test_admission.py).
        bodies = [body for body in (write.body, write.old) if body is not None]
        return any(hook.objects.matches(_labels(body)) for body in bodies)


def _labels(body: JSON) -> Mapping[str, str]:
    labels: Mapping[str, str] = (body.get("metadata") or {}).get("labels") or {}
    return labels


def _covers(rule: JSON, write: ReviewedWrite, type_: ResourceType) -> bool:
    resource = type_.resource
    return (
        _has(rule.get("operations"), write.verb)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), resource.version)
        and rule.get("scope", "*") in {"*", "Namespaced" if resource.namespaced else "Cluster"}
        and any(_is(text, resource.plural, write.subresource) for text in rule["resources"])
    )


def _has(values: list[str] | None, value: str) -> bool:
    return any(one in {"*", value} for one in values or ())


def _is(text: str, plural: str, subresource: str) -> bool:
    # As in kube-apiserver, pods/* covers pods itself too, and * alone covers no subresource.
    name, _, below = text.partition("/")
    return name in {"*", plural} and below in {subresource, "*"}
