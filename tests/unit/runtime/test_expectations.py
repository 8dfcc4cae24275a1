from __future__ import annotations

import pytest

from fairlead.api.meta import Key, Object, object_from_dict
from fairlead.client import limits
from fairlead.runtime.cache.expectations import Expectations


KEY = Key("shop", "db")


def obj(version: str, uid: str = "1") -> Object:
    metadata = {"name": "db", "namespace": "shop", "uid": uid, "resourceVersion": version}
    return object_from_dict({"apiVersion": "v1", "kind": "Thing", "metadata": metadata})


@pytest.mark.parametrize(
    ("cached", "newest"),
    [
        pytest.param(obj("4"), "5", id="cache-lags"),
        pytest.param(obj("5"), "5", id="cache-has-it"),
        pytest.param(obj("10"), "10", id="cache-has-more"),
        pytest.param(obj("4", uid="2"), "4", id="another-object"),
        pytest.param(None, None, id="gone"),
        pytest.param(obj("opaque"), "opaque", id="versions-that-are-no-numbers"),
    ],
)
def test_the_later_of_written_and_cached(cached: Object | None, newest: str | None) -> None:
    expectations = Expectations()
    expectations.wrote(obj("5"))
    found = expectations.newest(KEY, cached)
    assert (found.meta.resource_version if found else None) == newest


def test_what_was_created_is_there_until_the_cache_has_told_of_it() -> None:
    expectations = Expectations()
    expectations.wrote(obj("5"), created=True)
    assert expectations.newest(KEY, None) is not None
    expectations.note_seen(KEY)
    assert expectations.newest(KEY, None) is None


def test_a_cache_that_never_tells_is_believed_in_the_end() -> None:
    """It may have been filled anew after the object came and went."""
    clock = [0.0]
    expectations = Expectations(lambda: clock[0])
    expectations.wrote(obj("5"), created=True)
    clock[0] = limits.LAG_SECONDS - 0.1
    assert expectations.overdue() == []
    assert expectations.newest(KEY, None) is not None
    clock[0] = limits.LAG_SECONDS
    assert expectations.newest(KEY, None) is None


@pytest.mark.parametrize("forget", [lambda one: one.forget(KEY), lambda one: one.clear()])
def test_after_a_conflict_the_cache_counts(forget: object) -> None:
    expectations = Expectations()
    expectations.wrote(obj("5"), created=True)
    assert callable(forget)
    forget(expectations)
    assert expectations.newest(KEY, None) is None


@pytest.mark.parametrize(
    ("told", "echo", "kept"),
    [
        pytest.param(obj("4"), True, True, id="older"),
        pytest.param(obj("5"), True, False, id="ours"),
        pytest.param(obj("6"), False, True, id="newer"),
        pytest.param(obj("10"), False, True, id="newer-as-a-number"),
        pytest.param(obj("5", uid="2"), False, True, id="another-object"),
        pytest.param(obj("opaque"), False, True, id="versions-that-are-no-numbers"),
    ],
)
def test_what_the_cache_tells_of_our_own_writes_is_no_news(
    told: Object, *, echo: bool, kept: bool
) -> None:
    expectations = Expectations()
    assert not expectations.echoes(told)
    expectations.wrote(obj("5"))
    assert expectations.echoes(told) is echo
    assert bool(expectations.written) is kept


def test_what_the_cache_never_tells_of_is_looked_at_once_more() -> None:
    clock = [0.0]
    expectations = Expectations(lambda: clock[0])
    expectations.wrote(obj("5"), created=True)
    clock[0] = limits.LAG_SECONDS
    assert expectations.overdue() == [KEY]
    assert expectations.overdue() == []
    assert expectations.newest(KEY, None) is None
    expectations.wrote(obj("6"), created=True)
    expectations.note_seen(KEY)
    clock[0] += limits.LAG_SECONDS
    assert expectations.overdue() == []
