"""A node for releases of Helm: it runs Fairlead's Deployments, anew when they change, and Jobs.

There is no kubelet. A Deployment is one process of its container's arguments with the rights of
its ServiceAccount; a Job is its command, run to its end, and the Job's status says how it went.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.image import ROOT
from tests.support.pods import PART_OF, available, pod
from tests.support.process import config_file

from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import DEPLOYMENTS, JOBS, Resource
from fairlead.api.timestamps import now
from fairlead.client import Client
from fairlead.demo.identity import as_service_account


class Ran(NamedTuple):
    """A Job that has run: what it is called, how it ended, and what it said."""

    name: str
    code: int
    said: str


def installed(folder: Path) -> Path:
    """The program of this checkout, in place of an image."""
    file = folder / "fairlead"
    file.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -m fairlead "$@"\n'
    )
    file.chmod(0o755)
    return file


class Node:
    """Runs what is there; :func:`node` starts one."""

    def __init__(self, admin: Client, folder: Path, group: asyncio.TaskGroup) -> None:
        self.jobs: list[Ran] = []
        self._admin = admin
        self._folder = folder
        self._fairlead = installed(folder)
        self._group = group
        self._running: dict[Key, tuple[JSON, asyncio.Task[None]]] = {}
        self._latest: dict[Key, Object] = {}
        self._told: dict[Key, int] = {}
        self._numbers = count()

    async def watch(self, resource: Resource, see: Callable[[str, Object], Any]) -> None:
        """Have each change told, from what there is on."""
        listed = await self._admin.list(resource, labels=PART_OF)
        for item in listed.items:
            see("ADDED", item)
        version = listed.resource_version
        while True:
            async for event in self._admin.watch(
                resource, resource_version=version, labels=PART_OF
            ):
                version = event.object.meta.resource_version
                if event.type != "BOOKMARK":
                    see(event.type, event.object)

    def deployment(self, change: str, found: Object) -> None:
        """Start it, or start it anew when its Pods would be others, or end it."""
        template = found.to_dict()["spec"]["template"]
        before, task = self._running.get(found.key, (None, None))
        self._latest[found.key] = found
        if change != "DELETED" and before == template:
            # Another number of replicas makes no other Pods.
            if self._told.get(found.key, found.meta.generation) != found.meta.generation:
                self._group.create_task(self._tell(found.key))
            return
        self._told.pop(found.key, None)
        if task is not None:
            task.cancel()
            del self._running[found.key]
        if change != "DELETED":
            work = self._serve(found, task)
            self._running[found.key] = template, self._group.create_task(work)

    async def _serve(self, deployment: Object, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        folder = self._place(deployment)
        async with pod(self._admin, deployment, self._fairlead, folder, *listening(deployment)):
            await self._tell(deployment.key)
            await asyncio.Event().wait()

    async def _tell(self, key: Key) -> None:
        """Say of a Deployment, as it is by now, that it is available."""
        found = self._latest[key]
        self._told[key] = found.meta.generation
        await available(self._admin, found)

    def job(self, change: str, found: Object) -> None:
        """Run it once."""
        if change == "ADDED":
            self._group.create_task(self._run(found))

    async def _run(self, job: Object) -> None:
        spec = job.to_dict()["spec"]["template"]["spec"]
        account = await as_service_account(
            self._admin, job.meta.namespace, spec["serviceAccountName"]
        )
        folder = self._place(job)
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(config_file(account))
        process = await asyncio.create_subprocess_exec(
            str(self._fairlead),
            *spec["containers"][0]["args"],
            f"--kubeconfig={kubeconfig}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": os.defpath, "HOME": "/", "TMPDIR": str(folder)},
        )
        try:
            out, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        self.jobs.append(Ran(job.meta.name, process.returncode, out.decode()))
        good = process.returncode == 0
        # The condition that ends a Job comes after the one that says why, as servers of today ask.
        types = ("SuccessCriteriaMet", "Complete") if good else ("FailureTarget", "Failed")
        told = {} if good else {"reason": "BackoffLimitExceeded", "message": "it has failed"}
        at = now()
        status: JSON = {
            "conditions": [{"type": name, "status": "True", **told} for name in types],
            "startTime": at,
            "succeeded" if good else "failed": 1,
        }
        if good:
            status["completionTime"] = at
        await self._admin.merge_patch(
            JOBS, job.meta.name, job.meta.namespace, {"status": status}, subresource="status"
        )

    def _place(self, obj: Object) -> Path:
        folder = self._folder / f"{obj.meta.name}-{next(self._numbers)}"
        folder.mkdir(parents=True)
        return folder

    def end(self) -> None:
        """End all Deployments."""
        for _, task in self._running.values():
            task.cancel()


def listening(deployment: Object) -> list[str]:
    """Addresses on loopback for what the program serves besides."""
    (container,) = deployment.to_dict()["spec"]["template"]["spec"]["containers"]
    flags = {word.partition("=")[0] for word in container["args"]}
    served = flags & {"--listen-address", "--webhooks-bind-address"}
    return [f"{flag}=127.0.0.1:0" for flag in served]


@asynccontextmanager
async def node(admin: Client, folder: Path) -> AsyncIterator[Node]:
    """Run what there is, and what comes, while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    async with asyncio.TaskGroup() as group:
        found = Node(admin, folder, group)
        watches: list[Coroutine[Any, Any, None]] = [
            found.watch(DEPLOYMENTS, found.deployment),
            found.watch(JOBS, found.job),
        ]
        tasks = [group.create_task(one) for one in watches]
        try:
            yield found
        finally:
            for task in tasks:
                task.cancel()
            found.end()
