"""Copies of an embedded PostgreSQL: a standby on another loopback address, and its files."""

from __future__ import annotations

import asyncio
import shutil

import psycopg
from tests.support.waiting import SECONDS

from fairlead.demo.postgres.binaries import give_away
from fairlead.demo.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


class Standby(EmbeddedPostgres):
    """Follows its primary until it is promoted."""

    host = "127.0.0.2"

    def __init__(self, primary: EmbeddedPostgres) -> None:
        super().__init__(
            version=primary.version,
            install=primary._given,
            # It has to have as much as its primary of what counts in shared memory.
            settings={"max_prepared_transactions": "4", "listen_addresses": self.host},
        )
        self._primary = primary
        self.password = primary.password
        self.port = primary.port

    async def _initialise(self) -> None:
        data = self._primary.folder / "data"
        hba = data / "pg_hba.conf"
        line = "host replication all 127.0.0.1/32 scram-sha-256\n"
        hba.write_text(hba.read_text() + line)
        async with await psycopg.AsyncConnection.connect(
            self._primary.dsn(), autocommit=True
        ) as connection:
            await connection.execute("SELECT pg_catalog.pg_reload_conf()")
        where = f"host={self._primary.host} port={self.port} user={self.username}"
        arguments = ["-D", str(self.folder / "data"), "-R", "-c", "fast", "--no-sync"]
        arguments += ["-d", f"{where} password={self.password}"]
        process = self._spawn("pg_basebackup", arguments, "backup.log")
        async with asyncio.timeout(SECONDS):
            while process.poll() is None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        if process.returncode != 0:
            raise EmbeddedPostgresError((self.folder / "backup.log").read_text())

    async def catch_up(self) -> None:
        """Wait until it has all that the primary has."""
        async with await psycopg.AsyncConnection.connect(
            self._primary.dsn(), autocommit=True
        ) as primary:
            cursor = await primary.execute("SELECT pg_catalog.pg_current_wal_flush_lsn()::text")
            ((there,),) = await cursor.fetchall()
        query = "SELECT pg_catalog.pg_last_wal_replay_lsn() >= %s::pg_lsn"
        async with await psycopg.AsyncConnection.connect(self.dsn(), autocommit=True) as own:
            async with asyncio.timeout(SECONDS):
                while await (await own.execute(query, (there,))).fetchone() != (True,):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    async def promote(self) -> None:
        """Become the primary."""
        async with await psycopg.AsyncConnection.connect(self.dsn(), autocommit=True) as own:
            await own.execute("SELECT pg_catalog.pg_promote()")


class ColdCopy(EmbeddedPostgres):
    """A copy of the files of a server that is stopped: by itself nothing tells it from that."""

    def __init__(self, original: EmbeddedPostgres) -> None:
        super().__init__(version=original.version, install=original._given)
        self._original = original
        self.password = original.password

    async def _initialise(self) -> None:
        data = self.folder / "data"
        await asyncio.to_thread(shutil.copytree, self._original.folder / "data", data)
        for path in (data, *data.rglob("*")):
            give_away(path, self._account)
