"""Equal strings of cached metadata are one string; only so many are remembered."""

from __future__ import annotations

import json

import pytest

from fairlead.api.meta import Object, ObjectMeta, decode_object
from fairlead.api.resource import Resource
from fairlead.client import limits
from fairlead.client.wire import decode_event
from fairlead.runtime.cache.store import SharedStrings, Store


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


def decoded(name: str) -> Object:
    metadata = {
        "name": name,
        "namespace": "team-blue",
        "labels": {"app": "shop", "only": name},
        "annotations": {"example.org/place": "team-blue"},
        "finalizers": ["example.org/finalizer"],
    }
    line = {"type": "ADDED", "object": {**_head(), "metadata": metadata}}
    return decode_event(json.dumps(line).encode(), WIDGETS).object


def _head() -> dict[str, str]:
    return {"apiVersion": "example.org/v1", "kind": "Widget"}


def test_a_store_keeps_equal_strings_once() -> None:
    store = Store()
    for name in "ab":
        store.put(decoded(name))
    first, second = store.list()
    assert (first.meta, second.meta) == (decoded("a").meta, decoded("b").meta)
    assert first.meta.namespace is second.meta.namespace
    assert first.meta.namespace is first.meta.annotations["example.org/place"]
    assert first.meta.labels["app"] is second.meta.labels["app"]
    assert first.meta.finalizers[0] is second.meta.finalizers[0]


def test_events_of_a_resource_share_its_names() -> None:
    first, second = decoded("a"), decoded("b")
    assert first.api_version == "example.org/v1"
    assert first.api_version is second.api_version
    assert first.kind is WIDGETS.kind


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param({"apiVersion": "a/v1", "kind": "A"}, ("a/v1", "A"), id="its-own"),
        pytest.param({}, ("b/v1", "B"), id="of-the-list"),
    ],
)
def test_an_object_s_own_kind_counts(found: dict[str, str], expected: tuple[str, str]) -> None:
    made = decode_object(json.dumps(found).encode(), api_version="b/v1", kind="B")
    assert (made.api_version, made.kind) == expected


def test_what_is_remembered_is_bounded() -> None:
    strings = SharedStrings()
    for number in range(3 * limits.STRINGS):
        meta = ObjectMeta(namespace="team", annotations={"uid": str(number)})
        strings.share(meta)
        assert meta.annotations == {"uid": str(number)}
    assert len(strings) <= limits.STRINGS + 1


def test_long_strings_are_left_alone() -> None:
    strings = SharedStrings()
    strings.share(ObjectMeta(annotations={"text": "x" * (limits.STRING_CHARACTERS + 1)}))
    # The namespace, which is empty.
    assert len(strings) == 1


def test_a_change_that_leaves_the_metadata_alone_keeps_its_parts() -> None:
    store = Store()
    store.put(decoded("a"))
    before = store.list()[0].meta
    store.put(decoded("a"))
    after = store.list()[0].meta
    assert after is not before
    assert after.labels is before.labels
    assert after.finalizers is before.finalizers
    assert after.annotations["example.org/place"] is before.namespace
    assert after.name is before.name


def test_what_has_changed_is_kept_as_it_is_now_and_shared() -> None:
    store = Store()
    for name in "ab":
        store.put(decoded(name))
        changed = decoded(name)
        changed.meta.labels["app"] = "other"
        changed.meta.finalizers.append("example.org/second")
        changed.meta.annotations.clear()
        store.put(changed)
        assert store.get(changed.meta.namespace, name) == changed
    first, second = (object_.meta for object_ in store.list())
    assert first.labels == {"app": "other", "only": "a"}
    assert first.labels["app"] is second.labels["app"]
    assert first.finalizers == ["example.org/finalizer", "example.org/second"]
    assert first.finalizers[1] is second.finalizers[1]
    assert first.annotations is second.annotations
    assert first.annotations == {}
