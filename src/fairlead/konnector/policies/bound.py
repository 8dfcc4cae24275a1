"""Objects of bound resources: the spec goes to the provider, the status comes back.

Every object that crosses gets the finalizer ``kubebind.io/syncer`` first, so that it cannot go
without its copy. What the consumer wants of the copy is done before anything comes back. A copy
takes changes until it is gone: what it waits for may depend on its spec. Sources: kube-bind's
documents on its spec and status syncers, and on isolation.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kubebind.names import ANNOTATION_CLUSTER_NAMESPACE, FINALIZER_SYNCER
from fairlead.api.meta import JSON, Key, Object
from fairlead.konnector.policies.copies import (
    belongs,
    copy_of,
    has_more,
    is_foreign,
    is_orphan,
    is_ours,
    is_recorded,
    let_go,
    payload,
    provider_annotations,
    put_at,
    same_payload,
    same_status,
    says_nothing,
    source_annotations,
    status_of,
    with_payload,
    with_status,
)
from fairlead.konnector.policies.holding import Holding, withheld
from fairlead.konnector.policies.isolation import MAX_NAME
from fairlead.konnector.policies.localkeys import LocalMetadataKeys
from fairlead.konnector.policies.merge import merged
from fairlead.konnector.policies.steps import (
    DELETION,
    FOREIGN_OBJECT,
    NAME_TOO_LONG,
    NAMESPACE_REFUSED,
    AskNamespace,
    Create,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    Replace,
    ReplaceStatus,
    Settle,
    Side,
    Step,
    StepOutcome,
    Wait,
    content,
)


class BoundPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about the objects of one bound resource.

    ``cluster_namespace`` is the consumer's on the provider. ``owner`` is set on new copies, None
    for copies that go with their namespace. ``status`` says whether the resource has a status
    that comes back. ``holding`` is what becomes of copies that would be deleted. ``orphaning``
    tells whether all of them stay when their objects go; by its annotation each may by itself.
    ``converted`` tells whether a webhook converts between versions of the kind, ``frozen`` whether
    objects may be read without that, and so lack fields: then no content crosses. ``local`` has
    the labels and annotations that stay where they were set.
    """

    cluster_namespace: str
    owner: JSON | None = None
    status: bool = True
    holding: Holding = ""
    orphaning: Callable[[], bool] = lambda: False
    converted: bool = False
    frozen: Callable[[], bool] = lambda: False
    local: LocalMetadataKeys = LocalMetadataKeys()

    def next_step(self, pair: Pair) -> Step:
        """Return the next step for one object."""
        if pair.consumer is not None and not pair.consumer.meta.deleting and self.frozen():
            return Done()
        step = self._to_provider(pair)
        # A cache may hold what was read while the conversion was missing, under the same version.
        if self.converted and not pair.read and _carries_content(step, pair):
            return Read("consumer")
        # Where an object may not be synchronised, no status comes back either. A wait holds
        # nothing up: a copy that is being deleted still gives its status.
        if isinstance(step, Done | Wait):
            back = self._to_consumer(pair)
            step = step if isinstance(back, Done) else back
        return withheld(step, pair, self.holding) if self.holding else step

    def outcome(self, side: Side, pair: Pair) -> StepOutcome | None:
        """Return the outcome for the end on this side; None if it has the wanted content.

        It compares both ends as they are now: after a write, and where none was needed.
        """
        return _status_outcome(pair) if side == "consumer" else self._payload_outcome(pair)

    def _to_provider(self, pair: Pair) -> Step:
        """Return the next step from the consumer's object to its copy."""
        consumer, target = pair.consumer, pair.target
        if consumer is None:
            return Done()
        if consumer.meta.deleting:
            return self._release(pair, consumer)
        if target is None:
            return _without_namespace(pair, consumer)
        if len(target.name) > MAX_NAME:
            return Refuse(
                NAME_TOO_LONG,
                f"the provider's copy would be named {target.name!r}, longer than {MAX_NAME} "
                "characters: delete this object and create it under a shorter name",
            )
        if pair.provider is None:
            return self._create(consumer, target)
        return self._keep(pair, consumer, pair.provider)

    def _create(self, consumer: Object, target: Key) -> Step:
        # The finalizer comes before the copy: otherwise an object that is deleted in between would
        # go and leave its copy behind.
        if FINALIZER_SYNCER not in consumer.meta.finalizers:
            return _with_finalizer(consumer, {})
        body = copy_of(consumer, self.cluster_namespace, self.local.metadata(consumer))
        return Create("provider", put_at(body, target, self.owner))

    def _keep(self, pair: Pair, consumer: Object, provider: Object) -> Step:
        if not belongs(provider.meta, self.cluster_namespace):
            if (step := _proof(pair, consumer, provider)) is not None:
                return step
            if not _proved(pair, consumer, provider):
                return self._refuse(provider)
        # Both in one request: the annotations about the copy would be another write of the same
        # object.
        if FINALIZER_SYNCER not in consumer.meta.finalizers and not provider.meta.deleting:
            return _with_finalizer(consumer, provider_annotations(provider.meta))
        if (step := self._change(pair, consumer, provider)) is not None:
            return step
        return Wait(DELETION) if provider.meta.deleting else InSync()

    def _change(self, pair: Pair, consumer: Object, provider: Object) -> Step | None:
        """Return the step that brings the copy's content up to date; None if it is."""
        # The payload leaves kube-bind's own keys out, so that they are compared by themselves. A
        # copy that is about to go needs no other than it has.
        annotations = source_annotations(consumer.meta, self.cluster_namespace)
        annotated = (
            consumer.meta.deleting or annotations.items() <= provider.meta.annotations.items()
        )
        now = self._payload_outcome(pair)
        if annotated and pair.converged("provider", now):
            return None
        new, current = pair.contents(("consumer", self.local.payload), ("provider", payload))
        # Fields that the provider's side added stay, fields that the consumer removed go. Only the
        # provider's managedFields tell which is which, and only a copy with more fields needs the
        # question.
        if has_more(current.value, new.value):
            if pair.owned is None:
                return Read("provider")
            new = content(merged(current.value, new.value, pair.owned))
        if annotated and new.digest == current.digest:
            # All additional fields of the copy are others'. This is remembered, or the provider
            # would be asked for their owners at every look.
            return Settle("provider")
        return Replace("provider", with_payload(provider, new.value, annotations))

    def _payload_outcome(self, pair: Pair) -> StepOutcome | None:
        """Compare the copy with what the consumer's object has for it."""

        def same(consumer: Object, provider: Object) -> bool:
            return same_payload(consumer, provider, self.local.metadata(consumer))

        return pair.compared("provider", desired=self.local.payload, current=payload, same=same)

    def _refuse(self, provider: Object) -> Refuse:
        if is_foreign(provider.meta, self.cluster_namespace):
            message = (
                f"{provider.kind} {provider.key} on the provider belongs to another consumer, so "
                "this object is not synced: rename this object, or ask the provider to remove "
                "the other"
            )
        else:
            message = (
                f"{provider.kind} {provider.key} on the provider is the provider's own object, "
                "or a copy that has lost its annotations, and nothing proves that it is the "
                "copy of this object, so this object is not synced: ask the provider to hand "
                "it over with annotation "
                f"{ANNOTATION_CLUSTER_NAMESPACE}={self.cluster_namespace} or to remove it, or "
                "rename this object"
            )
        return Refuse(FOREIGN_OBJECT, message)

    def _release(self, pair: Pair, consumer: Object) -> Step:
        """Return the step towards the end of a deleted object, which its copy precedes."""
        provider, orphan = pair.provider, is_orphan(consumer.meta) or self.orphaning()
        if FINALIZER_SYNCER not in consumer.meta.finalizers:
            # Other finalizers may keep the object for as long as they like.
            if provider is None or not is_ours(provider.meta, self.cluster_namespace):
                return Done()
            return self._last_change(pair, consumer, provider) or Done()
        remaining = consumer.meta.without_finalizer(FINALIZER_SYNCER)
        release = PatchMetadata("consumer", {"finalizers": remaining})
        # Without a provider namespace there is no copy: it was never made, or went with the
        # namespace.
        if pair.target is None:
            return release
        if provider is None:
            # The cache may lack a copy that was made a moment ago: before the object goes for
            # good, the server itself is asked.
            return release if "provider" in pair.gone else Read("provider")
        # The remaining object was released, or belongs to another owner: its end is not awaited.
        if not is_ours(provider.meta, self.cluster_namespace):
            if pair.owned is None:
                # The cache may have a version from before the copy was marked as ours again.
                return Read("provider")
            if orphan or not says_nothing(provider.meta):
                return release
            if (step := _proof(pair, consumer, provider)) is not None:
                return step
            if not _proved(pair, consumer, provider):
                return release
        # Before the deletion too: how the provider takes the copy away may depend on its spec.
        if (step := self._last_change(pair, consumer, provider)) is not None:
            return step
        if provider.meta.deleting:
            return Wait(DELETION)
        if orphan:
            return Replace("provider", let_go(provider))
        return Delete("provider", pair.target, provider.meta.uid)

    def _last_change(self, pair: Pair, consumer: Object, provider: Object) -> Step | None:
        """Return the step that brings the content of a deleted object across; None without one.

        No content crosses that may lack fields.
        """
        if self.frozen():
            return None
        step = self._change(pair, consumer, provider)
        return Read("consumer") if step is not None and self.converted and not pair.read else step

    def _to_consumer(self, pair: Pair) -> Step:
        """Return the next step from the provider's copy to the consumer's object."""
        consumer, provider = pair.consumer, pair.provider
        if provider is None:
            return Done()
        if consumer is None:
            return self._leftover(pair, provider)
        if not belongs(provider.meta, self.cluster_namespace):
            return Done()
        annotations = provider_annotations(provider.meta)
        if not annotations.items() <= consumer.meta.annotations.items():
            return PatchMetadata("consumer", {"annotations": annotations})
        if not self.status or pair.converged("consumer", _status_outcome(pair)):
            return Done()
        return ReplaceStatus("consumer", with_status(consumer, provider))

    def _leftover(self, pair: Pair, provider: Object) -> Step:
        """Return the step for a copy whose object is gone; only our copies are deleted."""
        if provider.meta.deleting or not is_ours(provider.meta, self.cluster_namespace):
            return Done()
        # The consumer's cache may be behind, and with the copy goes its data: so its server is
        # asked.
        if "consumer" not in pair.gone:
            return Read("consumer")
        return Delete("provider", provider.key, provider.meta.uid)


