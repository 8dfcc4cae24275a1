"""The verdict on an object: whether it is well, since when, why, and what to do. Pure.

All commands, pages and alerts take it from here, so that equal evidence gives an equal verdict.
The evidence is the object itself (conditions, kind, generation, deletion) and the findings of who
asks, such as a change that has not crossed yet.

The field's convention is that of kstatus
(https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md), from which this
differs where it would hide a fault:

- an object that is being deleted is failed, not waiting, once its controller says what stops it;
- Ready False is failed where its reason says so, such as ``SecretSyncedError``;
- a Deployment that was rolled out and has lost its Pods is failed, not in progress;
- an object of a custom kind that says nothing of its state is unknown, not current.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus, get_condition, stored_conditions
from fairlead.api.kbind import names as kbind
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    CLUSTERBINDINGS,
)
from fairlead.api.kubebind import GROUP as KUBE_BIND_GROUP
from fairlead.api.kubebind import conditions as kubebind
from fairlead.api.kubebind import names as kubebind_names
from fairlead.api.kubebind.names import is_kubernetes
from fairlead.api.meta import JSON, Object
from fairlead.api.nesting import NestedTooDeeply
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.conditions import FACTS, TABLES, TYPES, AnyCondition, state_of
from fairlead.api.reasons.kbind import KBIND
from fairlead.api.reasons.kubebind import KONNECTOR
from fairlead.api.reasons.model import Place, Reasons, State
from fairlead.api.reasons.postgres import POSTGRES, finer, is_operators
from fairlead.api.reasons.servicebinding import SERVICE_BINDING
from fairlead.api.resource import split_api_version
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.timestamps import parse_time


Owner = Literal["", "Fairlead", "Kubernetes", "other"]
"""Maker of the controller whose reason a verdict repeats; "" for none."""

LONGEST = 500
"""Longest text of an object that a verdict repeats, in characters."""
MOST_CONDITIONS = 50
"""Largest number of conditions of one object that count."""

DELETING: Final = "Deleting"
UNSEEN: Final = "Unseen"
_READY: Final = "Ready"

_OURS: Final = frozenset(
    {
        *(KUBE_BIND_GROUP, kbind.GROUP, POSTGRESACCESSES.group),
        *(SERVICEBINDINGS.group, COREOS_SERVICEBINDINGS.group),
    }
)
"""API groups of Fairlead's own controllers."""


class Finding(msgspec.Struct, frozen=True):
    """Knowledge of the caller about an object beyond the object itself.

    ``remedy`` replaces the table's, where the finding knows better.
    """

    state: State
    message: str
    reason: str = ""
    since: str = ""
    remedy: str = ""


class Remark(msgspec.Struct, frozen=True):
    """Something that is worth a look beside a verdict, and does not change it."""

    type: str
    message: str
    reason: str = ""
    remedy: str = ""
    since: str = ""

    @property
    def text(self) -> str:
        """Reason and message in one line."""
        return ": ".join(part for part in (self.reason, self.message) if part)


class Judgement(msgspec.Struct, frozen=True):
    """The state of an object, and the condition that decides it.

    ``type``, ``reason`` and ``message`` are those of the deciding condition or finding, ``since``
    is its time in RFC 3339; each is "" where there is none. ``owner`` says whose reason it is,
    ``remedy`` is "" where there is nothing to do, or nothing is known.
    """

    state: State
    reason: str = ""
    message: str = ""
    since: str = ""
    type: str = ""
    owner: Owner = ""
    remedy: str = ""
    remarks: tuple[Remark, ...] = ()

    @property
    def text(self) -> str:
        """Reason and message in one line."""
        return ": ".join(part for part in (self.reason, self.message) if part)


_RANK: Final[Mapping[State, int]] = MappingProxyType(
    {"failed": 0, "unknown": 1, "waiting": 2, "ok": 3}
)


def verdict_of(obj: Object, findings: Iterable[Finding] = ()) -> Judgement:
    """Return the verdict on an object, as :func:`with_findings` takes findings into account."""
    return with_findings(_own(obj), findings)


