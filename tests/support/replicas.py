"""Replicas of `fairlead provider serve`, each a process that a test may kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.process import config_file
from tests.support.waiting import SECONDS

from fairlead.client import ClusterConfig


EXTERNAL = "http://127.0.0.1:1"
"""What all replicas take themselves to be; no one listens there."""
_REACHED = "the place is reached"
_HANGING = f"""
import asyncio
from fairlead.client import Client
from fairlead.portal.identity.secretstore import SecretStore

def hang_in(kind, method, applies, *, after):
    begun = getattr(kind, method)

    async def hanging(self, *args, **more):
        if not applies(*args, **more):
            return await begun(self, *args, **more)
        if after:
            await begun(self, *args, **more)
        print({_REACHED!r}, flush=True)
        await asyncio.Event().wait()

    setattr(kind, method, hanging)

"""


def after_put(kind: str) -> str:
    """A place for ``hangs``: something of this kind has just been stored."""
    applies = f"lambda *args, **more: more['kind'] == {kind!r}"
    return f"hang_in(SecretStore, 'put', {applies}, after=True)"


def after_take(kind: str) -> str:
    """A place for ``hangs``: something of this kind has just been used up."""
    applies = f"lambda *args, **more: more['kind'] == {kind!r}"
    return f"hang_in(SecretStore, 'take', {applies}, after=True)"


def in_call(method: str, plural: str, *, after: bool) -> str:
    """A place for ``hangs``: a call about a bind, which is not sent, or just answered."""
    named = "any('fairlead-bind-' in str(one) for one in args)"
    applies = f"lambda resource, *args, **more: resource.plural == {plural!r} and {named}"
    return f"hang_in(Client, {method!r}, {applies}, after={after})"


class Replica:
    """A process that serves; ``url`` is its own address."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.url = ""
        self._process = process
        self._log = log

    def at(self, address: str) -> str:
        """The same address as this replica has it, of one that is external."""
        parts = urlsplit(address)
        assert f"{parts.scheme}://{parts.netloc}" == EXTERNAL
        return f"{self.url}{parts.path}?{parts.query}"

    def log(self) -> str:
        return self._log.read_text()

    def said(self, message: str) -> dict[str, Any]:
        """The first line of its log with this message; {} when there is none yet."""
        for line in self.log().splitlines():
            with contextlib.suppress(ValueError):
                found: dict[str, Any] = json.loads(line)
                if found.get("msg") == message:
                    return found
        return {}

    async def serving(self) -> None:
        """Wait until it says where it serves."""
        async with asyncio.timeout(SECONDS):
            while not (found := self.said("serving")):
                assert self._process.returncode is None, self.log()[-2000:]
                await asyncio.sleep(0.02)
        self.url = found["url"]

    async def reached(self) -> None:
        """Wait until it hangs where it was told to."""
        assert self._process.stdout is not None
        async with asyncio.timeout(SECONDS):
            line = await self._process.stdout.readline()
        assert line.decode().strip() == _REACHED, self.log()[-2000:]

    async def kill(self) -> None:
        """Kill it as a node that is lost does: it finishes nothing."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def replica(
    config: ClusterConfig, folder: Path, name: str, *flags: str, hangs: str = "", **environ: str
) -> AsyncIterator[Replica]:
    """One that serves by the time the block begins, and is killed at its end."""
    file, log = folder / f"{name}.kubeconfig", folder / f"{name}.log"
    file.write_text(config_file(config))
    program = f"{_HANGING}{hangs}\nfrom fairlead.cli import main\nmain()"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", program, "provider", "serve", "--kubeconfig", str(file)),
            *("--external-url", EXTERNAL, "--listen-address", "127.0.0.1:0"),
            *("--oidc-issuer-client-id", "fairlead", "--log-format", "json"),
            *("--health-probe-bind-address=", "--metrics-bind-address=", *flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=os.environ | environ,
        )
    found = Replica(process, log)
    try:
        await found.serving()
        yield found
    finally:
        await found.kill()
