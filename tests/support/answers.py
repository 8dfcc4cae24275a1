"""What an API server answers to kubectl, for numbers of pages to be held against."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import msgspec
from tests.support.countingplanes import Plane
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client.wire import collection_path


class Answers:
    """Asks a control plane as its administrator: by kubectl, or by HTTP where there is none."""

    def __init__(self, plane: Plane, folder: Path) -> None:
        self._plane = plane
        self._kubectl = shutil.which("kubectl")
        self._kubeconfig = folder / f"{plane.sandbox.name}.kubeconfig"
        self._kubeconfig.write_bytes(plane.sandbox.kubeconfig())

    async def list(self, resource: Resource, namespace: str = "") -> list[JSON]:
        """All objects of a kind, in all namespaces by default."""
        if self._kubectl is None:
            found = await self._plane.admin.list(resource, namespace)
            return [one.to_dict() for one in found.items]
        process = await asyncio.create_subprocess_exec(
            *(self._kubectl, "--kubeconfig", str(self._kubeconfig)),
            *("get", "--raw", collection_path(resource, namespace)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(SECONDS):
            out, problem = await process.communicate()
        assert process.returncode == 0, problem.decode()
        items: list[JSON] = msgspec.json.decode(out)["items"]
        return items
