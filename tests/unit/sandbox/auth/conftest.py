from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from fairlead.api import resource as names
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import Resource
from fairlead_sandbox.auth import Secrets, install
from fairlead_sandbox.auth.guard import Guard
from fairlead_sandbox.auth.reviews import review_types
from fairlead_sandbox.auth.rules import RequestAttributes
from fairlead_sandbox.builtin import builtin_types
from fairlead_sandbox.controllers.namespaces import NamespaceContentController
from fairlead_sandbox.controllers.reactor import Reactor
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core, User
from fairlead_sandbox.objects.writes import WriteOptions
from fairlead_sandbox.requests.info import RequestInfo
from fairlead_sandbox.requests.router import Router
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.log import Log
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectStore


RBAC = "rbac.authorization.k8s.io"


@dataclass
class Plane:
    """A control plane without a listener."""

    core: Core
    router: Router
    guard: Guard
    keys: Secrets

    def type_of(self, resource: Resource) -> ResourceType:
        found = self.core.registry.by_collection(resource.group_resource)
        assert found is not None
        return found

    def create(
        self, resource: Resource, body: JSON, namespace: str = "", user: User | None = None
    ) -> Record:
        return writes.create(
            self.core, self.type_of(resource), namespace, body, WriteOptions(user)
        )

    def update(
        self, resource: Resource, name: str, change: JSON, namespace: str = "", user: Any = None
    ) -> Record:
        record = self.get(resource, name, namespace)
        assert record is not None
        body = record.to_dict() | change
        return writes.update(self.core, self.type_of(resource), record, body, WriteOptions(user))

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        self.core.store.remove(resource.group_resource, Key(namespace, name))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Record | None:
        return self.core.get(self.type_of(resource), Key(namespace, name))

    def role(self, name: str, *rules: JSON, namespace: str = "", **metadata: Any) -> None:
        resource = names.ROLES if namespace else names.CLUSTERROLES
        body = {"metadata": {"name": name, **metadata}, "rules": list(rules)}
        self.create(resource, body, namespace)

    def bind(
        self, role: str, *subjects: str, namespace: str = "", kind: str = "ClusterRole"
    ) -> None:
        resource = names.ROLEBINDINGS if namespace else names.CLUSTERROLEBINDINGS
        self.create(resource, binding(f"b-{role}", kind, role, *subjects), namespace)

    def may(self, user: User, verb: str, resource: str = "", **more: str) -> bool:
        info = RequestInfo("/x", verb, is_resource=True, resource=resource, **more)  # type: ignore[arg-type]
        return self.guard.authorize(user, info).allowed

    async def ask(self, headers: dict[str, str]) -> User:
        info = RequestInfo("/x", "list", is_resource=True, resource="pods")
        return await self.guard.authenticate(make_mocked_request("GET", "/api", headers), info)


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> JSON:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()} | more


def binding(name: str, kind: str, role: str, *subjects: str) -> JSON:
    """A binding to subjects written as ``User:bob`` or ``ServiceAccount:ns/name``."""
    found = []
    for subject in subjects:
        what, _, who = subject.partition(":")
        namespace, _, short = who.rpartition("/")
        found.append(
            {"kind": what, "name": short} | ({"namespace": namespace} if namespace else {})
        )
    return {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role},
        "subjects": found,
    }


def attributes(verb: str, resource: str, **more: str) -> RequestAttributes:
    return RequestAttributes(verb, resource=resource, **more)


@pytest.fixture(scope="session")
def keys() -> Secrets:
    return Secrets("test", None, tls=True)


@pytest.fixture
def make_plane(keys: Secrets) -> Iterator[Callable[..., Plane]]:
    logs: list[Log] = []

    def make(*, rbac: bool = True) -> Plane:
        logs.append(Log(None))
        core = Core(ObjectStore(logs[-1]), ResourceRegistry([*builtin_types(), *review_types()]))
        reactor = Reactor()
        core.store.observe(reactor.observe)
        reactor.add(NamespaceContentController(core, reactor))
        router = Router(core)
        guard = install(core, router, reactor, keys, rbac=rbac, host="127.0.0.1")
        return Plane(core, router, guard, keys)

    yield make
    for log in logs:
        log.close()


@pytest.fixture
async def plane(make_plane: Callable[..., Plane]) -> Plane:
    made = make_plane()
    for name in ("a", "b"):
        made.create(names.NAMESPACES, {"metadata": {"name": name}})
    await settle()
    return made


async def settle() -> None:
    """Let the controllers do what follows from what was written."""
    for _ in range(8):
        await asyncio.sleep(0)


Settle = Callable[[], Awaitable[None]]
