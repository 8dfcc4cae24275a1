"""Where programs meet: two control planes, what is offered, and the programs of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import msgspec
import yaml
from hack.interop import checks, programs
from hack.interop.checks import Pair
from hack.interop.programs import OURS, running
from hack.interop.recorder import Recording
from tests.support.realplane import RealPlane

from fairlead.api.kubebind import API_VERSION, APISERVICEBINDINGS, provider_crds
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, Resource
from fairlead.client import Client, NotFound, parse_kubeconfig
from fairlead.provider.invitation import invite
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


_EXAMPLE = Path(__file__).parents[2] / "examples" / "03-widgets"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What is run: a part, on a kind of control plane, with a provider's options and a kind."""

    part: str
    scope: str
    isolation: str
    namespaced: bool
    plane: str
    original_konnectors: bool
    timeout: float

    @property
    def plural(self) -> str:
        """Of the kind that is bound."""
        return "widgets" if self.namespaced else "gauges"

    def title(self, run: str) -> str:
        """What a line is about."""
        flag = " --original-konnectors" if self.original_konnectors else ""
        kind = "namespaced" if self.namespaced else "cluster-scoped"
        return f"{run}, {self.plane}, {self.scope}/{self.isolation}{flag}, {kind} kind"


class World:
    """Two control planes, with the example's kind on one of them.

    Args:
        setting: what is run.
        stack: ends what is started.
        folder: where files are.
        record: keeps what is said at the front door, None where nothing does.
    """

    def __init__(
        self,
        setting: Setting,
        stack: AsyncExitStack,
        folder: Path,
        record: Recording | None = None,
    ) -> None:
        self.setting = setting
        self.folder = folder
        self.record = record
        self._stack = stack

    async def start(self) -> None:
        """Start the planes, and offer the kind on the provider's."""
        self.provider = await self._plane("provider")
        self.consumer = await self._plane("consumer")
        await self.consumer.create(NAMESPACES, {"metadata": {"name": checks.NAMESPACE}})
        await install_crds(self.provider, [*provider_crds(), self._crd()])
        template = example("template")
        for resource in template["spec"]["resources"]:
            resource["resource"] = self.setting.plural
        for claim in template["spec"]["permissionClaims"]:
            for reference in claim["selector"].get("references", ()):
                reference["resource"] = self.setting.plural
        kind = await self.provider.discovery.resource_for(API_VERSION, template["kind"])
        await self.provider.create(kind, template)

    def file(self, name: str) -> Path:
        """Where a file of this run is."""
        return self.folder / name

    async def run(self, name: str, command: Sequence[str], side: str) -> None:
        """Keep a program running on one side until the end."""
        kubeconfig = self.file(f"{side}.kubeconfig")
        await self._stack.enter_async_context(running(name, command, kubeconfig, self.folder))

    async def enter(self, context: AbstractAsyncContextManager[None]) -> None:
        """Keep a context until the end."""
        await self._stack.enter_async_context(context)

    async def our_provider(self) -> None:
        """Start our provider."""
        setting = self.setting
        flags = ["--original-konnectors"] if setting.original_konnectors else []
        options = ("--consumer-scope", setting.scope, "--isolation", setting.isolation)
        await self.run("provider", [*OURS, "provider", "run", *options, *flags], "provider")

    async def our_konnector(self) -> None:
        """Start our konnector."""
        await self.run("konnector", [*OURS, "konnector", "run"], "consumer")
        await self._binds()

    async def original_konnector(self) -> None:
        """Start the original's konnector."""
        command = programs.konnector(self.file("consumer.kubeconfig"))
        await self.run("konnector", command, "consumer")
        await self._binds()

    async def _binds(self) -> None:
        """Wait until a konnector has installed its CRDs."""
        async with asyncio.timeout(self.setting.timeout):
            while True:
                try:
                    await self.consumer.list(APISERVICEBINDINGS)
                except NotFound:
                    await asyncio.sleep(0.2)
                else:
                    return

    async def invited(self) -> JSON:
        """An invitation of ours."""
        return await invite(self.provider, name="interop", template="widgets")

    def pair(self, binding: str, cluster_namespace: str) -> Pair:
        """What the checks look at."""
        setting = self.setting
        there = Resource(
            *("example.org", "v1", setting.plural, setting.plural[:-1].title()), setting.namespaced
        )
        kept = setting.namespaced and setting.isolation != "namespaced"
        return Pair(
            consumer=self.consumer,
            provider=self.provider,
            here=msgspec.structs.replace(there, namespaced=kept),
            there=there,
            binding=binding,
            cluster_namespace=cluster_namespace,
            timeout=setting.timeout,
        )

    def _crd(self) -> JSON:
        crd, plural = example("crd"), self.setting.plural
        crd["metadata"]["name"] = f"{plural}.example.org"
        crd["spec"]["names"] = {"kind": plural[:-1].title(), "plural": plural}
        crd["spec"]["scope"] = "Namespaced" if self.setting.namespaced else "Cluster"
        return crd

    async def _plane(self, name: str) -> Client:
        if self.setting.plane == "real":
            real = await self._stack.enter_async_context(RealPlane())
            kubeconfig = real.admin_kubeconfig("default")
        else:
            kubeconfig = (await self._stack.enter_async_context(Sandbox(name=name))).kubeconfig()
        file = self.file(f"{name}.kubeconfig")
        file.touch(mode=0o600)
        file.write_bytes(kubeconfig)
        client = Client(parse_kubeconfig(kubeconfig), field_manager="interop")
        return await self._stack.enter_async_context(client)


def example(name: str) -> JSON:
    """A document of the example that is offered."""
    body: JSON = yaml.safe_load((_EXAMPLE / f"{name}.yaml").read_text())
    return body


def write(file: Path, content: bytes) -> None:
    """Write what its owner alone may read."""
    file.touch(mode=0o600)
    file.write_bytes(content)
