"""How each of the original's programs is brought together with ours: planes, programs, binding."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import yaml
from hack.interop import checks, programs
from hack.interop.checks import Outcome, Pair
from hack.interop.programs import OURS, call, running
from tests.support.realplane import RealPlane

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    BINDABLERESOURCESREQUESTS,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS, Resource
from fairlead.client import Client, NotFound, parse_kubeconfig
from fairlead.client.lookups import wait_for
from fairlead.provider.invitation import invite
from fairlead.runtime import install_crds
from fairlead.sandbox import Sandbox


_EXAMPLE = Path(__file__).parents[2] / "examples" / "widgets"
_SECRET = {"name": "kubeconfig-interop", "namespace": "kube-bind", "key": "kubeconfig"}


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
    """Two control planes, with the example's kind on one of them."""

    def __init__(self, setting: Setting, stack: AsyncExitStack, folder: Path) -> None:
        self.setting = setting
        self.folder = folder
        self._stack = stack

    async def start(self) -> None:
        """Start the planes, and offer the kind on the provider's."""
        self.provider = await self._plane("provider")
        self.consumer = await self._plane("consumer")
        await self.consumer.create(NAMESPACES, {"metadata": {"name": checks.NAMESPACE}})
        await install_crds(self.provider, [*provider_crds(), self._crd()])
        template = _example("template")
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
        crd, plural = _example("crd"), self.setting.plural
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


async def konnector(world: World) -> list[Outcome]:
    """The original's konnector with our provider, bound as ``apiservice -f`` binds."""
    await world.our_provider()
    await world.original_konnector()
    answer = await world.invited()
    (request,) = answer["requests"]
    kubeconfig = base64.b64decode(answer["kubeconfig"])
    async with Client(parse_kubeconfig(kubeconfig)) as invited:
        namespace = {"namespace": answer["providerNamespace"]}
        body = request | {"metadata": request["metadata"] | namespace}
        await invited.create(APISERVICEEXPORTREQUESTS, body)
    await world.consumer.create(NAMESPACES, {"metadata": {"name": _SECRET["namespace"]}})
    secret = {"metadata": {"name": _SECRET["name"]}, "data": {"kubeconfig": answer["kubeconfig"]}}
    await world.consumer.create(SECRETS, secret, _SECRET["namespace"])
    binding = {"apiVersion": API_VERSION, "kind": "APIServiceBinding"}
    spec = {"metadata": request["metadata"], "spec": {"kubeconfigSecretRef": _SECRET}}
    await world.consumer.create(APISERVICEBINDINGS, binding | spec)
    return await checks.run(world.pair("widgets", answer["providerNamespace"]))


async def backend(world: World) -> list[Outcome]:
    """The original's backend with our konnector, invited by a BindableResourcesRequest."""
    setting = world.setting
    command = programs.backend(setting.scope, setting.isolation, world.provider.config.server)
    await world.run("backend", command, "provider")
    await world.our_konnector()
    spec = {
        "templateRef": {"name": "widgets"},
        "clusterIdentity": {"identity": "interop", "prettyName": "interop"},
        "author": "interop",
    }
    body = {"apiVersion": API_VERSION, "kind": "BindableResourcesRequest", "spec": spec}
    metadata = {"name": "interop", "namespace": "default"}
    await world.provider.create(BINDABLERESOURCESREQUESTS, body | {"metadata": metadata})
    found = await wait_for(
        world.provider,
        SECRETS,
        "interop-binding-response",
        "default",
        until=lambda found: "" if found is not None else "there is no answer",
        timeout=setting.timeout,
    )
    assert found is not None  # noqa: S101
    answer = base64.b64decode(found.to_dict()["data"]["binding-response"])
    _write(world.file("answer.json"), answer)
    _write(world.file("request.json"), json.dumps(_request(setting)).encode())
    arguments = (
        "-f",
        str(world.file("answer.json")),
        "--request",
        str(world.file("request.json")),
    )
    await _ours(world, "bind", *arguments)
    kubeconfig = parse_kubeconfig(base64.b64decode(json.loads(answer)["kubeconfig"]))
    return await checks.run(world.pair("widgets", kubeconfig.namespace))


async def deploy(world: World) -> list[Outcome]:
    """The original's CLI takes our invitation with ``deploy -f``."""
    answer = await _invited_by_file(world)
    arguments = ("deploy", "-f", str(world.file("invitation.json")))
    return await _by_cli(world, answer, *arguments)


async def apiservice(world: World) -> list[Outcome]:
    """The original's CLI makes a request itself with our invitation's kubeconfig."""
    answer = await _invited_by_file(world)
    _write(world.file("request.json"), json.dumps(answer["requests"][0]).encode())
    _write(world.file("invitation.kubeconfig"), base64.b64decode(answer["kubeconfig"]))
    arguments = (
        *("apiservice", "-f", str(world.file("request.json"))),
        *("--remote-kubeconfig", str(world.file("invitation.kubeconfig"))),
        *("--remote-namespace", answer["providerNamespace"]),
    )
    return await _by_cli(world, answer, *arguments)


async def _invited_by_file(world: World) -> JSON:
    await world.our_provider()
    await world.our_konnector()
    answer = await world.invited()
    _write(world.file("invitation.json"), json.dumps(answer).encode())
    return answer


async def _by_cli(world: World, answer: JSON, *arguments: str) -> list[Outcome]:
    server = "https://interop.invalid"
    config = {"apiVersion": "v1", "kind": "Config", "servers": {server: {"url": server}}}
    _write(world.file("servers.json"), json.dumps(config | {"current": server}).encode())
    consumer = world.file("consumer.kubeconfig")
    # It tells nothing by its exit code; whether it has bound is what the checks say.
    command = programs.original(
        "cli",
        *arguments,
        *("--kubeconfig", str(consumer), "--skip-konnector"),
        *("--config-file", str(world.file("servers.json"))),
    )
    said = await call(command, consumer, world.folder, timeout=world.setting.timeout)
    # The rights of what somebody else has bound are given by an administrator.
    await _ours(world, "accept", "widgets")
    world.file("cli.log").write_text(said)
    return await checks.run(world.pair("widgets", answer["providerNamespace"]))


async def _ours(world: World, *arguments: str) -> None:
    command = [*OURS, *arguments]
    consumer = world.file("consumer.kubeconfig")
    await call(command, consumer, world.folder, timeout=world.setting.timeout + 30)


Run = Callable[[World], Awaitable[list[Outcome]]]

RUNS: dict[str, dict[str, Run]] = {
    "konnector": {"konnector": konnector},
    "backend": {"backend": backend},
    "cli": {"cli deploy": deploy, "cli apiservice": apiservice},
}


def _request(setting: Setting) -> JSON:
    spec = _example("template")["spec"]
    text = json.dumps({key: spec[key] for key in ("resources", "permissionClaims")})
    renamed = json.loads(text.replace('"widgets"', f'"{setting.plural}"'))
    body = {"apiVersion": API_VERSION, "kind": "APIServiceExportRequest", "spec": renamed}
    return body | {"metadata": {"name": "widgets"}}


def _example(name: str) -> JSON:
    body: JSON = yaml.safe_load((_EXAMPLE / f"{name}.yaml").read_text())
    return body


def _write(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.write_bytes(content)
