from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Logs are captured, so that a test's output is its own."""
    with structlog.testing.capture_logs():
        yield
