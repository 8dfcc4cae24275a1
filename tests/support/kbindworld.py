"""A consumer with a konnector that serves kbind v2, and providers with nothing installed."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
from tests.support.countingplanes import Plane, plane
from tests.support.konnector import Konnector, konnector
from tests.support.realplane import RealPlane
from tests.support.waiting import condition, when

from fairlead.api.crd import Version, build_crd
from fairlead.api.kbind import CONNECTIONS
from fairlead.api.kbind.names import LABEL_EXPORTED, LEASE_NAMESPACE
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, NAMESPACES, SECRETS, Resource
from fairlead.client import AlreadyExists, Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector.options import DEFAULT_NAMESPACE, PROTOCOLS
from fairlead.provider.credentials import consumer_kubeconfig
from fairlead.provider.options import InviteOptions
from fairlead.runtime import install_crds


NAMESPACE = DEFAULT_NAMESPACE
"""The konnector's namespace."""
RBAC = "rbac.authorization.k8s.io/v1"


class ExportedWidget(msgspec.Struct):
    """A kind of anything."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def exported_crd(group: str, plural: str = "widgets", *, exported: bool = True) -> JSON:
    """A provider's CRD, with the label that offers it."""
    resource = Resource(group, "v1", plural, plural.removesuffix("s").title())
    labels = {LABEL_EXPORTED: "true"} if exported else {}
    return build_crd(resource, [Version("v1", ExportedWidget)], labels=labels)


def secret(
    name: str, kubeconfig: bytes, namespace: str = NAMESPACE, key: str = "kubeconfig"
) -> JSON:
    """A Secret with a kubeconfig."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": {key: kubeconfig.decode()},
    }


def connection(name: str, namespace: str = NAMESPACE, **spec: Any) -> JSON:
    """A Connection by the Secret of its name."""
    ref = {"namespace": namespace, "name": name}
    return {
        "apiVersion": CONNECTIONS.api_version,
        "kind": CONNECTIONS.kind,
        "metadata": {"name": name},
        "spec": {"kubeconfigSecretRef": ref, **spec},
    }


def has(type_: str, status: str, reason: str = "", text: str = "") -> Callable[[JSON], bool]:
    """Whether a condition has this status and reason, and its message this text."""

    def until(body: JSON) -> bool:
        found = condition(body, type_)
        fits = found.get("status") == status and reason in {"", found.get("reason")}
        return fits and text in found.get("message", "")

    return until


def exports(body: JSON) -> set[str]:
    """The names of the APIs that a Connection says are offered."""
    return {one["name"] for one in body.get("status", {}).get("exportedAPIs", [])}


RULES = (
    rule("", ["namespaces"], ("get",), names=["kube-system"]),
    rule("apiextensions.k8s.io", ["customresourcedefinitions"], ("get", "list", "watch")),
)
"""Rights that a Connection needs at the provider, in the whole cluster."""


@contextlib.asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """A server that takes connections and never says a word; its address."""
    ended = asyncio.Event()

    async def swallow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        ended.set()
        server.close()


class KbindProvider:
    """A cluster in which a platform team gives rights, and installs nothing."""

    def __init__(self, admin: Client, plane: Plane | None = None) -> None:
        self.admin = admin
        self.plane = plane
        self.group = f"g{uuid.uuid4().hex[:8]}.io"

    async def offer(self, plural: str = "widgets", *, exported: bool = True) -> str:
        """Install a CRD of the provider's own group, and return its name."""
        crd = exported_crd(self.group, plural, exported=exported)
        await install_crds(self.admin, [crd])
        name: str = crd["metadata"]["name"]
        return name

    async def kubeconfig(
        self,
        name: str = "",
        *,
        rules: Sequence[JSON] = RULES,
        address: str = "",
        leases: bool = True,
    ) -> bytes:
        """The kubeconfig of a new account with these rights, and those on Leases."""
        name = name or f"team-{uuid.uuid4().hex[:6]}"
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": LEASE_NAMESPACE},
        }
        with suppress(AlreadyExists):
            await self.admin.create(NAMESPACES, namespace)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": LEASE_NAMESPACE}
        placed = {"name": name, "namespace": LEASE_NAMESPACE}
        lease_rules = [rule("coordination.k8s.io", ["leases"], ("get", "create", "update"))]
        await create_all(
            self.admin,
            [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": placed},
                *_granted("Cluster", {"name": name}, list(rules), subject),
                *(_granted("", placed, lease_rules, subject) if leases else ()),
            ],
        )
        config = await as_service_account(self.admin, LEASE_NAMESPACE, name)
        return consumer_kubeconfig(
            self.admin.config,
            InviteOptions(external_address=address),
            namespace=LEASE_NAMESPACE,
            token=config.token,
            ca=b"",
        )

    async def grant(self, name: str, rules: Sequence[JSON]) -> None:
        """Replace the rights of an account in the whole cluster."""
        await self.admin.merge_patch(CLUSTERROLES, name, "", {"rules": list(rules)})


