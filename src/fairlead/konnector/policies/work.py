"""What shall run for a binding: one piece of work for each bound resource and each claim.

The seam between the controller of exports, which decides what shall run, and ``konnector.sync``,
which runs it. When a description changes in any part, its work is stopped and started anew.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.kubebind import ExportResource, Isolation, PermissionClaim, Scope
from fairlead.api.resource import Resource


class WorkKey(msgspec.Struct, frozen=True):
    """Which piece of work: of which binding, of what kind, and for which resource or claim."""

    binding: str
    kind: Literal["objects", "claim", "release"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.binding}"


class BoundSpec(msgspec.Struct, frozen=True):
    """Synchronise the objects of one bound resource.

    ``resource`` is the consumer's; ``informer_scope`` says where the konnector may watch on the
    provider.
    """

    resource: Resource
    scope: Scope
    informer_scope: Scope
    isolation: Isolation
    status_subresource: bool


class ClaimSpec(msgspec.Struct, frozen=True):
    """Synchronise the objects of one claim; ``unbinding`` claims nothing any more."""

    claim: PermissionClaim
    resources: list[ExportResource]
    isolation: Isolation
    unbinding: bool = False


class ReleaseSpec(msgspec.Struct, frozen=True):
    """Let objects go whose export is gone: deleted ones wait for nobody any more."""

    resource: Resource


WorkSpec = BoundSpec | ClaimSpec | ReleaseSpec
