"""What a node does with a program's Deployment: starts it, probes it, says that it is available.

One process stands for all replicas. It is the container's: its arguments, its ServiceAccount and
nothing of this user's environment. It listens on free ports of 127.0.0.1, and its image is an
installation of Fairlead.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from tests.support.process import config_file
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import DEPLOYMENTS
from fairlead.client import Client
from fairlead.demo.identity import as_service_account


PART_OF = "app.kubernetes.io/part-of=fairlead"


@asynccontextmanager
async def pod(
    admin: Client, deployment: Object, fairlead: Path, folder: Path, *more: str
) -> AsyncIterator[Path]:
    """Run the Deployment's container while the block runs, which begins once it is ready.

    ``more`` are flags beside its own, such as other addresses on which it listens.

    Args:
        admin: of the cluster; gives the ServiceAccount's token.
        deployment: one of Fairlead's own.
        fairlead: the program, in place of the image.
        folder: for its kubeconfig, its log and its /tmp.

    Yields:
        its /tmp, the one place that the manifest lets it write to.

    Raises:
        AssertionError: it ends, never becomes ready, or does not end well on SIGTERM.
    """
    spec = deployment.to_dict()["spec"]["template"]["spec"]
    account = await as_service_account(
        admin, deployment.meta.namespace, spec["serviceAccountName"]
    )
    kubeconfig, log, temporary = folder / "kubeconfig", folder / "log", folder / "tmp"
    kubeconfig.write_text(config_file(account))
    temporary.mkdir()
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(fairlead),
            *spec["containers"][0]["args"],
            f"--kubeconfig={kubeconfig}",
            # Ports that are looked for beforehand are somebody else's by then.
            "--health-probe-bind-address=127.0.0.1:0",
            "--metrics-bind-address=127.0.0.1:0",
            *more,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={"PATH": os.defpath, "HOME": "/", "TMPDIR": str(temporary)},
        )
    try:
        await _ready(process, log)
        assert process.returncode is None, log.read_text()[-2000:]
        yield temporary
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0, log.read_text()[-2000:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _ready(process: asyncio.subprocess.Process, log: Path) -> None:
    """Wait until it is ready, or has ended."""
    url = ""
    async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
        while process.returncode is None:
            url = url or _health(log)
            try:
                if url:
                    async with session.get(f"{url}/readyz") as answer:
                        if answer.status == 200:
                            return
            except aiohttp.ClientConnectionError:
                # It has just ended, which is seen next.
                pass
            await asyncio.sleep(0.05)


def _health(log: Path) -> str:
    """Where a program says that it answers probes; "" while it does not run yet."""
    # Its last line may be half written.
    for line in log.read_text().splitlines(keepends=True):
        if line.endswith("\n") and '"msg": "running"' in line:
            return str(json.loads(line)["health"])
    return ""


@asynccontextmanager
async def kubelet(admin: Client, fairlead: Path, folder: Path) -> AsyncIterator[None]:
    """Run every Deployment of Fairlead's that is created while the block runs, until it goes."""

    async def run(deployment: Object, gone: asyncio.Event) -> None:
        place = folder / deployment.meta.uid
        place.mkdir(parents=True)
        async with pod(admin, deployment, fairlead, place):
            await available(admin, deployment)
            await gone.wait()

    async def watch() -> None:
        version = (await admin.list(DEPLOYMENTS)).resource_version
        started.set()
        while True:
            async for event in admin.watch(DEPLOYMENTS, resource_version=version, labels=PART_OF):
                version = event.object.meta.resource_version
                if event.type == "ADDED":
                    ends[event.object.meta.uid] = asyncio.Event()
                    group.create_task(run(event.object, ends[event.object.meta.uid]))
                elif event.type == "DELETED" and event.object.meta.uid in ends:
                    ends[event.object.meta.uid].set()

    ends: dict[str, asyncio.Event] = {}
    started = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        watcher = group.create_task(watch())
        await started.wait()
        try:
            yield
        finally:
            watcher.cancel()
            for gone in ends.values():
                gone.set()


async def available(admin: Client, deployment: Object) -> None:
    """What `kubectl rollout status` waits for."""
    number = deployment.to_dict()["spec"]["replicas"]
    counted = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
    status: JSON = {
        "observedGeneration": deployment.meta.generation,
        **dict.fromkeys(counted, number),
    }
    await admin.merge_patch(
        DEPLOYMENTS,
        deployment.meta.name,
        deployment.meta.namespace,
        {"status": status},
        subresource="status",
    )
