"""Users of the binding controllers: they bind services to workloads, and wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from bench.loading import (
    Awaited,
    Conditioned,
    Side,
    Watched,
    Write,
    delete,
    each,
    encoded,
    patch,
    post,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, SECRETS, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS


SERVICE = "database"
"""The name of the Secret that is bound."""

Place = tuple[str, str]
"""The namespace and the name of a binding."""


class _Volume(msgspec.Struct):
    name: str = ""
    secret: dict[str, Any] = {}


class _PodSpec(msgspec.Struct):
    volumes: list[_Volume] = []


class _Template(msgspec.Struct):
    spec: _PodSpec


class _DeploymentSpec(msgspec.Struct):
    template: _Template


class Deployment(Watched):
    """A workload, as much of it as is looked at."""

    spec: _DeploymentSpec

    @property
    def secrets(self) -> list[str]:
        """Names of the Secrets that it mounts."""
        return [one.secret.get("secretName", "") for one in self.spec.template.spec.volumes]


def namespace(name: str) -> Write:
    return post(NAMESPACES, "", {"metadata": {"name": name}})


def secret(namespace: str, name: str, password: str = "x") -> Write:
    data = {"type": "postgresql", "username": name, "password": password, "host": "db.example"}
    return post(SECRETS, namespace, {"metadata": {"name": name}, "data": encoded(data)})


def deployment(namespace: str, name: str, labels: dict[str, str] | None = None) -> Write:
    return post(DEPLOYMENTS, namespace, workload(name, labels))


def workload(name: str, labels: dict[str, str] | None = None) -> JSON:
    pod = {"labels": {"app": name}}
    container = {
        "name": "app",
        "image": f"registry.example/{name}:1.0",
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(6)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "selector": {"matchLabels": pod["labels"]},
            "replicas": 0,
            "template": {"metadata": pod, "spec": {"containers": [container]}},
        },
    }


def binding(
    resource: Resource,
    namespace: str,
    name: str,
    selects: JSON | None = None,
    annotations: dict[str, str] | None = None,
) -> Write:
    """Bind the Secret to the workload of its name; a type of its own makes a Secret of it."""
    body: JSON = {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "type": "postgresql",
            "service": {"apiVersion": "v1", "kind": "Secret", "name": SERVICE},
            "workload": {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                **(selects or {"name": name}),
            },
        },
    }
    return post(resource, namespace, body)


class Users:
    """Users of the controllers."""

    def __init__(self, side: Side, connections: int) -> None:
        self._side = side
        self._connections = connections

    async def send(self, writes: Iterable[Write]) -> None:
        """Write all, and wait for nothing."""
        await each(self._connections, self._side.send, writes)

    async def create(self, writes: Sequence[Write], bindings: Iterable[Place]) -> float:
        """Time from the first binding created until all are Ready."""
        missing = Awaited(bindings)

        def look(_type: str, found: Conditioned) -> None:
            if found.ready:
                missing.told((found.metadata.namespace, found.metadata.name))

        async with self._side.watching(SERVICEBINDINGS, Conditioned, look):
            return await self._timed(writes, missing)

    async def delete(self, bindings: Sequence[Place]) -> float:
        """Time from the first deletion until all are unbound and gone."""
        missing = Awaited(bindings)

        def look(type_: str, found: Watched) -> None:
            if type_ == "DELETED":
                missing.told((found.metadata.namespace, found.metadata.name))

        writes = [delete(SERVICEBINDINGS, *binding) for binding in bindings]
        async with self._side.watching(SERVICEBINDINGS, Watched, look):
            return await self._timed(writes, missing)

    async def change(self, namespace: str, password: str, names: Sequence[str]) -> float:
        """Time from a new password until every workload mounts another Secret."""
        missing = Awaited(names)
        workloads = await self._side.items(DEPLOYMENTS, namespace, Deployment)
        before = {one.metadata.name: one.secrets for one in workloads}

        def look(_type: str, found: Deployment) -> None:
            name = found.metadata.name
            if found.secrets and found.secrets != before.get(name):
                missing.told(name)

        change = {"data": encoded({"password": password})}
        writes = [patch(SECRETS, namespace, SERVICE, change)]
        async with self._side.watching(DEPLOYMENTS, Deployment, look):
            return await self._timed(writes, missing)

    async def versions(self, namespace: str) -> dict[tuple[str, str, str], str]:
        """List the resourceVersions of all that bindings have, by plural, namespace and name."""
        found: dict[tuple[str, str, str], str] = {}
        for resource in (SERVICEBINDINGS, SECRETS, DEPLOYMENTS):
            found |= await self._side.versions(resource, namespace)
        return found

    async def _timed(self, writes: Sequence[Write], missing: Awaited) -> float:
        begun = time.monotonic()
        await self.send(writes)
        await missing.wait()
        return time.monotonic() - begun
