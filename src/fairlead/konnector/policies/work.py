"""Specs of work: the connections, bound resources and claims that the konnector is to run.

They are the seam between the controllers that decide which work runs and ``konnector.sync``, which
runs it. When the spec of a piece of work changes in any part, it is stopped and started anew.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.kubebind import ExportResource, Isolation, PermissionClaim, Scope
from fairlead.api.meta import Key
from fairlead.api.resource import Resource
from fairlead.konnector.policies.holding import Holding


class SecretKey(msgspec.Struct, frozen=True, order=True):
    """One key of one Secret of the consumer."""

    secret: Key
    key: str


class ConnectionSpec(msgspec.Struct, frozen=True):
    """A wanted connection, with its bindings and the Secrets that hold its kubeconfig."""

    kubeconfig: bytes
    bindings: frozenset[str] = frozenset()
    sources: frozenset[SecretKey] = frozenset()

    def joined(self, binding: str, source: SecretKey) -> ConnectionSpec:
        """Return the connection with one more user: a binding, or "" for a bundle or a Secret."""
        bindings = self.bindings | ({binding} if binding else set())
        return ConnectionSpec(self.kubeconfig, bindings, self.sources | {source})


class WorkKey(msgspec.Struct, frozen=True):
    """Key of a piece of work: its binding, its kind, and the resource or claim."""

    binding: str
    kind: Literal["objects", "claim", "release"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name} of {self.binding}"


class BoundSpec(msgspec.Struct, frozen=True):
    """Order to synchronise the objects of one bound resource.

    ``resource`` is the consumer's; ``informer_scope`` says where the konnector may watch on the
    provider; ``holding`` is the treatment of copies that would be deleted. ``converted`` tells
    whether a webhook converts between the versions of the kind, or should.
    """

    resource: Resource
    scope: Scope
    informer_scope: Scope
    isolation: Isolation
    status_subresource: bool
    holding: Holding = ""
    converted: bool = False


class ClaimSpec(msgspec.Struct, frozen=True):
    """Order to synchronise the objects of one permission claim.

    With ``unbinding`` the claim selects no object any more. ``holding`` says whether copies on
    the provider are kept instead of deleted.
    """

    claim: PermissionClaim
    resources: list[ExportResource]
    isolation: Isolation
    unbinding: bool = False
    holding: Holding = ""


class ReleaseSpec(msgspec.Struct, frozen=True):
    """Order to remove our finalizer from deleted objects whose export is gone.

    With ``lossy`` a request takes fields from the object, which only an object may lose that goes
    with the finalizer.
    """

    resource: Resource
    lossy: bool = False


WorkSpec = BoundSpec | ClaimSpec | ReleaseSpec
