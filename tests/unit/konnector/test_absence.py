"""Only a server that speaks of the object itself can say that it is gone."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.support.ends import executor

from fairlead.api.meta import JSON, Key, object_from_dict
from fairlead.api.status import Status, StatusDetails
from fairlead.client import Client, NotFound
from fairlead.client.errors import api_error
from fairlead.konnector.policies.steps import ConfirmNamespace, Delete, Pair, Read, Step
from fairlead.konnector.sync.ends import Executor


KEY = Key("shop", "creds")
TARGET = Key("abc-shop", "creds")
ABOUT_IT = Status("Failure", "not found", "NotFound", 404, StatusDetails(name="creds"))
ANSWERS = [
    pytest.param(ABOUT_IT, True, id="the-object-is-gone"),
    pytest.param(Status(message="404 page not found", code=404), False, id="a-proxy-answers"),
    pytest.param(
        Status("Failure", "the server could not find the requested resource", "NotFound", 404),
        False,
        id="the-kind-is-not-served",
    ),
    pytest.param(
        Status("Failure", "not found", "NotFound", 404, StatusDetails(name="other")),
        False,
        id="another-object",
    ),
]


class Absent:
    """A server that answers everything with one 404."""

    def __init__(self, status: Status) -> None:
        self._error = api_error(status)

    async def get(self, *_: Any, **__: Any) -> None:
        raise self._error

    delete = get


def client(status: Status) -> Client:
    return cast("Client", Absent(status))


def config_map(key: Key) -> JSON:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": "u-1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def executing(status: Status) -> Executor:
    return executor(client(status), client(status))


NOTHING = Pair(key=KEY, target=TARGET)
COPY = Pair(key=KEY, target=TARGET, provider=object_from_dict(config_map(TARGET)))


@pytest.mark.parametrize("side", ["consumer", "provider"])
@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_originals(status: Status, believed: bool, side: Any) -> None:
    """The watch of the consumer's kind brings back what waits for it; the provider is asked."""
    reading = executing(status).carry_out(Read(side), NOTHING)
    if believed:
        after = await reading
        assert after is not None
        assert after.gone == {side}
    elif side == "consumer":
        assert await reading is None
    else:
        with pytest.raises(NotFound):
            await reading


@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_service_namespaces(status: Status, believed: bool) -> None:
    details = StatusDetails(name="shop") if believed else status.details
    told = Status(status.status, status.message, status.reason, 404, details)
    if believed:
        after = await executing(told).carry_out(ConfirmNamespace(), NOTHING)
        assert after is not None
        assert after.namespace_gone
        return
    with pytest.raises(NotFound):
        await executing(told).carry_out(ConfirmNamespace(), NOTHING)


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(Read("provider"), id="asked"),
        pytest.param(Delete("provider", TARGET, "u-1"), id="deleted"),
    ],
)
@pytest.mark.parametrize(("status", "believed"), ANSWERS)
async def test_copies(status: Status, believed: bool, step: Step) -> None:
    if believed:
        after = await executing(status).carry_out(step, COPY)
        assert after is not None
        assert after.gone == {"provider"}
        return
    with pytest.raises(NotFound):
        await executing(status).carry_out(step, COPY)
