"""What a provider's controllers do not take away because a cache says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import msgspec
import pytest
from tests.support.kubebind import NS, OLD, bound_schema, conditions, crd, export, kube, resource
from tests.support.stale import GONE, StaleServer

from fairlead.api.kubebind import (
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
    FINALIZER_NAMESPACE,
)
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.api.status import Status, StatusDetails
from fairlead.client import Forbidden, NotFound
from fairlead.client.errors import api_error, refusal
from fairlead.client.wire import Page
from fairlead.provider.controllers.clearing.controller import ClearingController
from fairlead.provider.controllers.export.controller import ExportController
from fairlead.provider.controllers.exportrequest.controller import RequestController
from fairlead.provider.controllers.namespace.controller import NamespaceController
from fairlead.provider.controllers.rbac.controller import RbacController
from fairlead.provider.identity import InviteError, ensure_cluster_namespace
from fairlead.provider.offer import with_revocation
from fairlead.provider.options import ProviderOptions
from fairlead.provider.watches import ProviderWatches
from fairlead.runtime import Cluster, Request, Result, delays


ROLE = "kube-binder-resources-widgets"
SHOP = Request("", NS, "shop")
WIDGETS = Request("", NS, "widgets")


def known(
    kind: str, name: str, namespace: str = "", metadata: JSON | None = None, **body: Any
) -> Object:
    identity: JSON = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    metadata = {**identity, "resourceVersion": "5", **(metadata or {})}
    return object_from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, **body})


def provider_namespace(owner: str = f"{NS}/shop") -> Object:
    annotations = {"kube-bind.io/api-service-namespace": owner}
    return known("Namespace", f"{NS}-shop", metadata={"annotations": annotations})


def role_binding(namespace: str = f"{NS}-shop") -> Object:
    subjects = [{"kind": "ServiceAccount", "name": "kube-binder", "namespace": NS}]
    return known("RoleBinding", ROLE, namespace, subjects=subjects)


@asynccontextmanager
async def watching(
    cached: Mapping[Resource, Sequence[Object]],
    live: Sequence[Object] = (),
    absent: StatusDetails | None = GONE,
    server: type[StaleServer] = StaleServer,
) -> AsyncIterator[tuple[StaleServer, Cluster, ProviderWatches]]:
    stale = server(cached, live, absent=absent)
    cluster = Cluster("provider", stale.client)
    watches = ProviderWatches(cluster)
    running = asyncio.create_task(cluster.run())
    for informer in vars(watches).values():
        await informer.synced()
    yield stale, cluster, watches
    running.cancel()
    await asyncio.wait([running])


SERVICE_NAMESPACE = kube("APIServiceNamespace", "shop")
DELETED = [(f"{NS}-shop", {"uid": f"uid-{NS}-shop", "resource_version": "5"})]


@pytest.mark.parametrize(
    ("live", "absent", "deleted"),
    [
        pytest.param([provider_namespace()], GONE, True, id="gone"),
        pytest.param([SERVICE_NAMESPACE, provider_namespace()], GONE, False, id="there"),
        pytest.param([], None, None, id="unknown"),
    ],
)
async def test_namespaces_go_when_the_server_says_so(
    live: list[Object], absent: StatusDetails | None, deleted: bool | None
) -> None:
    async with watching({NAMESPACES: [provider_namespace()]}, live, absent) as parts:
        server, cluster, watches = parts
        controller = NamespaceController(cluster, watches, ProviderOptions())
        if deleted is None:
            with pytest.raises(NotFound):
                await controller.reconcile(SHOP)
        else:
            await controller.reconcile(SHOP)
    assert server.written("delete", "namespaces") == (DELETED if deleted else [])


def widget(cluster_namespace: str = NS) -> Object:
    annotations = {"kube-bind.io/cluster-namespace": cluster_namespace}
    return known("Widgets", "blue", f"{NS}-shop", {"annotations": annotations})


def going(finalizer: str = FINALIZER_NAMESPACE, assigned: str = "", **metadata: Any) -> Object:
    metadata |= {"deletionTimestamp": OLD, "finalizers": [finalizer]}
    return kube("APIServiceNamespace", "shop", status={"namespace": assigned}, **metadata)


@pytest.mark.parametrize(
    ("stored", "live", "deleted", "released"),
    [
        pytest.param(going(), [provider_namespace()], True, False, id="empty"),
        pytest.param(going(), [provider_namespace(), widget()], False, False, id="in use"),
        pytest.param(
            going(), [provider_namespace(), widget("other")], True, False, id="not synced by us"
        ),
        pytest.param(going(), [], False, True, id="gone"),
        pytest.param(going(), [provider_namespace("other/shop")], False, True, id="not ours"),
        pytest.param(going("x/y"), [provider_namespace()], False, False, id="not held by us"),
        pytest.param(None, [provider_namespace(), widget()], False, False, id="gone before"),
    ],
)
async def test_a_namespace_with_synced_objects_stays(
    stored: Object | None, live: list[Object], deleted: bool, released: bool
) -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
        APISERVICENAMESPACES: [stored] if stored else [],
    }
    async with watching(cached, live) as (server, cluster, watches):
        controller = NamespaceController(cluster, watches, ProviderOptions())
        result = await controller.reconcile(SHOP)
    assert server.written("delete", "namespaces") == (DELETED if deleted else [])
    patches = [body["metadata"] for _, body in server.written("patch", "apiservicenamespaces")]
    assert [body for body in patches if "finalizers" in body] == (
        [{"finalizers": [], "uid": "uid-shop", "resourceVersion": "7"}] if released else []
    )
    looks_again = not deleted and widget() in live
    assert result == Result(backoff=delays.NAMESPACE_EMPTY if looks_again else None)


@pytest.mark.parametrize(
    ("assigned", "bindings", "deleted"),
    [
        pytest.param(f"{NS}-shop", [], False, id="assigned"),
        pytest.param("", [role_binding()], False, id="granted"),
        pytest.param("", [role_binding("elsewhere")], True, id="granted elsewhere"),
        pytest.param("", [], True, id="neither"),
    ],
)
async def test_an_empty_namespace_goes_after_the_rights_in_it(
    assigned: str, bindings: list[Object], *, deleted: bool
) -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        APISERVICENAMESPACES: [going(assigned=assigned)],
        ROLEBINDINGS: bindings,
    }
    async with watching(cached, [provider_namespace()]) as (server, cluster, watches):
        result = await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("delete", "namespaces") == (DELETED if deleted else [])
    ((_, body),) = server.written("patch", "apiservicenamespaces")
    assert body["status"].get("namespace") is None
    assert conditions(body)["NamespaceReady"]["reason"] == "NamespaceTerminating"
    assert (result.backoff is None) is deleted


async def test_a_copy_that_comes_after_a_look_keeps_its_namespace() -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        APISERVICENAMESPACES: [going(assigned=f"{NS}-shop")],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
    }
    async with watching(cached, [provider_namespace()]) as (server, cluster, watches):
        controller = NamespaceController(cluster, watches, ProviderOptions())
        await controller.reconcile(SHOP)
        server.live([provider_namespace(), widget()])
        result = await controller.reconcile(SHOP)
    assert server.written("delete", "namespaces") == []
    assert result == Result(backoff=delays.NAMESPACE_EMPTY)


@pytest.mark.parametrize("revoked", [False, True], ids=["bound", "revoked"])
async def test_an_empty_namespace_is_handed_on_to_an_export_made_anew(*, revoked: bool) -> None:
    owner: JSON = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "APIServiceExport"}
    owners = [owner | {"name": "widgets", "uid": "uid-older"}]
    cached = {
        NAMESPACES: [provider_namespace()],
        APISERVICENAMESPACES: [going(ownerReferences=owners)],
        APISERVICEEXPORTS: [export()],
        CLUSTERBINDINGS: [cluster_binding(revoked=revoked)],
    }
    async with watching(cached, [provider_namespace()]) as (server, cluster, watches):
        await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("delete", "namespaces") == (DELETED if revoked else [])
    released = [
        body
        for _, body in server.written("patch", "apiservicenamespaces")
        if body["metadata"].get("finalizers") == []
    ]
    assert bool(released) is not revoked


@pytest.mark.parametrize("live", [[], [widget()]], ids=["empty", "in use"])
async def test_a_namespace_that_nobody_asks_for_any_more_is_handed_on(live: list[Object]) -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        APISERVICEEXPORTS: [export()],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
    }
    async with watching(cached, [provider_namespace(), *live]) as (server, cluster, watches):
        await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("delete", "namespaces") == []
    ((name, body),) = server.written("create", "apiservicenamespaces")
    assert (name, body["metadata"]["namespace"]) == ("shop", NS)
    assert [owner["name"] for owner in body["metadata"]["ownerReferences"]] == ["widgets"]


async def test_a_namespace_that_a_cache_alone_knows_is_not_handed_on() -> None:
    cached = {NAMESPACES: [provider_namespace()], APISERVICEEXPORTS: [export()]}
    async with watching(cached) as (server, cluster, watches):
        await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("create", "apiservicenamespaces") == []


async def test_a_kind_that_is_exported_no_more_is_looked_at_too() -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        APISERVICENAMESPACES: [going()],
        BOUNDSCHEMAS: [bound_schema()],
    }
    live = [provider_namespace(), widget(), crd()]
    async with watching(cached, live) as (server, cluster, watches):
        await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("delete", "namespaces") == []


class Closed(StaleServer):
    """Shows nobody the objects of exported kinds."""

    async def page(self, resource: Resource, namespace: str = "", **_: Any) -> Page:
        raise refusal("Forbidden", f"{resource} in {namespace} are not for you")


async def test_what_cannot_be_looked_at_is_not_deleted() -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
        APISERVICENAMESPACES: [going()],
    }
    async with watching(cached, [provider_namespace()], server=Closed) as parts:
        server, cluster, watches = parts
        result = await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.written("delete", "namespaces") == []
    ((_, body),) = server.written("patch", "apiservicenamespaces")
    condition = conditions(body)["NamespaceReady"]
    assert condition["reason"] == "ObjectsUnknown"
    assert "may not list widgets.example.org" in condition["message"]
    assert result == Result(backoff=delays.NAMESPACE_EMPTY)


@pytest.mark.parametrize(
    ("live", "absent", "deleted"),
    [
        pytest.param([], GONE, True, id="gone"),
        pytest.param([export()], GONE, False, id="there"),
        pytest.param([], None, None, id="unknown"),
    ],
)
async def test_rights_go_when_the_server_says_so(
    live: list[Object], absent: StatusDetails | None, deleted: bool | None
) -> None:
    cached = {
        NAMESPACES: [provider_namespace()],
        ROLES: [known("Role", ROLE, f"{NS}-shop")],
        ROLEBINDINGS: [role_binding()],
    }
    async with watching(cached, live, absent) as (server, cluster, watches):
        controller = RbacController(cluster, watches, ProviderOptions())
        if deleted is None:
            with pytest.raises(NotFound):
                await controller.reconcile(WIDGETS)
        else:
            await controller.reconcile(WIDGETS)
    expected = [(ROLE, {"uid": f"uid-{ROLE}"})] if deleted else []
    assert server.written("delete", "rolebindings") == expected
    assert server.written("delete", "roles") == expected


@pytest.mark.parametrize(
    ("asked", "used"),
    [
        pytest.param([SERVICE_NAMESPACE], True, id="asked for"),
        pytest.param([], False, id="no longer asked for"),
        pytest.param([going(assigned=f"{NS}-shop")], True, id="kept"),
        pytest.param([going()], False, id="closing"),
    ],
)
async def test_rights_are_given_in_namespaces_that_are_in_use(
    asked: list[Object], *, used: bool
) -> None:
    cached = {
        APISERVICEEXPORTS: [export()],
        APISERVICENAMESPACES: asked,
        NAMESPACES: [provider_namespace()],
        CLUSTERROLEBINDINGS: [],
    }
    async with watching(cached) as (server, cluster, watches):
        await RbacController(cluster, watches, ProviderOptions()).reconcile(WIDGETS)
    given = {body["metadata"]["namespace"] for _, body in server.written("create", "roles")}
    assert given == ({f"{NS}-shop"} if used else set())


@pytest.mark.parametrize("going", [False, True], ids=["there", "going"])
async def test_no_rights_are_given_once_the_record_of_a_revocation_is_gone(*, going: bool) -> None:
    """It goes with the cluster namespace, perhaps before the exports do."""
    ending: JSON = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    cached = {
        APISERVICEEXPORTS: [export()],
        APISERVICENAMESPACES: [SERVICE_NAMESPACE],
        NAMESPACES: [provider_namespace(), known("Namespace", NS, metadata=ending)],
    }
    async with watching(cached) as (server, cluster, watches):
        await RbacController(cluster, watches, ProviderOptions()).reconcile(WIDGETS)
    assert bool(server.written("create", "roles")) is not going


TIE = known(
    "ClusterBinding",
    "cluster",
    NS,
    spec={"serviceProviderSpec": with_revocation({}, clearing=True)},
)
SHOPS = known("Namespace", NS, metadata={"annotations": {"backend.kube-bind.io/identity": "s"}})
LET_GO = known("Namespace", f"{NS}-shop")


@pytest.mark.parametrize(
    ("live", "deleted"),
    [
        pytest.param([TIE, SHOPS, provider_namespace()], DELETED, id="the consumer's"),
        pytest.param(
            [TIE, SHOPS, LET_GO],
            [(NS, {"uid": f"uid-{NS}", "resource_version": "5"})],
            id="let go",
        ),
        pytest.param(
            [TIE, SHOPS, provider_namespace("other/shop")],
            [(NS, {"uid": f"uid-{NS}", "resource_version": "5"})],
            id="handed over",
        ),
        pytest.param([SHOPS, provider_namespace()], [], id="said no more"),
        pytest.param([TIE, provider_namespace()], [], id="the consumer is gone"),
    ],
)
async def test_namespaces_are_cleared_away_that_the_server_says_are_the_consumers(
    live: list[Object], deleted: list[tuple[str, JSON]]
) -> None:
    """What `revoke --keep-data` has let go a moment ago is nobody's to delete."""
    cached = {CLUSTERBINDINGS: [TIE], NAMESPACES: [SHOPS, provider_namespace()]}
    async with watching(cached, live) as (server, cluster, watches):
        controller = ClearingController(cluster, watches, ProviderOptions())
        await controller.reconcile(Request("", NS, "cluster"))
    assert server.written("delete", "namespaces") == deleted


