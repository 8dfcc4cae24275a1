"""Owners of fields in custom resources, beyond what a server of Kubernetes 1.20 does."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.apply import lastapplied, managers, paths, shapes
from fairlead_sandbox.patches.apply.managers import (
    ConflictsError,
    FieldManager,
    Managed,
    OwnedFields,
)
from fairlead_sandbox.patches.apply.tracking import after_update
from fairlead_sandbox.patches.apply.walk import ShapeError, changes, fields, merge


TEXT: JSON = {"type": "string"}
SCHEMA: JSON = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {"type": "string", "default": "TCP"},
                            "name": TEXT,
                        },
                    },
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "list": {"type": "array", "items": TEXT},
                "atom": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"a": TEXT, "b": TEXT},
                },
                "map": {"type": "object", "additionalProperties": TEXT},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "half": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": TEXT},
                },
                "some": {"x-kubernetes-int-or-string": True},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "named": {
                    "type": "object",
                    "properties": {
                        "apiVersion": TEXT,
                        "kind": TEXT,
                        "metadata": {"type": "object", "properties": {"a": TEXT}},
                    },
                },
                "deep": {
                    "type": "object",
                    "properties": {"er": {"type": "object", "properties": {"a": TEXT}}},
                },
            },
        }
    },
}
SHAPE = shapes.of_schema(SCHEMA)
ME = FieldManager("me", "Apply", "v1")
YOU = FieldManager("you", "Apply", "v1")
WRITER = FieldManager("writer", "Update", "v1")
SOME = frozenset({("f:spec", "f:some")})


def thing(**spec: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": spec}


def spec_fields(**spec: Any) -> JSON:
    found: JSON = paths.encode(fields(SHAPE, thing(**spec)))["f:spec"]
    return found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"ports": [{"port": 80}]},
            {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}},
            id="a key by default",
        ),
        pytest.param({"tags": ["x"]}, {"f:tags": {'v:"x"': {}}}, id="a set"),
        pytest.param({"list": ["x"]}, {"f:list": {}}, id="a list is whole"),
        pytest.param({"atom": {"a": "1"}}, {"f:atom": {}}, id="an atomic map is whole"),
        pytest.param({"map": {"k": "v"}}, {"f:map": {"f:k": {}}}, id="a map"),
        pytest.param(
            {"free": {"a": {"b": [{"c": 1}]}}},
            {"f:free": {"f:a": {".": {}, "f:b": {}}}},
            id="without a schema lists are whole",
        ),
        pytest.param(
            {"half": {"known": "1", "other": 1}},
            {"f:half": {"f:known": {}, "f:other": {}}},
            id="half a schema",
        ),
        pytest.param({"some": "50%"}, {"f:some": {}}, id="a number or a text"),
        pytest.param(
            {"pod": {"kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}},
            {
                "f:pod": {
                    "f:kind": {},
                    "f:metadata": {"f:labels": {"f:a": {}}},
                    "f:spec": {".": {}, "f:x": {}},
                }
            },
            id="an object within the object",
        ),
        pytest.param(
            {"named": {"apiVersion": "v1", "kind": "Secret", "metadata": {"a": "1"}}},
            {"f:named": {"f:apiVersion": {}, "f:kind": {}, "f:metadata": {"f:a": {}}}},
            id="members with the names of an object's",
        ),
        pytest.param({"map": {}, "deep": None}, {"f:deep": {}, "f:map": {}}, id="empty and null"),
        pytest.param({"ports": [], "tags": None}, {"f:tags": {}}, id="an empty list says nothing"),
    ],
)
def test_what_a_configuration_owns(spec: JSON, expected: JSON) -> None:
    assert spec_fields(**spec) == expected


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"nope": 1}, ".spec.nope: field not declared in schema", id="field"),
        pytest.param(
            {"ports": [{"name": "x"}]},
            ".spec.ports: element 0: associative list with keys has an element that omits key "
            'field "port" (and doesn\'t have default value)',
            id="key",
        ),
        pytest.param(
            {"ports": ["x"]}, ".spec.ports: element 0: associative list with keys may not have "
            "non-map elements", id="no object",
        ),
        pytest.param(
            {"ports": [{"port": 80}, {"port": 80, "protocol": "TCP"}]},
            '.spec.ports: duplicate entries for key [port=80,protocol="TCP"]',
            id="twice",
        ),
        pytest.param(
            {"tags": ["x", "x"]}, '.spec.tags: duplicate entries for key [="x"]', id="twice in set"
        ),
        pytest.param(
            {"tags": [{}]}, ".spec.tags: element 0: associative lists as values not supported",
            id="object in set",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit(spec: JSON, text: str) -> None:
    with pytest.raises(ShapeError) as unfit:
        fields(SHAPE, thing(**spec))
    assert str(unfit.value) == text


@pytest.mark.parametrize(
    ("live", "config", "expected"),
    [
        pytest.param("ab", "c", "abc", id="new ones last"),
        pytest.param("ab", "ba", "ba", id="in the order that is asked for"),
        pytest.param("abc", "xcya", "xcbya", id="others stay among them"),
        pytest.param("", "ab", "ab", id="all new"),
        pytest.param("ab", "", "ab", id="none asked for"),
    ],
)
def test_the_order_of_items(live: str, config: str, expected: str) -> None:
    found = merge(SHAPE, thing(tags=list(live)), thing(tags=list(config)))
    assert "".join(found["spec"]["tags"]) == expected


def test_live_items_of_one_key_stay_until_one_takes_their_place() -> None:
    twice = [{"port": 1, "name": "a"}, {"port": 1, "name": "b"}, {"port": 2}]
    kept = merge(SHAPE, thing(ports=twice), thing(ports=[{"port": 2}, {"port": 3}]))
    assert kept == thing(ports=[*twice, {"port": 3}])
    taken = merge(SHAPE, thing(ports=twice), thing(ports=[{"port": 1, "name": "c"}]))
    assert taken == thing(ports=[{"port": 1, "name": "c"}, {"port": 2}])


def apply(
    live: JSON, config: JSON, owners: Managed, manager: FieldManager = ME, *, force: bool = False
) -> tuple[JSON, Managed]:
    return managers.applied(SHAPE, live, config, owners, manager, "now", force=force)


def test_what_is_not_applied_any_more_goes_with_what_is_left_in_it() -> None:
    live, owners = apply(
        {"metadata": {"name": "a"}},
        thing(deep={"er": {"a": "1"}}, ports=[{"port": 1}, {"port": 2}], tags=["x", "y"]),
        {},
    )
    live["spec"]["ports"][0]["name"] = "by somebody without an entry"
    found, owners = apply(live, thing(ports=[{"port": 2}], tags=["y"]), owners)
    assert found == thing(ports=[{"port": 2}], tags=["y"])
    found, owners = apply(found, {"metadata": {"name": "a"}}, owners)
    assert found == {"metadata": {"name": "a"}}
    assert owners == {}


def test_what_others_own_stays_with_the_members_that_lead_there() -> None:
    live, owners = apply({"metadata": {"name": "a"}}, thing(map={"k": "1", "q": "1"}), {})
    live, owners = apply(live, thing(map={"q": "1"}, ports=[{"port": 1}]), owners, YOU)
    found, owners = apply(live, {"metadata": {"name": "a"}}, owners)
    assert found == thing(map={"q": "1"}, ports=[{"port": 1}])
    assert set(owners) == {YOU}


def test_an_atomic_map_is_taken_as_a_whole() -> None:
    live, owners = apply({"metadata": {"name": "a"}}, thing(atom={"a": "1"}), {})
    with pytest.raises(ConflictsError, match=r"1 conflict: conflict with \"me\": \.spec\.atom$"):
        apply(live, thing(atom={"b": "1"}), owners, YOU)
    found, owners = apply(live, thing(atom={"b": "1"}), owners, YOU, force=True)
    assert found == thing(atom={"b": "1"})
    assert set(owners) == {YOU}


def test_a_value_of_another_kind_takes_the_place_and_all_in_it() -> None:
    live, owners = apply({"metadata": {"name": "a"}}, thing(free={"a": {"b": 1}}), {})
    found, owners = apply(live, thing(free={"a": 5}), owners, YOU, force=True)
    assert found == thing(free={"a": 5})
    assert set(owners) == {YOU}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param([], None, {"f:tags": {}}, id="empty and null"),
        pytest.param(None, ["x"], {}, id="null and more: only the items"),
        pytest.param(["x"], "x", {"f:tags": {}}, id="a scalar"),
    ],
)
def test_what_counts_as_changed(old: Any, new: Any, expected: JSON) -> None:
    found = changes(SHAPE, thing(tags=old), thing(tags=new)).modified
    assert paths.encode(found).get("f:spec", {}) == expected


def test_conflicts_with_several_are_told_by_manager() -> None:
    owners: Managed = {
        WRITER._replace(subresource="scale"): OwnedFields(SOME, "t"),
        ME: OwnedFields(fields(SHAPE, thing(list=["x"])), "t"),
    }
    with pytest.raises(ConflictsError) as refused:
        apply(thing(some=1, list=["x"]), thing(some=2, list=["y"]), owners, YOU)
    assert str(refused.value) == (
        'Apply failed with 2 conflicts: conflicts with "me":\n- .spec.list\n'
        'conflicts with "writer" with subresource "scale" using v1:\n- .spec.some'
    )


def test_times_change_with_what_is_owned_alone() -> None:
    first = apply({"metadata": {"name": "a"}}, thing(some=1), {})
    live, owners = first
    again = managers.applied(SHAPE, live, thing(some=1), owners, ME, "later", force=False)
    assert again == first
    _, owners = managers.applied(
        SHAPE, live, thing(some=1, list=[]), owners, ME, "later", force=False
    )
    assert owners[ME].time == "later"


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param("x", id="a text"),
        pytest.param([{"operation": "Eat"}], id="operation"),
        pytest.param([{"fieldsV1": {"spec": {}}}], id="element"),
        pytest.param([{"fieldsV1": {"f:spec": 1}}], id="fields"),
        pytest.param([{"fieldsType": "FieldsV9"}], id="type"),
    ],
)
def test_entries_without_sense_are_not_taken(entries: Any) -> None:
    stored = managers.encode({ME: OwnedFields(SOME, "t")})
    before = thing(some=1)
    before["metadata"]["managedFields"] = stored
    assert after_update(SHAPE, before, thing(some=1), entries, WRITER) == stored
    kept = managers.decode(after_update(SHAPE, before, thing(some=2), entries, WRITER))
    assert set(kept) == {WRITER}


def test_entries_can_be_rewritten() -> None:
    before = thing(some=1)
    before["metadata"]["managedFields"] = managers.encode({WRITER: OwnedFields(SOME, "t")})
    given = managers.encode({ME: OwnedFields(SOME, "t")})
    assert after_update(SHAPE, before, thing(some=1), given, WRITER) == given


KUBECTL = FieldManager("kubectl", "Apply", "v1")


@pytest.mark.parametrize(
    ("changed", "manager", "expected"),
    [
        pytest.param(False, KUBECTL, True, id="its own, unchanged"),
        pytest.param(True, KUBECTL, False, id="changed by somebody since"),
        pytest.param(False, ME, False, id="not kubectl"),
    ],
)
def test_what_kubectl_applied_before_is_its_own(
    changed: bool, manager: FieldManager, expected: bool
) -> None:
    live = thing(some=2 if changed else 1)
    live["metadata"]["annotations"] = {
        lastapplied.ANNOTATION: '{"metadata":{"name":"a"},"spec":{"some":1}}'
    }
    owners: Managed = {WRITER: OwnedFields(SOME, "t")}
    assert lastapplied.explains(SHAPE, live, thing(some=3), owners, manager) is expected


def test_without_the_annotation_nothing_is_explained() -> None:
    owners: Managed = {WRITER: OwnedFields(SOME, "t")}
    assert not lastapplied.explains(SHAPE, thing(some=1), thing(some=3), owners, KUBECTL)
