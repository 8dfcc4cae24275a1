"""The key of proofs, as replicas follow it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from fairlead.api.keys import key_secret
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.status import Status, StatusDetails
from fairlead.binding.admission.serving import RequesterKey
from fairlead.client import ConnectionFailed, NotFound
from fairlead.runtime import Cluster


SHORT = key_secret("own", "key", {}) | {"data": {"key": base64.b64encode(b"short").decode()}}


class World:
    """A cluster, its client and its informer, with one Secret or none."""

    def __init__(self, secret: JSON | None, *, refused: bool = False) -> None:
        self.secret = object_from_dict(secret) if secret else None
        self.refused = refused
        self.asked = 0
        self.client = self

    def informer(self, *args: Any, **options: Any) -> World:
        return self

    def subscribe(self, handler: Callable[[Any], None]) -> None:
        self.notify = handler

    async def synced(self) -> None:
        pass

    def get(self, *args: Any) -> Any:
        if not isinstance(args[0], str):
            return self._read()
        return self.secret

    async def _read(self) -> Object:
        self.asked += 1
        if self.refused:
            raise ConnectionFailed("no answer")
        if self.secret is None:
            raise NotFound(Status("Failure", "gone", "NotFound", 404, StatusDetails(name="key")))
        return self.secret

    async def create(self, resource: Any, body: JSON, namespace: str) -> Object:
        self.secret = object_from_dict(body)
        self.notify(None)
        return self.secret


async def run(world: World) -> tuple[bytes, list[Any]]:
    """What the key is once there is nothing more to do, and what the log says."""
    key = RequesterKey(cast("Cluster", world), "own", "key")
    with capture_logs() as logs:
        task = asyncio.create_task(key.run())
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
    return key(), logs


async def test_a_key_is_made_once() -> None:
    world = World(None)
    key, logs = await run(world)
    assert (len(key), world.asked, logs) == (32, 1, [])
    assert await run(world) == (key, [])


@pytest.mark.parametrize(
    ("world", "text"),
    [
        pytest.param(World(SHORT), "delete the Secret to get a new one", id="unusable"),
        pytest.param(World(None, refused=True), "no answer", id="refused"),
    ],
)
async def test_without_a_key_nothing_is_made_up_and_nothing_spins(world: World, text: str) -> None:
    key, logs = await run(world)
    assert (key, world.asked) == (b"", 1)
    (line,) = logs
    assert text in line["error"]
