"""What is left of a deletion, and who holds it, as text."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.remains import named, remaining_text


def obj(name: str, kind: str, status: JSON | None = None, **metadata: Any) -> Object:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return object_from_dict(body | ({"status": status} if status else {}))


BLUE = obj("blue", "Widget", namespace="n", finalizers=["a/b", "c/d"])
SHOP = obj("shop", "Namespace")


def test_what_is_left_is_named_with_what_holds_it() -> None:
    assert remaining_text([]) == ""
    held = "Widget n/blue (finalizer a/b, c/d), Namespace shop"
    assert remaining_text([BLUE, SHOP]) == held
    assert remaining_text([SHOP] * 5).endswith("Namespace shop, and 2 more")
    assert named([BLUE, SHOP]) == "Widget n/blue and Namespace shop"
    assert named([SHOP] * 5).endswith("Namespace shop and 2 more")


def test_a_namespace_tells_what_it_waits_for_in_the_words_of_its_controller() -> None:
    failed = "Failed to delete all resource types, 1 remaining: conversion webhook failed"
    conditions = [
        condition("DeletionDiscoveryFailure", "False", "All resources successfully discovered"),
        condition("DeletionContentFailure", "True", failed),
        condition("ContentRemaining", "True", "Some resources are remaining: widgets.x has 1"),
        condition("FinalizersRemaining", "True", "Some content has finalizers remaining: a/b"),
        {"type": "odd", "status": "True"},
    ]
    status = {"conditions": conditions}
    going = obj("shop", "Namespace", status, deletionTimestamp="2026-01-01T00:00:00Z")
    text = "Namespace shop (conversion webhook failed; widgets.x has 1; a/b)"
    assert remaining_text([going]) == text
    assert remaining_text([obj("shop", "Namespace", status)]) == "Namespace shop"


def condition(type_: str, status: str, message: str) -> JSON:
    return {"type": f"Namespace{type_}", "status": status, "message": message}
