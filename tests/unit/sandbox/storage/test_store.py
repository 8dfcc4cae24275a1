from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.storage.log import Log, LogRow
from fairlead_sandbox.storage.records import Change
from fairlead_sandbox.storage.store import (
    MAX_OBJECT,
    ObjectStore,
    ObjectTooLargeError,
    StorageError,
)


def _body(name: str, **labels: str) -> JSON:
    return {"apiVersion": "v1", "metadata": {"name": name, "uid": name, "labels": labels}}


def _keys(*names: str) -> list[Key]:
    return [Key("n", name) for name in names]


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    made = ObjectStore(Log(tmp_path / "log" if request.param == "file" else None))
    yield made
    made.log.close()


async def test_changes_are_published_in_the_order_of_their_versions(store: ObjectStore) -> None:
    seen: list[Change] = []
    store.observe(seen.append)
    store.put("things", Key("n", "a"), _body("a"))
    store.put("things", Key("n", "a"), _body("a", k="v"))
    store.remove("things", Key("n", "a"))
    await store.settle()
    assert [(change.type, change.rv) for change in seen] == [
        ("ADDED", 1),
        ("MODIFIED", 2),
        ("DELETED", 3),
    ]
    assert seen[1].old is seen[0].record
    assert seen[2].record.to_dict()["metadata"]["resourceVersion"] == "3"
    await store.close()


async def test_objects_are_listed_in_order(store: ObjectStore) -> None:
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y")):
        store.put("things", Key(namespace, name), _body(name))
    held = store.collection("things")
    everything = [Key("a", "y"), Key("a", "z"), Key("b", "x")]
    assert [record.key for record in held.list()] == everything
    assert [record.key for record in held.list("a")] == everything[:2]
    assert [record.key for record in held.list(after=everything[0])] == everything[1:]
    assert (held.count(), held.count("a"), held.count("c")) == (3, 2, 0)
    await store.close()


async def test_history_tells_what_was_before(store: ObjectStore) -> None:
    for value in ("1", "2"):
        store.put("things", Key("n", "a"), _body("a", k=value))
    await store.settle()
    (change,) = store.history("things", 1, 2, 10)
    assert change.old is not None
    assert (change.old.labels, change.record.labels) == ({"k": "1"}, {"k": "2"})
    assert [record.labels for record in store.state("things", 1)] == [{"k": "1"}]
    await store.close()


async def test_a_file_is_taken_up_where_it_was_left(tmp_path: Path) -> None:
    first = ObjectStore(Log(tmp_path / "log"))
    for name in ("a", "b"):
        first.put("things", Key("n", name), _body(name))
    first.remove("things", Key("n", "a"))
    await first.close()
    second = ObjectStore(Log(tmp_path / "log"))
    assert second.rv == 3
    assert [record.key for record in second.collection("things").list()] == _keys("b")
    await second.close()


class _FullDisk(Log):
    full = True

    def append(self, rows: Iterable[LogRow]) -> None:
        if self.full:
            raise OSError("disk is full")
        super().append(rows)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock by which a store waits before it tries the disk again, in seconds."""
    clock = [0.0]
    monkeypatch.setattr("fairlead_sandbox.storage.store.monotonic", lambda: clock[0])
    return clock


async def test_changes_that_cannot_be_stored_are_taken_back(
    tmp_path: Path, now: list[float]
) -> None:
    log = _FullDisk(tmp_path / "log")
    store = ObjectStore(log)
    held = store.collection("things")
    seen: list[Change] = []
    store.observe(seen.append)
    log.full = False
    kept = store.put("things", Key("n", "kept"), _body("kept"))
    await store.settle()
    log.full = True
    changed = store.put("things", Key("n", "kept"), _body("kept", k="v"))
    made = store.put("things", Key("n", "new"), _body("new"))
    store.remove("things", Key("n", "kept"))
    with pytest.raises(StorageError, match="the disk cannot be written: disk is full"):
        await store.settle(made.rv)
    assert [record.key for record in held.list()] == _keys("kept")
    assert held.get(kept.key) is kept
    assert [change.rv for change in seen] == [kept.rv]
    with pytest.raises(StorageError, match="the disk cannot be written"):
        await store.settle(changed.rv)
    await store.settle()
    await store.close()


async def test_the_disk_is_tried_again(tmp_path: Path, now: list[float]) -> None:
    log = _FullDisk(tmp_path / "log")
    store = ObjectStore(log)
    recovered: list[str] = []
    store.on_recovery(lambda: recovered.append(store.failure))
    lost = store.put("things", Key("n", "a"), _body("a"))
    with pytest.raises(StorageError):
        await store.settle()
    log.full = False
    with pytest.raises(StorageError, match="the disk cannot be written: disk is full"):
        store.put("things", Key("n", "a"), _body("a"))
    now[0] += 2.0
    again = store.put("things", Key("n", "a"), _body("a"))
    await store.settle()
    assert again.rv > lost.rv
    assert recovered == [""]
    assert [row.rv for row in log.changes("things", 0, again.rv)] == [again.rv]
    await store.close()


async def test_an_object_that_is_too_large_changes_nothing(store: ObjectStore) -> None:
    before = store.rv
    with pytest.raises(ObjectTooLargeError, match="limit is 3145728"):
        store.put("things", Key("n", "a"), _body("a", k="x" * MAX_OBJECT))
    assert store.rv == before
    assert not list(store.collection("things").list())
    await store.close()
