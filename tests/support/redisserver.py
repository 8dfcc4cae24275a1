"""A Redis for tests: Debian's server on a loopback port, which keeps nothing."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pki import Authority
from tests.support.waiting import SECONDS

from fairlead.portal.options import RedisOptions


def redis_program() -> str:
    """The server's path; the test is skipped where there is none."""
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("redis-server is not installed")
    return found


class RedisServer:
    """One server; it may be stopped and started again on its port.

    With an ``authority`` it speaks TLS alone, with a certificate of that for ``127.0.0.1``.
    """

    def __init__(
        self, folder: Path, *, password: str = "", authority: Authority | None = None
    ) -> None:
        self._folder = folder
        self._password = password
        self._ca_file: Path | None = None
        if authority is not None:
            pair = authority.issue("redis")
            self._ca_file = self._written("redis-ca.pem", authority.pem)
            self._written("redis-cert.pem", pair.certificate)
            self._written("redis-key.pem", pair.key)
        self._process: asyncio.subprocess.Process | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    @property
    def options(self) -> RedisOptions:
        return RedisOptions(
            host="127.0.0.1",
            port=self.port,
            password=self._password,
            tls=self._ca_file is not None,
            ca_file=self._ca_file,
        )

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        listening = ["--port", str(self.port)]
        if self._ca_file is not None:
            listening = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            for name in ("ca-cert", "cert", "key"):
                file = self._folder / f"redis-{name.removesuffix('-cert')}.pem"
                listening += [f"--tls-{name}-file", str(file)]
        if self._password:
            listening += ["--requirepass", self._password]
        self._process = await asyncio.create_subprocess_exec(
            redis_program(),
            *("--bind", "127.0.0.1", *listening, "--save", ""),
            *("--appendonly", "no", "--dir", str(self._folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
        )
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    await writer.wait_closed()
                    return
                await asyncio.sleep(0.02)

    def freeze(self, *, thaw: bool = False) -> None:
        """Let it answer nothing, though it is there; or let it answer again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT if thaw else signal.SIGSTOP)

    async def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    def _written(self, name: str, content: bytes) -> Path:
        file = self._folder / name
        file.write_bytes(content)
        return file


@contextlib.asynccontextmanager
async def redis_server(folder: Path, **more: Any) -> AsyncIterator[RedisServer]:
    redis_program()
    server = RedisServer(folder, **more)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
