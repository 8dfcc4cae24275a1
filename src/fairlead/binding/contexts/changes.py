"""The writes of a pass: the result of the stage that persists."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON, OwnerReference
from fairlead.binding.services.items import encode_data
from fairlead.binding.workloads.operations import Operations
from fairlead.binding.workloads.records import RECORDED_ANNOTATION


class BindingSecret(msgspec.Struct, frozen=True):
    """The wanted intermediate Secret; ``type`` is "" for the default."""

    namespace: str
    name: str
    content: dict[str, bytes]
    owner: OwnerReference
    type: str = ""


class BindingChanges(msgspec.Struct):
    """All writes except the status; empty until the pass persists.

    From ``leftovers`` the projection is removed, ``workloads`` are the selected ones.
    ``annotation`` says that the annotation of the superseded mapping is removed. ``superseded``
    has names and uids of the Secrets to delete after the workloads are written; if all workloads
    are ``withheld``, of those that no workload reads in its present state. Other Secrets of
    former content are ``kept``, since something may read them. ``arrived`` is set when a server
    has accepted a change of a selected workload.
    """

    secret: BindingSecret | None = None
    leftovers: list[Operations] = []
    workloads: list[Operations] = []
    annotation: bool = False
    arrived: bool = False
    withheld: bool = False
    superseded: list[tuple[str, str]] = []
    kept: bool = False


def secret_body(write: BindingSecret) -> JSON:
    """Return the body of the intermediate Secret, with values in ``data``, which keeps bytes."""
    owner: dict[str, Any] = msgspec.to_builtins(write.owner)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": write.name,
            "namespace": write.namespace,
            "annotations": {RECORDED_ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        **({"type": write.type} if write.type else {}),
        "data": encode_data(write.content),
    }
