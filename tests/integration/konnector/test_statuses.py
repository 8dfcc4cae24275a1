from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.integration.konnector.conftest import binding_body, bound, until
from tests.support import kubebind
from tests.support.stale import StaleServer

from fairlead.api.kubebind import APISERVICEBINDINGS, APIServiceBinding
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    PERMISSIONS_GRANTED,
    SECRET_VALID,
    false,
    true,
)
from fairlead.api.meta import Object, object_from_dict
from fairlead.client import Client, Forbidden
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.reports import Problems, ungranted
from fairlead.konnector.statuses import BindingStatuses, with_status
from fairlead_sandbox import Sandbox


async def conditions(client: Client, name: str = "db") -> dict[str, str]:
    found = await client.get(APISERVICEBINDINGS, name)
    status = found.decode(APIServiceBinding).status
    return {item.type: item.status for item in status.conditions}


async def test_two_writers_do_not_conflict(client: Client, consumer: Consumer) -> None:
    await bound(client)
    await until(lambda: consumer.bindings.get("", "db"))
    await consumer.statuses.set("db", true(SECRET_VALID))
    await consumer.statuses.set("db", false(CONNECTED, "Because", "no"))
    assert await conditions(client) == {
        "Ready": "False",
        "Connected": "False",
        "SecretValid": "True",
    }


async def test_what_another_wrote_meanwhile_is_kept(client: Client, consumer: Consumer) -> None:
    old = await bound(client)
    await until(lambda: consumer.bindings.get("", "db"))
    await consumer.statuses.set("db", true(SECRET_VALID))
    theirs = [{"type": "Theirs", "status": "True"}]
    body = {**old.to_dict(), "status": {"conditions": theirs}}
    body["metadata"].pop("resourceVersion")
    await client.merge_patch(
        APISERVICEBINDINGS, "db", "", {"status": {"conditions": theirs}}, subresource="status"
    )
    await consumer.statuses.set("db", true(CONNECTED))
    assert await conditions(client) == {"Ready": "True", "Connected": "True", "Theirs": "True"}


async def test_what_is_said_already_is_not_written(
    client: Client, consumer: Consumer, plane: Sandbox
) -> None:
    await bound(client)
    await until(lambda: consumer.bindings.get("", "db"))
    await consumer.statuses.set("db", true(SECRET_VALID))
    plane.faults.fail("*", "apiservicebindings", 403, times=-1)
    await consumer.statuses.set("db", true(SECRET_VALID))
    with pytest.raises(Forbidden):
        await consumer.statuses.set("db", true(CONNECTED))


@pytest.mark.parametrize("seen", [True, False], ids=["deleted-meanwhile", "never-seen"])
async def test_a_binding_that_is_gone_is_left_alone(
    client: Client, consumer: Consumer, seen: bool
) -> None:
    if seen:
        await bound(client)
        await until(lambda: consumer.bindings.get("", "db"))
        await client.delete(APISERVICEBINDINGS, "db")
    await consumer.statuses.set("db", true(SECRET_VALID))


async def test_unknown_fields_of_a_status_stay(client: Client) -> None:
    old = await bound(client)
    body = {**old.to_dict(), "status": {"later": 1}}
    status = old.decode(APIServiceBinding).status
    assert with_status(object_from_dict(body), status)["status"] == {"later": 1}


def test_problems_are_told_by_binding_until_they_are_solved() -> None:
    problems = Problems()
    problems.report("db", "b", "second")
    problems.report("db", "a", "first")
    problems.report("other", "a", "elsewhere")
    assert problems.message("db") == "first; second"
    problems.report("db", "a", "")
    assert problems.message("db") == "second"
    problems.report("db", "b", "")
    assert problems.message("db") == ""
    assert problems.message("other") == "elsewhere"


def test_of_many_problems_the_first_few_are_told() -> None:
    problems = Problems()
    for number in range(5):
        problems.report("db", str(number), f"no {number}")
    assert problems.message("db") == "no 0; no 1; no 2; and 2 more"


async def test_a_newer_binding_in_the_cache_is_believed_although_its_event_was_missed() -> None:
    """A list after a watch that broke tells the last of several changes, and no other."""

    def version(number: str) -> Object:
        body = binding_body()
        body["metadata"] |= {"uid": "b-1", "resourceVersion": number}
        return object_from_dict(body)

    class Server(StaleServer):
        async def merge_patch(self, *args: Any, **more: Any) -> Object:
            await super().merge_patch(*args, **more)
            return version("5")

    server, cached = Server({}), version("4")
    events: list[Any] = []
    bindings = SimpleNamespace(get=lambda *_: cached, subscribe=lambda _: None)
    statuses = BindingStatuses(
        server.client,
        cast("Any", bindings),
        cast("Any", SimpleNamespace(event=lambda *said: events.append(said[1:]))),
    )
    await statuses.set("db", true(SECRET_VALID))
    cached = version("6")
    await statuses.set("db", true(CONNECTED))
    patched = server.written("patch", APISERVICEBINDINGS.plural)
    assert [patch["metadata"]["resourceVersion"] for _, patch in patched] == ["4", "6"]


def export(*conditions: Any) -> Object:
    spec = kubebind.export().to_dict()["spec"]
    return kubebind.kube("APIServiceExport", spec=spec, status={"conditions": list(conditions)})


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(export({"type": PERMISSIONS_GRANTED, "status": "False"}), True, id="lacking"),
        pytest.param(export({"type": PERMISSIONS_GRANTED, "status": "True"}), False, id="granted"),
        pytest.param(export(), False, id="an-original-provider"),
        pytest.param(export("odd"), False, id="unreadable"),
        pytest.param(None, False, id="no-export"),
    ],
)
def test_rights_that_the_provider_lacks_are_told(found: Object | None, told: bool) -> None:
    problem = ungranted(found)
    assert ("PermissionsGranted of APIServiceExport widgets" in problem) is told
    assert bool(problem) is told
