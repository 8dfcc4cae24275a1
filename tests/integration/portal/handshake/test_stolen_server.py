"""What a stolen token of the server's ServiceAccount can do, with the rights of its manifests.

It signs people in, and so can pass for each of them at its own door: it gets the kubeconfigs of
the consumers that were bound there. It gets no other's, and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import NamedTuple

import pytest
from tests.integration.portal.handshake.conftest import ADA, ISSUER, House, house
from tests.integration.portal.handshake.test_two_people import tried
from tests.support.waiting import condition, when

from fairlead.api.kubebind import API_VERSION, BINDABLERESOURCESREQUESTS
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client
from fairlead.demo.identity import as_service_account
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead.provider.invitation import invite
from fairlead_sandbox import Sandbox


ELSEWHERE = "team-x"


class Stolen(NamedTuple):
    """A house that works, its server's token, and the namespace of a consumer that has bound."""

    it: House
    thief: Client
    cluster: str


@pytest.fixture
async def stolen(plane: Sandbox, admin: Client) -> AsyncIterator[Stolen]:
    async with AsyncExitStack() as stack:
        it = await stack.enter_async_context(house(plane, admin))
        await it.template()
        await it.allow("User:oidc:ada")
        answer = await it.bind(ADA)
        assert answer.status == 200, answer.text
        await admin.create(NAMESPACES, {"metadata": {"name": ELSEWHERE}})
        config = await as_service_account(admin, DEFAULT_NAMESPACE, NAME)
        thief = await stack.enter_async_context(Client(config))
        yield Stolen(it, thief, answer.json["providerNamespace"])


KUBE = "/apis/kube-bind.io/v1alpha2"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
TRIES: list[tuple[str, str, JSON | None]] = [
    ("GET", "/api/v1/secrets", None),
    ("GET", "/api/v1/namespaces/{cluster}/secrets", None),
    ("GET", "/api/v1/namespaces/{cluster}/secrets/kubeconfig", None),
    ("GET", "/api/v1/namespaces/kube-system/secrets", None),
    ("GET", "/api/v1/namespaces/team-x/secrets", None),
    ("POST", "/api/v1/namespaces/{cluster}/secrets", {"metadata": {"name": "x"}}),
    ("POST", "/api/v1/namespaces/team-x/secrets", {"metadata": {"name": "x"}}),
    ("POST", "/api/v1/namespaces", {"metadata": {"name": "x"}}),
    ("PATCH", "/api/v1/namespaces/{cluster}", {"metadata": {"annotations": {"a": "b"}}}),
    ("DELETE", "/api/v1/namespaces/{cluster}", None),
    ("GET", "/api/v1/serviceaccounts", None),
    ("POST", "/api/v1/namespaces/fairlead-serve/serviceaccounts", {"metadata": {"name": "x"}}),
    ("POST", "/api/v1/namespaces/{cluster}/serviceaccounts/kube-binder/token", {}),
    ("GET", "/api/v1/pods", None),
    ("POST", "/api/v1/namespaces/fairlead-serve/pods", {"metadata": {"name": "x"}}),
    ("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": "x"}}),
    ("POST", f"{RBAC}/namespaces/fairlead-serve/rolebindings", {"metadata": {"name": "x"}}),
    ("GET", f"{KUBE}/bindableresourcesrequests", None),
    ("GET", f"{KUBE}/namespaces/team-x/bindableresourcesrequests", None),
    ("POST", f"{KUBE}/namespaces/team-x/bindableresourcesrequests", {"metadata": {"name": "x"}}),
    ("POST", f"{KUBE}/namespaces/{{cluster}}/apiserviceexportrequests", {"metadata": {}}),
    ("GET", f"{KUBE}/apiserviceexportrequests", None),
    ("GET", f"{KUBE}/boundschemas", None),
    ("PATCH", f"{KUBE}/apiserviceexporttemplates/widgets", {"metadata": {"labels": {}}}),
    ("DELETE", f"{KUBE}/apiserviceexporttemplates/widgets", None),
    ("GET", "/apis/example.org/v1/widgets", None),
]


async def test_it_reads_and_makes_nothing_outside_its_namespace(stolen: Stolen) -> None:
    assert await tried(stolen.thief, TRIES, cluster=stolen.cluster) == []


def asking(namespace: str, identity: str, author: str) -> JSON:
    return {
        "apiVersion": API_VERSION,
        "kind": "BindableResourcesRequest",
        "metadata": {"name": "forged", "namespace": namespace},
        "spec": {
            "templateRef": {"name": "widgets"},
            "clusterIdentity": {"identity": identity},
            "author": author,
        },
    }


async def reason(admin: Client, namespace: str) -> str:
    body = await when(
        admin,
        BINDABLERESOURCESREQUESTS,
        "forged",
        namespace,
        until=lambda body: body.get("status", {}).get("phase") in {"Failed", "Succeeded"},
    )
    return str(condition(body, "Ready")["reason"])


async def test_it_gets_no_consumer_that_an_administrator_invited(stolen: Stolen) -> None:
    admin = stolen.it.admin
    await invite(admin, name="shop", template="widgets")
    await stolen.thief.create(
        BINDABLERESOURCESREQUESTS, asking(DEFAULT_NAMESPACE, "shop", ADA.author)
    )
    assert await reason(admin, DEFAULT_NAMESPACE) == "IdentityTaken"


async def test_it_gets_no_consumer_of_requests_in_another_namespace(stolen: Stolen) -> None:
    admin = stolen.it.admin
    author = f"{ISSUER}/ben"
    await admin.create(BINDABLERESOURCESREQUESTS, asking(ELSEWHERE, "theirs", author))
    assert await reason(admin, ELSEWHERE) == "SecretReady"
    await stolen.thief.create(
        BINDABLERESOURCESREQUESTS, asking(DEFAULT_NAMESPACE, "theirs", author)
    )
    assert await reason(admin, DEFAULT_NAMESPACE) == "IdentityTaken"


async def test_requests_elsewhere_get_no_consumer_of_the_front_door(stolen: Stolen) -> None:
    """Who may make requests in a namespace of their own names Ada as their author."""
    admin = stolen.it.admin
    await admin.create(BINDABLERESOURCESREQUESTS, asking(ELSEWHERE, "cluster-1", ADA.author))
    assert await reason(admin, ELSEWHERE) == "IdentityTaken"
    found = await admin.list(SECRETS, ELSEWHERE)
    assert not [one for one in found.items if one.meta.name.startswith("forged")]
    assert (await stolen.it.bind(ADA)).status == 200