async def test_a_namespace_of_a_consumer_that_is_cleared_away_is_not_made_again() -> None:
    cached = {
        APISERVICENAMESPACES: [SERVICE_NAMESPACE],
        CLUSTERBINDINGS: [TIE],
        NAMESPACES: [SHOPS],
    }
    async with watching(cached, [SHOPS, TIE]) as (server, cluster, watches):
        await NamespaceController(cluster, watches, ProviderOptions()).reconcile(SHOP)
    assert server.writes == []


async def test_a_schema_follows_its_crd_also_when_the_watch_says_nothing() -> None:
    spec: JSON = {"resources": [resource()], "schemaUpdatePolicy": "Always"}
    request = kube("APIServiceExportRequest", spec=spec, status={"phase": "Succeeded"})
    old, new = crd(), crd(names={"kind": "Widgets", "plural": "widgets", "shortNames": ["w"]})
    new = msgspec.structs.replace(new, meta=msgspec.structs.replace(new.meta, generation=2))
    cached = {
        APISERVICEEXPORTREQUESTS: [request],
        APISERVICEEXPORTS: [export()],
        BOUNDSCHEMAS: [bound_schema(owner="widgets")],
        CUSTOMRESOURCEDEFINITIONS: [old],
    }
    options = ProviderOptions(schema_sync_interval=0.0)
    async with watching(cached, [new]) as (server, cluster, watches):
        controller = RequestController(cluster, watches, options)
        for _ in range(2):
            result = await controller.reconcile(WIDGETS)
    assert result.requeue_after == 0.0
    for _, body in server.written("patch", "boundschemas"):
        assert body["spec"]["names"]["shortNames"] == ["w"]
    assert server.written("patch", "boundschemas")


