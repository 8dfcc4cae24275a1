from __future__ import annotations

from typing import Any

import msgspec
import pytest

from fairlead.api.definitions import crd_schema, crd_spec, crd_status
from fairlead.api.meta import Object, object_from_dict
from fairlead.api.resource import Resource


NAMES = {"plural": "things", "kind": "Thing", "singular": "thing"}


def version(name: str, *flags: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "served": "served" in flags, "storage": "storage" in flags, **fields}


def crd(*versions: dict[str, Any], **spec: Any) -> Object:
    body = {"group": "example.org", "names": NAMES, "versions": list(versions), **spec}
    return object_from_dict(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.org"},
            "spec": body,
        }
    )


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([version("v1", "served", "storage")], "v1"),
        ([version("v2", "served"), version("v1", "served", "storage")], "v1"),
        ([version("v2", "served"), version("v3", "served"), version("v1", "storage")], "v2"),
        ([version("v1", "storage")], None),
        ([], None),
    ],
    ids=["one", "stored", "stored-not-served", "none-served", "none"],
)
def test_objects_are_read_as_they_are_stored(
    versions: list[dict[str, Any]], expected: str | None
) -> None:
    found = crd_spec(crd(*versions, scope="Cluster")).readable()
    wanted = Resource("example.org", expected or "", "things", "Thing", namespaced=False)
    assert found == (wanted if expected else None)


@pytest.mark.parametrize(
    ("spec", "stored", "expected"),
    [
        pytest.param({}, ("served", "storage"), "v2", id="no-conversion"),
        pytest.param({"conversion": {"strategy": "None"}}, ("served", "storage"), "v2", id="none"),
        pytest.param({}, ("storage",), "v1", id="stored-not-served"),
        pytest.param(
            {"conversion": {"strategy": "Webhook"}}, ("served", "storage"), "v1", id="webhook"
        ),
    ],
)
def test_an_object_is_written_in_the_version_that_keeps_its_fields(
    spec: dict[str, Any], stored: tuple[str, ...], expected: str
) -> None:
    definition = crd_spec(crd(version("v1", "served"), version("v2", *stored), **spec))
    older = Resource("example.org", "v1", "things", "Thing")
    assert definition.unpruned(older).version == expected


@pytest.mark.parametrize(
    ("scope", "namespaced"),
    [({}, True), ({"scope": "Namespaced"}, True), ({"scope": "Cluster"}, False)],
)
def test_scope(scope: dict[str, str], namespaced: bool) -> None:
    assert crd_spec(crd(**scope)).namespaced is namespaced


def test_a_definition_without_names_is_none() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"plural.*\$\.spec\.names"):
        crd_spec(crd(names={}))


def test_a_fresh_status_is_empty() -> None:
    fresh = crd().to_dict()
    for status in (None, {"conditions": None, "storedVersions": None}):
        found = crd_status(object_from_dict({**fresh, "status": status}))
        assert (found.conditions, found.stored_versions, found.accepted_names) == (None,) * 3


def test_the_schema_is_the_one_of_the_version() -> None:
    schema = {"type": "object"}
    found = crd(version("v1"), version("v2", schema={"openAPIV3Schema": schema}))
    assert [crd_schema(found, name) for name in ("v1", "v2", "v3")] == [None, schema, None]
