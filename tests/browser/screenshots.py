"""``python -m tests.browser.screenshots --out DIR``: pages in both themes and three widths.

A row of ``PAGES`` is a page; names in braces are those of ``Lively.names``. ``--readme`` takes the
five pictures of the README instead.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog
from tests.support.browser import WIDTHS, Browsing, browsing, chromium, looked_at, started
from tests.support.kbindshown import furnished
from tests.support.lively import Lively
from tests.support.market import Market, open_market
from tests.support.ownconsole import Shown, console
from tests.support.visits import sign_in

from fairlead.demo.frontdoor import Someone


if TYPE_CHECKING:
    from playwright.async_api import Page


class Shot(msgspec.Struct, frozen=True):
    """A page: its path, who looks at it, and what to do there first; "" signs in as no one."""

    name: str
    path: str
    who: str = "ada"
    then: Callable[[Page, Market], Awaitable[None]] | None = None


async def _to_issuer(page: Page, market: Market) -> None:
    await page.get_by_role("link", name="Sign in").click()
    await page.get_by_label("Password").wait_for()


async def _refused(page: Page, market: Market) -> None:
    await _to_issuer(page, market)
    await page.get_by_label("Name").fill("ada")
    await page.get_by_label("Password").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("alert").wait_for()


async def _unnamed(page: Page, market: Market) -> None:
    await page.get_by_label("A new one").check()
    await page.get_by_role("button", name="Bind").click()
    await page.get_by_role("alert").wait_for()


OWN, PROVIDER, STRANGER = "consumer's own", "provider's own", "without a link"
MIRRORED = "own of a consumer of kbind v2"
"""In place of a person: who runs ``fairlead console`` on a side, and a browser with no link."""
THEMES = ("light", "dark")
MOST_BYTES = 150_000
"""Bytes of a picture in the README."""
_README_WIDTH, _README_HEIGHT = 1280, 800
PAGES = (
    Shot("sign-in", "/", who=""),
    Shot("issuer", "/", who="", then=_to_issuer),
    Shot("issuer-refused", "/", who="", then=_refused),
    Shot("issuer-no-request", "/oidc/authorize", who=""),
    Shot("catalogue", "/"),
    Shot("catalogue-search", "/?q=topic"),
    Shot("catalogue-nothing-found", "/?q=nothing"),
    Shot("catalogue-empty", "/", who="cem"),
    Shot("template", "/templates/buckets"),
    Shot("template-postgres", "/templates/postgres"),
    Shot("template-missing", "/templates/none"),
    Shot("bind", "/bind/postgres"),
    Shot("bind-refused", "/bind/postgres", then=_unnamed),
    Shot("bound-waiting", "/bind/mailboxes/{new}/mailboxes"),
    Shot("bound-ready", "/bind/postgres/{ada}/postgres"),
    Shot("overview", "/overview"),
    Shot("overview-all", "/overview", who="olga"),
    Shot("bindings", "/bindings"),
    Shot("binding-failing", "/bindings/{ada}/postgres?state=failed"),
    Shot("bindings-nothing-found", "/bindings?q=nothing"),
    Shot("bindings-silent", "/bindings", who="ben"),
    Shot("bindings-empty", "/bindings", who="cem"),
    Shot("bindings-all", "/bindings", who="olga"),
    Shot("binding", "/bindings/{ada}/postgres"),
    Shot("binding-waiting", "/bindings/{ada}/buckets"),
    Shot("binding-unbind", "/bindings/{ada}/postgres?unbind=postgres"),
    Shot("binding-unbind-wrong", "/bindings/{ada}/postgres?unbind=other"),
    Shot("binding-missing", "/bindings/{ada}/postgres", who="ben"),
    Shot("new-object", "/bindings/{ada}/postgres/new/postgresaccesses.access.k8s.delta10.nl"),
    Shot("new-bucket", "/bindings/{ada}/buckets/new/buckets.storage.example.org"),
    Shot("object", "/objects/{ada}/{accesses}/{shop}/orders"),
    Shot("object-failing", "/objects/{ada}/{accesses}/{shop}/payroll"),
    Shot("object-waiting", "/objects/{ada}/buckets.storage.example.org/{shop}/photos"),
    Shot("topology", "/topology"),
    Shot("topology-problems", "/topology?shown=problems"),
    Shot("topology-all", "/topology", who="olga"),
    Shot("topology-empty", "/topology", who="cem"),
    Shot("consumers", "/consumers", who="olga"),
    Shot("consumers-nothing-found", "/consumers?q=nothing", who="olga"),
    Shot("consumers-missing", "/consumers"),
    Shot("consumer", "/consumers/{ada}", who="olga"),
    Shot("consumer-silent", "/consumers/{ben}", who="olga"),
    Shot("consumer-new", "/consumers/{new}", who="olga"),
    Shot("own-enter", "/", who=STRANGER),
    Shot("own-overview", "/overview", who=OWN),
    Shot("own-objects", "/", who=OWN),
    Shot("own-objects-nothing-found", "/?q=nothing", who=OWN),
    Shot("own-bindings", "/bindings", who=OWN),
    Shot("own-binding", "/bindings/postgres", who=OWN),
    Shot("own-unbind", "/bindings/postgres/unbind", who=OWN),
    Shot("own-object", "/objects/{accesses}/shop/orders", who=OWN),
    Shot("own-object-failing", "/objects/{accesses}/shop/payroll", who=OWN),
    Shot("own-object-waiting", "/objects/servicebindings.servicebinding.io/shop/reports", who=OWN),
    Shot("own-object-missing", "/objects/{accesses}/shop/none", who=OWN),
    Shot("own-topology", "/topology", who=OWN),
    Shot("own-topology-problems", "/topology?shown=problems", who=OWN),
    Shot("mirrored-overview", "/overview", who=MIRRORED),
    Shot("mirrored-objects", "/", who=MIRRORED),
    Shot("mirrored-bindings", "/bindings", who=MIRRORED),
    Shot(
        "mirrored-connection",
        "/bindings/connections.core.kbind.io/-/{connection}",
        who=MIRRORED,
    ),
    Shot("mirrored-broken", "/bindings/connections.core.kbind.io/-/broken", who=MIRRORED),
    Shot("mirrored-whole", "/bindings/clusterbindings.core.kbind.io/-/all", who=MIRRORED),
    Shot("mirrored-part", "/bindings/bindings.core.kbind.io/shop/late", who=MIRRORED),
    Shot("mirrored-object", "/objects/{api}/shop/taken", who=MIRRORED),
    Shot("mirrored-topology", "/topology", who=MIRRORED),
    Shot("provider-consumers", "/consumers", who=PROVIDER),
    Shot("provider-consumer", "/consumers/{ben}", who=PROVIDER),
)
README = ("catalogue", "bindings", "object-failing", "topology-problems", "consumers")
"""The pages whose pictures stand in the README."""


class Studio:
    """A lively market with its consoles, and a browser whose pictures are taken.

    Without a market there are consoles alone. ``names`` are those in paths, beside the market's.
    """

    def __init__(
        self,
        browser: Browsing,
        lively: Lively | None,
        consoles: Mapping[str, Shown],
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.found: list[str] = []
        """What tests would find on the pages."""
        self._browser = browser
        self._market = lively.market if lively is not None else None
        self._names = {**(lively.names() if lively is not None else {}), **(names or {})}
        self._consoles = consoles
        self._pages: dict[str, Page] = {}

    async def take(
        self, out: Path, shots: Sequence[Shot], widths: Sequence[int], themes: Sequence[bool]
    ) -> None:
        """Take all pictures of these pages."""
        for dark in themes:
            for width in widths:
                self._pages.clear()
                for shot in shots:
                    page = await self.shown(shot, width=width, dark=dark)
                    file = out / f"{shot.name}-{width}-{'dark' if dark else 'light'}.png"
                    await page.screenshot(path=file, full_page=True)
                    try:
                        await looked_at(page)
                    except AssertionError as error:
                        self.found.append(f"{file.name}: {error}")

    async def picture(self, out: Path, shot: Shot) -> None:
        """Take the picture of a page as the README shows it: the beginning of it."""
        page = await self.shown(shot, width=_README_WIDTH, dark=False)
        await page.set_viewport_size({"width": _README_WIDTH, "height": _README_HEIGHT})
        file = out / f"console-{shot.name}.png"
        await page.screenshot(path=file)
        if file.stat().st_size > MOST_BYTES:
            self.found.append(f"{file.name} has more than {MOST_BYTES} bytes")

    async def shown(self, shot: Shot, *, width: int, dark: bool) -> Page:
        """A page in a window."""
        page = self._pages.get(shot.who) if shot.who else None
        if page is None:
            page = await self._browser.page(width=width, dark=dark)
            if shot.who in self._consoles:
                await page.goto(await self._consoles[shot.who].console.link())
            elif shot.who not in {"", STRANGER} and (market := self._market) is not None:
                await sign_in(page, market, _someone(market, shot.who))
            self._pages[shot.who] = page
        site = OWN if shot.who == STRANGER else shot.who
        if site in self._consoles:
            url = self._consoles[site].url
        else:
            assert self._market is not None
            url = self._market.url
        await page.goto(f"{url}{shot.path.format(**self._names)}")
        if shot.who in self._consoles:
            # The first look at a cluster takes its time.
            await page.get_by_text("The cluster is still being read").wait_for(state="detached")
        if shot.then is not None:
            assert self._market is not None
            await shot.then(page, self._market)
        return page


def _someone(market: Market, name: str) -> Someone:
    return next(one for one in market.door.people if one.name == name)


def main(arguments: list[str] | None = None) -> int:
    """Take the pictures that the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.screenshots")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the pictures")
    parser.add_argument("--readme", action="store_true", help="those in the README, and no others")
    parser.add_argument("--only", nargs="*", default=[], help="names of pages; all by default")
    parser.add_argument("--widths", nargs="*", type=int, default=WIDTHS, help="in pixels")
    parser.add_argument("--themes", nargs="*", default=THEMES, help="light, dark; both by default")
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    with structlog.testing.capture_logs():
        found = asyncio.run(_take(given))
    for one in found:
        print(one)
    return 1 if found else 0


async def _take(given: argparse.Namespace) -> list[str]:
    async with (
        open_market() as market,
        started(chromium()) as engine,
        browsing(engine) as browser,
    ):
        lively = Lively(market)
        await lively.furnish()
        async with AsyncExitStack() as stack:
            world, names = await furnished(stack)
            clients = {
                OWN: market.consumer.admin,
                PROVIDER: market.provider.admin,
                MIRRORED: world.consumer,
            }
            consoles = {
                who: await stack.enter_async_context(console(client, entered=False))
                for who, client in clients.items()
            }
            studio = Studio(browser, lively, consoles, names)
            if given.readme:
                for name in README:
                    await studio.picture(given.out, next(one for one in PAGES if one.name == name))
            else:
                shots = [one for one in PAGES if not given.only or one.name in given.only]
                themes = [name == "dark" for name in given.themes]
                await studio.take(given.out, shots, given.widths, themes)
            # Streams of open pages end before their servers do.
            await browser.close()
            return studio.found


if __name__ == "__main__":
    raise SystemExit(main())
