"""Real PostgreSQL servers of several versions: one of each for all tests of a worker.

A test that needs a server alone, because it stops it or has its own settings, starts one itself.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.support.pki import Authority

from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres.database.plans.password import verifier


LOG = {
    "log_statement": "all",
    "log_line_prefix": "%a|",
    "autovacuum": "off",
    # The data may lie in memory.
    "max_wal_size": "96MB",
    "max_prepared_transactions": "4",
}
"""Settings of a server whose log says what the operator did, and that writes nothing itself."""
OPERATOR = "operator"
"""The role and password of an administrator who is no superuser, on each shared server."""


def debian(version: int) -> Path | None:
    """Debian's own PostgreSQL of this version, if it is installed."""
    found = shutil.which("postgres", path=f"/usr/lib/postgresql/{version}/bin")
    return Path(found).parents[1] if found else None


def embedded(version: int) -> EmbeddedPostgres:
    """A server of this version, or the test is skipped where there is none."""
    if version in {16, 18}:
        return EmbeddedPostgres(version=version, settings=LOG)
    install = debian(version)
    if install is None:
        pytest.skip(f"Debian's PostgreSQL {version} is not installed")
    # The only one that has the contributed modules.
    settings = LOG | {"shared_preload_libraries": "pg_stat_statements"}
    return EmbeddedPostgres(version=version, install=install, settings=settings)


def certify(server: EmbeddedPostgres, authority: Authority, *, host: str = "127.0.0.1") -> None:
    """Give a server a certificate for a host, and the CA for those of its clients; TLS is off."""
    data = server.folder / "data"
    pair = authority.issue("database", hosts=(host,))
    for name, content in (("server.crt", pair.certificate), ("server.key", pair.key)):
        path = data / name
        path.touch(mode=0o600)
        path.write_bytes(content)
        # PostgreSQL takes no key of another user.
        os.chown(path, data.stat().st_uid, data.stat().st_gid)
    (data / "ca.crt").write_bytes(authority.pem)


def started(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """The server as long as the fixture that this is the body of."""
    with asyncio.Runner() as runner:
        runner.run(server.__aenter__())
        yield server
        runner.run(server.__aexit__(None, None, None))


def quick(password: str) -> str:
    """A verifier with which a login costs its client nothing: tests log in thousands of times."""
    return verifier(password, iterations=1)


class Servers:
    """The servers of one worker, each started when a test first asks for its version.

    Whoever uses one takes away what it has made there: roles, databases and settings.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._servers: dict[int, EmbeddedPostgres] = {}

    def of(self, version: int) -> EmbeddedPostgres:
        """The server of a version, with the common administrator ``operator``."""
        if version not in self._servers:
            server = embedded(version)
            self._runner.run(server.__aenter__())
            self._servers[version] = server
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute(
                    f"CREATE ROLE {OPERATOR} LOGIN CREATEROLE PASSWORD '{quick(OPERATOR)}'"
                )
                connection.execute(
                    f"ALTER ROLE {server.username} PASSWORD '{quick(server.password)}'"
                )
        return self._servers[version]

    def close(self) -> None:
        """Stop them all."""
        for server in self._servers.values():
            self._runner.run(server.__aexit__(None, None, None))
        self._servers.clear()
        self._runner.close()
