"""One control plane and one operator for all rows, and a server of each version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.support.pgoperator import OperatorThread
from tests.support.servers import OPERATOR, Servers
from tests.support.team import Administrator, Team
from tests.support.tiers import ADMINISTRATORS, VERSIONS

from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.postgres import bounds
from fairlead.postgres.options import PostgresOptions


OPTIONS = PostgresOptions(
    excluded_users=("excluded",), pending_interval=0.2, synced_interval=1.0, server_interval=1.0
)


# Of a module, for what works in a thread disturbs tests of other modules in its process:
# Hypothesis sees that random numbers are drawn, and others what is not collected yet.
@pytest.fixture(scope="module")
def operator() -> Iterator[OperatorThread]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bounds, "PROBE_SECONDS", 0.5)
        thread = OperatorThread(OPTIONS)
        thread.start()
        yield thread
        thread.stop()


@pytest.fixture(scope="session", params=VERSIONS)
def postgres(request: pytest.FixtureRequest, servers: Servers) -> EmbeddedPostgres:
    return servers.of(request.param)


@pytest.fixture(params=ADMINISTRATORS)
def administrator(request: pytest.FixtureRequest, postgres: EmbeddedPostgres) -> Administrator:
    if request.param == "superuser":
        return Administrator(postgres.username, postgres.password, superuser=True)
    return Administrator(OPERATOR, OPERATOR, superuser=False)


@pytest.fixture
async def team(
    operator: OperatorThread, postgres: EmbeddedPostgres, administrator: Administrator
) -> AsyncIterator[Team]:
    async with Client(parse_kubeconfig(operator.kubeconfig)) as client:
        made = Team(client, postgres, administrator)
        await made.arrive()
        yield made
        async with asyncio.timeout(60):
            await made.leave()
    operator.check()
