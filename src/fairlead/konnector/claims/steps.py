"""The next thing to do with one claimed object and its copy."""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.meta import JSON, Key, Object
from fairlead.konnector.policies.steps import Step


Side = Literal["consumer", "provider"]


class Sides(msgspec.Struct, frozen=True):
    """What is known of one consumer key that a claim may be about.

    ``consumer_claimed`` and ``provider_claimed`` say whether the claim's selector matches the
    object of that side. ``converged`` says whether the copy is what came of writing it last.
    ``bindings`` are the uids of all bindings that use this provider connection.
    ``target`` is None as long as the provider has assigned no namespace. ``confirmed_gone`` is
    the sides of which the server itself, not a cache, has said that the object is not there.
    ``namespace_gone`` says the same of the APIServiceNamespace.
    ``orphan`` says that copies on the provider shall stay when they are claimed no more.
    ``consumer_namespace`` says whether objects can be created in the consumer's namespace.
    """

    key: Key
    consumer: Object | None
    provider: Object | None
    target: Key | None
    service_namespace: bool
    cluster_namespace: str
    binding_name: str
    binding_uid: str
    bindings: frozenset[str]
    consumer_claimed: bool
    provider_claimed: bool
    consumer_namespace: bool = True
    converged: bool = False
    orphan: bool = False
    confirmed_gone: frozenset[Side] = frozenset()
    namespace_gone: bool = False


class SetOwner(Step, frozen=True):
    """Label the original with its owner, or take the label off (None)."""

    side: Side
    owner: str | None


class Create(Step, frozen=True):
    """Create the copy."""

    side: Side
    body: JSON


class Replace(Step, frozen=True):
    """Replace the copy."""

    side: Side
    body: JSON


class Delete(Step, frozen=True):
    """Delete the copy, and no other object that has taken its name meanwhile."""

    side: Side
    key: Key
    uid: str


class Confirm(Step, frozen=True):
    """Ask the server whether the original is gone."""

    side: Side


class ConfirmNamespace(Step, frozen=True):
    """Ask the provider whether the APIServiceNamespace is gone, and all originals with it."""
