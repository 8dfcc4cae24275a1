"""Sessions in memory: their time, what is taken once, and how many there may be."""

from __future__ import annotations

import time

from fairlead.portal.identity.sessions import MemoryStore


async def stored(
    store: MemoryStore, name: str, *, seconds: float = 60, owner: str = "ada"
) -> bool:
    expires = time.time() + seconds
    return await store.put(name, b"x", kind="session", owner=owner, expires=expires)


async def test_what_is_over_is_not_there() -> None:
    store = MemoryStore()
    assert await stored(store, "a", seconds=-1)
    assert await store.get("a", kind="session") is None
    assert await stored(store, "b", seconds=-1)
    assert await store.take("b", kind="session") is None
    assert await stored(store, "c", seconds=-1)
    assert await stored(store, "c")
    assert await store.get("c", kind="session") == b"x"


async def test_what_is_taken_is_gone() -> None:
    store = MemoryStore()
    assert await stored(store, "a")
    assert not await stored(store, "a")
    assert await store.take("a", kind="session") == b"x"
    assert await store.take("a", kind="session") is None


async def test_where_there_would_be_more_what_ends_first_goes() -> None:
    store, gone = MemoryStore(most=2), list[str | None]()
    store.listen(gone.append)
    for name, seconds in (("a", 30), ("b", 10), ("c", 20)):
        assert await stored(store, name, seconds=seconds)
    assert gone == ["b"]
    assert [one.name for one in await store.held("ada")] == ["c", "a"]
    assert await store.count() == 2