async def test_the_server_is_asked_for_no_crd_that_is_not_exported() -> None:
    """A consumer may make any number of requests, for any names."""
    asked: list[str] = []

    class Counting(StaleServer):
        async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
            if resource == CUSTOMRESOURCEDEFINITIONS:
                asked.append(name)
            return await super().get(resource, name, namespace)

    spec: JSON = {
        "resources": [resource(), resource("gadgets")],
        "schemaUpdatePolicy": "Always",
    }
    cached = {
        APISERVICEEXPORTREQUESTS: [kube("APIServiceExportRequest", spec=spec)],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
    }
    options = ProviderOptions(schema_sync_interval=0.0)
    async with watching(cached, [crd()], server=Counting) as (_, cluster, watches):
        await RequestController(cluster, watches, options).reconcile(WIDGETS)
    assert asked == ["widgets.example.org"]


@pytest.mark.parametrize(
    ("absent", "told"),
    [pytest.param(GONE, True, id="gone"), pytest.param(None, False, id="unknown")],
)
async def test_what_is_missing_is_told_when_the_server_says_so(
    absent: StatusDetails | None, *, told: bool
) -> None:
    """A failed read of a BoundSchema or of an export says nothing about either."""
    spec: JSON = {"resources": [resource()]}
    done = kube("APIServiceExportRequest", spec=spec, status={"phase": "Succeeded"})
    for cached, build, plural in (
        ({APISERVICEEXPORTS: [export()]}, _exports, "apiserviceexports"),
        ({APISERVICEEXPORTREQUESTS: [done]}, _requests, "apiserviceexportrequests"),
    ):
        async with watching(cached, [], absent) as (server, cluster, watches):
            controller = build(cluster, watches)
            with nullcontext() if told else pytest.raises(NotFound):
                await controller.reconcile(WIDGETS)
        assert bool(server.written("patch", plural)) is told


