"""Real PostgreSQL servers of several versions, started for a module of tests."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from fairlead.demo.postgres.server import EmbeddedPostgres


VERSIONS = (15, 16, 18)
"""Those that have rules of their own for common administrators, and the newest."""


def debian(version: int) -> Path | None:
    """Debian's own PostgreSQL of this version, if it is installed."""
    found = shutil.which("postgres", path=f"/usr/lib/postgresql/{version}/bin")
    return Path(found).parents[1] if found else None


def started(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """The server as long as the fixture that this is the body of."""
    with asyncio.Runner() as runner:
        runner.run(server.__aenter__())
        yield server
        runner.run(server.__aexit__(None, None, None))


def operated(server: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    """The same with an administrator who is no superuser, ``operator``."""
    for one in started(server):
        with psycopg.connect(one.dsn(), autocommit=True) as connection:
            connection.execute("CREATE ROLE operator LOGIN CREATEROLE PASSWORD 'operator'")
        yield one


def embedded(version: int, settings: Mapping[str, str] | None = None) -> EmbeddedPostgres:
    """A server of this version, or the test is skipped where there is none."""
    if version in {16, 18}:
        return EmbeddedPostgres(version=version, settings=settings)
    install = debian(version)
    if install is None:
        pytest.skip(f"Debian's PostgreSQL {version} is not installed")
    return EmbeddedPostgres(version=version, install=install, settings=settings)
