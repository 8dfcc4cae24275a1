"""Objects of kbind v2: a copy has its object's name; the spec goes up, the status comes back.

Two annotations of a copy name the cluster and the object that it is of; they alone say whose it
is. The spec is applied by forced server-side apply under the manager of the original konnector and
with its body, so that either of both takes away a field which the other has applied before.
managedFields at the provider say which fields of a copy are ours: they are asked for only where a
copy has more than its object, and at rest they are not. Sources: kbind v2, ``core.kbind.io``;
Kubernetes, server-side apply.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

from fairlead.api.kbind.names import (
    ANNOTATION_CONFLICT,
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_DELETION_POLICY,
    CONSUMER_CLUSTER_UID,
    DELETION_POLICY_ORPHAN,
    FIELD_MANAGER,
    FINALIZER_SYNCER,
    FOREIGN_OBJECT,
    LABEL_MANAGED,
    OWNED_BY_ANOTHER,
    SYNCED,
)
from fairlead.api.kbind.types import ConflictPolicy
from fairlead.api.meta import JSON, Key, Object, ObjectMeta
from fairlead.konnector.policies.copies import same_status, status_of
from fairlead.konnector.policies.isolation import CopyPlace
from fairlead.konnector.policies.merge import Owned, applied_fields, merged
from fairlead.konnector.policies.steps import (
    DELETION,
    Apply,
    Delete,
    Done,
    InSync,
    Pair,
    PatchMetadata,
    Read,
    Refuse,
    ReplaceStatus,
    Settle,
    Side,
    Step,
    StepOutcome,
    Wait,
    outcome,
)


class CopyOwnership(Enum):
    """Owner of the object in the copy's place, by its annotations."""

    OURS = "ours"
    FOREIGN = "foreign"
    """No konnector has marked it."""
    LEFT = "left"
    """Copy of this cluster, of an object that had this name before."""
    ANOTHER = "another's"


class Mirrored(msgspec.Struct, frozen=True):
    """Strategy for copies that have the namespace and the name of their objects."""

    owner: None = None
    needs_namespace: bool = False

    def place(self, key: Key) -> CopyPlace:
        """Return the same key."""
        return CopyPlace(key)

    def to_consumer(self, key: Key) -> Key | None:
        """Return the same key."""
        return key


class MirroredFields(msgspec.Struct, frozen=True):
    """The fields of an object that are applied to its copy, and those of a copy that are ours."""

    manager: str = FIELD_MANAGER

    def payload(self, obj: Object) -> JSON:
        """Return the part of an object that goes to its copy."""
        return spec_of(obj)

    def owned(self, body: JSON) -> Owned:
        """Return the fields of a copy that the konnector has applied."""
        return applied_fields(body, self.manager)

    def wrote(self, body: JSON) -> bool:
        """Whether the konnector has applied more of a copy than its metadata."""
        return bool(self.owned(body).keys() - {"f:metadata"})


class MirrorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Decides about the objects of one API.

    ``cluster_uid`` is the consumer's. ``covered`` returns the conflict policy of the binding that
    decides about a namespace's objects, None where no binding does: copies there are taken away.
    ``status`` says whether the consumer's server takes a status for the kind, ``orphaning``
    whether copies stay where no binding decides any more, ``paused`` whether only deletions go on.
    """

    cluster_uid: str
    covered: Callable[[str], ConflictPolicy | None]
    status: bool = True
    orphaning: Callable[[], bool] = lambda: False
    paused: Callable[[], bool] = lambda: False

    def next_step(self, pair: Pair) -> Step:
        """Return the next step for one object."""
        consumer = pair.consumer
        if consumer is None:
            # A copy that was left by Orphan has the same annotations as one whose object was
            # forced out of its finalizer, so that neither is deleted.
            return Done()
        conflict_policy = self.covered(consumer.meta.namespace)
        if consumer.meta.deleting or conflict_policy is None:
            step = self._release(pair, consumer, covered=conflict_policy is not None)
        elif self.paused():
            return Done()
        else:
            step = self._mirror(pair, consumer, conflict_policy)
        # A copy that is being deleted still gives its status.
        if isinstance(step, InSync | Wait):
            back = self._back(pair, consumer)
            return step if back is None else back
        return step

    def outcome(self, side: Side, pair: Pair) -> StepOutcome | None:
        """Return the outcome for the end on this side; None if it has the wanted content."""
        if side == "provider":
            return pair.compared("provider", desired=spec_of, current=spec_of, same=_same_spec)
        if (reason := self._conflict(pair)) is not None:
            return self._conflict_outcome(pair, reason)
        return pair.compared("consumer", desired=status_of, current=status_of, same=same_status)

    def refusal(self, pair: Pair) -> Refuse | None:
        """Return why an object must not have the copy's place; None if it may."""
        reason = self._conflict(pair)
        if reason is None or pair.consumer is None or pair.provider is None:
            return None
        return Refuse(reason, self._message(pair.consumer, pair.provider))

    def ownership(self, consumer: Object, provider: Object) -> CopyOwnership:
        """Return the owner of the object in the copy's place."""
        cluster = provider.meta.annotations.get(CONSUMER_CLUSTER_UID)
        uid = provider.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID)
        if cluster is None and uid is None:
            return CopyOwnership.FOREIGN
        if cluster != self.cluster_uid or uid is None:
            return CopyOwnership.ANOTHER
        # Two objects never have one name at a time: the other one is gone.
        return CopyOwnership.OURS if uid == consumer.meta.uid else CopyOwnership.LEFT

    def _mirror(self, pair: Pair, consumer: Object, conflict_policy: ConflictPolicy) -> Step:
        """Return the next step from an object to its copy."""
        provider = pair.provider
        if provider is None:
            return self._create(pair, consumer)
        if (reason := self._conflict(pair)) is not None:
            return self._refuse(pair, consumer, provider, reason)
        ours = self.ownership(consumer, provider) is CopyOwnership.OURS
        if not ours and provider.meta.deleting:
            return Wait(DELETION)
        # An object that waits for the end of its copy would get back what was just taken off it.
        if not provider.meta.deleting and (step := _prepare(consumer)) is not None:
            return step
        if (step := self._change(pair, consumer, provider)) is not None:
            return step
        return Wait(DELETION) if provider.meta.deleting else InSync()

    def _create(self, pair: Pair, consumer: Object) -> Step:
        # The finalizer comes before the copy: otherwise an object that is deleted in between would
        # go and leave its copy behind.
        if (step := _prepare(consumer)) is not None:
            return step
        # A cache that is behind may show an object that another leader has let go: its copy would
        # stay for ever.
        if not pair.read:
            return Read("consumer")
        # An apply also takes an object that a cache does not show yet, and that may be another's.
        if "provider" not in pair.gone:
            return Read("provider")
        return Apply(
            "provider", self._body(consumer), force=False, namespace=self._namespace(pair)
        )

    def _conflict(self, pair: Pair) -> str | None:
        """Return the reason why an object must not have the copy's place; None if it may."""
        consumer, provider = pair.consumer, pair.provider
        if consumer is None or provider is None:
            return None
        adopts = self.covered(consumer.meta.namespace) == "Adopt"
        match self.ownership(consumer, provider):
            case CopyOwnership.OURS:
                return None
            case CopyOwnership.FOREIGN:
                return None if adopts else FOREIGN_OBJECT
            case CopyOwnership.LEFT:
                return None if adopts else OWNED_BY_ANOTHER
            case CopyOwnership.ANOTHER:
                return OWNED_BY_ANOTHER

    def _refuse(self, pair: Pair, consumer: Object, provider: Object, reason: str) -> Step:
        """Return the step that tells of a conflict on the object, or the end of the pass."""
        if consumer.meta.annotations.get(ANNOTATION_CONFLICT) == reason:
            return Refuse(reason, self._message(consumer, provider))
        # The annotation comes last, so that it says that all has been told.
        if self.status and not pair.converged("consumer", self._conflict_outcome(pair, reason)):
            status = self._conflict_status(consumer, provider, reason)
            return ReplaceStatus("consumer", _status_body(consumer, status), optional=True)
        return PatchMetadata("consumer", {"annotations": {ANNOTATION_CONFLICT: reason}})

    def _conflict_outcome(self, pair: Pair, reason: str) -> StepOutcome | None:
        """Compare the status of an object with the one that tells of its conflict."""
        consumer, provider = pair.consumer, pair.provider
        if consumer is None or provider is None:
            return None
        return outcome(self._conflict_status(consumer, provider, reason), status_of(consumer))

    def _conflict_status(self, consumer: Object, provider: Object, reason: str) -> JSON:
        """Return the object's status with the condition that tells of its conflict."""
        # The conflict is as old as the younger of both; many schemas require the time.
        since = max(consumer.meta.creation_timestamp or "", provider.meta.creation_timestamp or "")
        condition = {
            "type": SYNCED,
            "status": "False",
            "reason": reason,
            "message": self._message(consumer, provider),
            "lastTransitionTime": since,
        }
        return _with_condition(status_of(consumer), condition)

    def _message(self, consumer: Object, provider: Object) -> str:
        what = f"{provider.kind} {provider.key} on the provider"
        match self.ownership(consumer, provider):
            case CopyOwnership.FOREIGN:
                return (
                    f"no konnector created {what}, so this object is not synchronised: rename "
                    "this object, ask the provider to remove the other, or set conflictPolicy "
                    "Adopt in the binding to take it over"
                )
            case CopyOwnership.LEFT:
                return (
                    f"{what} is the copy of a former object of this name, so this object is "
                    "not synchronised: set conflictPolicy Adopt in the binding to take the "
                    "copy over, or ask the provider to remove it"
                )
        return (
            f"{what} is the copy of another cluster's object (annotation "
            f"{CONSUMER_CLUSTER_UID}), so this object is not synchronised: rename this object, "
            "or ask the provider to remove the other"
        )

    def _change(self, pair: Pair, consumer: Object, provider: Object) -> Step | None:
        """Return the step that brings the copy's content up to date; None if it is."""
        marked = (
            provider.meta.labels.get(LABEL_MANAGED) == "true"
            and self._marks(consumer.meta).items() <= provider.meta.annotations.items()
        )
        if marked and pair.converged("provider", self.outcome("provider", pair)):
            return None
        new, current = pair.contents(("consumer", spec_of), ("provider", spec_of))
        if marked and not _differs(new.value, current.value):
            # The copy has more than its object: either others have added it, or the object had it
            # when it was applied. Only the provider's managedFields tell.
            if pair.owned is None:
                return Read("provider")
            if merged(current.value, new.value, pair.owned) == current.value:
                return Settle("provider")
        return Apply("provider", self._body(consumer, provider.meta.uid))

    def _release(self, pair: Pair, consumer: Object, *, covered: bool) -> Step:
        """Return the step towards the end of a copy whose object goes or is no longer bound."""
        if FINALIZER_SYNCER not in consumer.meta.finalizers:
            return _untold(consumer) or Done()
        fields: JSON = {"finalizers": consumer.meta.without_finalizer(FINALIZER_SYNCER)}
        if not consumer.meta.deleting and ANNOTATION_CONFLICT in consumer.meta.annotations:
            fields["annotations"] = {ANNOTATION_CONFLICT: None}
        release = PatchMetadata("consumer", fields)
        if is_orphan(consumer.meta) or (not covered and self.orphaning()):
            return release
        provider = pair.provider
        if provider is None:
            # The cache may lack a copy that was made a moment ago: before the object goes for
            # good, the server itself is asked.
            return release if "provider" in pair.gone else Read("provider")
        if self.ownership(consumer, provider) is not CopyOwnership.OURS:
            # The cache may have a version from before the copy was marked.
            return Read("provider") if pair.owned is None else release
        # Before the deletion too: how the provider takes the copy away may depend on its spec.
        if covered and (step := self._change(pair, consumer, provider)) is not None:
            return step
        if provider.meta.deleting:
            return Wait(DELETION)
        return Delete("provider", provider.key, provider.meta.uid)

    def _back(self, pair: Pair, consumer: Object) -> Step | None:
        """Return the step from the copy to its object; None if the status is up to date."""
        provider = pair.provider
        if provider is None or not self.status:
            return None
        if self.ownership(consumer, provider) is not CopyOwnership.OURS:
            return None
        if pair.converged("consumer", self.outcome("consumer", pair)):
            return None
        return ReplaceStatus("consumer", _status_body(consumer, status_of(provider)))

    def _marks(self, consumer: ObjectMeta) -> dict[str, str]:
        return {
            CONSUMER_CLUSTER_UID: self.cluster_uid,
            ANNOTATION_CONSUMER_OBJECT_UID: consumer.uid,
        }

    def _body(self, consumer: Object, uid: str = "") -> JSON:
        """Return the body that is applied; ``uid`` of the copy that is there is a precondition.

        Servers record no owner of it, so that the fields of the manager stay the original's.
        """
        metadata: JSON = {"name": consumer.meta.name}
        if consumer.meta.namespace:
            metadata["namespace"] = consumer.meta.namespace
        if uid:
            metadata["uid"] = uid
        metadata["labels"] = {LABEL_MANAGED: "true"}
        metadata["annotations"] = self._marks(consumer.meta)
        body: JSON = {
            "apiVersion": consumer.api_version,
            "kind": consumer.kind,
            "metadata": metadata,
        }
        return {**body, **spec_of(consumer)}

    def _namespace(self, pair: Pair) -> JSON | None:
        """Return the namespace to create for the copy if it is missing; None without one."""
        name = pair.key.namespace
        if not name:
            return None
        labels = {LABEL_MANAGED: "true", CONSUMER_CLUSTER_UID: self.cluster_uid}
        return {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        }