def with_findings(own: Judgement, findings: Iterable[Finding]) -> Judgement:
    """Return a verdict with what is known of the object otherwise.

    The first failed finding decides, for it is nearer to the cause than what the object says of
    itself; of the rest the worst does, and the object before a finding of the same state.

    Args:
        own: the verdict by the object alone.
        findings: what is known of it otherwise, the nearest to the cause first.
    """
    all_findings = list(findings)
    failed = next((finding for finding in all_findings if finding.state == "failed"), None)
    if failed is not None:
        return _with_finding(own, failed)
    if own.state == "unknown" and not own.reason and all_findings:
        # The object says nothing of itself.
        return _with_finding(own, all_findings[0])
    worst = min(all_findings, key=lambda finding: _RANK[finding.state], default=None)
    if worst is None or _RANK[own.state] <= _RANK[worst.state]:
        return own
    return _with_finding(own, worst)


def _with_finding(own: Judgement, finding: Finding) -> Judgement:
    remedy = finding.remedy
    if not remedy and finding.state != "ok" and finding.reason:
        remedy = remedy_of(finding.reason, finding.message)
    return Judgement(
        finding.state,
        reason=short(finding.reason),
        message=short(finding.message),
        # The object's own failure has begun before anybody could find its cause.
        since=short(finding.since or (own.since if own.state == finding.state else "")),
        owner="Fairlead" if finding.reason else "",
        remedy=remedy,
        remarks=own.remarks,
    )


def short(text: str) -> str:
    """Return a text, cut to the longest that a verdict repeats."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def remedy_of(
    reason: str,
    message: str = "",
    *,
    owner: Owner = "Fairlead",
    place: Place = "",
    protocol: str = "",
) -> str:
    """Return the remedy for a reason from the table that has it, for a reader in a cluster.

    If the reason only refers to the message, the reason at the message's beginning decides. Both
    protocols of kube-bind have some reasons of the same name: ``protocol`` is the API group of the
    one that gives it, as :func:`protocol_of` has it.
    """
    if reason == DELETING:
        return "wait, or ask the team that runs its controller why its finalizers stay"
    table = _table(reason, protocol) if owner == "Fairlead" else None
    if table is None:
        return "ask the team that runs its controller what it waits for"
    inner, _ = finer(reason, message)
    name = inner if inner in table else reason
    remedy = table.helps(name, place=place)
    if table is not POSTGRES or not place or table.knows_place(name, place):
        return remedy
    # The author of an access corrects it in the consumer's cluster; the server is the provider's.
    side = "provider" if is_operators(name) else "consumer"
    return remedy if side == place else f"ask the {side}'s team: {remedy}"


def place_of(obj: Object) -> Place:
    """Return the cluster in which who sees an object is, by the object itself."""
    place = _PLACES.get((_group(obj), obj.kind))
    if place is not None:
        return place
    if not kbind.COPY_MARKS.isdisjoint(obj.meta.annotations):
        return "provider"
    return "consumer" if _is_provided(obj) else ""


_PLACES: Final[Mapping[tuple[str, str], Place]] = MappingProxyType(
    {
        (APISERVICEBINDINGS.group, APISERVICEBINDINGS.kind): "consumer",
        (APISERVICEBINDINGBUNDLES.group, APISERVICEBINDINGBUNDLES.kind): "consumer",
        (CLUSTERBINDINGS.group, CLUSTERBINDINGS.kind): "provider",
        (APISERVICEEXPORTS.group, APISERVICEEXPORTS.kind): "provider",
        (APISERVICEEXPORTREQUESTS.group, APISERVICEEXPORTREQUESTS.kind): "provider",
        **{(resource.group, resource.kind): "consumer" for resource in kbind.KBIND_KINDS},
    }
)
"""The clusters in which the kinds of both protocols are, by API group and kind."""


def protocol_of(obj: Object) -> str:
    """Return the API group of the protocol of kube-bind that gives an object its reasons.

    That of kbind v2 for its kinds, and for objects that it synchronises; else v1alpha2's.
    """
    meta = obj.meta
    is_v2 = (
        _group(obj) == kbind.GROUP
        or kbind.FINALIZER_SYNCER in meta.finalizers
        or kbind.ANNOTATION_CONFLICT in meta.annotations
        or kbind.ANNOTATION_CONSUMER_OBJECT_UID in meta.annotations
    )
    return kbind.GROUP if is_v2 else KUBE_BIND_GROUP


def _table(reason: str, protocol: str = "") -> Reasons | None:
    tables = (KBIND, *TABLES) if protocol == kbind.GROUP else TABLES
    return next((table for table in tables if reason in table), None)


# Conditions


class _Status(msgspec.Struct, rename="camel"):
    conditions: list[Condition] = []
    observed_generation: int = -1


class _Body(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


def conditions_of(obj: Object) -> list[Condition]:
    """Return the conditions of an object, without malformed ones."""
    return _read(obj).conditions


def _read(obj: Object) -> _Status:
    """Return the conditions and the generation of an object's status, without malformed ones."""
    try:
        status = obj.decode(_Body).status
    except msgspec.ValidationError:
        body = _status(obj)
        generation = body.get("observedGeneration")
        status = _Status(
            stored_conditions({"status": body}), generation if type(generation) is int else -1
        )
    status.conditions = status.conditions[:MOST_CONDITIONS]
    return status


