"""Streams of pages: who is woken, what is shared, and when a stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from tests.integration.portal.console.test_pages import shown
from tests.integration.portal.handshake.conftest import ADA, House, _quiet, admin, house, plane
from tests.support.portal import EXTERNAL
from tests.support.waiting import SECONDS, eventually

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES
from fairlead.client import Client
from fairlead.portal import bounds
from fairlead.portal.console.offers.catalogue import Catalogue
from fairlead.portal.console.pages.live import Hub, Live
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, View
from fairlead.portal.identity.guard import Cookies
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.portal.options import ExternalURL
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]


class Stream:
    """A stream as a browser reads it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def told(self) -> tuple[str, str]:
        """The next message: its event, "" for a part of the page, and its data."""
        event, data = "", []
        async with asyncio.timeout(SECONDS):
            while line := await self.response.content.readline():
                text = line.decode().rstrip("\n")
                name, _, value = text.partition(": ")
                if name == "event":
                    event = value
                elif name == "data":
                    data.append(value)
                elif not text and data:
                    return event, "\n".join(data)
        return "end", ""


@asynccontextmanager
async def followed(there: House, token: str, path: str) -> AsyncIterator[Stream]:
    cookie = f"{Cookies(ExternalURL.parse(EXTERNAL)).session}={token}"
    url = there.door.server.url + path
    async with there.door.session.get(url, headers={"Cookie": cookie}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        yield Stream(response)


async def test_a_page_names_its_stream_which_tells_what_has_changed(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False) as there:
        await there.template("widgets")
        await there.allow("User:oidc:ada")

        async def listed() -> bool:
            return "widgets" in (await shown(there, ADA, "/")).text

        await eventually(listed)
        (path,) = (await shown(there, ADA, "/")).streams
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, path) as stream:
            await there.template("gadgets")
            event, text = await stream.told()
            assert event == ""
            assert "gadgets" in text
            assert "<h1" not in text
            await admin.delete(APISERVICEEXPORTTEMPLATES, "widgets")
            _, text = await stream.told()
            assert "/templates/widgets" not in text


async def test_a_stream_ends_with_its_session(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        token, session = await there.sessions.create(ADA, "browser")
        async with followed(there, token, "/live") as stream:
            assert "You may not bind any template yet" in (await stream.told())[1]
            await there.sessions.end(session)
            await there.template("widgets")
            assert await stream.told() == ("over", "over")
            assert (await stream.told())[0] == "end"


async def test_a_stream_ends_when_its_page_goes_while_it_is_rendered(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def values(self: Catalogue, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        raise MissingError("it went")

    async with house(plane, admin, provider=False) as there:
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, "/live") as stream:
            await stream.told()
            monkeypatch.setattr(Catalogue, "values", values)
            await there.template("widgets")
            assert await stream.told() == ("over", "over")
            assert (await stream.told())[0] == "end"


async def test_no_stream_without_a_session(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin, provider=False) as there:
        assert (await there.door.ask("/live")).status == 401
        assert (await there.ask(ADA, "/live/templates/none")).status == 404


async def test_streams_end_with_the_server() -> None:
    hub = Hub()
    with hub.subscribed("ada") as subscription:
        subscription.take(("team",))
        waiting = asyncio.create_task(subscription.wait())
        await asyncio.sleep(0)
        hub.close()
        async with asyncio.timeout(SECONDS):
            await waiting
        assert hub.closed


async def test_pages_that_cost_much_rest_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    with ExitStack() as stack:
        ada = [stack.enter_context(hub.subscribed("ada")) for _ in range(3)]
        ben = stack.enter_context(hub.subscribed("ben"))
        assert ada[0].rest(0.0) == bounds.STREAM_REST_SECONDS
        assert ada[0].rest(0.5) == 0.5 * bounds.SHARE * len(ada)
        assert ada[0].rest(1000.0) == bounds.STALE_SECONDS
        assert ben.rest(0.5) == 0.5 * bounds.SHARE
        ada[0].take(("team",))
        hub.changed("team")
        monkeypatch.setattr(bounds, "RIGHTS_SECONDS", 0.01)
        # It looks whether its viewer still may, and renders nothing.
        await ada[0].wait()
        assert ada[0].rests
        monkeypatch.undo()
        # The change is told when it has rested.
        ada[0].rest(0.0)
        async with asyncio.timeout(bounds.RIGHTS_SECONDS):
            await ada[0].wait()
        assert not ada[0].rests


async def test_who_shares_a_rendering_does_not_rest_for_it() -> None:
    pages = Pages(ExternalURL.parse(EXTERNAL))
    shared = Live(pages, Hub())
    parts = [await shared.part(_Costly(), "all", AskedPage("/")) for _ in range(2)]
    assert parts[0].seconds > 0
    assert parts[1] == parts[0]._replace(seconds=0.0)


class _Costly(View):
    route, template = "/", "index.html"

    async def scope(self, session: BrowserSession, asked: AskedPage) -> str:
        return "all"

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        return {"shelves": [], "wanted": "", "offers": 0}
