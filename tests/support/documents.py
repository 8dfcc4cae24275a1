"""The commands of the documents, as a person reads them and as that person runs them."""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from tests.support.waiting import SECONDS


class Block(NamedTuple):
    """Commands that belong together, and the paragraph that leads to them."""

    paragraph: str
    commands: list[str]


def section(document: str, title: str) -> str:
    """The text below a heading of the second level, up to the next."""
    return document.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def blocks(text: str) -> Iterator[Block]:
    """Every block of commands: indented by four, or fenced as ``sh``; continued lines joined."""
    paragraph: list[str] = []
    commands: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            fenced = line == "```sh"
            continue
        if fenced or line.startswith("    "):
            commands.append(line.strip())
        elif commands:
            joined = "\n".join(commands).replace("\\\n", " ")
            yield Block(" ".join(paragraph), joined.splitlines())
            paragraph, commands = [line], []
        elif line.strip():
            paragraph.append(line)


class Person:
    """Somebody at a terminal: a folder, an environment, and further terminals for what goes on.

    Args:
        stack: ends what was started, with Ctrl-C.
        folder: where the person is.
        environment: of the person, instead of ours.
        rewrite: makes of a command what the person puts in place of the document's examples.
    """

    def __init__(
        self,
        stack: AsyncExitStack,
        folder: Path,
        environment: dict[str, str],
        rewrite: Callable[[str], str],
    ) -> None:
        self.environment = environment
        self._stack = stack
        self._folder = folder
        self._rewrite = rewrite
        self._terminals = 0

    async def do(self, command: str) -> str:
        """Run a command to its end, or until it says that it is at work; what it printed.

        Raises:
            AssertionError: it failed.
        """
        command = self._rewrite(command)
        words = shlex.split(command, comments=True)
        if words[:1] == ["export"]:
            name, _, value = words[1].partition("=")
            self.environment[name] = value
            return ""
        if words[:1] == ["fairlead"] and _goes_on(words):
            return await self._begin(command)
        process = await self._start(command, asyncio.subprocess.PIPE)
        out, err = await process.communicate()
        assert process.returncode == 0, f"{command}\n{out.decode()}{err.decode()}"
        return out.decode()

    async def _begin(self, command: str) -> str:
        self._terminals += 1
        log = self._folder / f"terminal-{self._terminals}"
        with log.open("wb") as output:
            process = await self._start(f"exec {command}", output.fileno())
        self._stack.push_async_callback(_interrupt, process)
        async with asyncio.timeout(SECONDS):
            while not re.search(
                r'^ready$|"msg": "running"|^open this in a browser:$',
                text := log.read_text(),
                re.MULTILINE,
            ):
                assert process.returncode is None, f"{command}\n{text}"
                await asyncio.sleep(0.05)
        return text

    async def _start(self, command: str, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", command),
            cwd=self._folder,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _goes_on(words: list[str]) -> bool:
    """Whether a command works until it is stopped."""
    if words[1] == "console":
        return "--help" not in words
    return words[2:3] in (["up"], ["run"]) and "--" not in words


async def _interrupt(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(2)
    assert await process.wait() == 0
