"""Commands as a person runs them, as processes of their own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from fairlead_sandbox import Sandbox


FAIRLEAD = [sys.executable, "-m", "fairlead"]


def against(plane: Sandbox, folder: Path) -> list[str]:
    """The options that name a control plane; its kubeconfig is written into the folder."""
    kubeconfig = folder / f"{plane.name}.kubeconfig"
    kubeconfig.write_bytes(plane.kubeconfig())
    return ["--kubeconfig", str(kubeconfig)]


async def fairlead(
    plane: Sandbox,
    folder: Path,
    *arguments: str,
    stdin: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[int, str, str]:
    """Run a command against a control plane."""
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, *arguments, *against(plane, folder)),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environ or {})},
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in out + err, err.decode()
    return process.returncode, out.decode(), err.decode()
