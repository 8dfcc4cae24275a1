"""An API server that is away during a bind, and the same bind again."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from tests.integration.portal.handshake.conftest import ADA, House, house
from tests.support.line import Line
from tests.support.portal import Answer
from tests.support.waiting import eventually

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    BINDABLERESOURCESREQUESTS,
    CLUSTERBINDINGS,
)
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.portal import bounds
from fairlead.portal.options import DEFAULT_NAMESPACE
from fairlead_sandbox import Sandbox


@pytest.fixture
async def line(plane: Sandbox) -> AsyncIterator[Line]:
    async with Line(plane.url) as line:
        yield line


async def bind_impatiently(it: House) -> Answer:
    """Bind where a server that hangs is given up soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "CALL_SECONDS", 0.3)
        return await it.bind(ADA)


async def prepared(it: House) -> None:
    """Ada is signed in, and it is known what she may bind."""
    await it.template()
    await it.allow("User:oidc:ada")

    async def seen() -> bool:
        return bool((await it.ask(ADA, "/api/templates")).json["items"])

    await eventually(seen)


async def spaces(admin: Client) -> list[str]:
    found = (await admin.list(NAMESPACES)).items
    return [one.meta.name for one in found if ANNOTATION_IDENTITY in one.meta.annotations]


def told_to_wait(answer: Answer) -> None:
    assert answer.status == 503, answer.text
    assert answer.json["code"] == "CLUSTER_CONNECTION_FAILED"
    assert int(answer.headers["Retry-After"]) > 0
    assert "again" in answer.json["message"]


async def bound_once(it: House, answer: Answer) -> None:
    """The kubeconfig works, and there is one namespace with one binding."""
    assert answer.status == 200, answer.text
    space = answer.json["providerNamespace"]
    assert await spaces(it.admin) == [space]
    (binding,) = (await it.admin.list(CLUSTERBINDINGS)).items
    assert binding.meta.namespace == space
    kubeconfig = base64.b64decode(answer.json["kubeconfig"])
    async with Client(parse_kubeconfig(kubeconfig)) as consumer:
        await consumer.list(SECRETS, space)


async def none_left(it: House) -> bool:
    requests = (await it.admin.list(BINDABLERESOURCESREQUESTS)).items
    found = (await it.admin.list(SECRETS, DEFAULT_NAMESPACE)).items
    return not requests and not any(one.meta.name.startswith("fairlead-bind-") for one in found)


async def declared(it: House) -> bool:
    return bool((await it.admin.list(BINDABLERESOURCESREQUESTS)).items)


async def test_a_bind_that_reaches_no_api_server_is_done_by_the_same_again(
    plane: Sandbox, admin: Client, line: Line
) -> None:
    async with house(plane, admin, line=line) as it:
        await prepared(it)
        await line.cut()
        told_to_wait(await it.bind(ADA))
        assert await spaces(admin) == []
        line.mend()
        await bound_once(it, await it.bind(ADA))
        assert await none_left(it)


async def test_a_bind_that_the_api_server_took_and_never_answered_is_done_by_the_same_again(
    plane: Sandbox, admin: Client, line: Line
) -> None:
    async with house(plane, admin, line=line) as it:
        await prepared(it)
        line.deafen()
        # It is declared, and the server hears nothing of it.
        told_to_wait(await bind_impatiently(it))
        line.mend()
        await bound_once(it, await it.bind(ADA))


async def test_a_bind_at_an_api_server_that_hangs_is_done_by_the_same_again(
    plane: Sandbox, admin: Client, line: Line
) -> None:
    async with house(plane, admin, line=line) as it:
        await prepared(it)
        line.freeze()
        told_to_wait(await bind_impatiently(it))
        assert await spaces(admin) == []
        line.mend()
        await bound_once(it, await it.bind(ADA))


async def test_a_bind_outlasts_an_api_server_that_is_away_while_it_waits(
    plane: Sandbox, admin: Client, line: Line
) -> None:
    async with house(plane, admin, provider=False, line=line) as it:
        await prepared(it)
        asking = asyncio.create_task(it.bind(ADA))
        await eventually(declared, it)
        await line.cut()
        async with house(plane, admin):

            async def answered() -> bool:
                requests = (await admin.list(BINDABLERESOURCESREQUESTS)).items
                return all(
                    one.to_dict().get("status", {}).get("phase") == "Succeeded" for one in requests
                )

            await eventually(answered)
            assert not asking.done()
            line.mend()
            await bound_once(it, await asking)
            assert await none_left(it)


async def test_an_api_server_that_is_gone_for_longer_than_a_bind_waits_is_told(
    plane: Sandbox, admin: Client, line: Line
) -> None:
    async with house(plane, admin, provider=False, line=line, seconds=0.5) as it:
        await prepared(it)
        asking = asyncio.create_task(it.bind(ADA))

        async def begun() -> bool:
            return asking.done() or await declared(it)

        await eventually(begun)
        await line.cut()
        told_to_wait(await asking)
    line.mend()
    async with house(plane, admin, line=line) as it:
        await bound_once(it, await it.bind(ADA))
