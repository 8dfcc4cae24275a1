"""What ``--data`` keeps when the process gets no chance to end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fairlead.api import resource
from fairlead.api.meta import JSON
from fairlead.client import Client, parse_kubeconfig
from fairlead_sandbox.storage.log import Log


COUNT = 100


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Client]:
    """A client of ``fairlead sandbox up --data``, which is killed outright in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairlead", "sandbox", "up", "--dir", str(folder), "--data"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        config = parse_kubeconfig((folder / "sandbox.kubeconfig").read_bytes())
        async with Client(config) as client:
            yield client
    finally:
        process.kill()
        await process.wait()


async def test_what_was_answered_is_there_after_a_kill(tmp_path: Path) -> None:
    def body(number: int) -> JSON:
        metadata = {"name": f"c{number}"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    async with running(tmp_path) as client:
        first = client.config.certificate_authority
        made = await asyncio.gather(
            *(
                client.create(resource.CONFIGMAPS, body(number), "default")
                for number in range(COUNT)
            )
        )
    async with running(tmp_path) as client:
        found = {
            one.meta.name: one for one in (await client.list(resource.CONFIGMAPS, "default")).items
        }
        assert client.config.certificate_authority == first
    assert [found[one.meta.name].raw for one in made] == [one.raw for one in made]


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    try:
        (mode,) = log._writer.execute("PRAGMA journal_mode").fetchone()
        (synchronous,) = log._writer.execute("PRAGMA synchronous").fetchone()
    finally:
        log.close()
    assert (mode, synchronous) == ("wal", 2)
