"""Two people with sessions and kubeconfigs of their own try to reach what is the other's.

Ada has an export, a namespace, an object and a Secret; Ben has as much as he may. Each try is
Ben's, and none succeeds.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote as _quote

import pytest
from tests.integration.portal.handshake.conftest import ADA, BEN, ISSUER, House, house
from tests.support.kubebind import crd
from tests.support.provider import request_export, request_namespace
from tests.support.waiting import when

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_IDENTITY,
    API_VERSION,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    cluster_namespace,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS, Resource
from fairlead.client import (
    Client,
    ClientError,
    Forbidden,
    Unauthorized,
    parse_kubeconfig,
)
from fairlead.client.config import Impersonation
from fairlead.portal.options import DEFAULT_NAMESPACE, Limits, Rate
from fairlead.provider.invitation import invite
from fairlead_sandbox import Sandbox


ADAS = "cluster-ada"
BENS = "cluster-ben"
ADMINS = "cluster-admin"
GADGETS = Resource("example.org", "v1", "gadgets", "Gadgets")
MARK = "only-for-ada"


def quote(text: str) -> str:
    return _quote(text, safe="")


class Two(NamedTuple):
    """What both have: a client each, and the names that Ben may have heard of."""

    it: House
    ada: Client
    ben: Client
    own: str
    cluster: str
    data: str


def offer(name: str, plural: str) -> JSON:
    resources = [{"group": "example.org", "resource": plural, "versions": ["v1"]}]
    return {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": name},
        "spec": {"scope": "Namespaced", "resources": resources},
    }


@pytest.fixture
async def two(plane: Sandbox, admin: Client) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        limits = Limits(binds_per_person=Rate(0.0, 0))
        it = await stack.enter_async_context(
            house(plane, admin, limits=limits, consumers_per_person=50)
        )
        for name in ("gadgets", "gizmos"):
            body = crd(name).to_dict()
            await admin.create(
                await admin.discovery.resource_for(body["apiVersion"], body["kind"]), body
            )
            await admin.create(
                await admin.discovery.resource_for(API_VERSION, "APIServiceExportTemplate"),
                offer(name, name),
            )
        await it.allow("User:oidc:ada", templates=("gadgets",))
        await it.allow("User:oidc:ben", templates=("gizmos",))
        first = await it.bind(ADA, "gadgets", ADAS)
        second = await it.bind(BEN, "gizmos", BENS)
        assert (first.status, second.status) == (200, 200), first.text + second.text
        clients = []
        for one in (first, second):
            config = parse_kubeconfig(base64.b64decode(one.json["kubeconfig"]))
            clients.append(await stack.enter_async_context(Client(config)))
        ada, ben = clients
        cluster, own = first.json["providerNamespace"], second.json["providerNamespace"]
        await request_export(ada, cluster, first.json["requests"][0])
        await request_namespace(ada, cluster, "shop")
        made = await when(
            admin,
            APISERVICENAMESPACES,
            "shop",
            cluster,
            until=lambda body: body.get("status", {}).get("namespace"),
        )
        data = made["status"]["namespace"]
        await admin.create(
            GADGETS,
            {
                "apiVersion": "example.org/v1",
                "kind": "Gadgets",
                "metadata": {"name": "blue", "namespace": data},
            },
        )
        for namespace in (data, cluster, DEFAULT_NAMESPACE):
            await admin.create(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "blue", "namespace": namespace},
                    "stringData": {"mark": MARK},
                },
            )
        yield Two(it, ada, ben, own, cluster, data)


FORGED: list[tuple[JSON, str]] = [
    ({"clusterIdentity": {"identity": ADAS}}, ""),
    ({"clusterIdentity": {"identity": "ui-identity"}}, f"?consumer_id={ADAS}"),
    ({"clusterIdentity": {"identity": ADAS}}, f"?consumer_id={ADAS}"),
    ({"clusterIdentity": {"identity": ADAS}, "author": ADA.author}, ""),
    ({"clusterIdentity": {"identity": ADA.author}}, ""),
    ({"clusterIdentity": {"identity": "ui-identity"}}, f"?consumer_id={quote(ADA.author)}"),
    ({"clusterIdentity": {"identity": "group:oidc:team-a"}}, ""),
    ({"clusterIdentity": {"identity": ADMINS}}, ""),
    ({"clusterIdentity": {"identity": cluster_namespace(ADAS, "kube-bind-")}}, ""),
    (
        {
            "clusterIdentity": {"identity": ADAS},
            "kubeconfigSecretRef": {"name": "blue", "key": "mark"},
        },
        "",
    ),
]


async def test_no_body_of_a_bind_gives_anothers_kubeconfig(two: Two) -> None:
    await invite(two.it.admin, name=ADMINS, template="gizmos")
    for spec, query in FORGED:
        body = {"spec": {"templateRef": {"name": "gizmos"}, **spec}, "author": ADA.author}
        answer = await two.it.ask(BEN, f"/api/bind{query}", "POST", json=body)
        assert answer.status == 403, (spec, query, answer.text)
        assert two.cluster not in answer.text


LIKE_HERS = [
    ADAS.upper(),
    f"{ADAS}\u200b",
    f"{ADAS} ",
    f"{ADAS}\u00a0",
    f"{ADAS}\x00",
    ADAS.replace("a", "\u0430"),
    ADAS.replace("-", "\u2010"),
    "".join(chr(ord(one) + 0xFEE0) for one in ADAS),
    ADAS[:-1],
    f"{ADAS}-2",
    f"{ADAS}/",
    f"./{ADAS}",
    "\U0001f600" * 512,
    f"HTTPS://{ISSUER.removeprefix('https://')}/ada",
    "Group:oidc:team-a",
]
"""Identities that look like Ada's, or would be hers if they were tidied."""


