"""``fairlead ready`` against a program's own server."""

from __future__ import annotations

import asyncio
import sys

import pytest

from fairlead.runtime.manager.health import Checks, HealthServer


async def ready(url: str, limit: str = "1m") -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairlead", "ready", url, "--timeout", limit),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_it_waits_for_a_program_to_become_ready() -> None:
    checks = Checks()
    asked = 0

    def synced() -> str:
        nonlocal asked
        asked += 1
        return "" if asked > 1 else "informers are not synced"

    checks.ready["informers"] = synced
    async with HealthServer("127.0.0.1:0", checks) as server:
        code, out, err = await ready(f"{server.url}/readyz")
    assert (code, err) == (0, "")
    assert "is ready" in out
    assert asked == 2


async def test_the_program_says_what_it_lacks() -> None:
    checks = Checks()
    checks.ready["informers"] = lambda: "informers are not synced"
    async with HealthServer("127.0.0.1:0", checks) as server:
        code, out, err = await ready(f"{server.url}/readyz", "2s")
    assert (code, out) == (1, "")
    assert "it answers 500" in err
    assert "informers are not synced" in err


@pytest.mark.parametrize(
    ("url", "code", "message"),
    [
        pytest.param("http://127.0.0.1:1/readyz", 1, "is not ready: [Errno 111]", id="nowhere"),
        pytest.param("konnector", 2, "'konnector' is not a URL", id="no-url"),
    ],
)
async def test_a_url_that_no_program_serves(url: str, code: int, message: str) -> None:
    exit_code, _, err = await ready(url, "1s")
    assert exit_code == code
    assert message in err
    assert "Traceback" not in err
