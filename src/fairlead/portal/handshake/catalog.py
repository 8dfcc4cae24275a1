"""The catalogue: each person's templates and collections, and the konnector's manifests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import msgspec
import yaml
from aiohttp import hdrs, web
from multidict import CIMultiDict

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    CLAIMABLE,
    COLLECTIONS,
    TemplateCollection,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.konnector.manifests import manifests as konnector_manifests
from fairlead.portal import bounds
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.runtime import Cluster, Delta


_HIDDEN = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation that is left out: kubectl stores a copy of the object in it."""


_JSON = CIMultiDict({hdrs.CONTENT_TYPE: "application/json"})


class _Listing:
    """The objects in the cache of an informer, which encodes each list once until a change."""

    def __init__(self, cluster: Cluster, resource: Resource) -> None:
        self._informer = cluster.informer(resource)
        self._informer.subscribe(self._changed)
        self._kind = resource.kind
        self._objects: dict[str, Object] | None = None
        self._names: tuple[str, ...] = ()
        self._encoded: OrderedDict[frozenset[str], bytes] = OrderedDict()

    def objects(self) -> dict[str, Object]:
        """Return the objects by name, in the order of their names."""
        if self._objects is None:
            objects = sorted(self._informer.list(), key=lambda item: item.meta.name)
            self._objects = {item.meta.name: item for item in objects}
            self._names = tuple(self._objects)
        return self._objects

    def names(self) -> tuple[str, ...]:
        """Return the names of the objects, in order."""
        self.objects()
        return self._names

    def encoded(
        self,
        offered: frozenset[str],
        bodies: Callable[[Iterable[Object], frozenset[str]], Iterable[JSON]],
    ) -> bytes:
        """Return the list in kube-bind's form, with the objects of the offered templates."""
        encoded = self._encoded.get(offered)
        if encoded is not None:
            self._encoded.move_to_end(offered)
            return encoded
        encoded = self._encoded[offered] = msgspec.json.encode(
            {
                "kind": f"{self._kind}List",
                "apiVersion": API_VERSION,
                # kube-bind's server sends this text, too; the lists are never continued.
                "metadata": {"continue": "continue-not-supported"},
                "items": [_shown(body) for body in bodies(self.objects().values(), offered)],
            }
        )
        if len(self._encoded) > bounds.ENCODED_LISTS:
            self._encoded.popitem(last=False)
        return encoded

    def _changed(self, delta: Delta) -> None:
        self._objects = None
        self._encoded.clear()


class Catalog:
    """Answers from informers' caches, with only the templates that the person may bind."""

    name = "catalogue"

    def __init__(
        self, cluster: Cluster, guard: SessionGuard, reviews: AccessReviews, *, image: str
    ) -> None:
        self._guard = guard
        self._reviews = reviews
        # Encoded once: YAML is slow, and the route needs no sign-in.
        self._konnector = yaml.safe_dump_all(konnector_manifests(image=image), sort_keys=False)
        self._templates = _Listing(cluster, APISERVICEEXPORTTEMPLATES)
        self._collections = _Listing(cluster, COLLECTIONS)

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        return [
            web.get("/api/templates", self.templates),
            web.get("/api/collections", self.collections),
            web.get("/api/bindable-resources", self.bindable_resources),
            web.get("/api/konnector-manifests", self.konnector),
        ]

    def template(self, name: str) -> Object | None:
        """Return the cached template of this name."""
        return self._templates.objects().get(name)

    async def templates(self, request: web.Request) -> web.Response:
        """Answer GET /api/templates."""
        session = await self._guard.session(request)
        offered = await self._reviews.offered(session.person, self._templates.names())
        return _answer(self._templates.encoded(offered, _offered), session.person)

    async def collections(self, request: web.Request) -> web.Response:
        """Answer GET /api/collections, without collections that offer the person nothing."""
        session = await self._guard.session(request)
        offered = await self._reviews.offered(session.person, self._templates.names())
        return _answer(self._collections.encoded(offered, _collected), session.person)

    async def offered(self, session: BrowserSession) -> list[Object]:
        """Return the templates that the session's person may bind, ordered by name."""
        allowed = await self._reviews.offered(session.person, self._templates.names())
        return [item for name, item in self._templates.objects().items() if name in allowed]

    async def bindable_resources(self, request: web.Request) -> web.Response:
        """Answer GET /api/bindable-resources: the claimable types, named as Go's structs are."""
        return web.json_response([_go(plural) for plural in sorted(CLAIMABLE)])

    async def konnector(self, request: web.Request) -> web.Response:
        """Answer GET /api/konnector-manifests: Fairlead's konnector with its least rights."""
        return web.Response(
            text=self._konnector,
            content_type="text/yaml",
            headers={"Content-Disposition": "attachment; filename=konnector.yaml"},
        )


def _answer(encoded: bytes, person: Person) -> web.Response:
    headers = CIMultiDict({**_JSON, **person.warnings}) if person.remark else _JSON
    return web.Response(body=encoded, headers=headers)


def _offered(templates: Iterable[Object], offered: frozenset[str]) -> Iterator[JSON]:
    return (one.to_dict() for one in templates if one.meta.name in offered)


def _collected(collections: Iterable[Object], offered: frozenset[str]) -> Iterator[JSON]:
    """Yield collections with their offered templates, without empty ones."""
    for collection in collections:
        names = [ref.name for ref in collection.decode(TemplateCollection).spec.templates]
        templates = [{"name": name} for name in names if name in offered]
        if templates:
            body = collection.to_dict()
            body["spec"]["templates"] = templates
            yield body


def _shown(body: JSON) -> JSON:
    """Return an object without managedFields and kubectl's annotation."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != _HIDDEN
        }
    return {**body, "metadata": metadata}


def _go(plural: str) -> JSON:
    """Return a claimable type by Go's field names: kube-bind's structs have no JSON tags."""
    kind = KINDS[plural]
    return {
        "Names": {"plural": plural, "singular": kind.lower(), "kind": kind},
        "GroupVersionResource": {"Group": "", "Version": "v1", "Resource": plural},
        "Instance": {"kind": kind, "apiVersion": "v1", "metadata": {}},
        "ResourceScope": "Namespaced",
        "HasStatus": False,
    }


KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}
"""Kinds of claimed objects by plural."""
