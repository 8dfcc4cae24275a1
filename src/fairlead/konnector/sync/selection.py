"""Selection of a claim's objects by labels, names and references, and reserved Secrets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from fairlead.api.kubebind import APIServiceBinding, PermissionClaim, SelectorReference, gjson
from fairlead.api.kubebind.claims import Targets, matches, reference_targets
from fairlead.api.kubebind.fields import Selector
from fairlead.api.meta import JSON, Key, Object, ObjectMeta
from fairlead.api.resource import SECRETS, Resource
from fairlead.runtime import Delta, Informer


_INDEX = "claimed-name"
_RESERVED = "kubeconfig"


class Referrers:
    """The consumer's objects of one reference, found by the names that they refer to."""

    def __init__(self, reference: SelectorReference, informers: Iterable[Informer]) -> None:
        self.reference = reference
        self.informers = list(informers)
        for informer in self.informers:
            informer.add_index(_INDEX, self._names)

    def of(self, name: str) -> Iterable[JSON]:
        """Yield the objects that refer to this name, in any namespace."""
        for informer in self.informers:
            for obj in informer.by_index(_INDEX, name):
                yield obj.to_dict()

    def _names(self, obj: Object) -> Iterable[str]:
        return gjson.values(obj.to_dict(), self.reference.json_path.name)


class Selection:
    """A claim's selector with the referrers of the moment.

    ``changed`` is called with what a referring object refers to and did not before, or did and
    does no more; ``moved`` when the set of namespaces has changed.
    """

    def __init__(
        self,
        claim: PermissionClaim,
        referrers: Iterable[Referrers],
        *,
        changed: Callable[[Targets], None],
        moved: Callable[[], None],
    ) -> None:
        self._claim = claim
        self._referrers = list(referrers)
        self._changed = changed
        self._moved = moved
        self._namespaces: Counter[str] = Counter()

    def start(self) -> None:
        """Follow the referring objects from now on."""
        for referrers in self._referrers:
            for informer in referrers.informers:
                informer.subscribe(lambda delta, r=referrers: self._take(r, delta))  # type: ignore[misc]

    def claims(self, meta: ObjectMeta, namespace: str) -> bool:
        """Whether the claim selects an object in this namespace of the consumer."""
        return matches(
            self._claim.selector,
            # Selectors name the consumer's namespaces, also where the object is the provider's.
            msgspec.structs.replace(meta, namespace=namespace),
            referrers=lambda reference: self._referring(reference, meta.name),
        )

    def names(self, meta: ObjectMeta, namespace: str) -> bool:
        """Whether an object is claimed by its name in this very namespace, or from within it.

        Labels are whatever the provider puts on its objects, and so may be what a reference finds
        by its path to namespaces.
        """
        key = Key(namespace, meta.name)
        selector = self._claim.selector
        if any(Key(item.namespace, item.name) == key for item in selector.named_resources):
            return True
        return any(
            key in reference_targets(reference, referrer).keys
            for reference in selector.references
            if not reference.json_path.namespace
            for referrer in self._referring(reference, meta.name)
        )

    def everywhere(self) -> bool:
        """Whether claimed objects may be in any namespace at the moment."""
        selector = self._claim.selector
        return (
            selector.label_selector is not None
            or any(not named.namespace for named in selector.named_resources)
            or "" in self._namespaces
        )

    def namespaces(self) -> frozenset[str]:
        """Return the consumer's namespaces that are named, or referred to at the moment."""
        named = {item.namespace for item in self._claim.selector.named_resources}
        return frozenset(named | self._namespaces.keys()) - {""}

    def _referring(self, reference: SelectorReference, name: str) -> Iterable[JSON]:
        for referrers in self._referrers:
            if referrers.reference == reference:
                yield from referrers.of(name)

    def _take(self, referrers: Referrers, delta: Delta) -> None:
        old, new = (
            Targets(frozenset())
            if obj is None
            else reference_targets(referrers.reference, obj.to_dict())
            for obj in (delta.old, delta.new)
        )
        if old == new:
            return
        before = self.everywhere(), self.namespaces()
        self._namespaces.update(new.namespaces)
        self._namespaces.subtract(old.namespaces)
        # The keys decide the watches: one without a referrer would keep a watch open for nothing.
        self._namespaces = +self._namespaces
        # The one may be claimed no more, the other be claimed by this; what the object still
        # refers to is claimed as it was.
        self._changed(Targets(old.keys ^ new.keys))
        if (self.everywhere(), self.namespaces()) != before:
            self._moved()


def selected_labels(selector: Selector) -> frozenset[str]:
    """Return the labels that a claim's selector names."""
    labels = selector.label_selector
    if labels is None:
        return frozenset()
    return frozenset(labels.match_labels) | {item.key for item in labels.match_expressions}


def keys(targets: Targets, keys_known: Iterable[Key]) -> set[Key]:
    """Return the keys that are targets; for a name in any namespace, the existing ones."""
    named = {key for key in targets.keys if key.namespace}
    anywhere = {key.name for key in targets.keys if not key.namespace}
    return named | {key for key in keys_known if key.name in anywhere}


class Reserved:
    """The konnector's namespace, and the Secrets with kubeconfigs in any namespace.

    A claim as wide as all Secrets must not hand one provider the way to another, nor may a
    provider bring kubeconfigs to where they are read.
    """

    def __init__(self, bindings: Informer, namespace: str, *others: Informer) -> None:
        """Index bindings, and the other objects that name kubeconfig Secrets, by these Secrets."""
        self._informers = (bindings, *others)
        self._namespace = namespace
        for informer in self._informers:
            informer.add_index(_RESERVED, _kubeconfig_secret)

    def has(self, resource: Resource, key: Key) -> bool:
        """Whether an object is in the konnector's namespace, or is a Secret with a kubeconfig."""
        if key.namespace == self._namespace:
            return True
        return resource == SECRETS and any(
            informer.by_index(_RESERVED, str(key)) for informer in self._informers
        )


def _kubeconfig_secret(obj: Object) -> list[str]:
    """Return the index key of a binding or a bundle: the key of its kubeconfig Secret."""
    parsed = obj.try_decode(APIServiceBinding)
    if parsed is None:
        return []
    ref = parsed.spec.kubeconfig_secret_ref
    return [str(Key(ref.namespace, ref.name))]