def _status(obj: Object) -> JSON:
    try:
        status = obj.to_dict().get("status")
    except NestedTooDeeply:
        return {}
    return status if isinstance(status, dict) else {}


def _group(obj: Object) -> str:
    group, _ = split_api_version(obj.api_version)
    return group


def owner_of(obj: Object, condition: AnyCondition) -> Owner:
    """Return whose reason a condition has."""
    group = _group(obj)
    if group in _OURS:
        return "Fairlead"
    # The konnector says on objects of any kind whether they are in sync; Crossplane, too, has a
    # condition of this name.
    if condition.type == kubebind.SYNCED and _table(condition.reason) is not None:
        return "Fairlead"
    return "Kubernetes" if is_kubernetes(group) else "other"


def condition_remedy(obj: Object, condition: Condition, message: str = "") -> str:
    """Return the remedy for a condition of an object, for who sees the object.

    ``message`` is its message, where that is not the condition's own.
    """
    return remedy_of(
        condition.reason,
        message or condition.message,
        owner=owner_of(obj, condition),
        place=place_of(obj),
        protocol=protocol_of(obj),
    )


# The verdict by the object alone


def _own(obj: Object) -> Judgement:
    status = _read(obj)
    conditions = status.conditions
    ours = _group(obj) in _OURS
    if obj.meta.deleting:
        return _deleting(obj, conditions, ours=ours)
    if _is_stale(obj, status):
        return _unseen(obj, "its controller has not processed the last change yet")
    by_kind = _KINDS.get((_group(obj), obj.kind))
    if by_kind is not None:
        verdict = by_kind(_status(obj), obj, conditions)
        if verdict is not None:
            return verdict
    return _by_conditions(obj, conditions) if conditions else _without(obj, ours=ours)


def _deleting(obj: Object, conditions: Sequence[Condition], *, ours: bool) -> Judgement:
    """Return the verdict on an object that is being deleted.

    It waits, unless a controller of ours says what stops it, or how far it is.
    """
    ready = get_condition(conditions, _READY)
    if ours and ready is not None and ready.status == "False" and not _is_older(obj, ready):
        verdict = _by_conditions(obj, conditions)
        is_newer = ready.last_transition_time >= (obj.meta.deletion_timestamp or "")
        if verdict.state == "failed" or is_newer:
            return verdict
    finalizers = ", ".join(obj.meta.finalizers)
    message = (
        f"it is being deleted; finalizers hold it: {finalizers}"
        if finalizers
        else "it is being deleted"
    )
    since = obj.meta.deletion_timestamp or ""
    return Judgement(
        *("waiting", DELETING, short(message), short(since)),
        owner="Kubernetes",
        # What holds kbind v2's kinds is the konnector's, and no person's.
        remedy=KONNECTOR if _group(obj) == kbind.GROUP else remedy_of(DELETING),
    )


def _is_older(obj: Object, condition: AnyCondition) -> bool:
    """Whether a condition is about an earlier spec."""
    generation = condition.observed_generation if isinstance(condition, Condition) else 0
    return not _is_provided(obj) and 0 < generation < obj.meta.generation


def _is_stale(obj: Object, status: _Status) -> bool:
    """Whether a status is about an earlier spec."""
    generation = status.observed_generation
    ready = get_condition(status.conditions, _READY)
    if generation < 0 and ready is not None and ready.observed_generation > 0:
        generation = ready.observed_generation
    return not _is_provided(obj) and 0 <= generation < obj.meta.generation


def _is_provided(obj: Object) -> bool:
    """Whether the status is that of a provider's copy, which counts generations by itself."""
    return not _SYNCERS.isdisjoint(obj.meta.finalizers)


