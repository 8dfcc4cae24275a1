from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairlead_sandbox.storage.log import Log, LogRow


A1 = LogRow(1, "things", "n", "a", "ADDED", b"a1")
B2 = LogRow(2, "things", "n", "b", "ADDED", b"b2")
A3 = LogRow(3, "things", "n", "a", "MODIFIED", b"a3")
OTHER = LogRow(4, "others", "n", "a", "ADDED", b"o4")
B5 = LogRow(5, "things", "n", "b", "DELETED", b"b5")


@pytest.fixture(params=["memory", "file"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    made = Log(tmp_path / "log" if request.param == "file" else None)
    made.append([A1, B2, A3])
    made.append([OTHER, B5])
    yield made
    made.close()


def test_changes_come_in_order_and_of_one_collection(log: Log) -> None:
    assert list(log.changes("things", 0, 9)) == [A1, B2, A3, B5]
    assert list(log.changes("things", 1, 3)) == [B2, A3]


def test_late_changes_are_found_without_reading_earlier_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        connections.append(connect(*args, **options))
        return connections[-1]

    monkeypatch.setattr(sqlite3, "connect", connected)
    log = Log()
    log.append(A1._replace(rv=rv, name=f"a{rv % 100}") for rv in range(1, 2_001))
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    for connection in connections:
        connection.set_progress_handler(step, 1)
    assert [row.rv for row in log.changes("things", 1_998, 2_000)] == [1_999, 2_000]
    log.close()
    # Of SQLite's virtual machine; a row that is read takes several.
    assert 0 < steps < 200


def test_the_change_before_is_found(log: Log) -> None:
    assert log.before(A3) == A1
    assert log.before(B5) == B2
    assert log.before(A1) is None


def test_every_moment_can_be_seen(log: Log) -> None:
    assert sorted(log.state(2)) == [A1._replace(), B2]
    assert [row.body for row in log.state(4, "things")] == [b"a3", b"b2"]
    assert [row.body for row in log.state(5, "things")] == [b"a3"]


def test_compaction_keeps_what_is_needed_from_then_on(log: Log) -> None:
    log.compact(3)
    assert log.compacted() == 3
    assert list(log.changes("things", 3, 9)) == [B5]
    assert log.before(B5) == B2
    assert [row.body for row in log.state(3, "things")] == [b"a3", b"b2"]
    log.compact(5)
    assert [row.rv for row in log.state(5)] == [4, 3]
    assert log.last() == 5


def test_a_failed_transaction_leaves_nothing(log: Log) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        log.append([LogRow(6, "things", "n", "c", "ADDED", b"c6"), A1])
    assert log.last() == 5


def test_a_file_keeps_everything(tmp_path: Path) -> None:
    first = Log(tmp_path / "log")
    first.append([A1, A3])
    first.compact(3)
    first.close()
    second = Log(tmp_path / "log")
    assert (second.last(), second.compacted()) == (3, 3)
    assert [row.body for row in second.state(3)] == [b"a3"]
    second.close()
