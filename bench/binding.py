"""The binding controllers against a bare loader that makes the same writes on the same server.

On a real control plane where KUBEBUILDER_ASSETS has one, else on a sandbox.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec
from tests.support.realplane import missing_assets

from bench.loading import (
    NAMESPACES,
    Place,
    Side,
    Watched,
    Write,
    delete,
    each,
    encoded,
    loader,
    patch,
    post,
    regrouped,
    side,
    twin,
)
from bench.planes import Program, control_plane, running, scratch
from bench.rows import TITLES, Row, kibibytes, milliseconds, pace, report, say
from bench.sizes import BINDINGS, PARTS
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, EVENTS, SECRETS, Resource
from fairlead.api.resource import NAMESPACES as NAMESPACE_KIND
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER, servicebinding_crd
from fairlead.binding.app import install_crds as install_binding_crds
from fairlead.binding.manifests import NAME, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.runtime import install_crds


SERVICE = "database"
"""The name of the Secret that is bound."""


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
    return post(NAMESPACE_KIND, "", {"metadata": {"name": name}})


def secret(namespace: str, name: str, password: str = "x") -> Write:
    data = {"type": "postgresql", "username": name, "password": password, "host": "db.example"}
    return post(SECRETS, namespace, {"metadata": {"name": name}, "data": encoded(data)})


def deployment(namespace: str, name: str) -> Write:
    return post(DEPLOYMENTS, namespace, workload(name))


def workload(name: str) -> JSON:
    pod = {"labels": {"app": name}}
    container = {
        "name": "app",
        "image": f"registry.example/{name}:1.0",
        "env": [{"name": f"SETTING_{number}", "value": "x" * 20} for number in range(6)],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": pod["labels"]},
            "replicas": 0,
            "template": {"metadata": pod, "spec": {"containers": [container]}},
        },
    }


def binding(resource: Resource, namespace: str, name: str) -> Write:
    """Bind the Secret to the workload of its name; a type of its own makes a Secret of it."""
    body: JSON = {
        "metadata": {"name": name},
        "spec": {
            "type": "postgresql",
            "service": {"apiVersion": "v1", "kind": "Secret", "name": SERVICE},
            "workload": {
                "apiVersion": DEPLOYMENTS.api_version,
                "kind": DEPLOYMENTS.kind,
                "name": name,
            },
        },
    }
    return post(resource, namespace, body)


class Users:
    """Users of the controllers, who bind what is called as the workload is."""

    def __init__(self, side: Side, connections: int) -> None:
        self._side = side
        self._connections = connections

    async def send(self, writes: Iterable[Write]) -> None:
        """Write all, and wait for nothing."""
        await each(self._connections, self._side.send, writes)

    async def create(self, places: Sequence[Place]) -> float:
        """Time from the first binding created until all are Ready."""
        writes = [binding(SERVICEBINDINGS, *place) for place in places]
        return await self._side.until_ready(SERVICEBINDINGS, places, writes, self._connections)

    async def delete(self, places: Sequence[Place]) -> float:
        """Time from the first deletion until all are unbound and gone."""
        return await self._side.until_gone(SERVICEBINDINGS, places, self._connections)

    async def change(self, namespace: str, password: str, names: Sequence[str]) -> float:
        """Time from a new password until every workload mounts another Secret."""
        workloads = await self._side.items(DEPLOYMENTS, namespace, Deployment)
        before = {one.metadata.place: one.secrets for one in workloads}
        change = {"data": encoded({"password": password})}
        return await self._side.settle(
            DEPLOYMENTS,
            Deployment,
            lambda _, one: bool(one.secrets) and one.secrets != before.get(one.metadata.place),
            [(namespace, name) for name in names],
            lambda: self._side.send(patch(SECRETS, namespace, SERVICE, change)),
        )


BARE = twin(SERVICEBINDINGS)

_RECORD = "projection.servicebinding.io/00000000-0000-0000-0000-000000000000"


class _Created(msgspec.Struct):
    class Metadata(msgspec.Struct):
        uid: str

    metadata: Metadata


class Bare:
    """The bare loader, on objects of its own that look like those of the users."""

    def __init__(self, side: Side, connections: int, namespace: str) -> None:
        self._side = side
        self._connections = connections
        self._namespace = namespace
        self._events = itertools.count()

    async def bind(self, names: Iterable[str]) -> float:
        """Time to create and bind."""
        return await self._each(self._bind, names)

    async def unbind(self, names: Iterable[str]) -> float:
        """Time to delete and unbind."""
        return await self._each(self._unbind, names)

    async def _each(self, do: Callable[[str], Awaitable[None]], names: Iterable[str]) -> float:
        begun = time.monotonic()
        await each(self._connections, do, names)
        return time.monotonic() - begun

    async def _bind(self, name: str) -> None:
        uid = await self._begin(name)
        secret = await self._secret(name, uid, "a")
        await self._project(name, name, uid, secret)
        await self._tell(name, secret)

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
        """Create as a user does, and add the finalizer."""
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


AIM_PACE = 0.6


class Turn(NamedTuple):
    """Seconds that the controllers took, and the bare loader."""

    number: int
    seconds: float
    bare: float
    cpu: float
    """Seconds of the controllers' CPU."""
    requests: float
    """Requests of the controllers to the API server."""


