"""What is offered: templates and collections, each person's own; and what takes no sign-in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
import yaml
from aiohttp import web

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    CLAIMABLE,
    COLLECTIONS,
    Collection,
)
from fairlead.api.meta import JSON, Object
from fairlead.konnector.manifests import manifests as konnector_manifests
from fairlead.portal.handshake.reviews import Reviews
from fairlead.portal.identity.sessions import Session
from fairlead.runtime import Cluster


_HIDDEN = "kubectl.kubernetes.io/last-applied-configuration"
_ENCODED = 64
"""Encoded lists that are remembered, for people who see the same."""


class Guard(Protocol):
    """Knows who sends a request."""

    async def session(self, request: web.Request) -> Session:
        """The sender's session.

        Raises:
            Refusal: there is none.
        """
        ...


class Catalog:
    """Answers from informers' caches; what a person may not bind is not there for them."""

    name = "catalogue"

    def __init__(self, cluster: Cluster, guard: Guard, reviews: Reviews, *, image: str) -> None:
        self._guard = guard
        self._reviews = reviews
        # Once: strangers may ask for it, and YAML takes its time.
        self._konnector = yaml.safe_dump_all(konnector_manifests(image=image), sort_keys=False)
        self._templates = cluster.informer(APISERVICEEXPORTTEMPLATES)
        self._collections = cluster.informer(COLLECTIONS)
        self._encoded: OrderedDict[tuple[str, ...], bytes] = OrderedDict()

    def routes(self) -> list[web.RouteDef]:
        """The routes, below the root."""
        return [
            web.get("/api/templates", self.templates),
            web.get("/api/collections", self.collections),
            web.get("/api/bindable-resources", self.bindable_resources),
            web.get("/api/konnector-manifests", self.konnector),
        ]

    def template(self, name: str) -> Object | None:
        """The template of this name, by the cache's word."""
        return self._templates.get("", name)

    async def templates(self, request: web.Request) -> web.Response:
        """GET /api/templates."""
        session = await self._guard.session(request)
        return self._listed("APIServiceExportTemplateList", await self._offered(session))

    async def collections(self, request: web.Request) -> web.Response:
        """GET /api/collections; one of which nothing is offered is left out."""
        session = await self._guard.session(request)
        offered = {one.meta.name for one in await self._offered(session)}
        found: list[JSON] = []
        versions: list[str] = []
        for one in _sorted(self._collections.list()):
            names = [ref.name for ref in one.decode(Collection).spec.templates]
            kept = [name for name in names if name in offered]
            if not kept:
                continue
            body = one.to_dict()
            body["spec"]["templates"] = [{"name": name} for name in kept]
            found.append(body)
            versions.append(f"{one.meta.uid}/{one.meta.resource_version}/{','.join(kept)}")
        return self._answer("CollectionList", versions, lambda: found)

    async def bindable_resources(self, request: web.Request) -> web.Response:
        """GET /api/bindable-resources: what can be claimed, in the form of Go's structs."""
        return web.json_response([_go(plural) for plural in sorted(CLAIMABLE)])

    async def konnector(self, request: web.Request) -> web.Response:
        """GET /api/konnector-manifests: our konnector, with no right too many."""
        return web.Response(
            text=self._konnector,
            content_type="text/yaml",
            headers={"Content-Disposition": "attachment; filename=konnector.yaml"},
        )

    async def _offered(self, session: Session) -> list[Object]:
        every = _sorted(self._templates.list())
        names = [one.meta.name for one in every]
        allowed = await self._reviews.offered(session.person, names)
        return [one for one in every if one.meta.name in allowed]

    def _listed(self, kind: str, objects: list[Object]) -> web.Response:
        versions = [f"{one.meta.uid}/{one.meta.resource_version}" for one in objects]
        return self._answer(kind, versions, lambda: [one.to_dict() for one in objects])

    def _answer(
        self, kind: str, versions: Iterable[str], bodies: Callable[[], list[JSON]]
    ) -> web.Response:
        """The list in kube-bind's form, encoded once for as long as it stays the same."""
        key = (kind, *versions)
        encoded = self._encoded.pop(key, None)
        if encoded is None:
            encoded = msgspec.json.encode(
                {
                    "kind": kind,
                    "apiVersion": API_VERSION,
                    "metadata": {"continue": "continue-not-supported"},
                    "items": [_shown(body) for body in bodies()],
                }
            )
        self._encoded[key] = encoded
        if len(self._encoded) > _ENCODED:
            self._encoded.popitem(last=False)
        return web.Response(body=encoded, content_type="application/json")


def _sorted(objects: Iterable[Object]) -> list[Object]:
    return sorted(objects, key=lambda one: one.meta.name)


def _shown(body: JSON) -> JSON:
    """An object without what concerns its owners alone."""
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    if annotations := metadata.get("annotations"):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != _HIDDEN
        }
    return {**body, "metadata": metadata}


def _go(plural: str) -> JSON:
    kind = _KINDS[plural]
    return {
        "Names": {"plural": plural, "singular": kind.lower(), "kind": kind},
        "GroupVersionResource": {"Group": "", "Version": "v1", "Resource": plural},
        "Instance": {"kind": kind, "apiVersion": "v1", "metadata": {}},
        "ResourceScope": "Namespaced",
        "HasStatus": False,
    }


_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}
