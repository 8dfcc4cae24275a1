"""Laying the consumer's fields over a copy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead.konnector.policies.copies import has_more
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.konnector.policies.merge import Owned, merged, owned_fields, wrote


PORT = 'k:{"port":1,"protocol":"TCP"}'
OTHER_PORT = 'k:{"port":2,"protocol":"TCP"}'
FIRST = {"port": 1, "protocol": "TCP"}
SECOND = {"port": 2, "protocol": "TCP"}


@pytest.mark.parametrize(
    ("target", "source", "owned", "result"),
    [
        pytest.param({}, {"a": 1}, {}, {"a": 1}, id="new"),
        pytest.param({"a": 1}, {"a": 2}, {}, {"a": 2}, id="changed"),
        pytest.param({"a": 1}, {}, {"f:a": {}}, {}, id="ours-and-removed"),
        pytest.param({"a": 1}, {}, {}, {"a": 1}, id="of-others"),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {"a": {"b": 1}},
            {"f:a": {"f:b": {}, "f:c": {}}},
            {"a": {"b": 1}},
            id="deep-and-ours",
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {"a": {"b": 3}},
            {"f:a": {"f:b": {}}},
            {"a": {"b": 3, "c": 2}},
            id="deep-and-of-others",
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}},
            {},
            {"f:a": {".": {}, "f:b": {}}},
            {"a": {"c": 2}},
            id="of-a-removed-map-the-part-of-others-stays",
        ),
        pytest.param(
            {"a": {"b": 1}}, {}, {"f:a": {".": {}, "f:b": {}}}, {}, id="a-removed-map-of-ours"
        ),
        pytest.param(
            {"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"f:a": {}}, {"a": {"b": 1}}, id="atomic-map"
        ),
        pytest.param(
            {"a": {"c": 2}}, {"a": {}}, {"f:a": {}}, {"a": {"c": 2}}, id="a-map-that-we-left-empty"
        ),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {"f:a": {}}, {"a": [3]}, id="atomic-list"),
        pytest.param({"a": [1, 2]}, {"a": [3]}, {}, {"a": [3]}, id="list-of-nobody"),
        pytest.param({"a": [1]}, {}, {"f:a": {}}, {}, id="removed-list"),
        pytest.param(
            {"a": ["x", "y"]},
            {"a": ["z"]},
            {"f:a": {'v:"x"': {}}},
            {"a": ["z", "y"]},
            id="set-keeps-what-others-added",
        ),
        pytest.param(
            {"a": [{**FIRST, "more": 1}, SECOND]},
            {"a": [{**FIRST, "name": "n"}]},
            {"f:a": {PORT: {"f:port": {}, "f:protocol": {}}}},
            {"a": [{**FIRST, "more": 1, "name": "n"}, SECOND]},
            id="items-by-key-of-others-stay",
        ),
        pytest.param(
            {"a": [FIRST, SECOND]},
            {"a": [FIRST]},
            {"f:a": {PORT: {".": {}}, OTHER_PORT: {".": {}}}},
            {"a": [FIRST]},
            id="items-by-key-of-ours-go",
        ),
        pytest.param(
            {"a": [FIRST, SECOND]},
            {},
            {"f:a": {PORT: {".": {}}}},
            {"a": [SECOND]},
            id="removed-list-keeps-items-of-others",
        ),
        pytest.param({"a": 1}, {"a": {"b": 1}}, {"f:a": {}}, {"a": {"b": 1}}, id="other-type"),
        pytest.param({"a": {"b": 1}}, {"a": None}, {}, {"a": None}, id="null"),
    ],
)
def test_merged(target: JSON, source: JSON, owned: Owned, result: JSON) -> None:
    assert merged(target, source, owned) == result


@pytest.mark.parametrize(
    ("target", "source", "more"),
    [
        pytest.param({"a": 1}, {"a": 2}, False, id="changed"),
        pytest.param({}, {"a": 2}, False, id="less"),
        pytest.param({"a": 1, "b": 1}, {"a": 1}, True, id="member"),
        pytest.param({"a": {"b": 1}}, {"a": {}}, True, id="deep"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, False, id="shorter-list"),
        pytest.param({"a": [1, 3]}, {"a": [1, 2]}, True, id="another-item"),
        pytest.param({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, True, id="item-with-more"),
    ],
)
def test_has_more(target: JSON, source: JSON, more: bool) -> None:
    assert has_more(target, source) is more


ANNOTATED: JSON = {"f:metadata": {"f:annotations": {"f:kube-bind.io/consumer-uid": {}}}}


def entry(manager: str, fields: JSON, **more: str) -> JSON:
    return {"manager": manager, "operation": "Update", "fieldsV1": fields, **more}


@pytest.mark.parametrize(
    ("entries", "owned"),
    [
        pytest.param([entry("kube-bind.io", {"f:spec": {}})], {"f:spec": {}}, id="ours"),
        pytest.param([entry("operator", {"f:spec": {}})], {}, id="others"),
        pytest.param(
            [entry("kube-bind.io", {"f:status": {}}, subresource="status")], {}, id="status"
        ),
        pytest.param(
            [entry("konnector", {**ANNOTATED, "f:spec": {"f:a": {}}})],
            {**ANNOTATED, "f:spec": {"f:a": {}}},
            id="created-by-the-original",
        ),
        pytest.param(
            [
                entry("konnector", {**ANNOTATED, "f:spec": {"f:a": {}}}),
                entry("kube-bind.io", {"f:spec": {"f:b": {}}}),
                entry("operator", {"f:spec": {"f:c": {}}}),
            ],
            {**ANNOTATED, "f:spec": {"f:a": {}, "f:b": {}}},
            id="created-and-applied-by-the-original",
        ),
        pytest.param([], {"f:spec": {}}, id="untracked"),
    ],
)
def test_owned_fields(entries: list[JSON], owned: Owned) -> None:
    body = {"metadata": {"managedFields": entries}, "spec": {"a": 1}, "status": {"b": 1}}
    assert owned_fields(body, LocalMetadataKeys()) == owned


@pytest.mark.parametrize(
    ("manager", "operation", "labels"),
    [
        pytest.param(
            "kube-bind.io", "Update", {"f:team": {}, "f:kapp.k14s.io/app": {}}, id="ours"
        ),
        pytest.param("konnector", "Update", {"f:team": {}}, id="created-by-the-original"),
        pytest.param("kube-bind.io", "Apply", {"f:team": {}}, id="applied-by-the-original"),
    ],
)
def test_a_mark_that_the_originals_konnector_brought_counts_as_anothers(
    manager: str, operation: str, labels: JSON
) -> None:
    every: JSON = {"f:team": {}, "f:kapp.k14s.io/app": {}}
    fields = {"f:metadata": {**ANNOTATED["f:metadata"], "f:labels": every}}
    written = entry(manager, fields, operation=operation)
    marks = {"team": "shop", "kapp.k14s.io/app": "1"}
    body = {"metadata": {"labels": marks, "managedFields": [written]}}
    assert owned_fields(body, LocalMetadataKeys())["f:metadata"]["f:labels"] == labels


@pytest.mark.parametrize(
    ("entries", "written"),
    [
        pytest.param([entry("kube-bind.io", {"f:spec": {}})], True, id="ours"),
        pytest.param(
            [entry("kube-bind.io", {"f:metadata": {}, "f:data": {}})], True, id="no-spec"
        ),
        pytest.param([entry("kube-bind.io", {"f:metadata": {}})], False, id="metadata-alone"),
        pytest.param([entry("operator", {"f:spec": {}})], False, id="others"),
        pytest.param(
            [entry("kube-bind.io", {"f:spec": {}}, subresource="status")], False, id="status"
        ),
        pytest.param([entry("konnector", {"f:spec": {}})], False, id="perhaps-the-original"),
        pytest.param([], False, id="untracked"),
    ],
)
def test_whether_a_konnector_wrote_an_object(entries: list[JSON], written: bool) -> None:
    assert wrote({"metadata": {"managedFields": entries}, "spec": {"a": 1}}) is written


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("xyz"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=8,
)
_MAPS = st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3)


@given(_MAPS, _MAPS)
def test_all_that_the_consumer_has_arrives_and_merging_again_changes_nothing(
    target: JSON, source: JSON
) -> None:
    result = merged(target, source, {})
    assert _covers(result, source)
    assert merged(result, source, {}) == result


@given(_MAPS, _MAPS)
def test_where_all_is_ours_the_copy_becomes_the_source(target: JSON, source: JSON) -> None:
    assert merged(target, source, _tree(target)) == source


def _covers(target: Any, source: Any) -> bool:
    if isinstance(source, dict) and isinstance(target, dict):
        return all(name in target and _covers(target[name], source[name]) for name in source)
    return bool(target == source)


def _tree(value: JSON) -> JSON:
    """The fields of a value, lists as a whole, in the form of a server."""
    result: JSON = {}
    for name, item in value.items():
        inner = _tree(item) if isinstance(item, dict) else {}
        result[f"f:{name}"] = {".": {}, **inner} if inner else {}
    return result
