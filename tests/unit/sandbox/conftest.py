from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.sandbox.api import Api

from fairlead_sandbox import Sandbox


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox(tls=False, rbac=False) as running:
        yield running


@pytest.fixture
async def api(sandbox: Sandbox) -> AsyncIterator[Api]:
    async with Api(sandbox.url) as made:
        yield made
