"""From consumer to provider: the copy is made, kept and taken away (kube-bind's spec syncer)."""

from __future__ import annotations

from fairlead.api.kubebind_names import FINALIZER_SYNCER
from fairlead.api.meta import Key, Object
from fairlead.konnector.syncer.copies import (
    copy_of,
    is_foreign,
    is_ours,
    provider_annotations,
    source_annotations,
    with_spec,
)
from fairlead.konnector.syncer.isolation import MAX_NAME
from fairlead.konnector.syncer.steps import (
    AskNamespace,
    ConfirmProviderGone,
    CreateProvider,
    DeleteProvider,
    Done,
    PatchConsumer,
    Refuse,
    Sides,
    Step,
    UpdateProvider,
    Wait,
)


def next_step(sides: Sides) -> Step:
    """What the consumer's object wants of its copy next."""
    if sides.consumer is None:
        return Done()
    if sides.consumer.meta.deleting:
        return _release(sides, sides.consumer)
    if sides.target is None:
        return Wait("provider namespace") if sides.service_namespace else AskNamespace()
    if len(sides.target.name) > MAX_NAME:
        return Refuse(
            "NameTooLong",
            f"the provider's copy would be named {sides.target.name!r}, longer than {MAX_NAME} "
            "characters: delete this object and create it under a shorter name",
        )
    if sides.provider is None:
        return _create(sides, sides.consumer)
    return _keep(sides, sides.consumer, sides.provider, sides.target)


def _create(sides: Sides, consumer: Object) -> Step:
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        return PatchConsumer([*consumer.meta.finalizers, FINALIZER_SYNCER], {})
    return CreateProvider(copy_of(consumer, sides.cluster_namespace))


def _keep(sides: Sides, consumer: Object, provider: Object, target: Key) -> Step:
    if is_foreign(provider.meta, sides.cluster_namespace):
        return Refuse(
            "ForeignProviderObject",
            f"{provider.kind} {target} on the provider belongs to another consumer, so this "
            "object is not synced: rename this object, or ask the provider to remove the other",
        )
    if sides.shared and not is_ours(provider.meta, sides.cluster_namespace):
        return Refuse(
            "ForeignProviderObject",
            f"{provider.kind} {target} on the provider is the provider's own, so this object is "
            "not synced: rename this object",
        )
    if provider.meta.deleting:
        return Wait("deletion of the provider's copy")
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        finalizers = [*consumer.meta.finalizers, FINALIZER_SYNCER]
        return PatchConsumer(finalizers, provider_annotations(provider.meta))
    wanted = source_annotations(consumer.meta, sides.cluster_namespace)
    annotated = wanted.items() <= provider.meta.annotations.items()
    if not annotated or not sides.spec_converged:
        return UpdateProvider(with_spec(provider, consumer, sides.cluster_namespace))
    return Done()


def _release(sides: Sides, consumer: Object) -> Step:
    """The object goes only when its copy is gone."""
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        return Done()
    remaining = [name for name in consumer.meta.finalizers if name != FINALIZER_SYNCER]
    if sides.target is None:
        return PatchConsumer(remaining, {})
    if sides.provider is None:
        return PatchConsumer(remaining, {}) if sides.provider_gone else ConfirmProviderGone()
    if not is_ours(sides.provider.meta, sides.cluster_namespace):
        return PatchConsumer(remaining, {})
    if sides.provider.meta.deleting:
        return Wait("deletion of the provider's copy")
    return DeleteProvider(sides.target, sides.provider.meta.uid)
