"""Two control planes with Fairlead at work on them, for tests of the way between."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from tests.support.provider import example, prepare, running
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, condition, idle, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    LABEL_EXPORTED,
    BindingResponse,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, EVENTS, Resource
from fairlead.client import Client, ObjectList, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector.app import build, install_crds
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.manifests import NAME, manifests
from fairlead.konnector.options import DEFAULT_NAMESPACE, Options
from fairlead.provider.invitation import invite
from fairlead.provider.manifests import export_roles
from fairlead.provider.options import ProviderOptions
from fairlead.runtime import Cluster, Manager
from fairlead.runtime import install_crds as install
from fairlead_sandbox import Sandbox
from fairlead_sandbox.errors import StatusError


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


class Requests:
    """Counts what a sandbox is asked."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.seen: list[tuple[str, str]] = [("none", "none")]
        original = sandbox.faults.apply

        async def apply(info: Any) -> None:
            self.seen.append((info.verb, info.resource))
            await original(info)

        sandbox.faults.apply = apply  # type: ignore[method-assign]

    def count(self, *verbs: str, resource: str = "") -> int:
        return sum(
            1
            for verb, found in self.seen
            if (not verbs or verb in verbs) and resource in {"", found}
        )


def hide_from_discovery(sandbox: Sandbox, group: str) -> None:
    """Have a group served and not told of, as an API server does with a CRD of a moment ago."""
    original = sandbox.faults.apply

    async def apply(info: Any) -> None:
        if not info.is_resource and info.path.startswith(f"/apis/{group}"):
            raise StatusError(404, "NotFound", "not told of yet")
        await original(info)

    sandbox.faults.apply = apply  # type: ignore[method-assign]