@pytest.mark.parametrize(
    ("live", "made"),
    [
        pytest.param([], [], id="the export is gone"),
        pytest.param([export()], ["widgets.example.org"], id="the schema is gone"),
    ],
)
async def test_nothing_is_made_for_an_export_that_a_cache_alone_knows(
    live: list[Object], made: list[str]
) -> None:
    """It would be collected at once, and its end would be told, and it would be made again."""
    spec: JSON = {"resources": [resource()]}
    cached = {
        APISERVICEEXPORTREQUESTS: [
            kube("APIServiceExportRequest", spec=spec, status={"phase": "Succeeded"})
        ],
        APISERVICEEXPORTS: [export()],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
    }
    async with watching(cached, live) as (server, cluster, watches):
        await _requests(cluster, watches).reconcile(WIDGETS)
    assert [name for name, _ in server.written("create", "boundschemas")] == made


@pytest.mark.parametrize(
    ("listed", "live", "reason", "again"),
    [
        pytest.param([crd()], [crd()], "", None, id="labelled"),
        pytest.param([], [crd()], "", 300.0, id="it has lost its label"),
        pytest.param([], [], "SchemaNotFound", 300.0, id="deleted"),
    ],
)
async def test_a_crd_that_the_watch_does_not_list_is_gone_when_the_server_says_so(
    listed: list[Object], live: list[Object], reason: str, again: float | None
) -> None:
    cached = {
        APISERVICEEXPORTS: [export()],
        BOUNDSCHEMAS: [bound_schema(owner="widgets")],
        CUSTOMRESOURCEDEFINITIONS: listed,
    }
    async with watching(cached, live) as (server, cluster, watches):
        result = await _exports(cluster, watches).reconcile(WIDGETS)
    (*_, (_, body)) = server.written("patch", "apiserviceexports")
    assert conditions(body)["ProviderInSync"].get("reason", "") == reason
    assert result == Result(again)


