"""A program as a process of its own."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from fairlead.client import ClusterConfig


@asynccontextmanager
async def process(
    file: Path, *more: str, prelude: str = "", name: str = "konnector"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The konnector as its container runs it, with ``more`` flags; its log lies by the file.

    ``name`` is that of another program.

    ``prelude`` is Python that runs before the command, to shorten times that have no flag.
    """
    flags = ["--health-probe-bind-address=", "--metrics-bind-address=", "--log-format=json", *more]
    program = ("-m", "fairlead")
    if prelude:
        program = ("-c", f"{prelude}\nfrom fairlead.cli import main\nmain()")
    with (file.parent / "log").open("ab") as log:
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            *(*program, name, "run", "--kubeconfig", str(file), *flags),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield running
        if running.returncode is None:
            running.terminate()
            assert await running.wait() == 0, (file.parent / "log").read_text()[-2000:]
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


def config_file(config: ClusterConfig) -> str:
    authority = base64.b64encode(config.certificate_authority).decode()
    cluster = {"server": config.server, "certificate-authority-data": authority}
    context = {"cluster": "c", "user": "u", "namespace": config.namespace}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": config.token}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    return yaml.safe_dump(body)
