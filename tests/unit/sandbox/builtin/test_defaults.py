"""What a server adds to workloads and Services."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.sandbox.api import Api

from fairlead.api.meta import JSON


PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
TEMPLATE: JSON = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("app", "Always"),
        ("app:latest", "Always"),
        ("host:5000/app", "Always"),
        ("app:1", "IfNotPresent"),
        ("app@sha256:0123", "IfNotPresent"),
    ],
)
async def test_the_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    spec = {"containers": [{"name": "c", "image": image}]}
    made = await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    assert made.body["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_volumes_and_probes_are_completed(api: Api) -> None:
    container = {"name": "c", "image": "i", "livenessProbe": {"httpGet": {"port": 1}}}
    volumes = [{"name": "a"}, {"name": "b", "secret": {"secretName": "s"}}]
    spec = {"containers": [container], "volumes": volumes}
    made = await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    probe = made.body["spec"]["containers"][0]["livenessProbe"]
    assert probe["httpGet"] == {"port": 1, "path": "/", "scheme": "HTTP"}
    assert probe["periodSeconds"] == 10
    assert made.body["spec"]["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "secret": {"secretName": "s", "defaultMode": 420}},
    ]


@pytest.mark.parametrize(
    ("plural", "strategy"),
    [
        ("statefulsets", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        (
            "daemonsets",
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        ),
    ],
)
async def test_updates_roll(api: Api, plural: str, strategy: Any) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    path = f"/apis/apps/v1/namespaces/default/{plural}"
    made = await api.post(path, {"metadata": {"name": "x"}, "spec": spec})
    assert made.body["spec"]["updateStrategy"] == strategy


async def test_a_job_selects_its_pods_by_its_uid(api: Api) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    made = await api.post(path, {"metadata": {"name": "j"}, "spec": {"template": TEMPLATE}})
    uid = made.body["metadata"]["uid"]
    selector = {"batch.kubernetes.io/controller-uid": uid}
    assert made.body["spec"]["selector"] == {"matchLabels": selector}
    labels = made.body["spec"]["template"]["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == "j"
    assert selector.items() <= labels.items()


def service(name: str, **spec: Any) -> JSON:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_addresses_are_given_once_and_kept(api: Api) -> None:
    first = await api.post(SERVICES, service("a"))
    second = await api.post(SERVICES, service("b"))
    address = first.body["spec"]["clusterIP"]
    assert first.body["spec"]["clusterIPs"] == [address]
    assert second.body["spec"]["clusterIP"] != address
    again = await api.send("PUT", f"{SERVICES}/a", service("a"))
    assert again.body["spec"]["clusterIP"] == address
    moved = await api.send("PUT", f"{SERVICES}/a", service("a", clusterIP="10.96.9.9"))
    assert moved.code == 422
    assert 'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]' in moved.message


async def test_node_ports_are_given_once_and_kept(api: Api) -> None:
    first = await api.post(SERVICES, service("a", type="NodePort"))
    second = await api.post(SERVICES, service("b", type="NodePort"))
    ports = [made.body["spec"]["ports"][0]["nodePort"] for made in (first, second)]
    assert len(set(ports)) == 2
    again = await api.send("PUT", f"{SERVICES}/a", service("a", type="NodePort"))
    assert again.body["spec"]["ports"][0]["nodePort"] == ports[0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"ports": []}, "spec.ports: Required value", id="ports"),
        pytest.param({"type": "ExternalName"}, "spec.externalName: Required value", id="name"),
        pytest.param({"ports": [], "clusterIP": "None"}, "", id="headless"),
    ],
)
async def test_services_are_checked(api: Api, spec: JSON, message: str) -> None:
    made = await api.post(SERVICES, service("a", **spec))
    assert made.code == (422 if message else 201)
    assert message in made.body.get("message", "")


async def test_a_pod_that_nothing_runs_says_so(api: Api) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await api.post(PODS, {"metadata": {"name": "p"}, "spec": spec})
    log = await api.get(f"{PODS}/p/log")
    assert (log.code, log.message.partition(":")[0]) == (
        400,
        "pod p does not have a host assigned",
    )
    assert (await api.get(f"{PODS}/q/log")).code == 404
