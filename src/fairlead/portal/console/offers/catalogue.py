"""The catalogue: collections and templates as cards, and the page of a template."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
    COLLECTIONS,
    LABEL_EXPORTED,
    APIServiceExportTemplate,
    TemplateCollection,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.reasons.verdict import short
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.portal import bounds
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.examples import example
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.console.sources.consumers import Consumers, KnownCluster
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.runtime import Cluster


class SchemaField(msgspec.Struct, frozen=True):
    """A field of a schema; ``more`` says that its own fields are not shown."""

    name: str
    depth: int
    type: str
    required: bool = False
    description: str = ""
    default: str = ""
    values: tuple[str, ...] = ()
    more: bool = False


def fields(schema: Any) -> list[SchemaField]:
    """Return the fields of a schema in their order, up to the bound of rows."""
    rows: list[SchemaField] = []
    for row in _walk(schema, 0):
        if len(rows) == bounds.SCHEMA_ROWS:
            break
        rows.append(row)
    return rows


def _walk(schema: Any, depth: int) -> Iterator[SchemaField]:
    if not isinstance(schema, dict):
        return
    required = schema.get("required")
    needed = set(map(str, required)) if isinstance(required, list) else set()
    properties = schema.get("properties")
    for name, inner in (properties if isinstance(properties, dict) else {}).items():
        if not isinstance(inner, dict):
            continue
        below = _below(inner)
        deep = depth + 1 >= bounds.SCHEMA_LEVELS
        yield SchemaField(
            name=str(name),
            depth=depth,
            type=_type(inner),
            required=name in needed,
            description=_text(inner.get("description"))[: bounds.VALUE_CHARACTERS],
            default="" if "default" not in inner else _json(inner["default"]),
            values=tuple(map(_json, inner["enum"][:20]))
            if isinstance(inner.get("enum"), list)
            else (),
            more=deep and bool(below.get("properties")),
        )
        if not deep:
            yield from _walk(below, depth + 1)


def _below(schema: JSON) -> JSON:
    """Return the schema with the fields of a list's item, of a map's value, or its own."""
    while True:
        inner = next(
            (below for name in _REPEATED if isinstance(below := schema.get(name), dict)), None
        )
        if inner is None:
            return schema
        schema = inner


_REPEATED = ("items", "additionalProperties")


def _type(schema: JSON) -> str:
    text = ""
    for _ in range(bounds.SCHEMA_LEVELS):
        kind = _text(schema.get("type")) or "any"
        if schema.get("x-kubernetes-int-or-string"):
            return f"{text}integer or string"
        if kind == "array" and isinstance(schema.get("items"), dict):
            text, schema = f"{text}list of ", schema["items"]
        elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            text, schema = f"{text}map of ", schema["additionalProperties"]
        else:
            form = _text(schema.get("format"))
            return f"{text}{kind} ({form})" if form else text + kind
    return f"{text}…"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _json(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= bounds.VALUE_CHARACTERS else f"{text[: bounds.VALUE_CHARACTERS]}…"


OWNER = "a8r.io/owner"
"""Annotation with the owner of an offer, by the convention of a8r.io for people."""


class Card(msgspec.Struct, frozen=True):
    """A template's card in the catalogue; ``owner`` is "" if unknown."""

    name: str
    description: str
    resources: tuple[str, ...]
    owner: str = ""

    @property
    def sign(self) -> str:
        """Two letters in place of an icon."""
        return self.name[:2].capitalize()


class Shelf(msgspec.Struct, frozen=True):
    """A collection with its cards; the title "" is for cards without a collection."""

    title: str
    description: str
    cards: tuple[Card, ...]


class ShownResource(msgspec.Struct, frozen=True):
    """A resource of a template; fields beyond the name are "" if its CRD is unknown.

    ``sent`` are fields that the consumer writes, ``returned`` is the status from the provider.
    """

    name: str
    kind: str = ""
    version: str = ""
    scope: str = ""
    sent: tuple[SchemaField, ...] = ()
    returned: tuple[SchemaField, ...] = ()
    example: str = ""


class BoundTemplate(NamedTuple):
    """A binding and its cluster."""

    cluster: KnownCluster
    name: str


class Clusters:
    """Finds the clusters of people, and of their groups."""

    def __init__(self, consumers: Consumers, ownership: Ownership) -> None:
        self._consumers = consumers
        self._ownership = ownership

    def of(self, person: Person) -> list[KnownCluster]:
        """Return a person's clusters, ordered by name."""
        names = [namespace.meta.name for namespace in self._ownership.namespaces(person)]
        clusters = [cluster for name in names if (cluster := self._consumers.cluster(name))]
        return sorted(clusters, key=lambda cluster: (cluster.name, cluster.identity))

    def get(self, person: Person, namespace: str) -> KnownCluster | None:
        """Return a person's cluster by its namespace, None if it is not theirs."""
        owned = (cluster for cluster in self.of(person) if cluster.namespace == namespace)
        return next(owned, None)

    def bindings(self, person: Person) -> list[tuple[BoundTemplate, frozenset[str]]]:
        """Return the bindings in a person's clusters, each with its kinds."""
        read = self._consumers.read
        return [
            (BoundTemplate(cluster, export.meta.name), frozenset(read(export).kinds))
            for cluster in self.of(person)
            for export in self._consumers.exports(cluster.namespace)
        ]


