"""Writes name the very object that was looked at; what took its name since is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.ends import executor
from tests.support.stale import GONE, StaleServer

from fairlead.api.kubebind import APISERVICENAMESPACES, FINALIZER_UNBIND
from fairlead.api.kubebind.conditions import KubeBindCondition
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.status import StatusDetails
from fairlead.konnector.controllers.namespacelifecycle.controller import (
    NamespaceLifecycleController,
)
from fairlead.konnector.controllers.unbind.controller import UnbindController
from fairlead.konnector.controllers.unbind.reconcile import UnbindPlan
from fairlead.konnector.options import Options
from fairlead.konnector.policies.holding import ClusterHold
from fairlead.konnector.policies.steps import Delete, Pair, PatchMetadata, Read
from fairlead.konnector.reports import Reports
from fairlead.runtime import Request


KEY = Key("shop", "creds")
TARGET = Key("abc-shop", "creds")
VERSIONED = {"uid": "u-1", "resourceVersion": "7"}


def known(kind: str, key: Key, **metadata: Any) -> Object:
    identity = {"name": key.name, "namespace": key.namespace, **VERSIONED, **metadata}
    return object_from_dict({"apiVersion": "v1", "kind": kind, "metadata": identity})


def pair(**given: Any) -> Pair:
    found: JSON = {"consumer": known("ConfigMap", KEY), "provider": known("ConfigMap", TARGET)}
    return Pair(**{**found, "key": KEY, "target": TARGET, **given})


async def test_a_copy_is_deleted_by_its_uid() -> None:
    server = StaleServer({})
    writing = executor(server.client, server.client)
    await writing.carry_out(Delete("provider", TARGET, "u-1"), pair())
    await writing.carry_out(Delete("consumer", KEY, "u-1"), pair())
    assert server.written("delete", "configmaps") == [("creds", {"uid": "u-1"})] * 2


@pytest.mark.parametrize("side", ["consumer", "provider"])
async def test_an_object_is_patched_as_it_was_seen(side: Any) -> None:
    server = StaleServer({})
    step = PatchMetadata(side, {"finalizers": ["a"]})
    await executor(server.client, server.client).carry_out(step, pair())
    patches = [patch["metadata"] for _, patch in server.written("patch", "configmaps")]
    assert patches == [{**VERSIONED, "finalizers": ["a"]}]


@pytest.mark.parametrize(
    ("absent", "gone"),
    [pytest.param(GONE, True, id="gone"), pytest.param(None, False, id="kind-not-served")],
)
async def test_an_object_of_the_consumer_is_gone_when_the_server_says_so(
    absent: StatusDetails | None, gone: bool
) -> None:
    server = StaleServer({}, absent=absent)
    writing = executor(server.client, server.client)
    after = await writing.carry_out(Read("consumer"), pair(consumer=None))
    assert (after is not None and "consumer" in after.gone) is gone


async def test_a_crd_is_deleted_by_its_uid_and_version() -> None:
    server = StaleServer({})
    consumer = SimpleNamespace(client=server.client, options=Options())
    controller = UnbindController(cast("Any", consumer), cast("Any", None))
    crd = known("CustomResourceDefinition", Key("", "things.example.org"))
    await controller._carry_out(
        known("APIServiceBinding", Key("", "db")), UnbindPlan(delete=[crd])
    )
    assert server.written("delete", "customresourcedefinitions") == [
        ("things.example.org", {"uid": "u-1", "resource_version": "7"})
    ]


@pytest.mark.parametrize(
    ("owned", "ended"),
    [
        pytest.param(False, ["db"], id="handed-over"),
        pytest.param(True, [], id="left-to-the-collector"),
    ],
)
async def test_the_work_on_objects_that_were_handed_over_ends_before_the_binding(
    owned: bool, ended: list[str]
) -> None:
    metadata = {"name": "db", **VERSIONED, "finalizers": [FINALIZER_UNBIND]}
    binding = object_from_dict({"kind": "APIServiceBinding", "metadata": metadata})
    owner = {"apiVersion": "v1", "kind": "APIServiceBinding", "name": "db", "uid": "u-1"}
    crd = object_from_dict({"metadata": {"name": "x", "ownerReferences": [owner]}})
    server = StaleServer({}, [binding])
    crds = SimpleNamespace(list=lambda: [crd] if owned else [])
    consumer = SimpleNamespace(client=server.client, options=Options(), crds=crds)
    calls: list[str] = []

    async def end(name: str) -> None:
        assert not server.written("patch", "apiservicebindings")
        calls.append(name)

    async def forget(_name: str) -> None:
        return

    provider = SimpleNamespace(end_objects=end, forget_cluster=forget)
    connections = SimpleNamespace(of=lambda _name: provider)
    controller = UnbindController(cast("Any", consumer), cast("Any", connections))
    await controller._carry_out(binding, UnbindPlan(release=True))
    assert calls == ended
    assert server.written("patch", "apiservicebindings")


@pytest.mark.parametrize(
    ("live", "absent", "deleted"),
    [
        pytest.param([], GONE, True, id="gone"),
        pytest.param([known("Namespace", Key("", "shop"))], GONE, False, id="there"),
        pytest.param([], None, False, id="unknown"),
    ],
)
async def test_a_service_namespace_goes_with_a_namespace_that_is_gone(
    live: list[Object], absent: StatusDetails | None, deleted: bool
) -> None:
    server = StaleServer({}, live, absent=absent)
    nothing = SimpleNamespace(get=lambda *_: None)
    found = known("APIServiceNamespace", Key("abc", "shop"))
    provider = SimpleNamespace(
        client=server.client,
        consumer=SimpleNamespace(client=server.client, namespaces=nothing),
        service_namespaces=SimpleNamespace(get=lambda _: found),
        holding_of_namespaces=lambda: "",
    )
    controller = NamespaceLifecycleController(cast("Any", provider))
    await controller._reconcile(Request("", "", "shop"))
    expected = [("shop", {"uid": "u-1"})] if deleted else []
    assert server.written("delete", APISERVICENAMESPACES.plural) == expected


@pytest.mark.parametrize(
    ("connected", "told"),
    [
        pytest.param(False, "there is no connection to the provider", id="not-connected-yet"),
        pytest.param(True, "may not delete things", id="connected"),
    ],
)
async def test_a_binding_waits_for_its_claims_and_says_what_is_in_the_way(
    connected: bool, told: str
) -> None:
    metadata = {
        "name": "db",
        **VERSIONED,
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": [FINALIZER_UNBIND],
    }
    ref = {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}
    claim = {"resource": "secrets", "selector": {}}
    body: JSON = {"metadata": metadata, "spec": {"kubeconfigSecretRef": ref}}
    found = object_from_dict({**body, "status": {"permissionClaims": [claim]}})
    said: list[str] = []

    async def set_(_name: str, condition: KubeBindCondition) -> None:
        said.append(condition.message)

    server = StaleServer({})
    consumer = SimpleNamespace(
        reports=Reports(),
        client=server.client,
        bindings=SimpleNamespace(get=lambda *_: found),
        crds=SimpleNamespace(list=list),
        statuses=SimpleNamespace(set=set_),
        options=Options(),
    )
    nothing = SimpleNamespace(get=lambda *_: None)
    provider = SimpleNamespace(
        namespace="cluster",
        retained={},
        kubebind=SimpleNamespace(exports=nothing, requests=nothing),
        hold=lambda _: ClusterHold(),
        claimed=lambda _: ["claimed secrets"],
        error=str,
        problem=lambda _: "may not delete things",
    )
    registry = SimpleNamespace(of=lambda _: provider if connected else None)
    controller = UnbindController(cast("Any", consumer), cast("Any", registry))
    result = await controller._reconcile(Request("", "", "db"))
    assert result is not None
    assert server.writes == []
    (message,) = said
    assert "claimed secrets" in message
    assert told in message


async def test_a_namespace_that_is_here_costs_no_look_at_all_exports() -> None:
    found = object_from_dict({"metadata": {"name": "shop", "namespace": "cluster"}})
    provider = SimpleNamespace(
        consumer=SimpleNamespace(namespaces=SimpleNamespace(get=lambda *_: found)),
        service_namespaces=SimpleNamespace(get=lambda _name: found),
        holding_of_namespaces=lambda: pytest.fail("it reads all exports"),
    )
    controller = NamespaceLifecycleController(cast("Any", provider))
    await controller._reconcile(Request("", "", "shop"))
