"""A PgBouncer for tests: Debian's own on a loopback port, before one PostgreSQL server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from tests.support.waiting import SECONDS

from fairlead.demo.postgres.server import EmbeddedPostgres


POOLER = "pgbouncer"
"""Role and password by which PgBouncer looks up logins."""


def pgbouncer_program() -> str:
    """The program's path; the test is skipped where there is none."""
    found = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if found is None:
        pytest.skip("pgbouncer is not installed")
    return found


class PgBouncer:
    """One PgBouncer; ``uri`` of a login leads through it."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self._server = server
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])

    def uri(self, username: str, password: str, database: str) -> str:
        return f"postgresql://{username}:{password}@127.0.0.1:{self.port}/{database}"

    async def logs_in(self, username: str, password: str, database: str) -> bool:
        """Whether a new client gets an answer of the server."""
        try:
            async with await psycopg.AsyncConnection.connect(
                self.uri(username, password, database), autocommit=True
            ) as connection:
                await connection.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True


@contextlib.asynccontextmanager
async def pgbouncer(
    folder: Path,
    server: EmbeddedPostgres,
    settings: str,
    users: dict[str, str],
) -> AsyncIterator[PgBouncer]:
    """PgBouncer with these settings, an ini section, and these passwords in its auth_file."""
    program, pooler = pgbouncer_program(), PgBouncer(server)
    file, listed = folder / "pgbouncer.ini", folder / "userlist.txt"
    listed.write_text("".join(f'"{name}" "{secret}"\n' for name, secret in users.items()))
    file.write_text(
        f"[databases]\n* = host={server.host} port={server.port}\n{settings}\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {pooler.port}\nunix_socket_dir =\n"
        f"auth_file = {listed}\n"
    )
    if os.getuid() == 0:
        # It does not run as root.
        with file.open("a") as more:
            more.write("user = nobody\n")
        listed.chmod(0o644)
        for parent in (folder, *folder.parents[:2]):
            parent.chmod(0o755)
    log = folder / "pgbouncer.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            program,
            str(file),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=output,
        )
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", pooler.port)
                    writer.close()
                    await writer.wait_closed()
                    break
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.02)
        yield pooler
    finally:
        process.kill()
        await process.wait()
