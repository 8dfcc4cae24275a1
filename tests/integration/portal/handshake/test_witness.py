"""What administrators do to consumers is told in the audit of the front door."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest
import structlog
from tests.integration.portal.handshake.conftest import ADA, BEN, house
from tests.support.waiting import eventually

from fairlead.api.kubebind import ANNOTATION_AUTHOR, ANNOTATION_IDENTITY
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.handover import hand_over
from fairlead_sandbox import Sandbox


Lines = list[MutableMapping[str, Any]]

_KEPT = ("event", "who", "what", "result", "author", "namespace")


async def consumer(admin: Client, name: str, *, identity: str = "cluster-1") -> None:
    annotations = {ANNOTATION_AUTHOR: ADA.author}
    if identity:
        annotations[ANNOTATION_IDENTITY] = identity
    metadata = {"name": name, "annotations": annotations}
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


async def change(admin: Client, name: str, annotations: JSON) -> None:
    await admin.merge_patch(NAMESPACES, name, "", {"metadata": {"annotations": annotations}})


def told(lines: Lines) -> list[tuple[str, ...]]:
    found = [one for one in lines if one["event"] in {"hand-over", "revoke"}]
    return [tuple(one[key] for key in _KEPT) for one in found]


async def until(lines: Lines, number: int) -> None:
    async def there() -> bool:
        return len(told(lines)) >= number

    await eventually(there)


@pytest.mark.parametrize("way", ["deleted", "identity taken"])
async def test_s22_a_hand_over_and_a_revocation_leave_a_line_each(
    plane: Sandbox, admin: Client, way: str
) -> None:
    for name, identity in (("mine", "cluster-1"), ("other", ""), ("last", "cluster-2")):
        await consumer(admin, name, identity=identity)
    with structlog.testing.capture_logs() as lines:
        async with house(plane, admin, provider=False):
            # What was there at the start is told by none of these.
            assert told(lines) == []
            to = "group:oidc:team-b"
            await hand_over(admin, await find_consumer(admin, "cluster-1"), to)
            await until(lines, 1)
            (line,) = [one for one in lines if one["event"] == "hand-over"]
            assert line["to"] == to
            if way == "deleted":
                # Told when it begins, and once, where something holds it up.
                await admin.merge_patch(
                    NAMESPACES, "mine", "", {"metadata": {"finalizers": ["example.org/hold"]}}
                )
                await admin.delete(NAMESPACES, "mine")
                await until(lines, 2)
                await admin.merge_patch(NAMESPACES, "mine", "", {"metadata": {"finalizers": None}})
            else:
                # As `fairlead provider revoke --keep-data` does.
                await change(admin, "mine", {ANNOTATION_IDENTITY: None})
                await change(admin, "mine", {ANNOTATION_AUTHOR: BEN.author})
                await admin.delete(NAMESPACES, "mine")
            # No consumer's.
            await change(admin, "other", {ANNOTATION_AUTHOR: BEN.author})
            await admin.delete(NAMESPACES, "other")
            await admin.delete(NAMESPACES, "last")
            await until(lines, 3)
        assert told(lines) == [
            ("hand-over", "", "cluster-1", "done", ADA.author, "mine"),
            ("revoke", "", "cluster-1", "done", to, "mine"),
            ("revoke", "", "cluster-2", "done", ADA.author, "last"),
        ]
