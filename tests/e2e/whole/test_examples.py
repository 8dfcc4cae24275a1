"""The console's example of a PostgresAccess, taken by the operator."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import yaml
from tests.support.pgworld import World, operated
from tests.support.planes import ControlPlane

from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead.portal.console.examples import example
from fairlead.postgres.options import PostgresOptions


@pytest.fixture
async def world(control_plane: ControlPlane, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with operated(control_plane, postgres, PostgresOptions(pending_interval=0.5)) as opened:
        yield opened


async def test_the_example_of_the_console_becomes_a_login(world: World) -> None:
    written = example(
        {},
        api_version=POSTGRESACCESSES.api_version,
        kind=POSTGRESACCESSES.kind,
        namespaced=POSTGRESACCESSES.namespaced,
    )
    # What its comments say to change.
    body = yaml.safe_load(written)
    body["metadata"]["namespace"] = world.namespace
    body["spec"]["connection"]["serverRef"]["name"] = world.server
    body["spec"]["grants"][0]["database"] = world.database
    await world.admin.create(POSTGRESACCESSES, body)
    await world.ready("example")
    assert await world.logs_in((await world.secret("example"))["uri"])
