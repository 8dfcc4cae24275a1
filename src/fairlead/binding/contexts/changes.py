"""What a pass has to write: the outcome of the stage that persists."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON, OwnerReference
from fairlead.binding.services.items import encode_data
from fairlead.binding.workloads.operations import Operations
from fairlead.binding.workloads.records import RECORDED_ANNOTATION


class SecretWrite(msgspec.Struct, frozen=True):
    """The intermediate Secret as it has to be; ``type`` is "" for the default."""

    namespace: str
    name: str
    content: dict[str, bytes]
    owner: OwnerReference
    type: str = ""


class Changes(msgspec.Struct):
    """All that is to be written but for the status; nothing until the pass persists.

    ``leftovers`` have something taken away, ``workloads`` are those that are selected.
    ``annotation`` tells that the annotation of the superseded mapping goes, ``superseded`` has
    names and uids of the Secrets to delete once these workloads are as they have to be. Where all
    workloads are ``withheld`` it has those that no workload reads as it is. Other Secrets of
    former content are ``kept``, for something may read them. Something has ``arrived`` when a
    server has taken a change of a selected workload.
    """

    secret: SecretWrite | None = None
    leftovers: list[Operations] = []
    workloads: list[Operations] = []
    annotation: bool = False
    arrived: bool = False
    withheld: bool = False
    superseded: list[tuple[str, str]] = []
    kept: bool = False


def secret_body(write: SecretWrite) -> JSON:
    """The intermediate Secret; its values are in ``data``, so that bytes stay as they are."""
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
