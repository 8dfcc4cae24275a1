"""One folder, one sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fairlead_sandbox import Sandbox


def seen(folder: Path) -> dict[str, tuple[int, int]]:
    found = {str(path): path.stat() for path in (folder, *folder.rglob("*"))}
    return {name: (stat.st_size, stat.st_mtime_ns) for name, stat in found.items()}


async def test_the_second_on_a_folder_refuses_and_touches_nothing(tmp_path: Path) -> None:
    async with Sandbox(data=tmp_path, tls=False) as first:
        await first.core.store.settle()
        before = seen(tmp_path)
        second = Sandbox(data=tmp_path, tls=False)
        with pytest.raises(OSError, match=f"^{tmp_path} is in use by another sandbox: stop that"):
            await second.start()
        assert seen(tmp_path) == before
    async with second:
        assert second.url
    async with first:
        assert first.url


async def test_a_start_that_fails_lets_go_of_the_folder(tmp_path: Path) -> None:
    async with Sandbox(tls=False) as other:
        port = int(other.url.rpartition(":")[2])
        unlucky = Sandbox(data=tmp_path, tls=False, port=port)
        with pytest.raises(OSError, match="address already in use"):
            await unlucky.start()
    async with Sandbox(data=tmp_path, tls=False):
        pass


async def test_a_folder_that_holds_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "objects.sqlite").write_bytes(os.urandom(4096))
    with pytest.raises(OSError, match=r"objects.sqlite cannot be used: file is not a database"):
        await Sandbox(data=tmp_path, tls=False).start()