_SYNCERS: Final = frozenset({kubebind_names.FINALIZER_SYNCER, kbind.FINALIZER_SYNCER})
"""Finalizers of a consumer's object that has a copy, by either protocol."""


def _unseen(obj: Object, message: str) -> Judgement:
    """Return the verdict on an object whose present spec no controller has looked at.

    Its remedy is to see whether the controller runs; :func:`is_early` says when that is too soon.
    """
    group, since = _group(obj), short(written_at(obj))
    if group not in _OURS:
        return Judgement("waiting", message=message, since=since)
    remedy = _CONTROLLERS[group]
    if _is_provided(obj):
        remedy = "ask the provider's team whether its controller of this kind runs"
    return Judgement("waiting", UNSEEN, message, since, owner="Fairlead", remedy=remedy)


_CONTROLLERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        KUBE_BIND_GROUP: KONNECTOR,
        kbind.GROUP: KONNECTOR,
        POSTGRESACCESSES.group: POSTGRES.helps(UNSEEN),
        SERVICEBINDINGS.group: SERVICE_BINDING.helps(UNSEEN),
        COREOS_SERVICEBINDINGS.group: SERVICE_BINDING.helps(UNSEEN),
    }
)
"""Remedies for an object that its controller does not look at, by API group."""

PATIENCE: Final = timedelta(minutes=1)
"""How long a controller may take to look at a change before a person should look at it."""


def is_early(reason: str, since: str, now: datetime) -> bool:
    """Whether advice would be too early: each edit is unseen for a moment."""
    try:
        return reason == UNSEEN and now - parse_time(since) < PATIENCE
    except ValueError:
        return False


class _Managed(msgspec.Struct):
    time: str = ""
    subresource: str = ""


class _Managers(msgspec.Struct, rename="camel"):
    managed_fields: list[_Managed] = []


class _Written(msgspec.Struct):
    metadata: _Managers = msgspec.field(default_factory=_Managers)


def written_at(obj: Object) -> str:
    """Return when an object, and not its status, was last written, as far as it says so."""
    times = [obj.meta.creation_timestamp or ""]
    try:
        entries = obj.decode(_Written).metadata.managed_fields
    except msgspec.ValidationError:
        entries = []
    return max([*times, *(entry.time for entry in entries if entry.subresource != "status")])


def _without(obj: Object, *, ours: bool) -> Judgement:
    """Return the verdict on an object without conditions."""
    if ours and obj.kind in _SILENT_KINDS:
        return Judgement("ok")
    if ours:
        return _unseen(obj, "no controller has processed it yet")
    status = _status(obj)
    health = status.get("health")
    word = health.get("status") if isinstance(health, dict) else health
    for value in (word, status.get("phase"), status.get("state")):
        state = _WORDS.get(value.lower()) if isinstance(value, str) else None
        if state is not None:
            message = _text(status, "message") or (
                _text(health, "message") if isinstance(health, dict) else ""
            )
            owner: Owner = "other"
            remedy = "" if state == "ok" else remedy_of(str(value), owner=owner)
            return Judgement(state, short(str(value)), short(message), owner=owner, remedy=remedy)
    if is_kubernetes(_group(obj)):
        # A kind of Kubernetes without conditions is what it says: a Secret, a ConfigMap, a Role.
        return Judgement("ok")
    return Judgement("unknown", message="it does not report its state")


_SILENT_KINDS: Final = frozenset(
    {
        *("APIServiceExportTemplate", "BindableKinds", "ClusterWorkloadResourceMapping"),
        *("Collection", "Category", "APIConversion"),
    }
)
"""Kinds of ours whose objects no controller answers."""

_OF_STATE: Final[Mapping[State, str]] = MappingProxyType(
    {
        "ok": "active available bound complete completed green healthy ready running succeeded",
        "waiting": "applyingchanges creating initializing pending progressing provisioning"
        " suspended terminating updating yellow",
        "failed": "degraded error failed failure lost missing red",
    }
)
_WORDS: Final[Mapping[str, State]] = MappingProxyType(
    {word: state for state, words in _OF_STATE.items() for word in words.split()}
)
"""States that operators name in status.phase, status.state or status.health, in small letters."""