def _granted(scope: str, meta: JSON, rules: list[JSON], subject: JSON) -> list[JSON]:
    role, binding = f"{scope}Role", f"{scope}RoleBinding"
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": meta["name"]}
    return [
        {"apiVersion": RBAC, "kind": role, "metadata": meta, "rules": rules},
        {
            "apiVersion": RBAC,
            "kind": binding,
            "metadata": meta,
            "roleRef": ref,
            "subjects": [subject],
        },
    ]


class KbindWorld:
    """A consumer, and any number of providers; ``real`` is the side on the real server."""

    consumer_plane: Plane
    """The consumer's, if it is a sandbox."""

    def __init__(
        self, stack: AsyncExitStack, *, real: str = "", plane: RealPlane | None = None
    ) -> None:
        self._stack = stack
        self._real = {real: plane} if plane is not None else {}
        self.name = f"acme-{uuid.uuid4().hex[:6]}"
        """Name of the first Connection and of its Secret."""

    async def start(self) -> None:
        if (real := self._real.get("consumer")) is not None:
            self.consumer = await self._client(real)
        else:
            self.consumer_plane = await self._stack.enter_async_context(plane("consumer"))
            self.consumer = self.consumer_plane.admin
        if (real := self._real.get("provider")) is not None:
            self.provider = KbindProvider(await self._client(real))
        else:
            self.provider = await self.new_provider("provider")

    def consumer_kubeconfig(self) -> bytes:
        """The kubeconfig of the consumer's administrator."""
        if (real := self._real.get("consumer")) is not None:
            return real.admin_kubeconfig("default")
        return self.consumer_plane.sandbox.kubeconfig()

    async def new_provider(self, name: str) -> KbindProvider:
        found = await self._stack.enter_async_context(plane(name))
        return KbindProvider(found.admin, found)

    async def _client(self, real: RealPlane) -> Client:
        config = parse_kubeconfig(real.admin_kubeconfig("default"))
        return await self._stack.enter_async_context(Client(config))

    async def konnector(self, **options: Any) -> Konnector:
        return await self._stack.enter_async_context(
            konnector(self.consumer, **{"protocols": PROTOCOLS, **options})
        )

    async def connect(self, kubeconfig: bytes, name: str = "", **spec: Any) -> str:
        """Create a Secret and a Connection by it, and return their name."""
        name = name or self.name
        await self.consumer.create(SECRETS, secret(name, kubeconfig))
        await self.consumer.create(CONNECTIONS, connection(name, **spec))
        return name

    async def rotate(self, kubeconfig: bytes, name: str = "") -> None:
        """Replace the kubeconfig of a Secret."""
        data = {"stringData": {"kubeconfig": kubeconfig.decode()}}
        await self.consumer.merge_patch(SECRETS, name or self.name, NAMESPACE, data)

    async def says(
        self, type_: str, status: str, reason: str = "", text: str = "", name: str = ""
    ) -> JSON:
        """The Connection, once a condition is so."""
        return await when(
            self.consumer,
            CONNECTIONS,
            name or self.name,
            until=has(type_, status, reason, text),
        )

    async def offers(self, api: str) -> JSON:
        """The Connection, once it says that an API is offered."""
        return await when(
            self.consumer, CONNECTIONS, self.name, until=lambda body: api in exports(body)
        )
