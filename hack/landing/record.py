"""What has passed on this machine: one small file for each part and each landing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile


def folder() -> Path:
    """The folder of records, outside all checkouts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fairlead-landing"


class Record:
    """Keys that passed, and green landings, below a folder.

    Files come to be by rename, so that one that is there is whole.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._whole = folder / "whole-is-due"

    def passed(self, key: str) -> str:
        """The commit with which a key passed; "" if it has not."""
        return str(self._read(f"passed/{key}").get("commit", ""))

    def add(self, key: str, commit: str, part: str) -> None:
        """Note that a key has passed."""
        self._write(f"passed/{key}", {"commit": commit, "part": part})

    def number(self, tree: str) -> int:
        """The number of a landing: how many other contents were green before its own.

        Args:
            tree: the content, as git names it. A content that was green keeps its number.
        """
        number = self._read(f"green/{tree}").get("number")
        if isinstance(number, int):
            return number
        green = self._folder / "green"
        return sum(1 for path in green.iterdir() if path.suffix == "") if green.is_dir() else 0

    def land(self, tree: str, commit: str, number: int) -> None:
        """Note a green landing, under the number that it had."""
        self._write(f"green/{tree}", {"commit": commit, "number": number})

    @property
    def whole_is_due(self) -> bool:
        """Whether an earlier landing had no time for the whole suite."""
        return self._whole.exists()

    def put_off_whole(self) -> None:
        """Let the next landing begin with the whole suite."""
        self._write(self._whole.name, {})

    def begin_whole(self) -> None:
        """Forget that it is due, also when the run is stopped before its end."""
        self._whole.unlink(missing_ok=True)

    def _read(self, name: str) -> dict[str, object]:
        try:
            content: dict[str, object] = json.loads((self._folder / name).read_bytes())
        except FileNotFoundError:
            return {}
        return content

    def _write(self, name: str, content: dict[str, object]) -> None:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=path.parent, suffix=".new", delete=False) as file:
            json.dump(content, file)
        Path(file.name).replace(path)