class _Spec(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw()


_spec = msgspec.json.Decoder(_Spec)


def spec_of(obj: Object) -> JSON:
    """Return the member ``spec`` of an object as the only one; {} if it has none."""
    raw = _spec.decode(obj.raw).spec
    return {"spec": msgspec.json.decode(raw)} if raw else {}


def is_orphan(consumer: ObjectMeta) -> bool:
    """Whether the copy of an object is kept when the object is deleted."""
    return consumer.annotations.get(ANNOTATION_DELETION_POLICY) == DELETION_POLICY_ORPHAN


def _same_spec(consumer: Object, provider: Object) -> bool:
    return _spec.decode(consumer.raw).spec == _spec.decode(provider.raw).spec


def _differs(desired: Any, current: Any) -> bool:
    """Whether an apply certainly changes the copy: a value is missing or another.

    Of lists that differ only managedFields tell which items are ours.
    """
    if isinstance(desired, dict) and isinstance(current, dict):
        return any(
            name not in current or _differs(value, current[name])
            for name, value in desired.items()
        )
    if isinstance(desired, list) and isinstance(current, list):
        return False
    return bool(desired != current)


def _prepare(consumer: Object) -> Step | None:
    """Return the step after which an object may have a copy; None if it may."""
    fields: JSON = {}
    if FINALIZER_SYNCER not in consumer.meta.finalizers:
        fields["finalizers"] = consumer.meta.with_finalizer(FINALIZER_SYNCER)
    if ANNOTATION_CONFLICT in consumer.meta.annotations:
        fields["annotations"] = {ANNOTATION_CONFLICT: None}
    return PatchMetadata("consumer", fields) if fields else None


def _untold(consumer: Object) -> Step | None:
    """Return the step that takes the annotation about a conflict off; None without one."""
    if consumer.meta.deleting or ANNOTATION_CONFLICT not in consumer.meta.annotations:
        return None
    return PatchMetadata("consumer", {"annotations": {ANNOTATION_CONFLICT: None}})


def _with_condition(status: Any, new: JSON) -> JSON:
    """Return a status with a condition in the place of the one of its type, or at the end."""
    status = status if isinstance(status, dict) else {}
    stored = status.get("conditions")
    conditions = [
        item
        for item in (stored if isinstance(stored, list) else [])
        if not (isinstance(item, dict) and item.get("type") == new["type"])
    ]
    return {**status, "conditions": [*conditions, new]}


def _status_body(consumer: Object, status: Any) -> JSON:
    """Return an object with another status, for a PUT of the subresource; None takes it away."""
    meta = consumer.meta
    metadata = {"name": meta.name, "uid": meta.uid, "resourceVersion": meta.resource_version}
    if meta.namespace:
        metadata["namespace"] = meta.namespace
    body: JSON = {"apiVersion": consumer.api_version, "kind": consumer.kind, "metadata": metadata}
    return body if status is None else {**body, "status": status}