class Lies:
    """Tells the konnector that a provider has no objects of one resource, in its lists."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox) -> None:
        self._faults = sandbox.faults
        self._about: Resource | None = None
        self._told = asyncio.Event()
        original = Client.list

        async def lied(client: Client, resource: Resource, *args: Any, **more: Any) -> ObjectList:
            found = await original(client, resource, *args, **more)
            if resource != self._about or not client.config.namespace.startswith("kube-bind-"):
                return found
            self._told.set()
            return msgspec.structs.replace(found, items=[])

        monkeypatch.setattr(Client, "list", lied)

    async def tell_nothing_of(self, resource: Resource) -> None:
        """Have everybody list again, and wait until the konnector was lied to."""
        self._about = resource
        self._faults.fail("watch", resource.plural, 410, times=-1)
        self._faults.drop_watches(resource.plural)
        async with asyncio.timeout(SECONDS):
            await self._told.wait()
        self._faults.clear()

    def stop(self) -> None:
        """Tell the truth again; a watch tells of what changes from then on."""
        self._about = None
        self._faults.clear()


async def quiet(*requests: Requests) -> None:
    """Wait until nothing has been asked for a while."""
    async with asyncio.timeout(SECONDS):
        while any(one.seen for one in requests):
            for one in requests:
                one.seen.clear()
            await idle(0.2)


class Konnector:
    """A konnector at work with the rights of its manifests and no others."""

    def __init__(self, admin: Client, options: Options) -> None:
        self._admin = admin
        self._options = options
        self._stack = contextlib.AsyncExitStack()

    async def start(self) -> None:
        config = await as_service_account(self._admin, DEFAULT_NAMESPACE, NAME)
        client = await self._stack.enter_async_context(Client(config))
        manager = self._manager = Manager()
        self._metrics = manager.metrics
        self._cluster = Cluster("consumer", client)
        await build(manager, self._cluster, self._options)
        task = asyncio.create_task(manager.run())
        self._stack.push_async_callback(_end, task)

    async def stop(self) -> None:
        await self._stack.aclose()

    async def ready(self) -> bool:
        """Whether what it needs to begin with is watched."""
        return self._cluster.unsynced() == ""

    @property
    def metrics_url(self) -> str:
        """Where it is scraped."""
        return self._manager.metrics_url

    @property
    def registry(self) -> CollectorRegistry:
        """What a scrape collects."""
        return self._metrics.registry

    def sample(self, name: str, **labels: str) -> float | None:
        """What a scrape would tell of one series; None when there is no such series."""
        return self._metrics.registry.get_sample_value(name, labels)

    async def tells(self, name: str, value: float | None, **labels: str) -> None:
        """Wait until a scrape would tell this of one series."""
        async with asyncio.timeout(SECONDS):
            while self.sample(name, **labels) != value:  # noqa: ASYNC110  numbers tell nobody
                await asyncio.sleep(0.02)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@contextlib.asynccontextmanager
async def konnector(admin: Client, **options: Any) -> AsyncIterator[Konnector]:
    """A konnector, installed as on a real cluster."""
    known = Options(**{"health_interval": 0.05, **options})
    await install_crds(admin, known.protocols)
    await create_all(admin, manifests(image="fairlead", protocols=known.protocols))
    one = Konnector(admin, known)
    await one.start()
    try:
        yield one
    finally:
        await one.stop()


@contextlib.asynccontextmanager
async def providing(
    admin: Client,
    *,
    group: str = "example.org",
    scope: str = "Namespaced",
    options: ProviderOptions | None = None,
) -> AsyncIterator[None]:
    """A provider of widgets."""
    await prepare(admin, exports=[f"widgets.{group}"])
    if group != "example.org":
        await offer(admin, group, scope=scope)
    # A server that tests share has kinds of others too, which the provider has to look through.
    offered = await admin.list(CUSTOMRESOURCEDEFINITIONS, labels=f"{LABEL_EXPORTED}=true")
    await create_all(admin, export_roles([one.meta.name for one in offered.items]))
    async with running(admin, options):
        yield


async def offer(admin: Client, group: str, *, scope: str = "Namespaced") -> None:
    """Offer widgets of another group by a template of the group's name.

    The label that claims ConfigMaps is regrouped as well, so that no test on a shared server
    claims what another has left there.
    """
    await create_all(admin, export_roles([f"widgets.{group}"], claims=["secrets", "configmaps"]))
    crd = _regrouped(example("crd"), group)
    await install(admin, [{**crd, "spec": {**crd["spec"], "scope": scope}}])
    template = _regrouped(example("template"), group)
    await create_all(admin, [{**template, "metadata": {"name": group}}])


def _regrouped(body: JSON, group: str) -> JSON:
    text = msgspec.json.encode(body).replace(b"example.org", group.encode())
    regrouped: JSON = msgspec.json.decode(text)
    return regrouped


class Link:
    """One consumer and one provider, as their administrators see them, and what they bound."""

    def __init__(self, consumer: Client, provider: Client, response: BindingResponse) -> None:
        self.consumer = consumer
        self.provider = provider
        self.response = response
        self.cluster_namespace = response.provider_namespace
        self.name = response.requests[0].metadata.name

    async def bind(self, timeout: float = SECONDS) -> list[str]:  # noqa: ASYNC109
        lines: list[str] = []
        await bind(self.consumer, self.response, timeout=timeout, progress=lines.append)
        return lines

    async def provider_namespace(self, name: str = "default") -> str:
        body = await when(
            self.provider,
            APISERVICENAMESPACES,
            name,
            self.cluster_namespace,
            until=lambda body: body.get("status", {}).get("namespace"),
        )
        namespace: str = body["status"]["namespace"]
        return namespace

    async def condition(self, type_: str, until: Callable[[JSON], Any]) -> JSON:
        """A condition of the binding, once it is as wanted."""
        body = await when(
            self.consumer,
            APISERVICEBINDINGS,
            self.name,
            until=lambda body: until(condition(body, type_)),
        )
        return condition(body, type_)

    async def says(self, **statuses: str) -> JSON:
        """The binding, once all these conditions have these statuses at one time."""

        def so(body: JSON) -> bool:
            found = {type_: condition(body, type_).get("status") for type_ in statuses}
            return found == statuses

        return await when(self.consumer, APISERVICEBINDINGS, self.name, until=so)


async def invited(
    consumer: Client,
    provider: Client,
    *,
    name: str = "widgets",
    template: str = "widgets",
    identity: str = "",
) -> Link:
    """A consumer with an invitation; one of the same identity uses the same connection."""
    identity = identity or str(uuid.uuid4())
    answer = await invite(
        provider, name="team", template=template, identity=identity, binding_name=name
    )
    return Link(consumer, provider, decode_binding_response(msgspec.json.encode(answer)))


async def neighbour(world: World) -> Link:
    """A binding by a connection of its own, as of another provider."""
    await offer(world.provider, "other.org")
    link = await invited(world.consumer, world.provider, name="other", template="other.org")
    await link.bind()
    return link


async def event(client: Client, namespace: str, reason: str) -> JSON:
    """An event with this reason, once there is one."""
    async with asyncio.timeout(SECONDS):
        while True:
            for found in (await client.list(EVENTS, namespace)).items:
                body = found.to_dict()
                if body["reason"] == reason:
                    return body
            await asyncio.sleep(0.05)


def widget(name: str = "blue", **spec: Any) -> JSON:
    """A widget that names the Secret <name>-origin."""
    known = {"colour": "blue", "certificates": [{"name": f"{name}-origin"}]}
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**known, **spec},
    }


def secret(name: str, namespace: str, **data: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": data or {"a": "b"},
    }


class World:
    """A consumer and a provider: sandboxes of their own, or one of them the real server."""

    def __init__(
        self,
        stack: contextlib.AsyncExitStack,
        *,
        real: str = "",
        plane: RealPlane | None = None,
        scope: str = "Namespaced",
        options: ProviderOptions | None = None,
    ) -> None:
        self._stack = stack
        self._real = plane
        self._side = real
        self._scope = scope
        self._options = options
        self._named = bool(real or options)
        self.group = f"g{uuid.uuid4().hex[:8]}.org" if self._named else "example.org"
        self.widgets = msgspec.structs.replace(WIDGETS, group=self.group)
        self.name = self.group.replace(".", "-") if self._named else "widgets"
        # What the template, which is regrouped as a whole, claims ConfigMaps by.
        self.claimed = {f"{self.group}/for-the-factory": "true"}

    async def start(self) -> None:
        self.provider = await self._admin("provider")
        self.consumer = await self._admin("consumer")
        await self._stack.enter_async_context(
            providing(self.provider, group=self.group, scope=self._scope, options=self._options)
        )

    async def plane(self, name: str) -> tuple[Sandbox, Client]:
        plane = await self._stack.enter_async_context(Sandbox(name=name))
        return plane, await self._client(plane.kubeconfig())

    async def konnector(self, **options: Any) -> Konnector:
        self.one = await self._stack.enter_async_context(konnector(self.consumer, **options))
        return self.one

    async def bound(self) -> Link:
        template = self.group if self._named else "widgets"
        link = await invited(self.consumer, self.provider, name=self.name, template=template)
        await link.bind()
        return link

    def widget(self, name: str = "blue", **spec: Any) -> JSON:
        return {**widget(name, **spec), "apiVersion": f"{self.group}/v1"}

    def kubeconfig(self, side: str) -> bytes:
        """The administrator's of the consumer or of the provider."""
        if side == self._side and self._real is not None:
            return self._real.admin_kubeconfig("default")
        plane: Sandbox = getattr(self, f"{side}_plane")
        return plane.kubeconfig()

    async def _admin(self, side: str) -> Client:
        if side == self._side and self._real is not None:
            return await self._client(self.kubeconfig(side))
        plane, client = await self.plane(side)
        setattr(self, f"{side}_plane", plane)
        return client

    async def _client(self, kubeconfig: bytes) -> Client:
        return await self._stack.enter_async_context(Client(parse_kubeconfig(kubeconfig)))

    one: Konnector
    provider_plane: Sandbox
    consumer_plane: Sandbox
