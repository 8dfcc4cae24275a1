"""The programs that are run: the original's, by the variables that name them, and ours."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import secrets
import shlex
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.realplane import free_ports


PARTS = {
    "konnector": ("KONNECTOR",),
    "backend": ("BACKEND",),
    "cli": ("KUBECTL_BIND",),
    "door": ("BACKEND", "KUBECTL_BIND"),
    "page": ("BACKEND",),
    "kbind": ("KONNECTOR_V2",),
}
"""The variables that each part needs."""
OURS = (sys.executable, "-m", "fairlead")
_TAIL = 5
_ADDRESS = re.compile(r"https?://\S+redirect_url=\S+")
"""The address that a command line wants to have opened."""


class ProgramError(Exception):
    """A program has ended that should not have, or has failed; has the last lines of its log."""


def missing(parts: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What keeps parts from being run, a line for each variable."""
    found = []
    needed = {variable: part for part in reversed(parts) for variable in PARTS[part]}
    for variable, part in sorted(needed.items(), key=lambda item: list(PARTS).index(item[1])):
        path = environ.get(variable, "")
        if not path:
            found.append(f"{variable} is not set: it names the original's program for {part}")
        elif not os.access(path, os.X_OK) or Path(path).is_dir():
            found.append(f"{variable}={path} is no program")
    return found


def original(variable: str, *arguments: str) -> list[str]:
    """The command line of the original's program that a variable names."""
    return [os.environ[variable], *arguments, *shlex.split(os.environ.get(f"{variable}_ARGS", ""))]


def konnector(kubeconfig: Path) -> list[str]:
    """The original's konnector."""
    return original(
        "KONNECTOR",
        *("--kubeconfig", str(kubeconfig)),
        *("--lease-namespace", "default"),
        *("--server-address", f"127.0.0.1:{free_ports(1)[0]}"),
    )


def backend(scope: str, isolation: str, address: str) -> list[str]:
    """The original's backend, which finds its cluster by KUBECONFIG."""
    return original(
        "BACKEND",
        *("--frontend-disabled", "--listen-address", f"127.0.0.1:{free_ports(1)[0]}"),
        *("--consumer-scope", scope, "--isolation", isolation),
        *("--namespace-prefix", "kube-bind-", "--external-address", address),
    )


def backend_door(scope: str, isolation: str, address: str, url: str, port: int) -> list[str]:
    """The original's backend with its front door, and the issuer that signs in all who come."""
    key = base64.b64encode(secrets.token_bytes(32)).decode()
    return original(
        "BACKEND",
        *("--oidc-type", "embedded", "--oidc-issuer-url", f"{url}/oidc"),
        *("--oidc-callback-url", f"{url}/api/callback", "--listen-address", f"127.0.0.1:{port}"),
        *("--cookie-signing-key", key, "--cookie-encryption-key", key),
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


async def call(
    command: Sequence[str],
    kubeconfig: Path,
    folder: Path,
    *,
    timeout: float,  # noqa: ASYNC109
    visit: Callable[[str], Awaitable[None]] | None = None,
) -> str:
    """Run a program to its end; all that it has said.

    Args:
        command: the program and its arguments.
        kubeconfig: what KUBECONFIG names.
        folder: what HOME names.
        timeout: seconds that it may take.
        visit: opens an address in a browser, for a program that names one.

    Raises:
        ProgramError: it has failed, or takes longer.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_environ(kubeconfig, folder),
    )
    said = bytearray()
    try:
        async with asyncio.timeout(timeout):
            assert process.stdout is not None  # noqa: S101
            async for line in process.stdout:
                said += line
                if visit and (named := _ADDRESS.search(line.decode())):
                    await visit(named[0])
            await process.wait()
    except TimeoutError:
        told = f": {tail(said.decode())}" if said else ""
        raise ProgramError(f"{command[0]} takes longer than {timeout:g} s{told}") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise ProgramError(f"{command[0]} failed: {tail(said.decode())}")
    return said.decode()


def tail(text: str) -> str:
    """The last lines of a text, as one."""
    return " | ".join(text.strip().splitlines()[-_TAIL:])


def _environ(kubeconfig: Path, folder: Path) -> dict[str, str]:
    # The original's CLI keeps its servers below HOME.
    known = {"PATH", "LANG", "TMPDIR", "PYTHONPATH"}
    kept = {key: value for key, value in os.environ.items() if key in known}
    return {**kept, "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}
