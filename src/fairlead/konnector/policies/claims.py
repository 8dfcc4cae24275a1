"""Objects of permission claims: the original is on one side, its copy on the other.

The label ``kube-bind.io/owner`` says which side has the original. Only our copies are overwritten
or deleted, and no provider gets the objects of another one. Differences from kube-bind are in
docs/compatibility.md.
"""

from __future__ import annotations

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_NAMESPACE,
    LABEL_OWNER,
    OWNER_CONSUMER,
    OWNER_PROVIDER,
)
from fairlead.api.meta import JSON, Object
from fairlead.konnector.policies.claimcopies import (
    binding_reference,
    consumer_copy,
    is_consumer_copy,
    is_token,
    must_recreate,
    new_body,
    owner_of,
    payload,
    provider_copy,
    replaced_body,
)
from fairlead.konnector.policies.copies import (
    belongs,
    is_foreign,
    is_ours,
    let_go,
    says_nothing,
)
from fairlead.konnector.policies.holding import Holding, withheld
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.konnector.policies.steps import (
    DELETION,
    FOREIGN_OBJECT,
    OWNER_UNKNOWN,
    AskNamespace,
    ConfirmNamespace,
    Create,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    Replace,
    Side,
    Step,
    StepOutcome,
    Wait,
)


AGAIN = 5.0
"""Seconds after which an object is looked at again while referring objects cannot be read."""


class ClaimState(msgspec.Struct, frozen=True, kw_only=True):
    """Claims about one pair at the moment.

    ``consumer`` and ``provider`` tell whether the selector of this claim matches the object of
    that side, ``others`` whether another claim's does instead, ``readable`` whether the objects
    that may refer to it are known. ``bindings`` are the uids of all bindings that use the same
    connection. ``consumer_namespace`` tells whether objects can be created in the consumer's
    namespace, ``expected`` whether one of the provider's may come there at all, ``orphan`` whether
    copies on the provider stay when they are claimed no more.
    """

    consumer: bool
    provider: bool
    bindings: frozenset[str]
    others: bool = False
    readable: bool = True
    consumer_namespace: bool = True
    expected: bool = True
    orphan: bool = False


class ClaimPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about the objects of one claim of one binding.

    ``holding`` is the treatment of copies on the provider that would be deleted. ``local`` has the
    labels and annotations that stay where they were set, but for the labels ``named`` by the
    claim's selector.
    """

    cluster_namespace: str
    binding_name: str
    binding_uid: str
    holding: Holding = ""
    local: LocalMetadataKeys = LocalMetadataKeys()
    named: frozenset[str] = frozenset()

    def next_step(self, pair: Pair, state: ClaimState) -> Step:
        """Return the next step for one name."""
        step = self._next(pair, state)
        return withheld(step, pair, self.holding) if self.holding else step

    def _next(self, pair: Pair, state: ClaimState) -> Step:
        if not (state.consumer or state.provider):
            if state.others:
                return Done()
            if not state.readable:
                # An object that cannot be read at the moment may refer to it: no copy is deleted.
                return Wait("referring objects", AGAIN)
        consumer, provider = pair.consumer, pair.provider
        if provider is None:
            return self._without_provider(pair, state, consumer) if consumer else Done()
        if is_foreign(provider.meta, self.cluster_namespace):
            return _refuse_foreign(pair, state, provider)
        if owner_of(provider) == OWNER_CONSUMER:
            return self._consumer_owned(pair, state, provider)
        return self._provider_owned(pair, state, provider)

    def outcome(self, side: Side, pair: Pair) -> StepOutcome | None:
        """Return the outcome for the copy on this side; None if it has the wanted content."""
        return pair.compared(
            side, desired=self._sent if side == "provider" else self._brought, current=payload
        )

    def _sent(self, consumer: Object) -> JSON:
        crossing = self.local.metadata(consumer, self.named)
        return provider_copy(consumer, crossing, cluster_namespace=self.cluster_namespace)

    def _brought(self, provider: Object) -> JSON:
        return consumer_copy(provider, self.local.metadata(provider, self.named))

    def _without_provider(self, pair: Pair, state: ClaimState, consumer: Object) -> Step:
        if owner_of(consumer) == OWNER_PROVIDER:
            return _leftover_copy(pair, state, consumer)
        if not state.consumer:
            return Done()
        if is_token(consumer):
            return _refuse_token(consumer)
        if pair.target is None:
            return Wait("provider namespace") if pair.namespace_asked else AskNamespace()
        if owner_of(consumer) != OWNER_CONSUMER:
            return _set_owner("consumer", OWNER_CONSUMER)
        name, namespace = pair.target.name, pair.target.namespace
        content = pair.content("consumer", self._sent).value
        return Create(
            "provider", new_body(consumer, content, name=name, namespace=namespace, owner=None)
        )

    def _consumer_owned(self, pair: Pair, state: ClaimState, provider: Object) -> Step:
        consumer = pair.consumer
        if not belongs(provider.meta, self.cluster_namespace):
            # The label says that the original is the consumer's, in a namespace that is this
            # consumer's alone; its server can tell that only a konnector has written the copy.
            stripped = says_nothing(provider.meta) and _is_original(state, consumer)
            if stripped and pair.owned is None:
                return Read("provider")
            if not (stripped and pair.wrote):
                return self._refuse_silent(pair, state, provider)
        if consumer is None:
            # A cache that lacks the original is no proof that it is gone.
            if "consumer" not in pair.gone and not provider.meta.deleting:
                return Read("consumer")
            return self._delete_provider(state, provider)
        if owner_of(consumer) == OWNER_PROVIDER:
            return self._delete_provider(state, provider)
        if not state.consumer:
            # The label is removed before the copy: without the copy, no look would come here to
            # remove it.
            if owner_of(consumer) == OWNER_CONSUMER:
                return _set_owner("consumer", None)
            return self._delete_provider(state, provider)
        if owner_of(consumer) != OWNER_CONSUMER:
            return _set_owner("consumer", OWNER_CONSUMER)
        # A copy takes changes until it is gone.
        if pair.converged("provider", self.outcome("provider", pair)):
            return Wait(DELETION) if provider.meta.deleting else InSync()
        content = pair.content("consumer", self._sent).value
        if must_recreate(provider, content):
            if provider.meta.deleting:
                return Wait(DELETION)
            return Delete("provider", provider.key, provider.meta.uid)
        return Replace("provider", replaced_body(provider, content, owner=None))

    def _refuse_silent(self, pair: Pair, state: ClaimState, provider: Object) -> Step:
        if pair.consumer is None or not state.consumer:
            return Done()
        return Refuse(
            FOREIGN_OBJECT,
            f"{provider.kind} {provider.key} on the provider does not name its original, and "
            "nothing proves that it is the copy of this object: ask the provider to hand it "
            f"over with annotation {ANNOTATION_CLUSTER_NAMESPACE}={self.cluster_namespace}, or "
            "to remove it, or rename this object",
        )

    def _delete_provider(self, state: ClaimState, provider: Object) -> Step:
        """Return the deletion of a copy; one that is released, or has to be, stays."""
        if provider.meta.deleting:
            return Wait(DELETION)
        if not is_ours(provider.meta, self.cluster_namespace):
            return Done()
        if state.orphan:
            return Replace("provider", let_go(provider))
        return Delete("provider", provider.key, provider.meta.uid)

    def _provider_owned(self, pair: Pair, state: ClaimState, provider: Object) -> Step:
        consumer = pair.consumer
        ours = consumer is not None and is_consumer_copy(
            consumer, provider, bindings=state.bindings
        )
        if not ours and consumer is not None and _wanted_there(state, consumer, provider):
            return _refuse_taken(consumer, provider)
        if not state.provider or provider.meta.deleting:
            return _unclaim(consumer if ours else None, provider)
        if consumer is not None and not ours:
            return _refuse_taken(consumer, provider)
        if is_token(provider):
            return _refuse_token(provider)
        if owner_of(provider) != OWNER_PROVIDER:
            return _set_owner("provider", OWNER_PROVIDER)
        return self._keep_consumer(pair, state, provider)

    def _keep_consumer(self, pair: Pair, state: ClaimState, provider: Object) -> Step:
        consumer = pair.consumer
        owner = binding_reference(self.binding_name, self.binding_uid)
        content = pair.content("provider", self._brought).value
        if consumer is None:
            if not state.expected:
                return _refuse_unexpected(pair, provider)
            if not state.consumer_namespace:
                return Wait("consumer namespace")
            name, namespace = provider.meta.name, pair.key.namespace
            body = new_body(provider, content, name=name, namespace=namespace, owner=owner)
            return Create("consumer", body)
        if consumer.meta.deleting:
            return Wait("deletion of the consumer's copy")
        # Several bindings may claim the same object. Each adds itself to the owners of the copy,
        # which goes with the last of them.
        owned = consumer.meta.owned_by(self.binding_uid)
        if owned and pair.converged("consumer", self.outcome("consumer", pair)):
            return InSync()
        if must_recreate(consumer, content):
            return _delete_consumer(consumer)
        return Replace("consumer", replaced_body(consumer, content, owner=owner))


def _set_owner(side: Side, owner: str | None) -> Step:
    """Label the original with its owner, or take the label off."""
    return PatchMetadata(side, {"labels": {LABEL_OWNER: owner}})


def _leftover_copy(pair: Pair, state: ClaimState, consumer: Object) -> Step:
    """Return the step for a copy whose original is gone; other providers' copies stay."""
    if not is_consumer_copy(consumer, None, bindings=state.bindings):
        return Done()
    if pair.target is None and pair.namespace_asked:
        return Wait("provider namespace")
    # All originals in its namespace are gone with the APIServiceNamespace. Only the provider
    # itself, not a cache, is believed that it is gone.
    if pair.target is None and not pair.namespace_gone:
        return ConfirmNamespace()
    if pair.target is not None and "provider" not in pair.gone:
        return Read("provider")
    return _delete_consumer(consumer)


