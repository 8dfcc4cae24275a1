"""Helm as a person uses it, on the chart of this repository."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from tests.support.image import ROOT
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON


CHART = ROOT / "charts" / "fairlead"
HOOK = "helm.sh/hook"
RELEASE = "fairlead"
NAMESPACE = ("--namespace", RELEASE, "--create-namespace")
PROGRAMS = {
    "konnector": ("kube-bind", "konnector"),
    "binding": ("fairlead-binding", "fairlead-binding"),
    "provider": ("fairlead-provider", "fairlead-provider"),
    "postgres": ("fairlead-postgres", "fairlead-postgres"),
    "serve": ("fairlead-serve", "fairlead-serve"),
}
"""Namespace and Deployment of each program, by its name among the values."""


@cache
def program(name: str) -> str:
    """Where helm or kube-score is; "" where it is not installed."""
    folder = os.environ.get("FAIRLEAD_HELM", "")
    return shutil.which(name, path=folder or None) or ""


MISSING = 'there is no helm: FAIRLEAD_HELM="$(hack/helm)"'


class Result(NamedTuple):
    """What a command of helm's has said."""

    code: int
    out: str
    err: str


class Helm:
    """Runs helm with a home of its own, against one cluster or none.

    Args:
        folder: its home.
        kubeconfig: of the cluster.
        name: ``helm``, which is version 3, or ``helm4``.
    """

    def __init__(self, folder: Path, kubeconfig: bytes = b"", name: str = "helm") -> None:
        self._folder = folder
        self._program = program(name)
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_bytes(kubeconfig)

    def command(self, *arguments: str, values: JSON | None = None) -> list[str]:
        """The words of a command; ``values`` go into a file."""
        words = [self._program, *arguments]
        if values is not None:
            file = self._folder / "values.yaml"
            file.write_text(json.dumps(values))
            words += ["--values", str(file)]
        return words

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "PATH": os.defpath,
            "HOME": str(self._folder),
            "KUBECONFIG": str(self._kubeconfig),
        }

    def run(self, *arguments: str, values: JSON | None = None) -> Result:
        """Run it and wait, where nothing else has to go on meanwhile."""
        done = subprocess.run(
            self.command(*arguments, values=values),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=self._folder,
            timeout=SECONDS,
            env=dict(self.environment),
        )
        return Result(done.returncode, done.stdout, done.stderr)

    async def tell(self, *arguments: str, values: JSON | None = None) -> Result:
        """Run it while the test goes on."""
        process = await asyncio.create_subprocess_exec(
            *self.command(*arguments, values=values),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=dict(self.environment),
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode is not None
        return Result(process.returncode, out.decode(), err.decode())

    async def does(self, *arguments: str, values: JSON | None = None) -> str:
        """What a command prints that has to succeed."""
        result = await self.tell(*arguments, values=values)
        assert result.code == 0, result.err
        return result.out

    def render(
        self, values: JSON, *flags: str, namespace: str = RELEASE, hooks: bool = False
    ) -> list[JSON]:
        """The objects of the chart; those of hooks only where they are asked for."""
        result = self.run(
            "template", RELEASE, str(CHART), "--namespace", namespace, *flags, values=values
        )
        assert result.code == 0, result.err
        found = [one for one in yaml.safe_load_all(result.out) if one]
        return [one for one in found if hooks or not _is_hook(one)]

    def notes(self, values: JSON) -> str:
        """What the chart says after an installation."""
        result = self.run("install", RELEASE, str(CHART), "--dry-run=client", values=values)
        assert result.code == 0, result.err
        return result.out.partition("\nNOTES:\n")[2]

    def refuses(self, values: JSON, *flags: str) -> str:
        """What is said of values, or of a cluster, that cannot be used."""
        result = self.run("template", RELEASE, str(CHART), *flags, values=values)
        assert result.code != 0, result.out
        return result.err


def _is_hook(body: JSON) -> bool:
    return HOOK in (body["metadata"].get("annotations") or {})


def by_identity(bodies: list[JSON]) -> dict[tuple[str, str, str], Any]:
    """Objects by kind, namespace and name.

    Raises:
        AssertionError: two have the same.
    """
    found: dict[tuple[str, str, str], Any] = {}
    for body in bodies:
        metadata = body["metadata"]
        key = (body["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, key
        found[key] = body
    return found
