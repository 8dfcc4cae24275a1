"""Owners that the server tells where newer servers do and one of Kubernetes 1.20 does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sandbox.api import CRDS, WIDGETS, Api, crd, widget

from fairlead.api.meta import JSON


CONFIG = "application/apply-patch+yaml"
NAMESPACES = "/api/v1/namespaces"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.fixture
async def widgets(api: Api) -> None:
    assert (await api.post(CRDS, crd())).code == 201


def owners(body: JSON) -> dict[tuple[str, str], Any]:
    return {
        (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in body["metadata"]["managedFields"]
    }


async def test_each_endpoint_gives_what_it_writes_to_own(api: Api, widgets: None) -> None:
    both = widget("a", spec={"size": 1}, status={"size": 4})
    made = await api.patch(f"{WIDGETS}/a?fieldManager=me", both, CONFIG)
    assert owners(made.body)["me", ""].keys() == {"f:spec"}
    assert "status" not in made.body
    told = await api.patch(f"{WIDGETS}/a/status?fieldManager=me", both, CONFIG)
    assert owners(told.body)["me", "status"].keys() == {"f:status"}
    assert told.body["status"] == {"size": 4}


async def test_scaling_owns_the_replicas(api: Api, widgets: None) -> None:
    await api.patch(f"{WIDGETS}/a?fieldManager=me", widget("a", spec={"size": 1}), CONFIG)
    scale = {"spec": {"replicas": 5}}
    assert (await api.patch(f"{WIDGETS}/a/scale?fieldManager=hand", scale)).code == 200
    found = (await api.get(f"{WIDGETS}/a")).body
    assert owners(found)["hand", "scale"] == {"f:spec": {"f:size": {}}}
    again = widget("a", spec={"size": 2})
    reply = await api.patch(f"{WIDGETS}/a?fieldManager=me", again, CONFIG)
    assert reply.code == 409
    assert 'conflict with "hand" with subresource "scale" using' in reply.message


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        pytest.param(
            NAMESPACES,
            {"metadata": {"name": "n", "labels": {"a": "b"}}},
            {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:status": {"f:phase": {}}},
            id="namespace",
        ),
        pytest.param(
            SERVICES,
            {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}},
            {
                "f:spec": {
                    "f:clusterIP": {},
                    "f:internalTrafficPolicy": {},
                    "f:selector": {},
                    "f:sessionAffinity": {},
                    "f:type": {},
                }
            },
            id="service",
        ),
    ],
)
async def test_what_the_server_fills_in_is_nobodys(
    api: Api, path: str, body: JSON, expected: JSON
) -> None:
    made = await api.post(f"{path}?fieldManager=me", body)
    assert made.code == 201, made.body
    assert owners(made.body) == {("me", ""): expected}


async def test_a_job_owns_no_labels_but_its_own(api: Api) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"metadata": {"labels": {"mine": "1"}}, "spec": pod}
    body = {"metadata": {"name": "j"}, "spec": {"template": template}}
    made = await api.post(f"{JOBS}?fieldManager=me", body)
    own = owners(made.body)["me", ""]
    assert "f:metadata" not in own
    assert "f:selector" not in own["f:spec"]
    labels = own["f:spec"]["f:template"]["f:metadata"]["f:labels"]
    assert labels == {".": {}, "f:mine": {}}
