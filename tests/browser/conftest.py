"""A browser, and a market whose pages it shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from tests.support.browser import Browsing, browsing, chromium
from tests.support.market import Market, open_market


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.fixture(scope="session")
def browser_program() -> str:
    """The browser; who asks for it belongs to ``make browser``."""
    return chromium()


@pytest.fixture
async def browser(browser_program: str) -> AsyncIterator[Browsing]:
    async with browsing(browser_program) as opened:
        yield opened


@pytest.fixture
async def market(browser: Browsing) -> AsyncIterator[Market]:
    async with open_market() as opened:
        yield opened
        # Streams of open pages end before their server does.
        await browser.close()
