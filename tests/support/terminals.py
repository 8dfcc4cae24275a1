"""Commands of the front door at a terminal, as a person runs them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.frontdoor import TOKEN


COMMANDS = {
    "fairlead": "from fairlead.cli import main; main(prog_name='fairlead')",
    "kubectl-bind": "from fairlead.cli.frontdoor.kubectl_bind import main; "
    "main(prog_name='kubectl bind')",
}


class Ran:
    """What a command has said."""

    def __init__(self, process: asyncio.subprocess.Process, said: str) -> None:
        self.process = process
        self.said = said
        self.code = -1
        self.out = self.err = ""

    @property
    def url(self) -> str:
        """The address that a person is to open."""
        return next(word for word in self.said.split() if word.startswith("http"))


@asynccontextmanager
async def begun(home: Path, *arguments: str, program: str = "fairlead") -> AsyncIterator[Ran]:
    """A command that has said which address to open; at the end it has ended."""
    process = await started(home, *arguments, program=program)
    assert process.stderr is not None
    said = ""
    while "    http" not in said:
        line = (await process.stderr.readline()).decode()
        assert line, said
        said += line
    ran = Ran(process, said)
    try:
        yield ran
        out, err = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    ran.out, ran.err = out.decode(), said + err.decode()
    assert process.returncode is not None
    ran.code = process.returncode
    assert "Traceback" not in ran.err


async def started(
    home: Path, *arguments: str, program: str = "fairlead", **more: str
) -> asyncio.subprocess.Process:
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    environment |= more
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", COMMANDS[program], *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


async def run(home: Path, *arguments: str, program: str = "fairlead") -> tuple[int, str, str]:
    process = await started(home, *arguments, program=program)
    out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in err, err.decode()
    assert TOKEN not in (out + err).decode()
    return process.returncode, out.decode(), err.decode()