def _exports(cluster: Cluster, watches: ProviderWatches) -> ExportController:
    return ExportController(cluster, watches, ProviderOptions())


def _requests(cluster: Cluster, watches: ProviderWatches) -> RequestController:
    return RequestController(cluster, watches, ProviderOptions())


def cluster_binding(*templates: str, revoked: bool = False) -> Object:
    spec = {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Bank",
        "serviceProviderSpec": {
            "templates": [{"name": name} for name in templates],
            "revoked": revoked,
        },
    }
    return kube("ClusterBinding", "cluster", spec=spec)


def template(plural: str) -> Object:
    spec = {"scope": "Namespaced", "resources": [resource(plural)]}
    return kube("APIServiceExportTemplate", "offered", "", spec=spec)


INVITED = (cluster_binding("offered"), template("widgets"))


@pytest.mark.parametrize(
    ("cached", "live", "absent", "exported"),
    [
        pytest.param(INVITED, INVITED, GONE, True, id="invited"),
        pytest.param((), INVITED, GONE, True, id="invited a moment ago"),
        pytest.param(
            (INVITED[0], template("gadgets")), INVITED, GONE, True, id="widened a moment ago"
        ),
        pytest.param((), (), GONE, False, id="not invited"),
        pytest.param(INVITED, INVITED[:1], GONE, False, id="the template is gone"),
        pytest.param(
            INVITED, (INVITED[0], template("gadgets")), GONE, False, id="narrowed a moment ago"
        ),
        pytest.param(INVITED, (cluster_binding(),), GONE, False, id="taken back a moment ago"),
        pytest.param(INVITED, (), None, None, id="unknown"),
        pytest.param((), (), None, None, id="unknown to the cache too"),
    ],
)
async def test_what_a_consumer_was_invited_to_is_what_the_server_says(
    cached: tuple[Object, ...],
    live: tuple[Object, ...],
    absent: StatusDetails | None,
    exported: bool | None,
) -> None:
    request = kube("APIServiceExportRequest", spec={"resources": [resource()]})
    known_here = {
        APISERVICEEXPORTREQUESTS: [request],
        CUSTOMRESOURCEDEFINITIONS: [crd()],
        CLUSTERBINDINGS: [one for one in cached if one.kind == "ClusterBinding"],
        APISERVICEEXPORTTEMPLATES: [one for one in cached if one.kind != "ClusterBinding"],
    }
    async with watching(known_here, live, absent, server=Unexported) as (server, cluster, watches):
        controller = _requests(cluster, watches)
        with pytest.raises(NotFound) if exported is None else nullcontext():
            await controller.reconcile(WIDGETS)
    assert bool(server.written("create", "apiserviceexports")) is bool(exported)
    told = [
        conditions(body)["ExportsReady"].get("reason", "")
        for _, body in server.written("patch", "apiserviceexportrequests")
    ]
    assert told == {True: [""], False: ["NotInvited"], None: []}[exported]