class Kept(NamedTuple):
    """Bytes that the controllers' memory has grown by, with so many things."""

    number: int
    memory: float


def rows(
    plane: str,
    bind: tuple[Turn, Turn] | None = None,
    namespaces: Kept | None = None,
    unrelated: Kept | None = None,
) -> Iterator[Row]:
    """Print the figures of each part that was measured."""
    if bind:
        title = f"{plane}: {bind[0].number:,} bindings"
        yield from _turn("many", f"{title} on as many Deployments", bind[0], aim=AIM_PACE)
        yield from _turn("unmany", f"{title} unbound", bind[1])
    for key, what, kept in (
        ("spread", "bindings in as many namespaces", namespaces),
        ("unrelated", "unrelated objects", unrelated),
    ):
        if kept:
            title = f"{plane}: {kept.number:,} {what}: our memory for each"
            yield kibibytes(f"binding_{key}_memory", title, kept.memory / kept.number)


def _turn(key: str, title: str, one: Turn, *, aim: float | None = None) -> Iterator[Row]:
    key = f"binding_{key}"
    yield pace(f"{key}_pace", f"{title}: pace of the bare loader's", one.seconds, one.bare, aim)
    yield milliseconds(
        f"{key}_cpu_ms",
        f"{title}: our CPU each",
        one.cpu / one.number,
        note=f"{one.cpu:.2f} s in all, {one.requests / one.number:.1f} requests each",
    )


PLACES, UNRELATED = 0.2, 40.0
"""Numbers of the others, each a multiple of that of all bindings at once."""
CONNECTIONS = 16
WARM = 20
HOME, LOADED = NAMESPACES[0], NAMESPACES[1]
"""Namespaces of what is bound by us, and of what is written by the bare loader."""


