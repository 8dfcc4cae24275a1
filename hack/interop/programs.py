"""The programs that are run: the original's, by the variables that name them, and ours."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.realplane import free_ports


PARTS = {"konnector": "KONNECTOR", "backend": "BACKEND", "cli": "KUBECTL_BIND"}
"""The variable that each part needs."""
OURS = (sys.executable, "-m", "fairlead")
_TAIL = 5


class ProgramError(Exception):
    """A program has ended that should not have, or has failed; has the last lines of its log."""


def missing(parts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What keeps parts from being run, a line for each."""
    found = []
    for part in parts:
        variable = PARTS[part]
        path = environ.get(variable, "")
        if not path:
            found.append(f"{variable} is not set: it names the original's program for {part}")
        elif not os.access(path, os.X_OK) or Path(path).is_dir():
            found.append(f"{variable}={path} is no program")
    return found


def original(part: str, *arguments: str) -> list[str]:
    """The command line of the original's program of a part."""
    variable = PARTS[part]
    return [os.environ[variable], *arguments, *shlex.split(os.environ.get(f"{variable}_ARGS", ""))]


def konnector(kubeconfig: Path) -> list[str]:
    """The original's konnector."""
    return original(
        "konnector",
        *("--kubeconfig", str(kubeconfig)),
        *("--lease-namespace", "default"),
        *("--server-address", f"127.0.0.1:{free_ports(1)[0]}"),
    )


def backend(scope: str, isolation: str, address: str) -> list[str]:
    """The original's backend, which finds its cluster by KUBECONFIG."""
    return original(
        "backend",
        "--frontend-disabled",
        *("--consumer-scope", scope, "--isolation", isolation),
        *("--namespace-prefix", "kube-bind-", "--external-address", address),
    )


@asynccontextmanager
async def running(
    name: str, command: Sequence[str], kubeconfig: Path, folder: Path
) -> AsyncIterator[None]:
    """A program at work; what it writes is in ``folder``/``name``.log.

    Raises:
        ProgramError: it has ended by itself.
    """
    log = folder / f"{name}.log"
    with log.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=_environ(kubeconfig, folder),
        )
    try:
        yield
    except Exception as error:
        if process.returncode is not None:
            raise _ended(name, process.returncode, log) from error
        raise
    else:
        if process.returncode is not None:
            raise _ended(name, process.returncode, log)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _ended(name: str, code: int, log: Path) -> ProgramError:
    return ProgramError(f"{name} has ended with {code}: {tail(log.read_text())}")


async def call(command: Sequence[str], kubeconfig: Path, folder: Path, *, timeout: float) -> str:  # noqa: ASYNC109
    """Run a program to its end; all that it has said.

    Raises:
        ProgramError: it has failed, or takes longer than so many seconds.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_environ(kubeconfig, folder),
    )
    try:
        async with asyncio.timeout(timeout):
            out, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ProgramError(f"{command[0]} takes longer than {timeout:g} s") from None
    if process.returncode:
        raise ProgramError(f"{command[0]} failed: {tail(out.decode())}")
    return out.decode()


def tail(text: str) -> str:
    """The last lines of a text, as one."""
    return " | ".join(text.strip().splitlines()[-_TAIL:])


def _environ(kubeconfig: Path, folder: Path) -> dict[str, str]:
    # The original's CLI keeps its servers below HOME.
    kept = {key: value for key, value in os.environ.items() if key in {"PATH", "LANG", "TMPDIR"}}
    return {**kept, "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
