"""``fairlead console`` as a process, with a person at its terminal."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import signal
import socket
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest
from tests.support.commands import FAIRLEAD, against, fairlead
from tests.support.waiting import SECONDS

from fairlead_sandbox import Sandbox


class Terminal:
    """A command at a terminal, and all that it has said there."""

    def __init__(self, process: asyncio.subprocess.Process, end: int) -> None:
        self.process = process
        self.said = ""
        self._end = end

    async def says(self, pattern: str, times: int = 1) -> str:
        """What it says in this form, once it has said it so many times."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(SECONDS):
            while len(found := re.findall(pattern, self.said)) < times:
                self.said += (await loop.run_in_executor(None, os.read, self._end, 4096)).decode()
        last: str = found[-1]
        return last

    def press_enter(self) -> None:
        os.write(self._end, b"\n")


@asynccontextmanager
async def at_terminal(plane: Sandbox, folder: Path, *arguments: str) -> AsyncIterator[Terminal]:
    mine, its = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *FAIRLEAD,
        "console",
        *against(plane, folder),
        *arguments,
        stdin=its,
        stdout=its,
        stderr=its,
        # So that the terminal is the command's own.
        preexec_fn=partial(_own_terminal, its),
        env={**os.environ, "PYTHONUNBUFFERED": "1", "TMPDIR": str(folder)},
    )
    os.close(its)
    try:
        yield Terminal(process, mine)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(mine)


def _own_terminal(end: int) -> None:
    os.setsid()
    fcntl.ioctl(end, termios.TIOCSCTTY, 0)


LINK = r"(http://127\.0\.0\.1:\d+/enter\?code=[\w-]+)"


async def status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url, allow_redirects=False) as answered:
        return answered.status


async def test_enter_prints_another_link_and_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    async with (
        Sandbox(name="consumer") as plane,
        at_terminal(plane, tmp_path, "--skip-browser") as terminal,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        first = await terminal.says(LINK)
        await terminal.says("Ctrl-C ends")
        terminal.press_enter()
        second = await terminal.says(LINK, times=2)
        assert await status(session, first) == 401
        assert await status(session, second) == 303
        origin = second.partition("/enter")[0]
        assert await status(session, origin + "/") == 200
        async with session.get(origin + "/live") as stream:
            assert stream.content_type == "text/event-stream"
            terminal.process.send_signal(signal.SIGINT)
            async with asyncio.timeout(SECONDS):
                assert await terminal.process.wait() == 0
        left = [name for name in os.listdir(tmp_path) if name.startswith("fairlead-console-")]  # noqa: PTH208
        assert left == []


async def test_the_link_is_in_no_arguments_of_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = tmp_path / "noted"
    opener = tmp_path / "opener"
    opener.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request, pathlib\n"
        "page = urllib.request.urlopen(sys.argv[1]).read().decode()\n"
        f"part = pathlib.Path({str(noted)!r} + '.part')\n"
        "part.write_text(sys.argv[1] + '\\n' + page)\n"
        f"part.rename({str(noted)!r})\n"
    )
    opener.chmod(0o700)
    os.environ["BROWSER"] = str(opener)
    try:
        async with (
            Sandbox(name="consumer") as plane,
            at_terminal(plane, tmp_path) as terminal,
        ):
            link = await terminal.says(LINK)
            async with asyncio.timeout(SECONDS):
                while not noted.exists():  # noqa: ASYNC110  a file tells nobody
                    await asyncio.sleep(0.05)
            argument, _, page = noted.read_text().partition("\n")
            assert argument.startswith("file://")
            assert link in page
    finally:
        del os.environ["BROWSER"]


async def test_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    async with Sandbox(name="consumer") as plane:
        for place in ("0.0.0.0", "::", "localhost"):
            code, _, err = await fairlead(plane, tmp_path, "console", "--address", place)
            assert code == 2
            assert "listens only on 127.0.0.1" in err
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, _, err = await fairlead(plane, tmp_path, "console", "--port", str(port))
        assert code == 1
        assert f"cannot listen on 127.0.0.1:{port}: address already in use" in err
