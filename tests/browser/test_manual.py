"""The manual's site in a browser: nothing of another host, diagrams drawn, both themes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from tests.support.browser import Browsing, looked_at
from tests.support.waiting import SECONDS, eventually


ROOT = Path(__file__).parents[2]
PAGES = (
    "",
    "404.html",
    "explanation/architecture/",
    "reference/alerts/",
    "reference/resources/postgresservers.access.k8s.delta10.nl/",
    "runbooks/FairleadTokenOld/",
)
SEARCHES = {
    "expires": "end-of-a-login",
    "login date": "end-of-a-login",
    "offline": "while-it-is-away",
    "provider down": "while-it-is-away",
    "database down": "while-it-is-away",
    "sidecar": "paths-and-keys",
    "one container": "paths-and-keys",
    "key names": "paths-and-keys",
    "read my password": "bind-an-app",
    "cronjob": "bind-other-workloads",
    "statefulset": "bind-other-workloads",
    "let developers use": "let-developers-use-it",
    "share login": "share-a-login",
    "several apps": "share-a-login",
    "another namespace": "move-an-app",
    "undo deletion": "move-an-app",
    "deleted mistake": "move-an-app",
    "tls certificate": "tls-from-the-app",
    "read-only": "read-only-login",
    "uninstall": "uninstall",
    "high availability": "replicas",
    "failover": "while-it-is-away",
    "pause": "while-it-is-away",
    "rename role": "move-an-app",
    "change username": "move-an-app",
    "pod no secret": "app-has-no-login",
    "restart pods": "bind-an-app",
    "create tables": "read-only-login",
    "migrations": "read-only-login",
    "several providers": "bind",
    "remove a consumer": "invite",
    "without downtime": "upgrade",
    "without helm": "install",
    "openshift": "kubernetes-versions",
    "arm64": "kubernetes-versions",
    "firewall": "sizes",
    "pgbouncer": "poolers",
    "rds": "administrator-rights",
    "gitops": "argo-cd",
    "performance": "sizes",
    "fewer rights": "konnector-rights",
    "report a bug": "monitor",
}
"""What new users search for, and the page of docs/how-to that answers it."""
pytestmark = pytest.mark.asyncio(loop_scope="session")
THEMES_OWN = ("landmark-unique", "target-size")
"""Each block of code gets a landmark without a name, for its button that copies; the navigation
scrolls, and cuts a link at its edge."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    if find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed: make docs")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    told = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, env=told, check=True, timeout=SECONDS)
    return folder


@pytest_asyncio.fixture(loop_scope="session")
async def address(built: Path) -> AsyncIterator[str]:
    """Where the site is served."""

    async def file(request: web.Request) -> web.FileResponse:
        path = built / request.match_info["path"]
        path = path / "index.html" if path.is_dir() else path
        if not path.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(path)

    app = web.Application()
    app.router.add_get("/{path:.*}", file)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}/"
    await runner.cleanup()


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1400, True)])
async def test_pages_ask_no_other_host_and_fit_each_window(
    browser: Browsing, address: str, width: int, dark: bool
) -> None:
    page = await browser.page(width=width, dark=dark)
    for path in PAGES:
        await page.goto(address + path, wait_until="networkidle")
        await page.wait_for_selector("pre.mermaid", state="detached")
        await looked_at(page, but=THEMES_OWN)


async def test_a_diagram_is_drawn(browser: Browsing, address: str) -> None:
    page = await browser.page()
    await page.goto(f"{address}explanation/architecture/")
    drawn = page.locator("div.mermaid")
    await drawn.last.wait_for()
    source = (ROOT / "docs" / "explanation" / "architecture.md").read_text()
    assert await drawn.count() == source.count("```mermaid")


async def test_the_search_finds_pages_by_the_words_of_new_users(
    browser: Browsing, address: str
) -> None:
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    page = await browser.page()
    first: dict[str, str] = {}
    for words in SEARCHES:
        # The address has the search, so that each begins with the whole index.
        await page.goto(f"{address}?q={words.replace(' ', '+')}")
        link = page.locator(".md-search-result__link").first
        with contextlib.suppress(PlaywrightTimeout):
            await link.wait_for(state="attached", timeout=5_000)
            first[words] = (await link.get_attribute("href") or "").partition("?")[0]
        first[words] = first.get(words, "").removeprefix(address).partition("#")[0]
    assert first == {words: f"how-to/{title}/" for words, title in SEARCHES.items()}


async def test_the_search_finds_a_field(browser: Browsing, address: str) -> None:
    from playwright.async_api import TimeoutError as PlaywrightTimeout

    page = await browser.page()
    await page.goto(address)
    search = page.get_by_role("textbox", name="Search")
    found = page.locator(".md-search-result__link").first

    async def shown() -> bool:
        # The page reads the text when a key comes up. A text that was typed before the search has
        # its index is looked up at the next change.
        await search.fill("")
        await search.press_sequentially("allowedNamespaces")
        with contextlib.suppress(PlaywrightTimeout):
            await found.wait_for(timeout=5_000)
        return await found.is_visible()

    await eventually(shown)
    assert "postgresservers" in (await found.get_attribute("href") or "")