def _by_conditions(obj: Object, conditions: Sequence[Condition]) -> Judgement:
    present = [condition for condition in conditions if not _is_older(obj, condition)]
    ready = get_condition(present, _READY)
    if _group(obj) in _OURS:
        return _of_ours(obj, present, ready)
    wrong = [condition for condition in present if condition.type in _FAILING and _is(condition)]
    if wrong:
        return _by(obj, "failed", wrong[0])
    refused = [
        condition
        for condition in present
        if condition.type == kubebind.SYNCED and condition.status == "False"
    ]
    busy = [condition for condition in present if condition.type in _BUSY and _is(condition)]
    given_up = [
        condition
        for condition in present
        if condition.type in _BUSY
        and condition.status == "False"
        and _FAILS.search(condition.reason)
    ]
    if ready is None or ready.status == "True":
        if refused:
            return _by(obj, _state_by_reason(obj, refused[0]), refused[0])
        if busy:
            return _by(obj, "waiting", busy[0])
    if ready is not None:
        return _by_ready(obj, ready, [*refused, *given_up, *busy], present)
    return _by_others(obj, present)


def _is(condition: AnyCondition) -> bool:
    return condition.status == "True"


def _by_ready(
    obj: Object, ready: Condition, others: Sequence[Condition], present: Sequence[Condition]
) -> Judgement:
    """Return the verdict by the summary of a kind that is not ours."""
    if ready.status == "True":
        return _by(obj, "ok", ready)
    if ready.status == "Unknown":
        # Knative, cert-manager and kstatus mean by it that they are at work.
        return _by(obj, "waiting", ready)
    state = _state_by_reason(obj, ready)
    if others and state == "waiting":
        first = others[0]
        return _by(obj, "waiting" if _is(first) else _state_by_reason(obj, first), first)
    if not (ready.reason or ready.message):
        cause = next(
            (one for one in present if one.status == "False" and one.type in _SUMMARIES), None
        )
        if cause is not None:
            return _by(obj, _state_by_reason(obj, cause), cause)
    return _by(obj, state, ready)


def _by_others(obj: Object, present: Sequence[Condition]) -> Judgement:
    """Return the verdict on an object that has conditions, and no Ready."""
    summaries = [condition for condition in present if condition.type in _SUMMARIES]
    for condition in summaries:
        if condition.status == "False":
            return _by(obj, _state_by_reason(obj, condition), condition)
    for condition in summaries:
        if condition.status == "Unknown":
            return _by(obj, "waiting", condition)
    if summaries:
        newest = max(summaries, key=lambda condition: condition.last_transition_time)
        return _by(obj, "ok", newest)
    neutral = [one for one in present if one.type in _FAILING | _BUSY and one.status == "False"]
    if neutral:
        # Nothing fails and nothing goes on; kstatus calls it current.
        return _by(obj, "ok", neutral[0])
    return Judgement("unknown", message=_NO_CONDITION)


_NO_CONDITION: Final = "it has no known condition"

_FAILING: Final = frozenset({"Stalled", "Degraded", "Failed", "Failure", "ReplicaFailure"})
"""Types of conditions that mean a fault while they are True, and nothing while they are False."""
_BUSY: Final = frozenset({"Reconciling", "InProgress", "Issuing", "Updating", "Upgrading"})
"""Types that mean work that ends by itself while they are True, and nothing while False."""
_SUMMARIES: Final = frozenset(
    {
        *("Available", "Healthy", "Succeeded", "Complete", "Completed", "Programmed", "Accepted"),
        *("ResolvedRefs", "Synced", "Established", "Initialized", "Deployed", "Reconciled"),
    }
)
"""Types that stand for the whole object where it has no condition Ready."""

_FAILS = re.compile(
    r"^Err|Error|Fail|Invalid|Denied|Forbidden|Refused|NotFound|Missing"
    r"|Unauthori[sz]ed|Conflict|BackOff|Backoff|Expired|Exceeded|Exhausted|OutOf|Insufficient|Unreachable|Unhealthy|Crash|Evicted|Down$|Timeout|TimedOut"
)


def _state_by_reason(obj: Object, condition: AnyCondition) -> State:
    """Return the state of a condition that does not hold and should.

    Its controller says in the reason whether it goes on by itself; kstatus takes all to do so.
    """
    owner = owner_of(obj, condition)
    if owner == "Fairlead":
        return state_of(condition)
    if condition.status == "Unknown":
        return "waiting"
    if _FAILS.search(condition.reason):
        return "failed"
    return "waiting"


