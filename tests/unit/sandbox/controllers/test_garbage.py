from __future__ import annotations

import asyncio

from tests.unit.sandbox.api import CONFIGMAPS, Api, configmap

from fairlead.api.meta import JSON
from fairlead_sandbox import Sandbox


ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


def _owner(kind: str, name: str, uid: str, version: str = "v1") -> list[JSON]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid}]


async def _idle(sandbox: Sandbox) -> None:
    """Return once nothing follows from what happened any more."""
    version = -1
    while version != sandbox.core.store.rv:
        version = sandbox.core.store.rv
        for _ in range(3):
            await asyncio.sleep(0)


async def test_an_owner_of_an_unknown_kind_is_left_alone(sandbox: Sandbox, api: Api) -> None:
    owners = _owner("Mystery", "m", "u", "mystery.example.org/v1")
    await api.post(CONFIGMAPS, configmap("a", ownerReferences=owners))
    await _idle(sandbox)
    assert (await api.get(f"{CONFIGMAPS}/a")).code == 200


async def test_an_owner_in_another_namespace_is_none(sandbox: Sandbox, api: Api) -> None:
    made = await api.post(CONFIGMAPS, configmap("owner"))
    owners = _owner("ConfigMap", "owner", made.body["metadata"]["uid"])
    path = "/api/v1/namespaces/kube-public/configmaps"
    await api.post(path, configmap("a", ownerReferences=owners))
    await _idle(sandbox)
    assert (await api.get(f"{path}/a")).code == 404


async def test_a_cluster_scoped_owner_owns_across_namespaces(sandbox: Sandbox, api: Api) -> None:
    role = await api.post(ROLES, {"metadata": {"name": "r"}, "rules": []})
    owners = _owner(
        "ClusterRole", "r", role.body["metadata"]["uid"], "rbac.authorization.k8s.io/v1"
    )
    await api.post(CONFIGMAPS, configmap("a", ownerReferences=owners))
    await _idle(sandbox)
    assert (await api.get(f"{CONFIGMAPS}/a")).code == 200
    await api.delete(f"{ROLES}/r")
    await _idle(sandbox)
    assert (await api.get(f"{CONFIGMAPS}/a")).code == 404


async def test_a_namespaced_owner_of_a_cluster_scoped_object_is_left_alone(
    sandbox: Sandbox, api: Api
) -> None:
    owners = _owner("ConfigMap", "gone", "u")
    body = {"metadata": {"name": "r", "ownerReferences": owners}, "rules": []}
    await api.post(ROLES, body)
    await _idle(sandbox)
    assert (await api.get(f"{ROLES}/r")).code == 200


async def test_a_long_chain_goes_to_its_end(sandbox: Sandbox, api: Api) -> None:
    made = await api.post(CONFIGMAPS, configmap("a0"))
    for index in range(1, 20):
        uid = made.body["metadata"]["uid"]
        owners = _owner("ConfigMap", f"a{index - 1}", uid)
        made = await api.post(CONFIGMAPS, configmap(f"a{index}", ownerReferences=owners))
    await api.delete(f"{CONFIGMAPS}/a0")
    await _idle(sandbox)
    assert (await api.get(f"{CONFIGMAPS}/a19")).code == 404