async def test_an_identity_that_looks_like_hers_is_another(two: Two) -> None:
    for identity in LIKE_HERS:
        answer = await two.it.bind(BEN, "gizmos", identity)
        assert answer.status in {200, 400}, (identity, answer.text)
        if answer.status == 200:
            namespace = answer.json["providerNamespace"]
            assert namespace not in {two.cluster, two.data}
            found = await two.it.admin.get(NAMESPACES, namespace)
            assert found.meta.annotations[ANNOTATION_IDENTITY] == identity
            assert found.meta.annotations[ANNOTATION_AUTHOR] == BEN.author


async def test_a_namespace_whose_name_collides_is_not_handed_out(two: Two) -> None:
    """As if two identities had one hash: the namespace stays with whom it was made for."""
    name = cluster_namespace("cluster-new", "kube-bind-")
    annotations = {ANNOTATION_IDENTITY: "cluster-old", ANNOTATION_AUTHOR: ADA.author}
    metadata = {"name": name, "annotations": annotations}
    await two.it.admin.create(NAMESPACES, {"metadata": metadata})
    answer = await two.it.bind(BEN, "gizmos", "cluster-new")
    assert answer.status == 409, answer.text
    assert name not in answer.text
    kept = await two.it.admin.get(NAMESPACES, name)
    assert kept.meta.annotations[ANNOTATION_IDENTITY] == "cluster-old"


async def test_the_door_tells_him_nothing_of_hers(two: Two) -> None:
    for asked in (ADAS, ADA.author, two.cluster, two.data, "*", ""):
        answer = await two.it.ask(BEN, f"/api/consumer-status?consumer_id={quote(asked)}")
        assert answer.json == {"connected": False}
    found = (await two.it.ask(BEN, "/api/templates")).text
    assert "gizmos" in found
    assert "gadgets" not in found


async def test_a_kubeconfig_opens_no_door_and_a_session_no_api_server(two: Two) -> None:
    for path in ("/api/ping", "/api/templates", "/api/consumer-status"):
        for client in (two.ada, two.ben):
            headers = {"Authorization": f"Bearer {client.config.token}"}
            # Of this house the ping has no route.
            assert (await two.it.door.ask(path, headers=headers)).status in {401, 404}
    token, _ = await two.it.sessions.create(BEN, "cli")
    async with Client(replace(two.ben.config, token=token)) as client:
        with pytest.raises((Unauthorized, Forbidden)):
            await client.list(SECRETS, two.own)


