"""A consumer and a provider that are bound, with the programs of both at work in processes.

Programs have the rights of their manifests and no others; the loader is a ServiceAccount too, so
that what it asks is authorized as what they ask is.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from tests.support.process import config_file
from tests.support.realplane import free_ports

from bench import planes, widgets
from bench.planes import TICKS, Plane
from fairlead.api.kubebind import decode_binding_response
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, ClusterConfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import install_crds
from fairlead.runtime.controller.memory import QUIET_SECONDS, REST_SECONDS


SYNCED = Resource("synced.bench", "v1", "widgets", "Widget")
"""What is bound."""
BARE = Resource("bare.bench", "v1", "widgets", "Widget")
"""The same kind once more, which only the bare loader writes."""
NAMESPACES = tuple(f"team-{number:02}" for number in range(20))
LOADER = "loader"

_READY_SECONDS = 60.0
_LOOK_SECONDS = 0.02


class Program:
    """``fairlead NAME run`` as a process; it can be stopped and started again."""

    def __init__(self, name: str, config: ClusterConfig, folder: Path, *flags: str) -> None:
        self._name = name
        self._flags = flags
        self._folder = folder
        self._file = folder / f"{name}.kubeconfig"
        self._file.touch(mode=0o600)
        self._file.write_text(config_file(config))
        self._process: asyncio.subprocess.Process | None = None
        self._url = ""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def resident_at_rest(self) -> int:
        """Bytes of memory that it holds once its last burst of work and its connections are."""
        await asyncio.sleep(2 * QUIET_SECONDS + REST_SECONDS + 1)
        return self.resident()

    def resident(self) -> int:
        """Bytes of memory that it holds."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def start(self) -> None:
        """Start it and wait until it says that it is ready."""
        address = f"127.0.0.1:{free_ports(1)[0]}"
        self._url = f"http://{address}"
        flags = [
            f"--health-probe-bind-address={address}",
            "--metrics-bind-address=",
            *self._flags,
        ]
        command = os.environ.get(f"BENCH_{self._name.upper()}", f"{sys.executable} -m fairlead")
        with (self._folder / f"{self._name}.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *command.split(),
                *(self._name, "run", "--kubeconfig", str(self._file), *flags),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        await self.until(lambda: self._answers("/readyz"))

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.terminate()
            await process.wait()

    async def metrics(self) -> str:
        async with aiohttp.ClientSession() as session, session.get(f"{self._url}/metrics") as got:
            return await got.text()

    async def until(self, holds: Callable[[], object]) -> None:
        """Look again and again; the log is shown when the program ends or takes too long."""
        try:
            async with asyncio.timeout(_READY_SECONDS):
                while not await holds():  # type: ignore[misc]
                    if self._process is None or self._process.returncode is not None:
                        raise RuntimeError(f"{self._name} ended: {self._tail()}")
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"{self._name} is not ready: {self._tail()}") from None

    async def _answers(self, path: str) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(self._url + path) as got:
                return got.status == 200
        except aiohttp.ClientConnectionError:
            return False

    def _tail(self) -> str:
        return (self._folder / f"{self._name}.log").read_text(errors="replace")[-2000:]


class Pair:
    """Two planes, bound; ``loaders`` are the configurations of who loads them."""

    def __init__(self, consumer: Plane, provider: Plane, konnector: Program) -> None:
        self.consumer = consumer
        self.provider = provider
        self.konnector = konnector
        self.loaders: tuple[ClusterConfig, ClusterConfig] = (consumer.admin, provider.admin)


@asynccontextmanager
async def pair(kind: str, folder: Path) -> AsyncIterator[Pair]:
    """A pair of planes of a kind, "real" or "sandbox", until the context is left."""
    async with AsyncExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        make = planes.kube_controlled if kind == "real" else planes.sandbox
        consumer = await stack.enter_async_context(make(own))
        provider = await stack.enter_async_context(make(own))
        there = await stack.enter_async_context(Client(provider.admin))
        here = await stack.enter_async_context(Client(consumer.admin))
        account = await _prepare_provider(there)
        running = Program("provider", account, own)
        stack.push_async_callback(running.stop)
        await running.start()
        account = await _prepare_consumer(here)
        konnector = Program("konnector", account, own)
        stack.push_async_callback(konnector.stop)
        await konnector.start()
        answer = await invite(there, name="bench", template="widgets")
        await bind(here, decode_binding_response(msgspec.json.encode(answer)))
        pair = Pair(consumer, provider, konnector)
        widgets_ = {"apiGroups": [SYNCED.group, BARE.group], "resources": ["*"], "verbs": ["*"]}
        pair.loaders = (await loader(here, widgets_), await loader(there, widgets_))
        yield pair


async def _prepare_provider(admin: Client) -> ClusterConfig:
    exports = [SYNCED.group_resource]
    await create_all(admin, provider_manifests.manifests(image="bench", exports=exports))
    account = await as_service_account(admin, PROVIDER_NAMESPACE, provider_manifests.NAME)
    async with Client(account) as client:
        await provider_app.install_crds(client)
    await install_crds(admin, [crd(SYNCED), crd(BARE)])
    await create_all(admin, [_template()])
    return account


async def _prepare_consumer(admin: Client) -> ClusterConfig:
    await konnector_app.install_crds(admin)
    await create_all(admin, konnector_manifests.manifests(image="bench"))
    await install_crds(admin, [crd(BARE)])
    return await as_service_account(admin, KONNECTOR_NAMESPACE, konnector_manifests.NAME)


async def loader(admin: Client, *rules: JSON) -> ClusterConfig:
    """A ServiceAccount with these rights; the namespaces are made besides."""
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "ServiceAccount", "name": LOADER, "namespace": "default"}
    named: JSON = {"metadata": {"name": LOADER}}
    bodies: list[JSON] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in NAMESPACES
    ]
    bodies += [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": LOADER, "namespace": "default"},
        },
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "rules": list(rules), **named},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "subjects": [subject],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": LOADER},
            **named,
        },
    ]
    await create_all(admin, bodies)
    return await as_service_account(admin, "default", LOADER)


def crd(kind: Resource) -> JSON:
    """The CRD of the other benchmarks in another group, with a number in its status."""
    body = widgets.crd()
    version = body["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["seen"] = {
        "type": "integer"
    }
    labels = {"kube-bind.io/exported": "true"} if kind == SYNCED else {}
    body["metadata"] = {"name": kind.group_resource, "labels": labels}
    body["spec"]["group"] = kind.group
    return body


def _template() -> JSON:
    resource = {"group": SYNCED.group, "resource": SYNCED.plural, "versions": [SYNCED.version]}
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": "widgets"},
        "spec": {"scope": "Namespaced", "resources": [resource]},
    }
