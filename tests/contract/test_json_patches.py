"""JSON patches of one document, and what kube-apiserver 1.20 was recorded to make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.support import GROUP, crd, eventually
from tests.support.planes import ControlPlane

from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, SERVICEACCOUNTS, Resource
from fairlead.client import ApiError, Client, ConnectionFailed, Invalid, NotFound


GOLDEN = Path(__file__).parents[1] / "golden" / "jsonpatches.jsonl"
NOTES = Resource(GROUP, "v1", "notes", "Note")
DOCUMENT: dict[str, Any] = {
    "x": "1",
    "y/z": "2",
    "t~u": "3",
    "0": "zero",
    "": "blank",
    "text": "aü日",
    "n": 1,
    "f": 1.5,
    "b": True,
    "none": None,
    "big": 9007199254740993,
    "list": ["a", "b"],
    "deep": {"a": {"b": [{"c": 1}, {"c": 2}]}},
    "empty": {},
    "nolist": [],
}
OTHERWISE = {
    "patch-013": "an index with a leading zero is none, as RFC 6901 has it",
    "patch-045": "a missing member is not replaced, as later servers have it",
    "patch-059": "1 equals 1.0, as RFC 6902 has it",
    "patch-085": "a missing member is not copied, as later servers have it",
    "patch-105": "a pointer begins with a slash, as RFC 6901 has it",
    "patch-106": "a pointer begins with a slash, as RFC 6901 has it",
}
"""Patches that the sandbox answers in another way on purpose, by id, with the reason."""
_VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {
        "openAPIV3Schema": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            },
        }
    },
}


async def answer(client: Client, namespace: str, name: str, patch: Any) -> dict[str, Any]:
    body = {"apiVersion": NOTES.api_version, "kind": "Note", "metadata": {"name": name}}
    await client.create(NOTES, {**body, "spec": DOCUMENT}, namespace)
    try:
        patched = await client.json_patch(NOTES, name, namespace, patch)
    except ApiError as error:
        return {"code": error.status.code}
    # The recorded server panics at some indices, and ends the connection.
    except ConnectionFailed:
        return {"closed": True}
    spec = patched.to_dict().get("spec")
    return {"unchanged": True} if spec == DOCUMENT else {"spec": spec}


async def test_patches_do_what_they_were_recorded_to_do(
    client: Client, namespace: str, control_plane: ControlPlane
) -> None:
    await client.create(CUSTOMRESOURCEDEFINITIONS, crd("notes", "Note", _VERSION))

    async def served() -> bool:
        try:
            await client.list(NOTES, namespace)
        except NotFound:
            return False
        return True

    await eventually(served)
    others: dict[str, Any] = {}
    for line in GOLDEN.read_text().splitlines():
        case = json.loads(line)
        found = await answer(client, namespace, case["id"], case["input"])
        # A real server that is newer than the recorded one need not panic.
        if found != case["expect"] and "closed" not in case["expect"]:
            others[case["id"]] = found
    assert sorted(others) == ([] if control_plane.is_real else sorted(OTHERWISE)), others
    await client.delete(CUSTOMRESOURCEDEFINITIONS, f"notes.{GROUP}")


@pytest.mark.parametrize("index", ["9" * 4301, "-" + "9" * 4301], ids=["long", "long negative"])
async def test_an_index_of_thousands_of_digits_is_refused(
    client: Client, namespace: str, index: str
) -> None:
    body: dict[str, Any] = {"metadata": {"name": "a"}, "secrets": [{"name": "b"}]}
    await client.create(SERVICEACCOUNTS, body, namespace)
    with pytest.raises(Invalid, match="rejected our request due to an error in our request"):
        await client.json_patch(
            SERVICEACCOUNTS, "a", namespace, [{"op": "remove", "path": f"/secrets/{index}"}]
        )
