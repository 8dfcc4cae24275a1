"""What a pass has to write: the outcome of the stage that persists."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import OwnerReference
from fairlead.binding.operations import Operations


class SecretWrite(msgspec.Struct, frozen=True):
    """The intermediate Secret as it has to be."""

    namespace: str
    name: str
    content: dict[str, bytes]
    owner: OwnerReference


class Changes(msgspec.Struct):
    """All that is to be written but for the status; nothing until the pass persists.

    ``leftovers`` have something taken away, ``workloads`` are those that are selected.
    ``annotation`` tells that the annotation of the superseded mapping goes, ``superseded`` has
    names and uids of the Secrets to delete.
    """

    secret: SecretWrite | None = None
    leftovers: list[Operations] = []
    workloads: list[Operations] = []
    annotation: bool = False
    superseded: list[tuple[str, str]] = []
