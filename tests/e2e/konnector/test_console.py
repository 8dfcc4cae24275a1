"""``fairlead console`` beside a konnector at work: who comes in, what is shown, and unbinding."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from tests.support.commands import fairlead
from tests.support.konnector import WIDGETS, Link, World, secret, widget
from tests.support.ownconsole import Page, Shown, console
from tests.support.waiting import SECONDS

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import EVENTS, SECRETS
from fairlead.client import Client
from fairlead.client.lookups import find
from fairlead.demo.identity import as_service_account, create_all


PAGES = (
    "/",
    "/bindings",
    "/bindings/widgets",
    "/objects/widgets.example.org/default/blue",
    "/overview",
)
MARKUP = "<script>alert(1)</script>"


async def at_work(world: World, *names: str) -> Link:
    """A binding with widgets that are in sync."""
    await world.konnector()
    link = await world.bound()
    for name in names:
        await world.consumer.create(WIDGETS, widget(name))
    return link


def warning(about: Object, message: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "odd", "namespace": about.meta.namespace},
        "involvedObject": {
            "kind": about.kind,
            "namespace": about.meta.namespace,
            "name": about.meta.name,
            "uid": about.meta.uid,
        },
        "type": "Warning",
        "reason": "Odd",
        "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }


def row(page: Page, beginning: str) -> list[str]:
    return next(one for one in page.rows if one and one[0].startswith(beginning))


async def test_a_link_lets_one_browser_in_once(world: World) -> None:
    async with console(world.consumer, entered=False) as shown:
        for path in (*PAGES, "/bindings/widgets/unbind"):
            page = await shown.get(path)
            assert page.status == 401
            assert "Press Enter in its terminal" in page.text
        first, second = await shown.console.link(), await shown.console.link()
        assert (await shown.get(first)).status == 401
        assert (await shown.ask("HEAD", second)).status == 405
        entered = await shown.get(second)
        assert (entered.status, entered.headers["Location"]) == (303, "/")
        cookie = entered.headers["Set-Cookie"]
        assert cookie.startswith(f"fairlead-console-{shown.url.rpartition(':')[2]}=")
        assert all(word in cookie for word in ("HttpOnly", "SameSite=Lax"))
        assert (await shown.get("/")).status == 200
        async with console_browser(shown) as other:
            used = await other.get(second)
            assert used.status == 401
            assert "was used before" in used.text
            assert (await other.get("/")).status == 401


def console_browser(shown: Shown) -> _Other:
    return _Other(shown)


class _Other:
    """Another browser at the same console."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown

    async def __aenter__(self) -> Shown:
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))
        return Shown(self._shown.console, self._session, [])

    async def __aexit__(self, *_exc: object) -> None:
        await self._session.close()


async def test_a_page_asks_the_terminal_for_a_link(world: World) -> None:
    async with console(world.consumer, entered=False) as shown:
        foreign = await shown.post("/link", {}, Origin="http://elsewhere.example.org")
        assert (foreign.status, shown.printed) == (403, [])
        asked = await shown.post("/link", {})
        assert asked.status == 200
        assert "code=" not in asked.body
        assert (await shown.post("/link", {})).status == 429
        (link,) = shown.printed
        assert (await shown.get(link)).status == 303


@pytest.mark.parametrize("host", ["evil.example.org", "localhost", "", "127.0.0.1"])
async def test_other_hosts_are_refused(world: World, host: str) -> None:
    async with console(world.consumer) as shown:
        port = shown.url.rpartition(":")[2]
        for name in {host, f"{host}:{port}"} - {f"127.0.0.1:{port}"}:
            for path in ("/", "/static/none.css", "/live", await shown.console.link()):
                assert (await shown.get(path, Host=name)).status == 421
        # A link was not used up by them.
        assert (await shown.get(await shown.console.link())).status == 303


async def test_the_pages_tell_what_the_commands_tell(world: World, tmp_path: Path) -> None:
    await at_work(world, "blue", "green")
    async with console(world.consumer) as shown:
        page = await shown.once("/bindings", "2/2")
        code, out, err = await fairlead(world.consumer_plane, tmp_path, "bindings", "--json")
        assert code == 0, err
        (told,) = json.loads(out)["bindings"]
        _, provider, state, objects, heartbeat, remedy = row(page, told["binding"])
        assert provider == (told["provider"] or "-")
        assert (state, objects) == ("healthy", "2 2 healthy 2/2 in sync")
        assert (told["inSync"], told["objects"], told["lagSeconds"]) == (2, 2, None)
        assert (told["problem"], remedy) == ("", "")
        assert heartbeat.endswith("ago")
        await world.one.stop()
        await world.consumer.merge_patch(WIDGETS, "blue", "default", {"spec": {"colour": "red"}})
        page = await shown.once("/bindings", "1/2")
        _, out, _ = await fairlead(world.consumer_plane, tmp_path, "bindings", "--json")
        (told,) = json.loads(out)["bindings"]
        assert (told["inSync"], told["objects"]) == (1, 2)
        assert told["lagSeconds"] is not None
        assert "1/2 in sync, the oldest change" in row(page, "widgets")[3]
        whole = await shown.get("/bindings/widgets")
        waits = "spec not sent yet, status not returned yet"
        assert row(whole, "Widget default/blue")[3].endswith(waits)
        assert row(whole, "Widget default/green")[3] == "spec sent, status returned"
        listed = await shown.get("/?state=problem&kind=Widget")
        assert "Widget default/blue" in listed.text
        assert "Widget default/green" not in listed.text