KUBE = "/apis/kube-bind.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
READS = [
    "/api/v1/namespaces",
    "/api/v1/namespaces/{cluster}",
    "/api/v1/namespaces/{data}",
    "/api/v1/namespaces/fairlead-serve",
    "/api/v1/secrets",
    "/api/v1/namespaces/{cluster}/secrets",
    "/api/v1/namespaces/{cluster}/secrets/kubeconfig",
    "/api/v1/namespaces/{data}/secrets",
    "/api/v1/namespaces/{data}/secrets/blue",
    "/api/v1/namespaces/fairlead-serve/secrets",
    "/api/v1/namespaces/fairlead-serve/secrets/blue",
    "/api/v1/namespaces/kube-system/secrets",
    "/api/v1/namespaces/{cluster}/serviceaccounts",
    "/apis/example.org/v1/gadgets",
    "/apis/example.org/v1/gizmos",
    "/apis/example.org/v1/namespaces/{data}/gadgets",
    "/apis/example.org/v1/namespaces/{data}/gadgets/blue",
    f"{KUBE}/apiserviceexports",
    f"{KUBE}/namespaces/{{cluster}}/apiserviceexports",
    f"{KUBE}/namespaces/{{cluster}}/apiserviceexports/gadgets",
    f"{KUBE}/namespaces/{{cluster}}/apiserviceexportrequests",
    f"{KUBE}/namespaces/{{cluster}}/apiservicenamespaces",
    f"{KUBE}/namespaces/{{cluster}}/boundschemas",
    f"{KUBE}/namespaces/{{cluster}}/clusterbindings/cluster",
    f"{KUBE}/apiserviceexporttemplates",
    f"{KUBE}/collections",
    f"{KUBE}/bindableresourcesrequests",
    f"{KUBE}/namespaces/{{own}}/bindableresourcesrequests",
    f"{KUBE}/namespaces/fairlead-serve/bindableresourcesrequests",
    f"{RBAC}/clusterroles",
    f"{RBAC}/namespaces/{{own}}/rolebindings",
]
FORGE: JSON = {"metadata": {"name": "forged"}}
STEAL: JSON = FORGE | {
    "spec": {
        "templateRef": {"name": "gadgets"},
        "clusterIdentity": {"identity": ADAS},
        "author": ADA.author,
        "kubeconfigSecretRef": {"name": "stolen", "key": "binding-response"},
    },
}
RECORD: JSON = {"spec": {"serviceProviderSpec": {"templates": [{"name": "gadgets"}]}}}
THEIRS: JSON = {"metadata": {"annotations": {ANNOTATION_AUTHOR: BEN.author}}}
WRITES: list[tuple[str, str, JSON | None]] = [
    ("POST", f"{KUBE}/namespaces/{{own}}/bindableresourcesrequests", STEAL),
    ("POST", f"{KUBE}/namespaces/fairlead-serve/bindableresourcesrequests", STEAL),
    ("POST", f"{KUBE}/namespaces/{{cluster}}/apiserviceexportrequests", FORGE),
    ("POST", f"{KUBE}/namespaces/{{own}}/apiserviceexports", FORGE),
    ("POST", f"{KUBE}/apiserviceexporttemplates", offer("forged", "gadgets")),
    ("POST", f"{KUBE}/namespaces/{{own}}/clusterbindings", FORGE),
    ("POST", f"{KUBE}/namespaces/{{own}}/boundschemas", FORGE),
    ("POST", f"{KUBE}/namespaces/{{cluster}}/apiservicenamespaces", FORGE),
    ("POST", "/api/v1/namespaces/{own}/secrets", FORGE),
    ("POST", "/api/v1/namespaces/{data}/secrets", FORGE),
    ("POST", "/api/v1/namespaces", FORGE),
    ("POST", "/api/v1/namespaces/{own}/serviceaccounts", FORGE),
    ("POST", "/api/v1/namespaces/{cluster}/serviceaccounts/kube-binder/token", {}),
    ("POST", f"{RBAC}/namespaces/{{own}}/rolebindings", FORGE),
    ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "ada"}}),
    ("POST", "/apis/example.org/v1/namespaces/{data}/gadgets", FORGE),
    ("DELETE", "/apis/example.org/v1/namespaces/{data}/gadgets/blue", None),
    ("DELETE", f"{KUBE}/namespaces/{{cluster}}/apiservicenamespaces/shop", None),
    ("PATCH", "/api/v1/namespaces/{own}", THEIRS),
    ("PATCH", "/api/v1/namespaces/{cluster}", THEIRS),
    ("PATCH", "/api/v1/namespaces/{own}/secrets/kubeconfig", FORGE),
    ("PATCH", f"{KUBE}/namespaces/{{own}}/clusterbindings/cluster", RECORD),
]


