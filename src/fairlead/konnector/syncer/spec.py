"""From consumer to provider: the copy is made, kept and taken away (kube-bind's spec syncer)."""

from __future__ import annotations

from fairlead.api.kubebind.names import ANNOTATION_CLUSTER_NAMESPACE, FINALIZER_SYNCER
from fairlead.api.meta import Key, Object
from fairlead.konnector.conflicts import FOREIGN_OBJECT, NAME_TOO_LONG
from fairlead.konnector.syncer.convergence import digest
from fairlead.konnector.syncer.copies import (
    belongs,
    copy_of,
    is_foreign,
    is_ours,
    let_go,
    merged_body,
    payload,
    provider_annotations,
    source_annotations,
)
from fairlead.konnector.syncer.isolation import MAX_NAME
from fairlead.konnector.syncer.merge import has_more
from fairlead.konnector.syncer.steps import (
    AskNamespace,
    AskOwned,
    ConfirmProviderGone,
    CreateProvider,
    DeleteProvider,
    Done,
    PatchConsumer,
    Refuse,
    Settle,
    Sides,
    Step,
    UpdateProvider,
    Wait,
)


DELETION = "deletion of the provider's copy"
"""What an object waits for that is being deleted, here or over there."""


def next_step(sides: Sides) -> Step:
    """What the consumer's object wants of its copy next."""
    if sides.consumer is None:
        return Done()
    if sides.consumer.meta.deleting:
        return _release(sides, sides.consumer)
    if sides.target is None:
        return _without_namespace(sides, sides.consumer)
    if len(sides.target.name) > MAX_NAME:
        return Refuse(
            NAME_TOO_LONG,
            f"the provider's copy would be named {sides.target.name!r}, longer than {MAX_NAME} "
            "characters: delete this object and create it under a shorter name",
        )
    if sides.provider is None:
        return _create(sides, sides.consumer)
    return _keep(sides, sides.consumer, sides.provider, sides.target)


def _without_namespace(sides: Sides, consumer: Object) -> Step:
    if not sides.service_namespace:
        return AskNamespace()
    if sides.namespace_refusal:
        return Refuse(
            FOREIGN_OBJECT,
            f"the provider has no place for objects of namespace {consumer.meta.namespace}: "
            f"{sides.namespace_refusal}",
        )
    return Wait("provider namespace")


def _create(sides: Sides, consumer: Object) -> Step:
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        return PatchConsumer([*consumer.meta.finalizers, FINALIZER_SYNCER], {})
    return CreateProvider(copy_of(consumer, sides.cluster_namespace))


def _keep(sides: Sides, consumer: Object, provider: Object, target: Key) -> Step:
    if not belongs(provider.meta, sides.cluster_namespace):
        return _refuse(sides, provider, target)
    if provider.meta.deleting:
        return Wait(DELETION)
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        finalizers = [*consumer.meta.finalizers, FINALIZER_SYNCER]
        return PatchConsumer(finalizers, provider_annotations(provider.meta))
    wanted = source_annotations(consumer.meta, sides.cluster_namespace)
    annotated = wanted.items() <= provider.meta.annotations.items()
    if annotated and sides.spec_converged:
        return Done()
    return _merge(sides, consumer, provider, annotated=annotated)


def _merge(sides: Sides, consumer: Object, provider: Object, *, annotated: bool) -> Step:
    """What somebody added over there stays; what the consumer took away goes."""
    found = payload(provider.to_dict())
    if sides.owned is None and has_more(found, payload(consumer.to_dict())):
        return AskOwned()
    body = merged_body(provider, consumer, sides.cluster_namespace, sides.owned or {})
    if annotated and digest(payload(body)) == digest(found):
        return Settle()
    return UpdateProvider(body)


def _refuse(sides: Sides, provider: Object, target: Key) -> Refuse:
    if is_foreign(provider.meta, sides.cluster_namespace):
        message = (
            f"{provider.kind} {target} on the provider belongs to another consumer, so this "
            "object is not synced: rename this object, or ask the provider to remove the other"
        )
    else:
        message = (
            f"{provider.kind} {target} on the provider is the provider's own, so this object is "
            "not synced: rename this object, or ask the provider to remove its own or to hand it "
            f"over with annotation {ANNOTATION_CLUSTER_NAMESPACE}={sides.cluster_namespace}"
        )
    return Refuse(FOREIGN_OBJECT, message)


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
    if sides.orphan and not sides.provider.meta.deleting:
        return UpdateProvider(let_go(sides.provider))
    if sides.provider.meta.deleting:
        return Wait(DELETION)
    return DeleteProvider(sides.target, sides.provider.meta.uid)
