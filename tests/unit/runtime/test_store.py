"""The store: keyed reads, counts, and indexes that follow every change."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.unit.runtime.fakes import widget

from fairlead.api.meta import Object
from fairlead.runtime.cache.store import Store


def by_app(object_: Object) -> Iterable[str]:
    app = object_.meta.labels.get("app")
    return app.split(",") if app else ()


def names(objects: Iterable[Object]) -> list[str]:
    return sorted(object_.meta.name for object_ in objects)


def test_put_get_and_remove() -> None:
    store = Store()
    first, second = widget("a", 1), widget("a", 2)
    assert store.put(first) is None
    assert store.put(second) is first
    assert store.get("ns", "a") is second
    assert store.remove("ns", "a") is second
    assert store.remove("ns", "a") is None
    assert store.get("ns", "a") is None
    assert store.get("other", "a") is None


def test_lists_a_namespace_or_all() -> None:
    store = Store()
    for namespace in ("one", "two"):
        for name in "ab":
            store.put(widget(name, namespace=namespace))
    assert names(store.list("one")) == ["a", "b"]
    assert len(store.list()) == len(store) == 4
    assert store.list("none") == []


def test_counts_objects_and_bytes() -> None:
    store = Store()
    small, large = widget("a"), widget("a", spec={"text": "x" * 1000})
    store.put(small)
    store.put(large)
    assert (len(store), store.size) == (1, len(large.raw))
    store.remove("ns", "a")
    assert (len(store), store.size) == (0, 0)


def test_an_index_follows_changes() -> None:
    store = Store()
    store.put(widget("early", labels={"app": "x"}))
    store.add_index(by_app)
    store.put(widget("late", labels={"app": "x,y"}))
    assert names(store.by_index(by_app, "x")) == ["early", "late"]
    store.put(widget("early", 2, labels={"app": "z"}))
    assert names(store.by_index(by_app, "x")) == ["late"]
    assert names(store.by_index(by_app, "z")) == ["early"]
    assert [store.count(by_app, value) for value in ("x", "y", "z", "w")] == [1, 1, 1, 0]
    store.remove("ns", "late")
    assert store.by_index(by_app, "y") == []
    assert store.count(by_app, "y") == 0


def test_an_index_that_changes_its_mind_leaves_nothing() -> None:
    said = ["first"]
    store = Store()

    def fickle(object_: Object) -> Iterable[str]:
        return list(said)

    store.add_index(fickle)
    store.put(widget("a"))
    said[:] = ["second"]
    store.put(widget("a", 2))
    store.remove("ns", "a")
    assert store.by_index(fickle, "first") == []
    assert store.by_index(fickle, "second") == []


def test_an_index_that_fails_hides_no_object() -> None:
    def broken(object_: Object) -> Iterable[str]:
        raise KeyError(object_.meta.name)

    store = Store()
    store.add_index(broken)
    store.put(widget("a"))
    assert names(store) == ["a"]


def test_an_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError):
        Store().by_index(by_app, "x")