async def tried(
    client: Client, tries: Iterable[tuple[str, str, JSON | None]], **names: str
) -> list[str]:
    """The tries that were not forbidden."""
    found = []
    for method, path, body in tries:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        asked = path.format(**names)
        try:
            await client.request(method, asked, body=body, content_type=kind)
        except Forbidden:
            continue
        except ClientError as error:
            found.append(f"{method} {asked}: {error}")
        else:
            found.append(f"{method} {asked}")
    return found


async def test_his_kubeconfig_reads_and_makes_nothing_of_hers(two: Two) -> None:
    names = {"own": two.own, "cluster": two.cluster, "data": two.data}
    assert await tried(two.ben, [("GET", path, None) for path in READS], **names) == []
    assert await tried(two.ben, WRITES, **names) == []
    user = f"system:serviceaccount:{two.cluster}:kube-binder"
    for person in (Impersonation(user), Impersonation("ben", ("system:masters",))):
        async with Client(replace(two.ben.config, impersonation=person)) as client:
            assert await tried(client, [("GET", READS[5], None)], **names) == []
    # The same paths are not closed to each and all.
    mine = [("GET", path, None) for path in ("/api/v1/namespaces/{data}/secrets/blue", READS[16])]
    assert len(await tried(two.it.admin, mine, **names)) == len(mine)


@pytest.mark.parametrize("name", ["gadgets", "gizmos"])
async def test_he_exports_nothing_of_a_template_that_is_not_his(two: Two, name: str) -> None:
    # The status of his record he may write, its spec not along with it.
    path = f"{KUBE}/namespaces/{two.own}/clusterbindings/cluster/status"
    patch = RECORD | {"status": {"konnectorVersion": "v1.0.0"}}
    await two.ben.request("PATCH", path, body=patch, content_type="application/merge-patch+json")
    body: JSON = {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExportRequest",
        "metadata": {"name": name, "namespace": two.own},
        "spec": {
            "resources": [{"group": "example.org", "resource": "gadgets", "versions": ["v1"]}],
            "namespaces": [{"name": "shop"}],
        },
    }
    await two.ben.create(APISERVICEEXPORTREQUESTS, body)
    found = await when(
        two.it.admin,
        APISERVICEEXPORTREQUESTS,
        name,
        two.own,
        until=lambda body: body.get("status", {}).get("phase") in {"Failed", "Succeeded"},
    )
    assert found["status"]["phase"] == "Failed", found
    assert not (await two.it.admin.list(APISERVICEEXPORTS, two.own)).items


async def test_a_namespace_that_he_names_is_not_hers(two: Two) -> None:
    response = await two.it.bind(BEN, "gizmos", BENS)
    await request_export(two.ben, two.own, response.json["requests"][0])
    for name in (two.cluster, two.data, DEFAULT_NAMESPACE, "shop"):
        await request_namespace(two.ben, two.own, name)
        found = await when(
            two.it.admin,
            APISERVICENAMESPACES,
            name,
            two.own,
            until=lambda body: (
                body.get("status", {}).get("namespace") or body.get("status", {}).get("conditions")
            ),
        )
        assert found["status"].get("namespace") not in {two.data, two.cluster, DEFAULT_NAMESPACE}
    for namespace in (two.data, two.cluster):
        with pytest.raises(Forbidden):
            await two.ben.list(SECRETS, namespace)
