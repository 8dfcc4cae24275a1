"""Every number on a page is what the API server answers to kubectl."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.answers import Answers
from tests.support.browser import Browsing
from tests.support.e2e import SHOP
from tests.support.lively import BUCKETS, Lively
from tests.support.ownconsole import console
from tests.support.visits import cells, sign_in, times, unfold
from tests.support.waiting import condition

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS, CLUSTERBINDINGS
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import DEPLOYMENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS


if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("lively")]
KINDS = (BUCKETS, POSTGRESACCESSES)
STATES = ("failed", "waiting", "healthy")


def state(body: JSON) -> str:
    """How an object stands, by its Ready alone."""
    ready = condition(body, "Ready")
    if ready.get("status") == "True":
        return "healthy"
    return "waiting" if ready.get("reason") == "Pending" else "failed"


def counted(bodies: list[JSON]) -> str:
    """Counts as pages tell them: all, and then the worst first."""
    found = Counter(map(state, bodies))
    parts = [f"{found[one]} {one}" for one in STATES if found[one]]
    return " ".join([str(len(bodies)), *parts])


def turned(bodies: list[JSON]) -> dict[str, str]:
    """When objects have become as they are, by their names."""
    return {
        one["metadata"]["name"]: condition(one, "Ready")["lastTransitionTime"] for one in bodies
    }


def heartbeats(bodies: list[JSON]) -> dict[str, str]:
    """The last heartbeat of each consumer, "" where there was none."""
    return {
        one["metadata"]["namespace"]: one.get("status", {}).get("lastHeartbeatTime") or ""
        for one in bodies
    }


async def fact(page: Page, name: str) -> str:
    """What a page's list of facts says of this."""
    told = page.locator("dt").filter(has_text=name).first.locator("xpath=following-sibling::dd[1]")
    return " ".join((await told.inner_text()).split())


async def test_numbers_about_consumers(browser: Browsing, lively: Lively, tmp_path: Path) -> None:
    market, answers = lively.market, Answers(lively.market.provider, tmp_path)
    before = heartbeats(await answers.list(CLUSTERBINDINGS))
    exports = Counter(
        one["metadata"]["namespace"] for one in await answers.list(APISERVICEEXPORTS)
    )
    objects = {kind.group_resource: len(await answers.list(kind)) for kind in KINDS}
    page = await browser.page()
    await sign_in(page, market, market.olga, "/consumers")
    rows, moments = await cells(page, "Consumers"), await times(page, "Consumers")
    after = heartbeats(await answers.list(CLUSTERBINDINGS))
    assert len(rows) == len(before) == 3
    await page.get_by_text(f"{len(before)} consumers").wait_for()
    # The namespace stands there for its button, which copies it.
    names = [next(word for word in line[0].split() if word in before) for line in rows]
    found = dict(zip(names, rows, strict=True))
    assert found.keys() == before.keys()
    for name, line in found.items():
        assert line[3] == str(exports[name])
        # All objects are of the one consumer whose konnector is there.
        assert line[4] == str(sum(objects.values()) if name == lively.ada else 0)
        assert (line[2] == "never") is not bool(before[name])
    for name, line, told in zip(names, rows, moments, strict=True):
        assert told[0] in {before[name], after[name]} if before[name] else line[2] == "never"
    await page.goto(f"{market.url}/consumers/{lively.ada}")
    told_objects = await fact(page, "Objects")
    expected = ", ".join(f"{number} {kind}" for kind, number in sorted(objects.items()))
    assert told_objects == f"{sum(objects.values())}: {expected}"
    assert await page.locator("h2:has-text('Exports') ~ section").count() >= exports[lively.ada]


async def test_numbers_about_bindings_and_objects(
    browser: Browsing, lively: Lively, tmp_path: Path
) -> None:
    market, answers = lively.market, Answers(lively.market.provider, tmp_path)
    bodies = {kind: await answers.list(kind, lively.shop) for kind in KINDS}
    names = {BUCKETS: "buckets", POSTGRESACCESSES: "postgres"}
    page = await browser.page()
    await sign_in(page, market, market.ada, "/bindings")
    rows = await cells(page, "Bindings")
    for kind, name in names.items():
        (line,) = [one for one in rows if one[0].startswith(name)]
        assert line[3] == counted(bodies[kind])
    for kind, name in names.items():
        await page.goto(f"{market.url}/bindings/{lively.ada}/{name}")
        assert await fact(page, "Objects") == counted(bodies[kind])
        lines, moments = await cells(page, "Objects"), await times(page, "Objects")
        names_of = [line[0].split()[1].rpartition("/")[2] for line in lines]
        found = {name: line[1] for name, line in zip(names_of, lines, strict=True)}
        assert found.keys() == turned(bodies[kind]).keys()
        for body in bodies[kind]:
            assert found[body["metadata"]["name"]].startswith(state(body))
        since = {name: told[0] for name, told in zip(names_of, moments, strict=True)}
        assert since == turned(bodies[kind])
    await page.goto(f"{market.url}/topology")
    await unfold(page, "Topology as a table")
    lines = await cells(page, "Topology as a table")
    every = [body for found in bodies.values() for body in found]
    drawn = {line[0] for line in lines if line[0].split()[0] in {kind.kind for kind in KINDS}}
    assert drawn == {f"{one['kind']} {SHOP}/{one['metadata']['name']}" for one in every}
    states = Counter(one for line in lines for one in STATES if line[1].startswith(one))
    parts = ", ".join(f"{states[one]} {one}" for one in STATES if states[one])
    await page.get_by_text(f"{len(lines)} parts: {parts}.", exact=True).first.wait_for()


async def test_numbers_of_a_clusters_own_side(
    browser: Browsing, lively: Lively, tmp_path: Path
) -> None:
    answers = Answers(lively.market.consumer, tmp_path)
    kinds = (APISERVICEBINDINGS, BUCKETS, POSTGRESACCESSES, DEPLOYMENTS, SERVICEBINDINGS)
    bodies = {kind: await answers.list(kind) for kind in kinds}
    page = await browser.page()
    async with console(lively.market.consumer.admin, entered=False) as own:
        await page.goto(await own.console.link())
        await page.get_by_role("region", name="All objects").wait_for()
        lines = await cells(page, "All objects")
        named = {one[0] for one in lines}
        assert named == {
            f"{body['kind']} "
            + "/".join(filter(None, [body["metadata"].get("namespace"), body["metadata"]["name"]]))
            for found in bodies.values()
            for body in found
        }
        total = sum(map(len, bodies.values()))
        await page.get_by_text(f"{total} objects").wait_for()
        await page.goto(f"{own.url}/bindings")
        await page.get_by_role("region", name="Bindings").wait_for()
        for line in await cells(page, "Bindings"):
            kind = BUCKETS if line[0].startswith("buckets") else POSTGRESACCESSES
            assert line[3].endswith(f"{len(bodies[kind])}/{len(bodies[kind])} in sync")
        await browser.close()