class Unexported(StaleServer):
    """Has no export yet, whatever else it says nothing of."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if resource == APISERVICEEXPORTS:
            raise api_error(Status("Failure", "", "NotFound", 404, StatusDetails(name=name)))
        return await super().get(resource, name, namespace)


class Taken(StaleServer):
    """Every name is taken, by an object that says nothing about itself."""

    async def create(self, *_: Any, **__: Any) -> Object:
        raise refusal("AlreadyExists", "there is one")

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        return known(resource.kind, name, namespace)


async def test_a_namespace_of_the_right_name_is_no_proof_of_identity() -> None:
    with pytest.raises(InviteError, match="was not made for identity team"):
        await ensure_cluster_namespace(
            Taken({}).client, identity="team", author="", prefix="kube-bind-"
        )


def asked(name: str) -> Object:
    return kube("APIServiceNamespace", name, finalizers=[FINALIZER_NAMESPACE])


class Slow(StaleServer):
    """Has every writer wait for the others before it answers."""

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, **more: Any
    ) -> Object:
        await asyncio.sleep(0)
        return await super().merge_patch(resource, name, namespace, patch, **more)


async def test_two_workers_with_a_late_cache_make_no_namespace_beyond_the_limit() -> None:
    names = ["shop", "till", "yard"]
    cached = {APISERVICENAMESPACES: [asked(name) for name in names]}
    async with watching(cached, server=Slow) as (server, cluster, watches):
        controller = NamespaceController(
            cluster, watches, ProviderOptions(namespaces_per_consumer=2)
        )
        requests = [Request("", NS, name) for name in names]
        await asyncio.gather(*map(controller.reconcile, requests))
        # The cache still shows none of them.
        await asyncio.gather(*map(controller.reconcile, requests))
    made = {name for name, _ in server.written("create", "namespaces")}
    assert made == {f"{NS}-shop", f"{NS}-till"}
    bodies = dict(server.written("patch", "apiservicenamespaces"))
    assert conditions(bodies["yard"])["NamespaceReady"]["reason"] == "NamespaceLimitReached"


class Full(StaleServer):
    """Has a quota by which no namespace is made."""

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        raise refusal("Forbidden", "exceeded quota")


async def test_a_namespace_that_could_not_be_made_takes_no_room() -> None:
    cached = {APISERVICENAMESPACES: [asked("shop"), asked("till")]}
    async with watching(cached, server=Full) as (_, cluster, watches):
        options = ProviderOptions(namespaces_per_consumer=1)
        controller = NamespaceController(cluster, watches, options)
        for name in ("shop", "till"):
            with pytest.raises(Forbidden):
                await controller.reconcile(Request("", NS, name))
