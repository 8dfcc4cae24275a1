from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from fairlead.api.meta import JSON, Key
from fairlead.sandbox.storage.log import Log, LogRow
from fairlead.sandbox.storage.records import Change
from fairlead.sandbox.storage.store import ObjectStore, StorageError


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
    (change,) = store.history("things", 1, 2)
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
    def append(self, rows: Iterable[LogRow]) -> None:
        raise OSError("disk is full")


async def test_a_change_that_cannot_be_stored_is_no_success(tmp_path: Path) -> None:
    store = ObjectStore(_FullDisk(tmp_path / "log"))
    seen: list[Change] = []
    store.observe(seen.append)
    record = store.put("things", Key("n", "a"), _body("a"))
    with pytest.raises(StorageError, match="the change could not be stored: disk is full"):
        await store.settle(record.rv)
    with pytest.raises(StorageError, match="an earlier change could not be stored"):
        await store.settle(record.rv)
    with pytest.raises(StorageError, match="an earlier change could not be stored"):
        store.put("things", Key("n", "b"), _body("b"))
    assert not seen
    await store.close()