def condition_state(obj: Object, condition: AnyCondition) -> State | None:
    """Return the state of one condition of an object; None for a fact, which is never coloured.

    It has the polarity of the verdict: what means nothing while it is False is a fact then.
    """
    if _is_older(obj, condition):
        return None
    group = _group(obj)
    if group in _OURS:
        return _state_in_ours(group, condition)
    if (group, obj.kind) in _KINDS and is_kubernetes(group):
        return _state_in_kubernetes(obj, condition)
    if condition.type in _FAILING:
        return "failed" if _is(condition) else None
    if condition.type in _BUSY:
        if _is(condition):
            return "waiting"
        return "failed" if _FAILS.search(condition.reason) else None
    if condition.type == _READY or condition.type in _SUMMARIES:
        return "ok" if _is(condition) else _state_by_reason(obj, condition)
    return None


def _state_in_ours(group: str, condition: AnyCondition) -> State | None:
    if condition.type == _READY and condition.status == "Unknown" and group == KUBE_BIND_GROUP:
        return "waiting"
    state = state_of(condition)
    condition_type = TYPES.get(condition.type)
    if condition_type is None:
        return state if state in {"failed", "waiting"} else None
    # True only says that nothing of the kind happens, or tells a name, a number or a time.
    silent = condition_type.bad == "True" or condition_type.name in FACTS
    return None if silent and state == "ok" else state


_KUBERNETES_SUMMARIES: Final = frozenset({_READY, "Available", "Complete", "Failed"})
"""Conditions by which Kubernetes' own kinds say whether they work; all others are facts."""


def _state_in_kubernetes(obj: Object, condition: AnyCondition) -> State | None:
    if condition.type not in _KUBERNETES_SUMMARIES:
        return None
    if condition.type == "Failed":
        return "failed" if _is(condition) else None
    if _is(condition):
        return "ok"
    if condition.type == "Complete":
        return None
    verdict = _own(obj)
    # Whether Pods have come to be missing or are not there yet, only the whole object tells.
    return verdict.state if verdict.type == condition.type else "waiting"


def _of_ours(obj: Object, present: Sequence[Condition], ready: Condition | None) -> Judgement:
    """Return the verdict on an object of ours, which Ready never contradicts."""
    remarks = _remarks(obj, present, ready)
    bad = [(state_of(condition), condition) for condition in present if _counts(condition)]
    if ready is not None and ready.status == "True":
        return msgspec.structs.replace(_by(obj, "ok", ready), remarks=remarks)
    if ready is None:
        # An object of an original's controller, or one without a summary.
        wrong = [pair for pair in bad if pair[0] != "ok"]
        if wrong:
            return _by(obj, *min(wrong, key=lambda pair: _RANK[pair[0]]))
        if bad:
            newest = max(bad, key=lambda pair: pair[1].last_transition_time)
            return _by(obj, "ok", newest[1])
        # What is only a remark beside Ready is all that is known without it.
        faults = [(state, item) for item in present if (state := state_of(item)) == "failed"]
        return _by(obj, *faults[0]) if faults else Judgement("unknown", message=_NO_CONDITION)
    state = state_of(ready)
    if ready.status == "Unknown" and _group(obj) == KUBE_BIND_GROUP:
        # A konnector or provider has yet to report it.
        return _by(obj, "waiting", ready)
    # Ready often repeats another condition, which says more.
    worst = min([state, *(judged for judged, _ in bad)], key=lambda judged: _RANK[judged])
    same = [condition for judged, condition in bad if judged == worst]
    cause = next((one for one in same if one.type not in _STATES_OF_READY), ready)
    return _by(obj, worst, cause)


_STATES_OF_READY: Final = frozenset({_READY, "Success", "InProgress", "Reconciling", "Stalled"})
"""Types that repeat Ready, with its reason and message."""


def _counts(condition: Condition) -> bool:
    """Whether a condition of ours is a judgement, and not a fact or a remark."""
    condition_type = TYPES.get(condition.type)
    if condition.type in kubebind.WRONG_WHILE_TRUE or condition.type == kubebind.WITHOUT_STATUS:
        return False
    if condition_type is None:
        return condition.type == _READY
    return condition.type == _READY or condition_type.bad != "True" or condition.status == "True"


