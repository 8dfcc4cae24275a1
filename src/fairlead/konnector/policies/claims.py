"""Claimed objects: the original is on one side, its copy on the other.

What is not our copy is never overwritten or deleted, and no provider gets what another provider
has sent. What it mends of kube-bind is in docs/compatibility.md.
"""

from __future__ import annotations

from fairlead.api.kubebind import OWNER_CONSUMER, OWNER_PROVIDER
from fairlead.api.meta import JSON, Object
from fairlead.konnector.claims.steps import (
    Confirm,
    ConfirmNamespace,
    Create,
    Delete,
    Replace,
    SetOwner,
    Sides,
)
from fairlead.konnector.conflicts import FOREIGN_OBJECT, OWNER_UNKNOWN
from fairlead.konnector.policies.claimcopies import (
    binding_reference,
    consumer_copy,
    is_consumer_copy,
    is_token,
    must_recreate,
    new_body,
    owner_of,
    provider_copy,
    replaced_body,
)
from fairlead.konnector.policies.copies import belongs, is_foreign, is_ours, let_go
from fairlead.konnector.policies.steps import AskNamespace, Done, Refuse, Step, Wait


def next_step(sides: Sides) -> Step:
    """What to do next about one name."""
    consumer, provider = sides.consumer, sides.provider
    if provider is None:
        return _without_provider(sides, consumer) if consumer is not None else Done()
    if is_foreign(provider.meta, sides.cluster_namespace):
        return _refuse_foreign(sides, provider)
    if owner_of(provider) == OWNER_CONSUMER:
        return _consumer_owned(sides, provider)
    return _provider_owned(sides, provider)


def copy_content(sides: Sides) -> tuple[JSON, Object] | None:
    """What the copy should contain and the copy as it is, when there is one of ours."""
    consumer, provider = sides.consumer, sides.provider
    if consumer is None or provider is None:
        return None
    if owner_of(provider) == OWNER_CONSUMER:
        return provider_copy(consumer, cluster_namespace=sides.cluster_namespace), provider
    return consumer_copy(provider), consumer


def _without_provider(sides: Sides, consumer: Object) -> Step:
    if owner_of(consumer) == OWNER_PROVIDER:
        return _stale_copy(sides, consumer)
    if not sides.consumer_claimed:
        return Done()
    if is_token(consumer):
        return _refuse_token(consumer)
    if sides.target is None:
        return Wait("provider namespace") if sides.service_namespace else AskNamespace()
    if owner_of(consumer) != OWNER_CONSUMER:
        return SetOwner("consumer", OWNER_CONSUMER)
    content = provider_copy(consumer, cluster_namespace=sides.cluster_namespace)
    name, namespace = sides.target.name, sides.target.namespace
    return Create(
        "provider", new_body(consumer, content, name=name, namespace=namespace, owner=None)
    )


def _stale_copy(sides: Sides, consumer: Object) -> Step:
    """A copy whose original is gone; another provider's copy is none of our business."""
    if not is_consumer_copy(consumer, None, bindings=sides.bindings):
        return Done()
    if sides.target is None and sides.service_namespace:
        return Wait("provider namespace")
    if sides.target is None and not sides.namespace_gone:
        return ConfirmNamespace()
    if sides.target is not None and "provider" not in sides.confirmed_gone:
        return Confirm("provider")
    return _delete_consumer(consumer)


def _consumer_owned(sides: Sides, provider: Object) -> Step:
    consumer = sides.consumer
    if not belongs(provider.meta, sides.cluster_namespace):
        return _refuse_foreign(sides, provider)
    if provider.meta.deleting:
        return Wait("deletion of the provider's copy")
    if consumer is None:
        if "consumer" not in sides.confirmed_gone:
            return Confirm("consumer")
        return _delete_provider(sides, provider)
    if owner_of(consumer) == OWNER_PROVIDER:
        return _delete_provider(sides, provider)
    if not sides.consumer_claimed:
        if owner_of(consumer) == OWNER_CONSUMER:
            return SetOwner("consumer", None)
        return _delete_provider(sides, provider)
    if owner_of(consumer) != OWNER_CONSUMER:
        return SetOwner("consumer", OWNER_CONSUMER)
    if sides.converged:
        return Done()
    content = provider_copy(consumer, cluster_namespace=sides.cluster_namespace)
    if must_recreate(provider, content):
        return Delete("provider", provider.key, provider.meta.uid)
    return Replace("provider", replaced_body(provider, content, owner=None))


