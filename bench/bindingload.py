"""What users write who bind services, and the bare loader that makes the controllers' writes too.

The loader looks at nothing but the uid of what it created, tells nobody, and checks nothing.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from bench.syncload import CREATE, MERGE, Side, Watched, Write, each
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    DEPLOYMENTS,
    EVENTS,
    NAMESPACES,
    SECRETS,
    SUBJECTACCESSREVIEWS,
    Resource,
)
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER


BARE = Resource("bare.bench", "v1", "servicebindings", "ServiceBinding")
"""The same kind once more, which only the bare loader writes."""
SERVICE = "database"
"""The Secret that is bound."""
SECONDS = 200.0
"""Whatever has not happened by then never will."""


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    conditions: list[_Condition] = []


class Binding(Watched):
    """What is looked at of a binding."""

    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ready(self) -> bool:
        """Whether it is bound as it is now."""
        return self.status.observed_generation == self.metadata.generation and any(
            one.type == "Ready" and one.status == "True" for one in self.status.conditions
        )


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
    """What is looked at of a workload."""

    spec: _DeploymentSpec

    @property
    def secrets(self) -> list[str]:
        """The Secrets that it mounts."""
        return [one.secret.get("secretName", "") for one in self.spec.template.spec.volumes]


class _Created(msgspec.Struct):
    class Metadata(msgspec.Struct):
        uid: str

    metadata: Metadata


def post(resource: Resource, namespace: str, body: JSON) -> Write:
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
    return Write("POST", resource.path(namespace), msgspec.json.encode(whole), CREATE)


def patch(resource: Resource, namespace: str, name: str, body: JSON, part: str = "") -> Write:
    path = resource.path(namespace, name, part) if part else resource.path(namespace, name)
    return Write("PATCH", path, msgspec.json.encode(body), MERGE)


def delete(resource: Resource, namespace: str, name: str) -> Write:
    return Write("DELETE", resource.path(namespace, name), b"", CREATE)


def namespace(name: str) -> Write:
    return post(NAMESPACES, "", {"metadata": {"name": name}})


def secret(namespace: str, name: str, password: str = "x") -> Write:
    data = {"type": "postgresql", "username": name, "password": password, "host": "db.example"}
    return post(SECRETS, namespace, {"metadata": {"name": name}, "data": encoded(data)})


def encoded(data: dict[str, str]) -> dict[str, str]:
    return {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}


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
    """A binding of the Secret to the workload of its name; its own type makes a Secret of it."""
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
        self.side = side
        self.connections = connections

    async def send(self, writes: Iterable[Write]) -> None:
        """Write all, and wait for nothing."""
        await each(self.connections, (partial(self.side.send, one) for one in writes))

    async def create(self, writes: Sequence[Write], names: Iterable[tuple[str, str]]) -> float:
        """Seconds from the first binding created until all are Ready."""
        missing, done = set(names), asyncio.Event()

        def look(_type: str, found: Binding) -> None:
            if found.ready:
                missing.discard((found.metadata.namespace, found.metadata.name))
                if not missing:
                    done.set()

        async with self.side.watching(SERVICEBINDINGS, look, Binding):
            return await self._timed(writes, done, missing)

    async def delete(self, names: Sequence[tuple[str, str]]) -> float:
        """Seconds from the first deletion until all are unbound and gone."""
        missing, done = set(names), asyncio.Event()

        def look(type_: str, found: Binding) -> None:
            if type_ == "DELETED":
                missing.discard((found.metadata.namespace, found.metadata.name))
                if not missing:
                    done.set()

        writes = [delete(SERVICEBINDINGS, *name) for name in names]
        async with self.side.watching(SERVICEBINDINGS, look, Binding):
            return await self._timed(writes, done, missing)

    async def change(self, namespace: str, password: str, names: Sequence[str]) -> float:
        """Seconds from a new password until every workload mounts another Secret."""
        missing, done = set(names), asyncio.Event()
        before: dict[str, list[str]] = {}

        def look(_type: str, found: Deployment) -> None:
            name = found.metadata.name
            if found.secrets and found.secrets != before.get(name):
                missing.discard(name)
                if not missing:
                    done.set()

        answer = await self.side.send(Write("GET", DEPLOYMENTS.path(namespace), b"", CREATE))
        for one in msgspec.json.decode(answer, type=_Deployments).items:
            before[one.metadata.name] = one.secrets
        change = {"data": encoded({"password": password})}
        writes = [patch(SECRETS, namespace, SERVICE, change)]
        async with self.side.watching(DEPLOYMENTS, look, Deployment):
            return await self._timed(writes, done, missing)

    async def versions(self, namespace: str) -> dict[tuple[str, str], str]:
        """Of all that a binding has, by plural and name."""
        found: dict[tuple[str, str], str] = {}
        for resource in (SERVICEBINDINGS, SECRETS, DEPLOYMENTS):
            write = Write("GET", resource.path(namespace), b"", CREATE)
            answer = msgspec.json.decode(await self.side.send(write), type=_Any)
            for one in answer.items:
                found[resource.plural, one.metadata.name] = one.metadata.resource_version
        return found

    async def _timed(
        self, writes: Sequence[Write], done: asyncio.Event, missing: set[Any]
    ) -> float:
        begun = time.monotonic()
        await self.send(writes)
        try:
            async with asyncio.timeout(SECONDS):
                await done.wait()
        except TimeoutError:
            some = ", ".join(sorted(map(str, missing))[:3])
            raise RuntimeError(f"{len(missing)} are not done: {some}") from None
        return time.monotonic() - begun


class _Any(msgspec.Struct):
    items: list[Watched]


class _Deployments(msgspec.Struct):
    items: list[Deployment]


class Bare:
    """The bare loader, on objects of its own that look like those of the users."""

    def __init__(self, side: Side, connections: int, namespace: str) -> None:
        self._side = side
        self._connections = connections
        self._namespace = namespace
        self._events = itertools.count()

    async def bind(self, names: Iterable[str]) -> float:
        """Seconds to create and bind."""
        return await self._each(self._bind, names)

    async def unbind(self, names: Iterable[str]) -> float:
        """Seconds to delete and unbind."""
        return await self._each(self._unbind, names)

    async def change(self, names: Iterable[str]) -> float:
        """Seconds to give each workload another Secret."""
        begun = time.monotonic()
        change = {"data": encoded({"password": "y"})}
        await self._side.send(patch(SECRETS, self._namespace, SERVICE, change))
        await each(self._connections, (partial(self._change, name) for name in names))
        return time.monotonic() - begun

    async def select(self, name: str, workloads: Sequence[str], user: str) -> float:
        """Seconds to bind many workloads with one binding, each after a review."""
        begun = time.monotonic()
        uid = await self._begin(name)
        secret = await self._secret(name, uid, "a")
        reviews = (partial(self._side.send, review(user, one)) for one in workloads)
        await each(self._connections, reviews)
        writes = (partial(self._project, one, name, uid, secret) for one in workloads)
        await each(self._connections, writes)
        await self._tell(name, secret)
        return time.monotonic() - begun

    async def _each(self, do: Callable[[str], Awaitable[None]], names: Iterable[str]) -> float:
        begun = time.monotonic()
        await each(self._connections, (partial(do, name) for name in names))
        return time.monotonic() - begun

    async def _bind(self, name: str) -> None:
        uid = await self._begin(name)
        secret = await self._secret(name, uid, "a")
        await self._project(name, name, uid, secret)
        await self._tell(name, secret)

    async def _change(self, name: str) -> None:
        secret = await self._secret(name, "", "b")
        await self._project(name, name, "", secret)
        await self._status(name, secret)
        await self._side.send(delete(SECRETS, self._namespace, f"{name}-aaaaaaaa"))

    async def _unbind(self, name: str) -> None:
        namespace = self._namespace
        await self._side.send(delete(BARE, namespace, name))
        pod = workload(name)["spec"]["template"]["spec"]
        containers = [{**pod["containers"][0], "volumeMounts": []}]
        body = {
            "metadata": {"annotations": {_RECORD: None}},
            "spec": {"template": {"spec": {"volumes": [], "containers": containers}}},
        }
        await self._side.send(patch(DEPLOYMENTS, namespace, name, body))
        await self._side.send(patch(BARE, namespace, name, {"metadata": {"finalizers": []}}))

    async def _begin(self, name: str) -> str:
        """What a user creates, and the finalizer."""
        answer = await self._side.send(binding(BARE, self._namespace, name))
        kinds = '[{"group":"apps","version":"v1","kind":"Deployment"}]'
        metadata = {
            "finalizers": [SPEC_FINALIZER],
            "annotations": {"servicebinding.io/projected-kinds": kinds},
        }
        await self._side.send(patch(BARE, self._namespace, name, {"metadata": metadata}))
        return msgspec.json.decode(answer, type=_Created).metadata.uid

    async def _secret(self, name: str, uid: str, letter: str) -> str:
        owner = {"apiVersion": BARE.api_version, "kind": BARE.kind, "name": name, "uid": uid}
        metadata: JSON = {
            "name": f"{name}-{letter * 8}",
            "annotations": {"servicebinding.io/recorded": "true"},
            "ownerReferences": [{**owner, "controller": True}] if uid else [],
        }
        data = {"type": "postgresql", "username": SERVICE, "password": letter, "host": "db"}
        await self._side.send(
            post(SECRETS, self._namespace, {"metadata": metadata, "data": encoded(data)})
        )
        return str(metadata["name"])

    async def _project(self, workload_: str, name: str, uid: str, secret: str) -> None:
        container = workload(workload_)["spec"]["template"]["spec"]["containers"][0]
        container["env"].append({"name": "SERVICE_BINDING_ROOT", "value": "/bindings"})
        container["volumeMounts"] = [{"name": name, "mountPath": f"/bindings/{name}"}]
        pod = {
            "volumes": [{"name": name, "secret": {"secretName": secret}}],
            "containers": [container],
        }
        record = {
            "group": "servicebinding.io",
            "name": name,
            "created": "2026-01-01T00:00:00Z",
            "secret": secret,
            "volumes": ["spec", "template", "spec", "volumes"],
            "volume": name,
            "containers": [
                {
                    "path": ".spec.template.spec.containers[*]",
                    "env": ["env"],
                    "volumeMounts": ["volumeMounts"],
                    "name": ["name"],
                    "bound": {"app": {"mount": f"/bindings/{name}"}},
                }
            ],
        }
        body = {
            "metadata": {"annotations": {_RECORD: msgspec.json.encode(record).decode()}},
            "spec": {"template": {"spec": pod}},
        }
        await self._side.send(patch(DEPLOYMENTS, self._namespace, workload_, body))

    async def _tell(self, name: str, secret: str) -> None:
        await self._status(name, secret)
        reference = {
            "apiVersion": BARE.api_version,
            "kind": BARE.kind,
            "name": name,
            "namespace": self._namespace,
        }
        event = {
            "metadata": {"name": f"{name}.{next(self._events):x}"},
            "involvedObject": reference,
            "reason": "ApplicationsBound",
            "message": "the service is bound to the workload",
            "type": "Normal",
            "source": {"component": "bench"},
        }
        await self._side.send(post(EVENTS, self._namespace, event))

    async def _status(self, name: str, secret: str) -> None:
        types = ("CollectionReady", "InjectionReady", "ServiceAvailable", "Ready")
        conditions = [
            {
                "type": type_,
                "status": "True",
                "reason": "ApplicationsBound",
                "message": "",
                "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
            for type_ in types
        ]
        status = {"observedGeneration": 1, "conditions": conditions, "binding": {"name": secret}}
        await self._side.send(patch(BARE, self._namespace, name, {"status": status}, "status"))


_RECORD = "projection.servicebinding.io/00000000-0000-0000-0000-000000000000"


def review(user: str, name: str) -> Write:
    """Whether a user may update a workload."""
    attributes = {
        "namespace": "default",
        "verb": "update",
        "group": DEPLOYMENTS.group,
        "version": DEPLOYMENTS.version,
        "resource": DEPLOYMENTS.plural,
        "name": name,
    }
    spec = {"user": user, "groups": [], "resourceAttributes": attributes}
    body = {
        "apiVersion": SUBJECTACCESSREVIEWS.api_version,
        "kind": SUBJECTACCESSREVIEWS.kind,
        "spec": spec,
    }
    return Write("POST", SUBJECTACCESSREVIEWS.path(), msgspec.json.encode(body), CREATE)
