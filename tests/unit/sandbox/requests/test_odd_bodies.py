"""No body, however odd, is answered with a fault of the server."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.sandbox.api import CRDS, TABLE, Api, crd

from fairlead.api.meta import JSON


POD: JSON = {
    "containers": [{"name": "c", "image": "i", "env": [{"name": "x"}]}],
    "volumes": [{"name": "v"}],
}
TEMPLATE: JSON = {"metadata": {"labels": {"a": "b"}}, "spec": POD}
BODIES: dict[str, JSON] = {
    "/api/v1/namespaces": {"spec": {"finalizers": ["kubernetes"]}},
    "/api/v1/namespaces/default/configmaps": {"data": {"a": "b"}, "immutable": False},
    "/api/v1/namespaces/default/secrets": {
        "data": {"a": "eA=="},
        "stringData": {"x": "y"},
        "type": "Opaque",
    },
    "/api/v1/namespaces/default/serviceaccounts": {"secrets": [{"name": "x"}]},
    "/api/v1/namespaces/default/services": {"spec": {"ports": [{"port": 1}]}},
    "/api/v1/namespaces/default/pods": {"spec": POD},
    "/api/v1/namespaces/default/events": {
        "involvedObject": {"kind": "x", "name": "y"},
        "series": {"count": 1},
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    },
    "/apis/batch/v1/namespaces/default/jobs": {"spec": {"template": TEMPLATE}},
    "/apis/batch/v1/namespaces/default/cronjobs": {"spec": {"schedule": "* * * * *"}},
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": {
        "rules": [{"apiGroups": [""], "resources": ["x"], "verbs": ["get"]}]
    },
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": {
        "subjects": [{"kind": "User", "name": "x"}],
        "roleRef": {"kind": "ClusterRole", "name": "x"},
    },
    CRDS: {"spec": crd()["spec"]},
}
ODD: list[Any] = [None, 1, "x", [1], [{}], {"a": 1}]
METADATA: JSON = {
    "labels": {"a": "b"},
    "annotations": {"a": "b"},
    "finalizers": ["a/b"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "y"}],
}


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for name, member in items:
        yield from _places(member, (*path, name))


def _with(body: JSON, path: tuple[Any, ...], value: Any) -> JSON:
    result = copy.deepcopy(body)
    target: Any = result
    for name in path[:-1]:
        target = target[name]
    target[path[-1]] = value
    return result


@pytest.mark.parametrize("path", BODIES)
async def test_wrong_types_are_refused_or_taken(api: Api, path: str) -> None:
    name = "widgets.example.org" if path == CRDS else "odd"
    body = {"metadata": {"name": name}, **BODIES[path]}
    for place in _places(body):
        for value in ODD:
            made = await api.post(path, _with(body, place, value))
            assert made.code < 500, (place, value, made.body)
            if made.code != 201:
                assert made.message
                continue
            assert (await api.get(path, accept=TABLE)).code == 200
            assert (await api.delete(f"{path}/{made.body['metadata']['name']}")).code == 200


async def test_wrong_metadata_is_refused(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "odd", **METADATA}}
    for place in _places(body):
        for value in ODD:
            made = await api.post(path, _with(body, place, value))
            assert made.code < 500, (place, value, made.body)
            if made.code == 201:
                at = f"{path}/{made.body['metadata']['name']}"
                await api.delete(at)
                await api.patch(at, {"metadata": {"finalizers": None}})


UNFIT = "failed to create typed patch object"


@pytest.mark.parametrize("path", BODIES)
async def test_odd_configurations_are_refused_or_applied(api: Api, path: str) -> None:
    name = "widgets.example.org" if path == CRDS else "odd"
    sample = (await api.post(path, {"metadata": {"name": name}, **BODIES[path]})).body
    kind = {"apiVersion": sample["apiVersion"], "kind": sample["kind"]}
    body = {**kind, "metadata": {"name": name, **METADATA}, **BODIES[path]}
    at = f"{path}/{name}?fieldManager=kubectl&force=true"
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": '{"metadata": 5}'}
    for place in _places(body):
        for value in ODD:
            await api.patch(f"{path}/{name}", {"metadata": {"annotations": annotation}})
            made = await api.patch(at, _with(body, place, value), "application/apply-patch+yaml")
            unfit = made.code == 500 and made.message.startswith(UNFIT)
            assert made.code < 500 or unfit, (place, value, made.body)