def _wanted_there(state: ClaimState, consumer: Object, provider: Object) -> bool:
    """Whether the consumer's object is an original whose copy would have the provider's name."""
    original = owner_of(consumer) != OWNER_PROVIDER and not consumer.meta.deleting
    return state.consumer and original and not provider.meta.deleting


def _is_original(state: ClaimState, consumer: Object | None) -> bool:
    """Whether the consumer's object is claimed, and stays."""
    return (
        state.consumer
        and consumer is not None
        and owner_of(consumer) != OWNER_PROVIDER
        and not consumer.meta.deleting
    )


def _unclaim(copy: Object | None, provider: Object) -> Step:
    """Remove the label before the copy, so that a restart in between still finds the copy."""
    if copy is None:
        return Done()
    if owner_of(provider) == OWNER_PROVIDER and not provider.meta.deleting:
        return _set_owner("provider", None)
    return _delete_consumer(copy)


def _delete_consumer(copy: Object) -> Step:
    if copy.meta.deleting:
        return Wait("deletion of the consumer's copy")
    return Delete("consumer", copy.key, copy.meta.uid)


def _refuse_foreign(pair: Pair, state: ClaimState, provider: Object) -> Step:
    if pair.consumer is None or not state.consumer:
        return Done()
    return Refuse(
        FOREIGN_OBJECT,
        f"{provider.kind} {provider.key} on the provider belongs to another consumer: "
        "rename this object, or ask the provider to remove the other",
    )


def _refuse_taken(consumer: Object, provider: Object) -> Step:
    """Refuse to overwrite an object that is no copy of ours and has data of its own."""
    if owner_of(consumer) == OWNER_PROVIDER:
        return Refuse(
            FOREIGN_OBJECT,
            f"{consumer.kind} {consumer.key} is a copy of another provider's object, so the "
            "konnector cannot copy the object of this provider: rename one of them",
        )
    return Refuse(
        OWNER_UNKNOWN,
        f"{consumer.kind} {consumer.key} exists on both sides, and neither is a copy of the "
        f"other: delete or rename this one, or ask the provider to remove {provider.key}",
    )


def _refuse_unexpected(pair: Pair, provider: Object) -> Step:
    return Refuse(
        "ReservedNamespace",
        f"{provider.kind} {provider.key} of the provider is not copied into namespace "
        f"{pair.key.namespace}, which belongs to this cluster itself: the claim has to name "
        "the object with its namespace, or a bound object in that namespace has to refer to it",
    )


def _refuse_token(obj: Object) -> Step:
    return Refuse(
        "ClusterToken",
        f"Secret {obj.key} is a token for the cluster that it is in and is never copied: "
        "claim another Secret",
    )