async def test_an_object_shows_both_sides_and_its_past(world: World) -> None:
    link = await at_work(world, "blue")
    async with console(world.consumer) as shown:
        await shown.once("/bindings", "1/1")
        namespace = await link.provider_namespace()
        await world.provider.merge_patch(
            WIDGETS, "blue", namespace, {"status": {"made": 7}}, subresource="status"
        )
        same = "spec and status are the same in both clusters"
        page = await shown.once(PAGES[3], same, "made: 7")
        assert "colour: blue" in page.text
        # The copy is the same, so it is not shown a second time.
        assert f"On the provider, as {namespace}/blue" not in page.text
        assert "object, in this cluster created" in page.text
        assert "object, on the provider created" in page.text
        assert (await shown.get("/objects/widgets.example.org/default/none")).status == 404
        assert (await shown.get("/objects/none.example.org/default/blue")).status == 404
        assert (await shown.get("/bindings/none")).status == 404


async def test_an_open_page_learns_what_changes(world: World) -> None:
    await at_work(world, "blue")
    async with console(world.consumer) as shown:
        page = await shown.once("/bindings", "1/1")
        async with asyncio.timeout(SECONDS), shown.stream(page) as messages:
            await world.consumer.create(WIDGETS, widget("green"))
            async for message in messages:
                if "2/2" in message:
                    break
        assert "<h1" not in message


async def test_markup_and_values_of_secrets_are_not_shown(world: World) -> None:
    await at_work(world)
    made = await world.consumer.create(WIDGETS, widget("blue"))
    await world.consumer.create(EVENTS, warning(made, MARKUP), "default")
    await world.consumer.create(SECRETS, secret("login", "default", password="hunter2"))
    async with console(world.consumer) as shown:
        page = await shown.once(PAGES[3], MARKUP)
        assert MARKUP not in page.body
        page = await shown.once("/objects/secrets/default/login", "password")
        assert "hunter2" not in page.body
        assert "aHVudGVyMg" not in page.body


async def test_a_provider_that_is_away_is_told(world: World) -> None:
    await at_work(world, "blue")
    async with console(world.consumer) as shown:
        await shown.once("/bindings", "1/1")
        await world.provider_plane.stop()
        page = await shown.once("/bindings", "?/1", "failed")
        assert row(page, "widgets")[2].startswith("failed")
        whole = await shown.get("/bindings/widgets")
        blue = row(whole, "Widget default/blue")
        assert blue[1] == "unknown"
        assert blue[3].endswith("not seen")
        page = await shown.get(PAGES[3])
        assert "The provider's cluster could not be read" in page.text


async def test_what_may_not_be_seen_is_told(world: World) -> None:
    await at_work(world, "blue")
    rule = {"apiGroups": ["servicebinding.io"], "resources": ["servicebindings"]}
    metadata = {"name": "narrow", "namespace": "default"}
    await create_all(
        world.consumer,
        [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": metadata,
                "rules": [{**rule, "verbs": ["list"]}],
            },
        ],
    )
    config = await as_service_account(world.consumer, "default", "narrow")
    async with Client(replace(config, context="narrow")) as client, console(client) as shown:
        page = await shown.get("/")
        assert page.status == 200
        assert "You may not list apiservicebindings.kube-bind.io" in page.text
        page = await shown.get("/bindings")
        assert "Nothing is bound here" not in page.text
        page = await shown.get(PAGES[3])
        assert page.status == 200
        assert "The cluster cannot be read" in page.text
        page = await shown.get("/bindings/widgets/unbind")
        assert page.status >= 400


async def test_unbinding_by_a_form(world: World) -> None:
    await at_work(world, "blue", "green")
    path = "/bindings/widgets/unbind"
    async with console(world.consumer) as shown:
        await shown.once("/bindings", "2/2")
        page = await shown.get(path)
        assert "2 objects here" in page.text
        assert "2 copies on the provider" in page.text
        foreign = await shown.post(path, page.fields | {"name": "widgets"}, Origin="http://evil")
        assert foreign.status == 403
        wrong = await shown.post(path, page.fields | {"name": "gadgets"})
        assert wrong.status == 422
        assert "nothing was done" in wrong.text
        assert (await shown.post(path, page.fields | {"name": "widgets"})).status == 409
        assert await find(world.consumer, APISERVICEBINDINGS, "widgets") is not None
        done = await shown.post(path, wrong.fields | {"name": "widgets"})
        assert (done.status, done.headers["Location"]) == (303, path)
        page = await shown.once(path, "it is gone")
        assert "deleting APIServiceBinding widgets" in page.text
        assert await find(world.consumer, APISERVICEBINDINGS, "widgets") is None
        assert (await shown.get("/bindings/widgets")).status == 404
        assert "Nothing is bound here" in (await shown.get("/bindings")).text


async def test_the_end_does_not_wait_for_open_pages(world: World) -> None:
    async with asyncio.timeout(SECONDS), console(world.consumer) as shown:
        page = await shown.get("/")
        stream = shown.stream(page)
        await stream.__aenter__()