class Catalogue(View):
    """The templates that a person may bind, filtered by ?q=."""

    route = "/"
    template = "index.html"

    def __init__(self, cluster: Cluster, hub: Hub, offers: Catalog, clusters: Clusters) -> None:
        self._offers = offers
        self._clusters = clusters
        self._read: dict[str, tuple[str, tuple[str, ...]]] = {}
        # Through the hub, so that a change of a template or a collection wakes the page.
        self._collections = hub.informer(cluster, COLLECTIONS)
        hub.informer(cluster, APISERVICEEXPORTTEMPLATES)

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the names of the templates that the person may bind, and which are bound."""
        offered = await self._offers.offered(session)
        kinds = [kinds for _, kinds in self._clusters.bindings(session.person)]
        bound = (
            template.meta.name
            for template in offered
            if any(each.issuperset(self._resources(template)) for each in kinds)
        )
        return tuple(one.meta.name for one in offered), frozenset(bound)

    def _resources(self, template: Object) -> tuple[str, ...]:
        """Return the resources of a template, read once for each of its versions."""
        name, version = template.meta.name, template.meta.resource_version
        cached = self._read.get(name)
        if cached is None or cached[0] != version:
            cached = self._read[name] = version, _card(template).resources
        return cached[1]

    def topics(self, scope: Any) -> Topics:
        """Return the topic of cluster-scoped objects."""
        return ("",)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return shelves of cards."""
        names, bound = scope
        words = page.get("q")
        templates = [
            template for name in names if (template := self._offers.template(name)) is not None
        ]
        cards = {card.name: card for card in map(_card, templates) if _fits(card, words)}
        shelves = _shelves(self._collections.list(), cards)
        return {"shelves": shelves, "wanted": words, "offers": len(names), "bound": bound}

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the reason why rights by group do not count."""
        return {"remark": session.person.remark}


class TemplatePage(View):
    """The page of a template: resources, schemas, claims, and the person's bindings of it."""

    route = "/templates/{name}"
    template = "template.html"

    def __init__(
        self,
        cluster: Cluster,
        hub: Hub,
        offers: Catalog,
        *,
        clusters: Clusters,
    ) -> None:
        self._offers = offers
        self._clusters = clusters
        hub.informer(cluster, APISERVICEEXPORTTEMPLATES)
        self._crds = hub.informer(
            cluster, CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true"
        )

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the template's name.

        Raises:
            MissingError: the template does not exist, or the person may not bind it.
        """
        name = page.name("name")
        if all(one.meta.name != name for one in await self._offers.offered(session)):
            raise MissingError(
                f"There is no template {name} for you",
                "It does not exist, or you may not bind it. Ask the provider's team for the right"
                " to bind it."
                + (f" Also, {remark}." if (remark := session.person.remark) else ""),
            )
        return name

    def topics(self, scope: Any) -> Topics:
        """Return the topic of cluster-scoped objects."""
        return ("",)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the template, its resources and its claims."""
        template = self._offers.template(scope)
        if template is None:
            raise MissingError(f"There is no template {scope} any more")
        spec = template.decode(APIServiceExportTemplate).spec
        return {
            "card": _card(template),
            "resources": [self._shown(one.group, one.resource) for one in spec.resources],
            "claims": in_words(spec.permission_claims),
            "namespaces": [one.name for one in spec.namespaces],
        }

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the bindings of the template in the person's clusters."""
        template = self._offers.template(scope)
        # No export has the kind "": without the template nothing is bound.
        resources = _card(template).resources if template is not None else ("",)
        bindings = self._clusters.bindings(session.person)
        return {"bound": [bound for bound, kinds in bindings if kinds.issuperset(resources)]}

    def _shown(self, group: str, resource: str) -> ShownResource:
        name = f"{resource}.{group}" if group else resource
        crd = self._crds.get("", name)
        if crd is None:
            return ShownResource(name=name)
        try:
            body = crd.to_dict()["spec"]
        except NestedTooDeeply:
            return ShownResource(name=name)
        served = [one for one in body.get("versions", []) if one.get("served")]
        if not served:
            return ShownResource(name=name, kind=body["names"]["kind"], scope=body["scope"])
        version = served[-1]
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        properties = _properties(schema)
        return ShownResource(
            name=name,
            kind=body["names"]["kind"],
            version=version["name"],
            scope=body["scope"],
            sent=tuple(fields({"properties": {**properties, "status": None}})),
            returned=tuple(fields({"properties": {"status": properties.get("status")}})),
            example=example(
                schema,
                api_version=f"{group}/{version['name']}",
                kind=body["names"]["kind"],
                namespaced=body["scope"] == "Namespaced",
            ),
        )


def _properties(schema: object) -> JSON:
    """Return the properties of a schema without apiVersion, kind and metadata."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    usual = {"apiVersion", "kind", "metadata"}
    members = properties if isinstance(properties, dict) else {}
    return {key: one for key, one in members.items() if key not in usual}


def _card(template: Object) -> Card:
    spec = template.decode(APIServiceExportTemplate).spec
    names = [
        f"{resource.resource}.{resource.group}" if resource.group else resource.resource
        for resource in spec.resources
    ]
    owner = short(template.meta.annotations.get(OWNER, ""))
    return Card(template.meta.name, spec.description, tuple(names), owner)


def _shelves(collections: Iterable[Object], cards: Mapping[str, Card]) -> list[Shelf]:
    """Group the cards by collection, those without one last."""
    shelves: list[Shelf] = []
    for collection in sorted(collections, key=lambda item: item.meta.name):
        spec = collection.decode(TemplateCollection).spec
        shown = tuple(cards[ref.name] for ref in spec.templates if ref.name in cards)
        if shown:
            shelves.append(Shelf(collection.meta.name, spec.description, shown))
    shelved = {card.name for shelf in shelves for card in shelf.cards}
    rest = tuple(card for name, card in cards.items() if name not in shelved)
    return [*shelves, *([Shelf("", "", rest)] if rest else [])]


def _fits(card: Card, words: str) -> bool:
    text = " ".join([card.name, card.description, *card.resources]).lower()
    return all(word in text for word in words.lower().split())
