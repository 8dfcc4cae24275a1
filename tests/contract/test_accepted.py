"""Invalid built-in objects that a real server refuses and the sandbox accepts.

A row that goes red on the sandbox says that it has become stricter: then
``docs/compatibility.md`` loses that example.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.planes import ControlPlane
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, PODS, SERVICES, Resource
from fairlead.client import Client, Invalid


CRONJOBS = Resource("batch", "v1", "cronjobs", "CronJob")


def pod(container: JSON | None = None, **spec: Any) -> JSON:
    one = {"name": "a", "image": "busybox", **(container or {})}
    # A real server completes a Pod with the token of its ServiceAccount, which may be late.
    known = {"containers": [one], "automountServiceAccountToken": False}
    return {"metadata": {"name": "a"}, "spec": {**known, **spec}}


def deployment(**spec: Any) -> JSON:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    known = {"selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "a"}, "spec": {**known, **spec}}


def service(**port: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80, **port}]}}


@pytest.mark.parametrize(
    ("resource", "body"),
    [
        pytest.param(PODS, pod({"name": "A_b"}), id="container-name"),
        pytest.param(PODS, pod({"ports": [{"containerPort": 70000}]}), id="container-port"),
        pytest.param(PODS, pod({"imagePullPolicy": "Sometimes"}), id="pull-policy"),
        pytest.param(
            PODS, pod({"volumeMounts": [{"name": "no", "mountPath": "/a"}]}), id="no-such-volume"
        ),
        pytest.param(
            PODS,
            pod({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
            id="requests-above-limits",
        ),
        pytest.param(PODS, pod({"livenessProbe": {"periodSeconds": 5}}), id="probe-of-nothing"),
        pytest.param(PODS, pod(restartPolicy="Sometimes"), id="restart-policy"),
        pytest.param(PODS, pod(volumes=[{"name": "a"}, {"name": "a"}]), id="volumes-of-one-name"),
        pytest.param(DEPLOYMENTS, deployment(replicas=-1), id="negative-replicas"),
        pytest.param(DEPLOYMENTS, deployment(strategy={"type": "Odd"}), id="strategy"),
        pytest.param(SERVICES, service(port=0), id="service-port"),
        pytest.param(SERVICES, service(protocol="HTTP"), id="service-protocol"),
        pytest.param(
            SERVICES,
            {"metadata": {"name": "a"}, "spec": {"type": "Odd", "ports": [{"port": 80}]}},
            id="service-type",
        ),
        pytest.param(
            CRONJOBS,
            {
                "metadata": {"name": "a"},
                "spec": {
                    "schedule": "every day",
                    "jobTemplate": {
                        "spec": {"template": {"spec": pod(restartPolicy="Never")["spec"]}}
                    },
                },
            },
            id="schedule",
            marks=today("CronJobs are v1beta1"),
        ),
    ],
)
async def test_what_the_sandbox_does_not_look_at(
    client: Client, namespace: str, control_plane: ControlPlane, resource: Resource, body: JSON
) -> None:
    if control_plane.is_real:
        with pytest.raises(Invalid):
            await client.create(resource, body, namespace)
        return
    await client.create(resource, body, namespace)