def _status_outcome(pair: Pair) -> StepOutcome | None:
    """Compare the status of the consumer's object with that of the copy."""
    return pair.compared("consumer", desired=status_of, current=status_of, same=same_status)


def _proof(pair: Pair, consumer: Object, provider: Object) -> Step | None:
    """Return the step that is missing to prove that an object without annotations is our copy.

    A copy that was just created is recorded first: the lack of its annotations is no evidence.
    """
    if not says_nothing(provider.meta):
        return None
    if is_recorded(consumer.meta, provider.meta):
        return Read("provider") if pair.owned is None else None
    if pair.created and pair.created == provider.meta.uid:
        return PatchMetadata("consumer", {"annotations": provider_annotations(provider.meta)})
    return None


def _proved(pair: Pair, consumer: Object, provider: Object) -> bool:
    """Whether an object without our annotations certainly is the copy that a konnector made.

    Its uid was recorded while it still had them, and its server says that a konnector wrote it.
    Either alone would be a guess: a user who may write the consumer's object may write a uid
    there, and an object that a konnector wrote may have been another object's copy.
    """
    is_proved = says_nothing(provider.meta) and is_recorded(consumer.meta, provider.meta)
    return is_proved and pair.wrote


def _carries_content(step: Step, pair: Pair) -> bool:
    """Whether a step brings what the consumer's object has to its copy."""
    crossing = isinstance(step, Create | Replace) and step.side == "provider"
    return crossing and pair.consumer is not None and not pair.consumer.meta.deleting


def _with_finalizer(consumer: Object, annotations: dict[str, str]) -> Step:
    metadata: JSON = {"finalizers": consumer.meta.with_finalizer(FINALIZER_SYNCER)}
    if annotations:
        metadata["annotations"] = annotations
    return PatchMetadata("consumer", metadata)


def _without_namespace(pair: Pair, consumer: Object) -> Step:
    if not pair.namespace_asked:
        return AskNamespace()
    if pair.namespace_refusal:
        return Refuse(
            NAMESPACE_REFUSED,
            "the provider has no namespace for objects of namespace "
            f"{consumer.meta.namespace}: {pair.namespace_refusal}",
        )
    return Wait("provider namespace")
