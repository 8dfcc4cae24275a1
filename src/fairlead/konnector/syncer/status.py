"""From provider to consumer: the status comes back, orphans go (kube-bind's status syncer)."""

from __future__ import annotations

from fairlead.konnector.policies.copies import (
    belongs,
    is_ours,
    provider_annotations,
    with_status,
)
from fairlead.konnector.policies.steps import (
    ConfirmConsumerGone,
    DeleteProvider,
    Done,
    PatchConsumer,
    Sides,
    Step,
    UpdateStatus,
)


def next_step(sides: Sides) -> Step:
    """What the provider's copy wants of the consumer's object next.

    A resource without the status subresource has no status to bring back.
    """
    if sides.provider is None:
        return Done()
    if sides.consumer is None:
        return _orphan(sides)
    if not belongs(sides.provider.meta, sides.cluster_namespace):
        return Done()
    wanted = provider_annotations(sides.provider.meta)
    if not wanted.items() <= sides.consumer.meta.annotations.items():
        return PatchConsumer(list(sides.consumer.meta.finalizers), wanted)
    if not sides.status_subresource or sides.status_converged:
        return Done()
    return UpdateStatus(with_status(sides.consumer, sides.provider))


def _orphan(sides: Sides) -> Step:
    """A copy whose object went while nobody looked; what is not our copy is never deleted."""
    provider = sides.provider
    if provider is None or provider.meta.deleting:
        return Done()
    if not is_ours(provider.meta, sides.cluster_namespace):
        return Done()
    if not sides.consumer_gone:
        return ConfirmConsumerGone()
    return DeleteProvider(provider.key, provider.meta.uid)
