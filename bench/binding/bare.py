"""The bare loader of the binding controllers: it makes their writes, and those of the users too.

It looks at nothing but the uid of what it created, tells nobody, and checks nothing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

import msgspec

from bench.binding.load import SERVICE, binding, workload
from bench.loading import Side, Write, delete, each, encoded, patch, post, twin
from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, EVENTS, SECRETS, SUBJECTACCESSREVIEWS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, SPEC_FINALIZER


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

    async def change(self, names: Iterable[str]) -> float:
        """Time to give each workload another Secret."""
        begun = time.monotonic()
        change = {"data": encoded({"password": "y"})}
        await self._side.send(patch(SECRETS, self._namespace, SERVICE, change))
        await each(self._connections, self._change, names)
        return time.monotonic() - begun

    async def select(self, name: str, workloads: Sequence[str], user: str) -> float:
        """Time to bind many workloads with one binding, each after a review."""
        begun = time.monotonic()
        uid = await self._begin(name)
        secret = await self._secret(name, uid, "a")
        reviews = (review(user, one) for one in workloads)
        await each(self._connections, self._side.send, reviews)

        async def project(workload: str) -> None:
            await self._project(workload, name, uid, secret)

        await each(self._connections, project, workloads)
        await self._tell(name, secret)
        return time.monotonic() - begun

    async def _each(self, do: Callable[[str], Awaitable[None]], names: Iterable[str]) -> float:
        begun = time.monotonic()
        await each(self._connections, do, names)
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


def review(user: str, name: str) -> Write:
    """Ask whether a user may update a workload."""
    attributes = {
        "namespace": "default",
        "verb": "update",
        "group": DEPLOYMENTS.group,
        "version": DEPLOYMENTS.version,
        "resource": DEPLOYMENTS.plural,
        "name": name,
    }
    spec = {"user": user, "groups": [], "resourceAttributes": attributes}
    return post(SUBJECTACCESSREVIEWS, "", {"spec": spec})
