"""Two people in two browsers, with sessions of their own, who try to reach each other's things."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Browsing
from tests.support.lively import BUCKETS, FAILING, Lively
from tests.support.visits import sign_in

from fairlead.api.kubebind import APISERVICEEXPORTS, CLUSTERBINDINGS
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.demo.frontdoor import Someone
from fairlead.portal.identity.secretstore import LABEL_KIND


if TYPE_CHECKING:
    from playwright.async_api import APIResponse, Page

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.xdist_group("lively")]
ACCESSES = POSTGRESACCESSES.group_resource
MILLISECONDS = 60_000.0
"""Within which an answer ends; a stream that is given does not."""


def of_ada(lively: Lively) -> list[str]:
    """Paths of what only Ada, or an administrator, may see."""
    return [
        "/templates/postgres",
        "/bind/postgres",
        f"/bind/postgres/{lively.ada}/postgres",
        f"/bindings/{lively.ada}/postgres",
        f"/bindings/{lively.ada}/postgres/new/{ACCESSES}",
        f"/objects/{lively.ada}/{ACCESSES}/{lively.shop}/orders",
        f"/objects/{lively.ben}/{ACCESSES}/{lively.shop}/orders",
        f"/objects/{lively.ada}/{BUCKETS.group_resource}/{lively.shop}/backups",
        "/consumers",
        f"/consumers/{lively.ada}",
    ]


def of_ben(lively: Lively) -> list[str]:
    """Paths of what only Ben, or an administrator, may see."""
    return [
        f"/bind/topics/{lively.ben}/topics",
        f"/bindings/{lively.ben}/topics",
        f"/consumers/{lively.ben}",
    ]


def secret(lively: Lively) -> tuple[str, ...]:
    """Texts that stand on pages of Ada's things, and in nothing that another asks for."""
    return (FAILING, "invoices", "uploads", "connection:", "It waits for")


async def _browser_of(browser: Browsing, lively: Lively, who: Someone) -> Page:
    page = await browser.page()
    await sign_in(page, lively.market, who)
    return page


@pytest.mark.parametrize("who", ["ada", "ben"])
async def test_neither_pages_nor_streams_of_another_are_given(
    browser: Browsing, lively: Lively, who: str
) -> None:
    market = lively.market
    someone = market.ada if who == "ada" else market.ben
    page = await _browser_of(browser, lively, someone)
    for path in of_ben(lively) if who == "ada" else of_ada(lively):
        opened = await page.goto(f"{market.url}{path}")
        assert opened is not None
        assert opened.status == 404, path
        text = await page.content()
        assert not [one for one in secret(lively) if one in text], path
        answered = await page.request.get(
            f"{market.url}/live{path}", timeout=MILLISECONDS, max_redirects=0
        )
        assert answered.status == 404, path
        text = await answered.text()
        assert not [one for one in secret(lively) if one in text], path
    # Lists are there for all, and have what is theirs alone.
    other = lively.ben if who == "ada" else lively.ada
    for path in (
        "/bindings",
        f"/bindings?cluster={other}",
        "/topology",
        f"/topology?cluster={other}",
    ):
        await page.goto(f"{market.url}{path}")
        text = await page.locator("#live").inner_text()
        assert other not in text
        if who == "ben":
            assert not [one for one in secret(lively) if one in text], path


async def test_no_form_of_one_does_anything_to_what_is_anothers(
    browser: Browsing, lively: Lively
) -> None:
    market = lively.market
    ada = await _browser_of(browser, lively, market.ada)
    ben = await _browser_of(browser, lively, market.ben)
    before = await _state(lively)
    own = await _token(ben, f"{market.url}/bind/topics")
    file = await _token(ben, f"{market.url}/bind/topics/{lively.ben}/topics")
    stolen = await _token(ada, f"{market.url}/bind/postgres")
    stolen_file = await _token(ada, f"{market.url}/bind/postgres/{lively.ada}/postgres")
    of_hers = await _token(ada, f"{market.url}/bind/topics")
    # What Ben may do himself, he does not do by a form that was made for Ada.
    tries = [("/bind/topics", {"token": of_hers, "cluster": "new", "identity": "of-ben"})]
    for token in (own, file, stolen, stolen_file, ""):
        tries += [
            ("/bind/postgres", {"token": token, "cluster": "new", "identity": "of-ben"}),
            (f"/bind/postgres/{lively.ada}/postgres", {"token": token, "file": "bundle"}),
            (f"/bind/postgres/{lively.ada}/postgres", {"token": token, "file": "response"}),
            (f"/consumers/{lively.ada}", {"token": token, "confirm": lively.ada}),
        ]
    for path, fields in tries:
        answered = await _post(ben, market.url, path, fields | {"name": "taken"})
        assert answered.status in {400, 403, 404, 405, 409, 422}, (path, answered.status)
        text = await answered.text()
        assert "kubeconfig:" not in text
        assert not [one for one in secret(lively) if one in text], path
    # Of a template that Ben may bind, for a cluster that is not his: chosen, or named as new.
    identity = await _identity(lively)
    for fields in ({"cluster": lively.ada}, {"cluster": "new", "identity": identity}):
        token = await _token(ben, f"{market.url}/bind/topics")
        answered = await _post(
            ben, market.url, "/bind/topics", fields | {"token": token, "name": "taken"}
        )
        assert answered.status in {403, 404, 409, 422}, await answered.text()
    # Nor does another site's form, in Ada's own browser and with her own token.
    token = await _token(ada, f"{market.url}/bind/postgres")
    answered = await ada.request.post(
        f"{market.url}/bind/postgres",
        form={"token": token, "name": "taken", "cluster": lively.ada},
        headers={"Origin": "http://127.0.0.1:9"},
        max_redirects=0,
    )
    assert answered.status == 403
    assert await _state(lively) == before
    # All of them have still their own.
    await ada.goto(f"{market.url}/bindings")
    await ada.get_by_role("link", name="postgres").wait_for()


async def _post(page: Page, url: str, path: str, fields: dict[str, str]) -> APIResponse:
    """Send a form as the browser would, with its cookies."""
    return await page.request.post(
        f"{url}{path}",
        form={**fields},
        headers={"Origin": url},
        timeout=MILLISECONDS,
        max_redirects=0,
    )


async def _token(page: Page, url: str) -> str:
    """The token of a form on a page that the browser is shown."""
    await page.goto(url)
    return await page.locator("input[name=token]").first.input_value()


async def _identity(lively: Lively) -> str:
    admin = lively.market.consumer.admin
    return (await admin.get(NAMESPACES, "kube-system")).meta.uid


async def _state(lively: Lively) -> list[tuple[str, str, str]]:
    """What may have been done: bindings, connections, namespaces and credentials."""
    admin = lively.market.provider.admin
    found = [
        (resource.plural, one)
        for resource in (APISERVICEEXPORTS, CLUSTERBINDINGS, NAMESPACES, SECRETS)
        for one in (await admin.list(resource)).items
    ]
    # Sessions and forms that were used up come and go.
    return sorted(
        (plural, one.meta.namespace, f"{one.meta.name} {one.meta.uid}")
        for plural, one in found
        if LABEL_KIND not in one.meta.labels
    )
