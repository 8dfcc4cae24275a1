"""Only a server that speaks of the object itself can say that it is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from fairlead.api.meta import JSON, Key, OwnerReference, object_from_dict
from fairlead.api.resource import CONFIGMAPS
from fairlead.api.status import Status, StatusDetails
from fairlead.client import Client, NotFound
from fairlead.client.errors import api_error
from fairlead.konnector.claims.execution import Executor as Claims
from fairlead.konnector.claims.steps import Confirm, ConfirmNamespace
from fairlead.konnector.claims.steps import Sides as ClaimSides
from fairlead.konnector.policies.isolation import Namespaced
from fairlead.konnector.policies.steps import ConfirmProviderGone, DeleteProvider, Sides
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.sync.execution import Ends
from fairlead.konnector.sync.execution import Executor as Objects


KEY = Key("shop", "creds")
TARGET = Key("abc-shop", "creds")
EXPORT = OwnerReference("kube-bind.io/v1alpha2", "APIServiceExport", "db", "export-1")
ABOUT_IT = Status("Failure", "not found", "NotFound", 404, StatusDetails(name="creds"))
ANSWERS = [
    pytest.param(ABOUT_IT, True, id="the-object-is-gone"),
    pytest.param(Status(message="404 page not found", code=404), False, id="a-proxy-answers"),
    pytest.param(
        Status("Failure", "the server could not find the requested resource", "NotFound", 404),
        False,
        id="the-kind-is-not-served",
    ),
    pytest.param(
        Status("Failure", "not found", "NotFound", 404, StatusDetails(name="other")),
        False,
        id="another-object",
    ),
]


class Absent:
    """A server that answers everything with one 404."""

    def __init__(self, status: Status) -> None:
        self._error = api_error(status)

    async def get(self, *_: Any, **__: Any) -> None:
        raise self._error

    delete = get


class Silent:
    """An informer that never tells anything."""

    def subscribe(self, _: Any) -> None:
        return None


def client(status: Status) -> Client:
    return cast("Client", Absent(status))


def namespaces(status: Status) -> ServiceNamespaces:
    return ServiceNamespaces(client(status), cast("Any", Silent()), "abc")


def config_map(key: Key) -> JSON:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": "u-1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def claims(status: Status) -> Claims:
    clients: Any = {"consumer": client(status), "provider": client(status)}
    return Claims(CONFIGMAPS, clients, namespaces(status), EXPORT, forbidden=lambda _: None)


def objects(status: Status) -> Objects:
    return Objects(
        Ends(
            consumer=client(status),
            provider=client(status),
            consumer_resource=CONFIGMAPS,
            provider_resource=CONFIGMAPS,
            strategy=Namespaced("abc"),
            namespaces=namespaces(status),
            export=EXPORT,
        ),
        forbidden=lambda _: None,
    )


CLAIM_SIDES = ClaimSides(
    key=KEY,
    consumer=None,
    provider=None,
    target=TARGET,
    service_namespace=False,
    cluster_namespace="abc",
    binding_name="db",
    binding_uid="b-1",
    bindings=frozenset({"b-1"}),
    consumer_claimed=True,
    provider_claimed=True,
)
SIDES = Sides(
    consumer=None,
    provider=object_from_dict(config_map(TARGET)),
    target=TARGET,
    cluster_namespace="abc",
)


@pytest.mark.parametrize("side", ["consumer", "provider"])
@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_originals_of_claims(status: Status, believed: bool, side: Any) -> None:
    step = Confirm(side)
    if believed:
        after = await claims(status).carry_out(step, CLAIM_SIDES)
        assert after is not None
        assert after.confirmed_gone == {side}
        return
    with pytest.raises(NotFound):
        await claims(status).carry_out(step, CLAIM_SIDES)


@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_service_namespaces(status: Status, believed: bool) -> None:
    details = StatusDetails(name="shop") if believed else status.details
    told = Status(status.status, status.message, status.reason, 404, details)
    if believed:
        after = await claims(told).carry_out(ConfirmNamespace(), CLAIM_SIDES)
        assert after is not None
        assert after.namespace_gone
        return
    with pytest.raises(NotFound):
        await claims(told).carry_out(ConfirmNamespace(), CLAIM_SIDES)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(ConfirmProviderGone(), id="asked"),
        pytest.param(DeleteProvider(TARGET, "u-1"), id="deleted"),
    ],
)
@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_copies_of_objects(status: Status, believed: bool, step: Any) -> None:
    if believed:
        after = await objects(status).carry_out(KEY, step, SIDES)
        assert after is not None
        assert after.provider_gone
        return
    with pytest.raises(NotFound):
        await objects(status).carry_out(KEY, step, SIDES)