class Bench:
    """All that is measured in one place; each part finds what the ones before it left."""

    def __init__(self, program: Program, users: Users, bare: Bare) -> None:
        self._program = program
        self._users = users
        self._bare = bare

    async def turns(self, prefix: str, count: int) -> tuple[Turn, Turn]:
        """Bind so many at once, and unbind all of them again."""
        names = await self._workloads(prefix, count)
        half = count // 2
        bare = await self._bare.bind(names[:half])
        bound = await self._turn(count, self._create(names))
        bound = bound._replace(bare=bare + await self._bare.bind(names[half:]))
        bare = await self._bare.unbind(names[:half])
        unbound = await self._turn(count, self._users.delete(_places(names)))
        return bound, unbound._replace(bare=bare + await self._bare.unbind(names[half:]))

    async def spread(self, count: int) -> Kept:
        """Bind in each of many namespaces."""
        places = [(f"place-{number:03}", "web") for number in range(count)]
        await self._users.send(namespace(name) for name, _ in places)
        await self._users.send(secret(name, SERVICE) for name, _ in places)
        await self._users.send(deployment(*place) for place in places)
        memory = await self._program.resident_at_rest()
        await self._users.create(places)
        kept = Kept(count, await self._program.resident_at_rest() - memory)
        await self._users.delete(places)
        return kept

    async def unrelated(self, count: int) -> Kept:
        """Add unrelated objects beside a binding, half of them Secrets, half Deployments."""
        await self._create(await self._workloads("one", 1))
        memory = await self._program.resident_at_rest()
        half = range(count // 2)
        await self._users.send(secret(HOME, f"unrelated-{number}") for number in half)
        await self._users.send(deployment(HOME, f"unrelated-{number}") for number in half)
        return Kept(count, await self._program.resident_at_rest() - memory)

    async def _workloads(self, prefix: str, count: int) -> list[str]:
        """Make Deployments for us and for the bare loader."""
        names = [f"{prefix}-{number}" for number in range(count)]
        await self._users.send(
            deployment(namespace, name) for namespace in (HOME, LOADED) for name in names
        )
        return names

    async def _create(self, names: list[str]) -> float:
        return await self._users.create(_places(names))

    async def _turn(self, count: int, work: Awaitable[float]) -> Turn:
        cpu, before = self._program.cpu(), await self._program.metrics()
        seconds = await work
        await self._program.resident_at_rest()
        after = await self._program.metrics()
        cpu = self._program.cpu() - cpu
        return Turn(count, seconds, 1.0, cpu, after.requests - before.requests)


def _places(names: list[str]) -> list[Place]:
    return [(HOME, name) for name in names]


async def install(admin: Client) -> ClusterConfig:
    """Install the controllers; their credentials."""
    await install_binding_crds(admin)
    await create_all(admin, manifests(image="bench"))
    return await as_service_account(admin, DEFAULT_NAMESPACE, NAME)


@asynccontextmanager
async def place(kind: str) -> AsyncIterator[Bench]:
    """Run a control plane, the controllers with the rights of their manifests, and a loader."""
    async with AsyncExitStack() as stack:
        own = stack.enter_context(scratch())
        plane = await stack.enter_async_context(control_plane(kind, own))
        admin = await stack.enter_async_context(Client(plane.admin))
        account = await install(admin)
        await install_crds(admin, [regrouped(servicebinding_crd(), BARE)])
        program = await stack.enter_async_context(running("binding", account, own))
        groups = (SERVICEBINDINGS, BARE, DEPLOYMENTS)
        config = await loader(admin, "", *(one.group for one in groups))
        loading = await stack.enter_async_context(side(config))
        users = Users(loading, CONNECTIONS)
        await users.send(secret(namespace, SERVICE) for namespace in (HOME, LOADED))
        bench = Bench(program, users, Bare(loading, CONNECTIONS, LOADED))
        await bench.turns("warm", WARM)
        yield bench


async def compare() -> list[Row]:
    """Measure all parts, or the chosen ones."""
    kind = "sandbox" if missing_assets() else "real"
    async with place(kind) as bench:
        parts: dict[str, Callable[[], Awaitable[Any]]] = {
            "bind": partial(bench.turns, "many", BINDINGS),
            "namespaces": partial(bench.spread, int(PLACES * BINDINGS)),
            "unrelated": partial(bench.unrelated, int(UNRELATED * BINDINGS)),
        }
        found = {}
        for part, measure in parts.items():
            if not PARTS or part in PARTS:
                found[part] = await measure()
                say(str(found[part]))
    return list(rows(TITLES[kind], **found))


if __name__ == "__main__":
    report(compare)
