"""Objects that the tables of the binding tests begin with."""

from __future__ import annotations

import base64
from typing import Any

from fairlead.api.meta import JSON


def meta(name: str, **more: Any) -> JSON:
    return {"name": name, "namespace": "ns", "uid": f"uid-{name}", **more}


def secret(name: str = "s1", *, annotations: dict[str, str] | None = None, **data: str) -> JSON:
    entries = data or {"type": "postgresql", "password": "pw"}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in entries.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta(name, annotations=annotations or {}),
        "data": encoded,
    }


def database(name: str = "db", binding: str | None = "s1", **spec: Any) -> JSON:
    body: JSON = {
        "apiVersion": "x.io/v1",
        "kind": "Database",
        "metadata": meta(name),
        "spec": spec,
    }
    if binding is not None:
        body["status"] = {"binding": {"name": binding}}
    return body


def crd(
    *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None
) -> JSON:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "databases.x.io",
            "annotations": annotations or {},
            "labels": labels or {},
        },
        "spec": {"versions": []},
    }


def deployment(
    name: str = "web",
    *,
    labels: dict[str, str] | None = None,
    containers: list[JSON] | None = None,
    volumes: list[JSON] | None = None,
) -> JSON:
    pod: JSON = {"containers": containers or [{"name": "app"}]}
    if volumes is not None:
        pod["volumes"] = volumes
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name, labels=labels or {}),
        "spec": {"template": {"spec": pod}},
    }


def cronjob(name: str = "night", *, labels: dict[str, str] | None = None, **spec: Any) -> JSON:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": meta(name, labels=labels or {}),
        "spec": {"jobTemplate": {"spec": deployment()["spec"]}, **spec},
    }


def spec_binding(
    *,
    workload: JSON | None = None,
    service: JSON | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> JSON:
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ServiceBinding",
        "metadata": meta("sb", generation=1, annotations=annotations or {}),
        "spec": {
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment"}
            | ({"name": "web"} if workload is None else workload),
            "service": service or {"apiVersion": "x.io/v1", "kind": "Database", "name": "db"},
            **spec,
        },
    }


def coreos_binding(
    *, services: list[JSON] | None = None, application: JSON | None = None, **spec: Any
) -> JSON:
    default = {"group": "x.io", "version": "v1", "kind": "Database", "name": "db"}
    return {
        "apiVersion": "binding.operators.coreos.com/v1alpha1",
        "kind": "ServiceBinding",
        "metadata": meta("sb", generation=1),
        "spec": {
            "services": services or [default],
            "application": {"group": "apps", "version": "v1", "resource": "deployments"}
            | ({"name": "web"} if application is None else application),
            **spec,
        },
    }


SECRET_SERVICE = {"apiVersion": "v1", "kind": "Secret", "name": "s1"}


def pod(workload: JSON) -> JSON:
    spec: JSON = workload["spec"]
    found: JSON = spec.get("jobTemplate", {"spec": spec})["spec"]["template"]["spec"]
    return found


def edited(binding: JSON, **spec: Any) -> None:
    """Change the spec as a user does: the generation rises."""
    binding["spec"].update(spec)
    binding["metadata"]["generation"] += 1


def deleted(binding: JSON) -> None:
    """Delete a binding that has a finalizer: servers raise the generation then, too."""
    binding["metadata"]["generation"] += 1
    binding["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"


def conditions(binding: JSON) -> dict[str, tuple[str, str]]:
    return {
        item["type"]: (item["status"], item["reason"]) for item in binding["status"]["conditions"]
    }


def message(binding: JSON, type_: str) -> str:
    for item in binding["status"]["conditions"]:
        if item["type"] == type_:
            return str(item["message"])
    return ""
