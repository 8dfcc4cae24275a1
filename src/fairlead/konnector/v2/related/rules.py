"""The rules about related objects of a binding: those that hold, and those that are refused.

The original takes every rule as it is, so that one without a selector in a ClusterBinding sends
every Secret of the cluster to the provider. Source: kbind v2.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import msgspec

from fairlead.api.kbind import ClusterBinding, RelatedResource
from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_ADMITTED,
    ANNOTATION_RELATED_PLACES,
    LEASE_NAMESPACE,
    RULE_REFUSED,
)
from fairlead.api.kbind.types import Direction, RelatedResourceName
from fairlead.api.meta import Object
from fairlead.api.resource import CONFIGMAPS, SECRETS, Resource
from fairlead.api.selectors import LabelSelector, SelectorError
from fairlead.konnector.v2.bindings.crds import Fault


RESOURCES: dict[str, Resource] = {"secrets": SECRETS, "configmaps": CONFIGMAPS}
"""The resources that rules may name, by their names in rules."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


class Place(msgspec.Struct, frozen=True, order=True):
    """All copies of one kind and direction that a binding has in one cluster.

    ``connection`` is the Connection to the provider that has them, "" for the consumer's cluster.
    """

    resource: RelatedResourceName
    direction: Direction
    connection: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.resource, self.direction, self.connection)))


class RelatedSelection(msgspec.Struct, frozen=True, order=True):
    """The originals that one watch shows: selectors of labels and of fields in their text form."""

    labels: str = ""
    fields: str = ""


class Rules(msgspec.Struct, frozen=True):
    """The rules of a binding that hold, as selections by place, and faults of all others."""

    selections: dict[Place, frozenset[RelatedSelection]] = {}
    refusals: tuple[Fault, ...] = ()


def judge(
    binding: ClusterBinding, connection: Object, konnector: str, *, admitted: bool = True
) -> Rules:
    """Return which rules of a binding hold.

    Args:
        binding: the ClusterBinding or Binding.
        connection: the Connection that it names.
        konnector: the konnector's namespace.
        admitted: whether the Connection lets the binding use it.
    """
    if binding.metadata.deleting or not admitted:
        return Rules()
    selections: dict[Place, frozenset[RelatedSelection]] = {}
    refusals: list[Fault] = []
    for number, rule in enumerate(binding.spec.related_resources):
        title = f"spec.relatedResources[{number}] ({rule.resource} {rule.direction})"
        why = _refusal(rule, binding.metadata.namespace, connection, konnector)
        if not why:
            try:
                selected = _selections(rule)
            except SelectorError as error:
                why = f"its labelSelector cannot be read: {error}: correct it"
        if why:
            refusals.append(Fault(RULE_REFUSED, f"{title} is refused: {why}"))
            continue
        there = binding.spec.connection_ref.name if rule.direction == "FromConsumer" else ""
        place = Place(rule.resource, rule.direction, there)
        selections[place] = selections.get(place, frozenset()) | selected
    return Rules(selections, tuple(refusals))


def is_protected(namespace: str, konnector: str) -> bool:
    """Whether no related object is read or written in a namespace.

    These are the konnector's own, the one of Leases and accounts at providers, and Kubernetes'.
    """
    return namespace in {konnector, LEASE_NAMESPACE} or namespace.startswith("kube-")


def stored_places(obj: Object) -> frozenset[Place]:
    """Return where a binding may have copies, as noted in its annotation before they were made."""
    places = set()
    for text in obj.meta.annotations.get(ANNOTATION_RELATED_PLACES, "").split(","):
        resource, _, rest = text.strip().partition("/")
        direction, _, connection = rest.partition("/")
        for kind in ("secrets", "configmaps"):
            for way in ("FromProvider", "FromConsumer"):
                if (resource, direction) == (kind, way):
                    places.add(Place(kind, way, connection))
    return frozenset(places)


def places_text(places: Collection[Place]) -> str | None:
    """Return places as the annotation has them, None for none of them."""
    return ",".join(map(str, sorted(places))) or None


def _refusal(rule: RelatedResource, namespace: str, connection: Object, konnector: str) -> str:
    if namespace and is_protected(namespace, konnector):
        return (
            f"the konnector copies no related objects from or to namespace {namespace}: create "
            "the Binding in a namespace of its users"
        )
    admitted = connection.meta.annotations.get(ANNOTATION_RELATED_ADMITTED)
    way = f"{rule.resource}/{rule.direction}"
    if admitted is not None and way not in {item.strip() for item in admitted.split(",")}:
        return (
            f"annotation {ANNOTATION_RELATED_ADMITTED} of Connection {connection.meta.name} "
            f"does not list {way}: remove the rule, or ask an administrator to list it there"
        )
    selector = rule.selector
    terms = selector.label_selector if selector is not None else None
    labels = terms is not None and bool(terms.match_labels or terms.match_expressions)
    names = selector.names if selector is not None else []
    if not namespace and rule.direction == "FromConsumer" and not (labels or names):
        return (
            f"without a selector it would send all {rule.resource} of this cluster to the "
            "provider: give it selector.names or selector.labelSelector, or use a Binding"
        )
    odd = [name for name in names if not _NAME.fullmatch(name)]
    if odd:
        return f"{odd[0]!r} in its selector.names is not a valid object name: correct it"
    return ""


def _selections(rule: RelatedResource) -> frozenset[RelatedSelection]:
    selector = rule.selector
    terms = selector.label_selector if selector is not None else None
    labels = ""
    if terms is not None:
        labels = str(LabelSelector.from_dict(msgspec.to_builtins(terms)))
    names: Iterable[str] = selector.names if selector is not None else ()
    by_name = frozenset(RelatedSelection(labels, f"metadata.name={name}") for name in names)
    return by_name or frozenset({RelatedSelection(labels)})
