from __future__ import annotations

import msgspec
import pytest

from fairlead.api.meta import Key, OwnerReference, decode_object, object_from_dict


BODY = {
    "apiVersion": "example.org/v1",
    "kind": "Widget",
    "metadata": {
        "name": "one",
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"a": "b"},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "o-1"},
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": "c",
                "uid": "o-2",
                "controller": True,
            },
        ],
        "managedFields": [{"manager": "someone"}],
    },
    "spec": {"size": 3},
}


class Spec(msgspec.Struct):
    size: int


class Widget(msgspec.Struct):
    spec: Spec


def test_metadata_is_typed_and_the_body_keeps_every_field() -> None:
    widget = object_from_dict(BODY)
    assert widget.key == Key("shop", "one")
    assert (widget.meta.uid, widget.meta.generation) == ("u-1", 3)
    assert widget.to_dict() == BODY


def test_reading_gives_a_private_copy() -> None:
    widget = object_from_dict(BODY)
    widget.to_dict()["spec"]["size"] = 99
    assert widget.to_dict()["spec"]["size"] == 3


def test_decode_gives_the_typed_body() -> None:
    assert object_from_dict(BODY).decode(Widget).spec.size == 3


def test_decode_names_the_path_of_what_does_not_fit() -> None:
    wrong = object_from_dict(BODY | {"spec": {"size": "large"}})
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.size"):
        wrong.decode(Widget)


def test_items_of_a_list_take_the_kind_of_their_list() -> None:
    item = decode_object(b'{"metadata":{"name":"x"}}', api_version="v1", kind="Secret")
    assert (item.api_version, item.kind, item.key) == ("v1", "Secret", Key("", "x"))


def test_the_bytes_are_copied_out_of_a_larger_buffer() -> None:
    buffer = bytearray(b'{"metadata":{"name":"x"}}')
    item = decode_object(memoryview(buffer))
    buffer[:] = b" " * len(buffer)
    assert item.to_dict() == {"metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("controller", "expected"),
    [
        pytest.param(True, (True, True), id="controller"),
        pytest.param(False, (None, None), id="plain-owner"),
    ],
)
def test_owner_reference(controller: bool, expected: tuple[bool | None, bool | None]) -> None:
    reference = object_from_dict(BODY).owner_reference(controller=controller)
    assert (reference.api_version, reference.kind, reference.name, reference.uid) == (
        "example.org/v1",
        "Widget",
        "one",
        "u-1",
    )
    assert (reference.controller, reference.block_owner_deletion) == expected


def test_the_controller_is_found_among_the_owners() -> None:
    meta = object_from_dict(BODY).meta
    assert meta.controller() == OwnerReference("v1", "ConfigMap", "c", "o-2", controller=True)
    assert meta.owned_by("o-1")
    assert not meta.owned_by("o-3")


@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param(Key("a", "b"), "a/b", id="namespaced"),
        pytest.param(Key("", "b"), "b", id="cluster"),
    ],
)
def test_keys_print_as_kubectl_writes_them(key: Key, text: str) -> None:
    assert str(key) == text


def test_deleting_means_that_a_deletion_time_is_set() -> None:
    meta = object_from_dict(BODY).meta
    assert not meta.deleting
    meta.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert meta.deleting
