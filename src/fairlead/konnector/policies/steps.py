"""The next thing to do with one object and its copy, on either side."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.meta import JSON, Key, Object
from fairlead.konnector.policies.merge import Owned


class Sides(msgspec.Struct, frozen=True):
    """What is known of one object of the consumer and its copy on the provider.

    ``target`` is where the copy belongs, None as long as the provider has no namespace for it.
    ``service_namespace`` says whether such a namespace was asked for, ``namespace_refusal`` why
    the provider gives none, "" if it does not refuse. ``orphan`` says that the
    copy shall stay when the object goes. ``owned`` is what of the copy is ours, None as long as
    the provider was not asked. ``provider_gone`` and ``consumer_gone`` are True once the server
    itself, not a cache, has said so.
    """

    consumer: Object | None
    provider: Object | None
    target: Key | None
    cluster_namespace: str
    service_namespace: bool = True
    namespace_refusal: str = ""
    spec_converged: bool = False
    status_converged: bool = False
    status_subresource: bool = True
    orphan: bool = False
    owned: Owned | None = None
    provider_gone: bool = False
    consumer_gone: bool = False


class Step(msgspec.Struct, frozen=True, tag=True):
    """The base of all steps."""


class Done(Step, frozen=True):
    """Both sides are as they should be."""


class Wait(Step, frozen=True):
    """An event of the other side will bring us back."""

    reason: str


class Refuse(Step, frozen=True):
    """Nothing may be done until a person acts."""

    reason: str
    message: str


class AskNamespace(Step, frozen=True):
    """Create the APIServiceNamespace."""


class PatchConsumer(Step, frozen=True):
    """Set finalizers and annotations of the consumer's object in one write."""

    finalizers: list[str]
    annotations: Mapping[str, str]


class CreateProvider(Step, frozen=True):
    """Create the copy; the body still has the consumer's key."""

    body: JSON


class UpdateProvider(Step, frozen=True):
    """Replace the copy."""

    body: JSON


class DeleteProvider(Step, frozen=True):
    """Delete the copy, and no other object that has taken its name meanwhile."""

    key: Key
    uid: str


class AskOwned(Step, frozen=True):
    """Ask the provider which fields of the copy are ours."""


class Settle(Step, frozen=True):
    """Remember that the copy, as it is, is what the object wants."""


class UpdateStatus(Step, frozen=True):
    """Replace the status of the consumer's object."""

    body: JSON


class ConfirmProviderGone(Step, frozen=True):
    """Ask the provider itself whether the copy is gone."""


class ConfirmConsumerGone(Step, frozen=True):
    """Ask the consumer itself whether the object is gone."""


TERMINAL = (Done, Wait, Refuse)
