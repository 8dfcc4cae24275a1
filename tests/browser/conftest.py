"""A browser, and markets whose pages it shows: each worker has them once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import structlog
from tests.support.browser import Browsing, browsing, chromium, started
from tests.support.lively import Lively
from tests.support.market import Market, open_market


if TYPE_CHECKING:
    from playwright.async_api import Browser


@pytest.fixture(scope="session", autouse=True)
def _quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


@pytest.fixture(scope="session")
def browser_program() -> str:
    """The browser; who asks for it belongs to ``make browser``."""
    return chromium()


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def engine(browser_program: str) -> AsyncIterator[Browser]:
    async with started(browser_program) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def browser(engine: Browser) -> AsyncIterator[Browsing]:
    async with browsing(engine) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def market(engine: Browser) -> AsyncIterator[Market]:
    """One where tests bind what no other test looks for."""
    async with open_market() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session", scope="session")
async def lively(engine: Browser) -> AsyncIterator[Lively]:
    """One at work: tests mend what they break, and share a worker."""
    async with open_market() as opened:
        found = Lively(opened)
        await found.furnish()
        yield found