def _remarks(
    obj: Object, present: Sequence[Condition], ready: Condition | None
) -> tuple[Remark, ...]:
    if ready is None:
        return ()
    is_ready = ready.status == "True"
    remarks = [
        Remark(
            condition.type,
            short(condition.message) or f"{condition.type} is {condition.status}",
            short(condition.reason),
            condition_remedy(obj, condition),
            short(condition.last_transition_time),
        )
        for condition in present
        if condition.type != _READY
        and state_of(condition) in {"failed", "waiting"}
        and (is_ready or not _counts(condition))
    ]
    warnings = _status(obj).get("warnings")
    if isinstance(warnings, list):
        remarks += [Remark("", short(text)) for text in warnings if isinstance(text, str)]
    return tuple(remarks[:MOST_CONDITIONS])


def _by(obj: Object, state: State, condition: Condition) -> Judgement:
    message, owner = condition.message, owner_of(obj, condition)
    if state != "ok" and not (condition.reason or message):
        message = f"{condition.type} is {condition.status}"
    remedy = condition_remedy(obj, condition, message) if state != "ok" else ""
    return Judgement(
        state,
        short(condition.reason),
        short(message),
        short(condition.last_transition_time),
        short(condition.type),
        owner,
        remedy,
    )


def _text(body: JSON, name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


# Kubernetes' own kinds, which say by numbers and phases what others say by Ready

_Judge = Callable[[JSON, Object, Sequence[Condition]], Judgement | None]


def _number(status: JSON, name: str) -> int:
    value = status.get(name)
    return value if type(value) is int else 0


def _wish(obj: Object) -> int:
    spec = obj.to_dict().get("spec")
    value = spec.get("replicas") if isinstance(spec, dict) else None
    return value if type(value) is int else 1


def _first(
    conditions: Sequence[Condition], *pairs: tuple[str, ConditionStatus]
) -> Condition | None:
    for type_, status in pairs:
        condition = get_condition(conditions, type_)
        if condition is not None and condition.status == status:
            return condition
    return None


def _deployment(status: JSON, obj: Object, conditions: Sequence[Condition]) -> Judgement | None:
    refused = _first(conditions, ("ReplicaFailure", "True"))
    if refused is not None:
        return _by(obj, "failed", refused)
    progress = get_condition(conditions, "Progressing")
    if progress is not None and progress.status == "False":
        return _by(obj, "failed", progress)
    available = get_condition(conditions, "Available")
    if available is None:
        return None if conditions else _counting(0, _wish(obj))
    if available.status != "True":
        # A finished rollout has the reason NewReplicaSetAvailable: the Pods were there.
        was_there = progress is not None and progress.reason == "NewReplicaSetAvailable"
        return _by(obj, "failed" if was_there else "waiting", available)
    updated, replicas = _number(status, "updatedReplicas"), _wish(obj)
    return _counting(updated, replicas) if updated < replicas else _by(obj, "ok", available)


def _counting(ready: int, replicas: int) -> Judgement:
    if ready >= replicas:
        return Judgement("ok", owner="Kubernetes")
    message = f"{ready} of {replicas} Pods are up to date and ready"
    return Judgement("waiting", message=message, owner="Kubernetes")


def _replicas(status: JSON, obj: Object, conditions: Sequence[Condition]) -> Judgement | None:
    refused = _first(conditions, ("ReplicaFailure", "True"))
    if refused is not None:
        return _by(obj, "failed", refused)
    return _counting(_number(status, "readyReplicas"), _wish(obj))


def _daemons(status: JSON, _: Object, __: Sequence[Condition]) -> Judgement | None:
    return _counting(_number(status, "numberReady"), _number(status, "desiredNumberScheduled"))


def _job(_: JSON, obj: Object, conditions: Sequence[Condition]) -> Judgement | None:
    failed = _first(conditions, ("Failed", "True"), ("FailureTarget", "True"))
    if failed is not None:
        return _by(obj, "failed", failed)
    done = _first(conditions, ("Complete", "True"), ("SuccessCriteriaMet", "True"))
    if done is not None:
        return _by(obj, "ok", done)
    suspended = _first(conditions, ("Suspended", "True"))
    if suspended is not None:
        return _by(obj, "waiting", suspended)
    return Judgement("waiting", message="it runs", owner="Kubernetes")


def _pod(status: JSON, obj: Object, conditions: Sequence[Condition]) -> Judgement | None:
    phase = status.get("phase")
    if phase == "Succeeded":
        return Judgement("ok", reason="Succeeded", owner="Kubernetes")
    if phase == "Failed":
        return _kubernetes("failed", _text(status, "reason") or "Failed", _text(status, "message"))
    containers = [
        container
        for name in ("initContainerStatuses", "containerStatuses")
        for container in status.get(name) or []
        if isinstance(container, dict)
    ]
    for container in containers:
        state = container.get("state")
        waiting = state.get("waiting") if isinstance(state, dict) else None
        reason = _text(waiting, "reason") if isinstance(waiting, dict) else ""
        if isinstance(waiting, dict) and _FAILS.search(reason):
            message = f"container {_text(container, 'name')}: {_text(waiting, 'message')}"
            return _kubernetes("failed", reason, message)
    scheduled = _first(conditions, ("PodScheduled", "False"))
    if scheduled is not None:
        return _by(obj, "failed", scheduled)
    ready = get_condition(conditions, _READY)
    if ready is None:
        return _kubernetes("waiting", str(phase or "Pending"), "")
    return _by(obj, "ok" if ready.status == "True" else "waiting", ready)


def _kubernetes(state: State, reason: str, message: str) -> Judgement:
    remedy = "" if state == "ok" else remedy_of(reason, owner="Kubernetes")
    return Judgement(state, short(reason), short(message), owner="Kubernetes", remedy=remedy)


def _definition(_: JSON, obj: Object, conditions: Sequence[Condition]) -> Judgement | None:
    wrong = _first(
        conditions,
        *(("NamesAccepted", "False"), ("NonStructuralSchema", "True")),
        ("KubernetesAPIApprovalPolicyConformant", "False"),
    )
    if wrong is not None:
        return _by(obj, "failed", wrong)
    going = _first(conditions, ("Terminating", "True"))
    if going is not None:
        return _by(obj, "waiting", going)
    established = get_condition(conditions, "Established")
    if established is None:
        return _kubernetes("waiting", "Installing", "")
    return _by(obj, "ok" if established.status == "True" else "waiting", established)


def _claim(status: JSON, _: Object, __: Sequence[Condition]) -> Judgement | None:
    states: Mapping[object, State] = {"Bound": "ok", "Lost": "failed"}
    phase = _text(status, "phase") or "Pending"
    return _kubernetes(states.get(phase, "waiting"), phase, "")


def _service(status: JSON, obj: Object, _: Sequence[Condition]) -> Judgement | None:
    spec, balancer = obj.to_dict().get("spec"), status.get("loadBalancer")
    kind = spec.get("type") if isinstance(spec, dict) else None
    has = isinstance(balancer, dict) and balancer.get("ingress")
    if kind == "LoadBalancer" and not has:
        return _kubernetes("waiting", "Pending", "its load balancer has no address yet")
    return Judgement("ok", owner="Kubernetes")


def _application(status: JSON, _: Object, __: Sequence[Condition]) -> Judgement | None:
    """Argo CD's Application: its health; a difference from Git is a remark, as people sync."""
    health, sync = status.get("health"), status.get("sync")
    word = _text(health, "status") if isinstance(health, dict) else ""
    if not word:
        return None
    message = _text(health, "message") if isinstance(health, dict) else ""
    state = _WORDS.get(word.lower(), "unknown")
    remedy = "" if state == "ok" else remedy_of(word, owner="other")
    apart = isinstance(sync, dict) and sync.get("status") == "OutOfSync"
    remarks = (Remark("", "it is out of sync with its source", "OutOfSync"),) if apart else ()
    return Judgement(state, word, short(message), "", "", "other", remedy, remarks)


_KINDS: Final[Mapping[tuple[str, str], _Judge]] = MappingProxyType(
    {
        ("apps", "Deployment"): _deployment,
        ("apps", "StatefulSet"): _replicas,
        ("apps", "ReplicaSet"): _replicas,
        ("", "ReplicationController"): _replicas,
        ("apps", "DaemonSet"): _daemons,
        ("batch", "Job"): _job,
        ("", "Pod"): _pod,
        ("", "PersistentVolumeClaim"): _claim,
        ("", "Service"): _service,
        ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
        ("argoproj.io", "Application"): _application,
    }
)
