"""New credentials are tried before the old ones are given up."""

from __future__ import annotations

import pytest
from tests.integration.konnector.conftest import kubeconfig

from fairlead.api.kubebind import CLUSTERBINDINGS
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.konnector.controllers.clusterbinding.controller import Probe
from fairlead_sandbox import Sandbox


NAMESPACE = "cluster-abc"
TIE: JSON = {
    "apiVersion": "kube-bind.io/v1alpha2",
    "kind": "ClusterBinding",
    "metadata": {"name": "cluster", "namespace": NAMESPACE},
    "spec": {
        "kubeconfigSecretRef": {"name": "kubeconfig", "key": "kubeconfig"},
        "providerPrettyName": "Acme",
    },
}


@pytest.fixture
async def uid(client: Client, provider_kinds: None) -> str:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await client.create(NAMESPACES, namespace)
    return (await client.create(CLUSTERBINDINGS, TIE)).meta.uid


def given(plane: Sandbox, namespace: str = NAMESPACE) -> bytes:
    return kubeconfig(plane.url, namespace).replace("{token: t}", "{}").encode()


async def test_a_kubeconfig_that_leads_to_the_same_place_may_replace(
    plane: Sandbox, uid: str
) -> None:
    probe = Probe(NAMESPACE)
    assert await probe.fault(given(plane), uid=uid) == ""
    assert probe.retry_in is None


@pytest.mark.parametrize(
    ("namespace", "uid_there", "said"),
    [
        pytest.param("cluster-xyz", "", "'cluster-xyz'", id="another-namespace"),
        pytest.param(NAMESPACE, "another", "another cluster", id="another-cluster"),
    ],
)
async def test_one_that_leads_elsewhere_may_not(
    plane: Sandbox, uid: str, namespace: str, uid_there: str, said: str
) -> None:
    fault = await Probe(NAMESPACE).fault(given(plane, namespace), uid=uid_there or uid)
    assert said in fault


async def test_the_provider_may_have_no_such_tie(plane: Sandbox, client: Client, uid: str) -> None:
    await client.delete(CLUSTERBINDINGS, "cluster", NAMESPACE)
    assert "not found" in await Probe(NAMESPACE).fault(given(plane), uid=uid)


async def test_what_failed_is_not_tried_again_at_once(plane: Sandbox, uid: str) -> None:
    probe = Probe(NAMESPACE)
    plane.faults.fail("get", "clusterbindings", 403, times=1)
    first = await probe.fault(given(plane), uid=uid)
    assert "injected" in first
    assert await probe.fault(given(plane), uid=uid) == first
    assert probe.retry_in is not None
    assert 0 < probe.retry_in < 2


async def test_another_kubeconfig_is_tried_at_once(plane: Sandbox, uid: str) -> None:
    probe = Probe(NAMESPACE)
    assert await probe.fault(b"{", uid=uid)
    assert await probe.fault(given(plane), uid=uid) == ""
    assert probe.retry_in is None


async def test_what_failed_is_tried_again_after_a_while(
    plane: Sandbox, uid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = Probe(NAMESPACE)
    plane.faults.fail("get", "clusterbindings", 403, times=1)
    assert await probe.fault(given(plane), uid=uid)
    monkeypatch.setattr(Probe, "retry_in", 0.0)
    assert await probe.fault(given(plane), uid=uid) == ""