def _delete_provider(sides: Sides, provider: Object) -> Step:
    """A copy goes; one that was let go, or shall be, stays."""
    if not is_ours(provider.meta, sides.cluster_namespace):
        return Done()
    if sides.orphan:
        return Replace("provider", let_go(provider))
    return Delete("provider", provider.key, provider.meta.uid)


def _provider_owned(sides: Sides, provider: Object) -> Step:
    consumer = sides.consumer
    ours = consumer is not None and is_consumer_copy(consumer, provider, bindings=sides.bindings)
    if not ours and consumer is not None and _wanted_there(sides, consumer, provider):
        return _refuse_taken(consumer, provider)
    if not sides.provider_claimed or provider.meta.deleting:
        return _unclaim(consumer if ours else None, provider)
    if consumer is not None and not ours:
        return _refuse_taken(consumer, provider)
    if is_token(provider):
        return _refuse_token(provider)
    if owner_of(provider) != OWNER_PROVIDER:
        return SetOwner("provider", OWNER_PROVIDER)
    return _keep_consumer(sides, consumer, provider)


def _wanted_there(sides: Sides, consumer: Object, provider: Object) -> bool:
    """Whether the consumer's object is an original whose copy would have the provider's name."""
    original = owner_of(consumer) != OWNER_PROVIDER and not consumer.meta.deleting
    return sides.consumer_claimed and original and not provider.meta.deleting


def _keep_consumer(sides: Sides, consumer: Object | None, provider: Object) -> Step:
    owner = binding_reference(sides.binding_name, sides.binding_uid)
    content = consumer_copy(provider)
    if consumer is None and not sides.consumer_namespace:
        return Wait("consumer namespace")
    if consumer is None:
        return Create("consumer", _consumer_body(sides, provider, content))
    if consumer.meta.deleting:
        return Wait("deletion of the consumer's copy")
    if sides.converged and consumer.meta.owned_by(sides.binding_uid):
        return Done()
    if must_recreate(consumer, content):
        return _delete_consumer(consumer)
    return Replace("consumer", replaced_body(consumer, content, owner=owner))


def _consumer_body(sides: Sides, provider: Object, content: JSON) -> JSON:
    return new_body(
        provider,
        content,
        name=provider.meta.name,
        namespace=sides.key.namespace,
        owner=binding_reference(sides.binding_name, sides.binding_uid),
    )


def _unclaim(copy: Object | None, provider: Object) -> Step:
    """The label goes first, so that a restart in between finds the copy still to be deleted."""
    if copy is None:
        return Done()
    if owner_of(provider) == OWNER_PROVIDER and not provider.meta.deleting:
        return SetOwner("provider", None)
    return _delete_consumer(copy)


def _delete_consumer(copy: Object) -> Step:
    if copy.meta.deleting:
        return Wait("deletion of the consumer's copy")
    return Delete("consumer", copy.key, copy.meta.uid)


def _refuse_foreign(sides: Sides, provider: Object) -> Step:
    if sides.consumer is None or not sides.consumer_claimed:
        return Done()
    return Refuse(
        FOREIGN_OBJECT,
        f"{provider.kind} {provider.key} on the provider belongs to another consumer: "
        "rename this object, or ask the provider to remove the other",
    )


def _refuse_taken(consumer: Object, provider: Object) -> Step:
    """An object that is no copy of ours holds somebody's data, whatever the labels say."""
    if owner_of(consumer) == OWNER_PROVIDER:
        return Refuse(
            FOREIGN_OBJECT,
            f"{consumer.kind} {consumer.key} is another provider's copy, so the one of this "
            "provider cannot come: use another name for one of them",
        )
    return Refuse(
        OWNER_UNKNOWN,
        f"{consumer.kind} {consumer.key} exists on both sides and is no copy of the other: "
        f"delete or rename this one, or ask the provider to remove {provider.key}",
    )


def _refuse_token(obj: Object) -> Step:
    return Refuse(
        "ClusterToken",
        f"Secret {obj.key} is a token for the cluster that it is in and is never copied: "
        "claim another Secret",
    )
