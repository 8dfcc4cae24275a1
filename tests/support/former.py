"""The former version of Fairlead: its commands and programs, run beside today's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.support.image import ROOT
from tests.support.process import config_file
from tests.support.waiting import eventually

from fairlead.api.meta import JSON
from fairlead.client import Client
from fairlead.demo.identity import as_service_account


ABSENT = "the history of this checkout ends before the former version"
"""Why what needs it is skipped in a shallow clone."""
UNFIT = "the former version does not run with the packages of today's"

_SHALLOW = 3
_RUNNING = '"msg": "running"'
"""What a program logs once it can be ended in order."""


class Version:
    """One version's commands: ``source`` is the folder that has its packages."""

    def __init__(self, source: Path) -> None:
        self._environment = {**os.environ, "PYTHONPATH": str(source)}
        self._printed: dict[tuple[str, ...], str] = {}

    def prints(self, *arguments: str) -> list[JSON]:
        """The objects that a command prints."""
        if arguments not in self._printed:
            self._printed[arguments] = self.run(*arguments).stdout
        return [body for body in yaml.safe_load_all(self._printed[arguments]) if body]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that has to succeed."""
        done = subprocess.run(
            [sys.executable, "-m", "fairlead", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    @asynccontextmanager
    async def runs(
        self,
        admin: Client,
        program: str,
        folder: Path,
        *flags: str,
        namespace: str,
        account: str,
    ) -> AsyncIterator[None]:
        """A program at work as its ServiceAccount, which ends in order with the block."""
        file, log = folder / f"{program}.kubeconfig", folder / f"{program}.log"
        file.write_text(config_file(await as_service_account(admin, namespace, account)))
        with log.open("wb") as errors:
            running = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "fairlead", program, "run", "--kubeconfig", str(file)),
                *("--health-probe-bind-address=", "--metrics-bind-address="),
                *("--log-format", "json", *flags),
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
            )

        async def begun() -> bool:
            return _RUNNING in log.read_text() or running.returncode is not None

        try:
            await eventually(begun)
            yield
            assert running.returncode is None, log.read_text()[-2000:]
            running.terminate()
            code = await running.wait()
            assert code == 0, f"it ended with {code}: {log.read_text()[-2000:]}"
        finally:
            if running.returncode is None:
                running.kill()
                await running.wait()


TODAY = Version(ROOT / "src")


@cache
def _former() -> Version | str:
    found = subprocess.run(
        [str(ROOT / "hack" / "former")], capture_output=True, text=True, check=False
    )
    if found.returncode == _SHALLOW:
        return ABSENT
    assert found.returncode == 0, found.stderr
    former = Version(Path(found.stdout.splitlines()[-1]) / "src")
    try:
        former.run("--version")
    except AssertionError as error:
        return f"{UNFIT}: {str(error).splitlines()[-1]}"
    return former


def former() -> Version:
    """The former version; the test is skipped where it cannot be had."""
    found = _former()
    if isinstance(found, str):
        pytest.skip(found)
    return found


async def apply_all(admin: Client, bodies: list[JSON]) -> None:
    """Apply manifests and CRDs as an administrator does; nothing would run a Deployment."""
    for body in bodies:
        if body["kind"] == "Deployment":
            continue
        resource = await admin.discovery.resource_for(body["apiVersion"], body["kind"])
        await admin.apply(resource, body, force=True)
