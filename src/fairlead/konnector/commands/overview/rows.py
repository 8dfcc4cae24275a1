"""The rows of the overview: bindings, and their objects that are not in sync."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kbind import CONNECTIONS, Connection
from fairlead.api.kbind import ClusterBinding as KbindClusterBinding
from fairlead.api.kbind.names import PENDING as KBIND_PENDING
from fairlead.api.kubebind import APIServiceBinding, BindingStatus, ClusterBinding, crd_name
from fairlead.api.kubebind.conditions import (
    HEARTBEATING,
    INFORMERS_SYNCED,
    READY,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.kubebind.names import DEFAULT_PRETTY_NAME
from fairlead.api.meta import Key, Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.kubebind import KONNECTOR, KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import (
    PATIENCE,
    UNSEEN,
    Finding,
    Judgement,
    Remark,
    protocol_of,
    remedy_of,
    verdict_of,
    with_findings,
    written_at,
)
from fairlead.api.resource import Resource, split_api_version
from fairlead.api.timestamps import parse_time
from fairlead.konnector.commands.overview.comparison import (
    AwaitedStep,
    ObjectPolicy,
    changed_at,
    waiting,
)
from fairlead.konnector.commands.overview.crossing import (
    EventAbout,
    crossing_finding,
    happened_at,
)
from fairlead.konnector.commands.presence import KonnectorStop
from fairlead.konnector.commands.readiness import PENDING
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.isolation import IsolationStrategy
from fairlead.konnector.policies.mirror import Mirrored
from fairlead.konnector.policies.steps import DELETION, AskNamespace, Pair, Wait


class ProviderCopies(msgspec.Struct, frozen=True):
    """The provider's objects of one kind, their places, and the policy that compares them."""

    policy: ObjectPolicy
    strategy: IsolationStrategy | Mirrored
    objects: Mapping[Key, Object]
    delays: Mapping[str, KubeBindCondition] = {}
    """Conditions of provider namespaces that are missing, by the consumer's namespaces."""


class BoundKind(msgspec.Struct, frozen=True):
    """The objects of one bound kind; ``copies`` is None when the provider was not seen."""

    objects: Sequence[Object]
    copies: ProviderCopies | None = None
    resource: Resource | None = None
    versions: Sequence[str] = ()
    """Versions in which the kind is served here, as its provider gives it."""

    def delay(self, key: Key) -> KubeBindCondition | None:
        """Return what the provider namespace of an object waits for; None if it is assigned."""
        return self.copies.delays.get(key.namespace) if self.copies is not None else None


class FetchedBinding(msgspec.Struct, frozen=True):
    """A binding of either protocol, and the data fetched for it.

    With kbind v2 it is a ClusterBinding, a Binding, or a Connection that no binding names.

    ``problem`` tells of a failed request, ``reason`` is its reason; ``reached`` is True if the
    provider answered everything. ``absence`` is why no konnector works on the binding, if none
    does. ``stop`` is that of the konnector, as its own cluster shows it.
    """

    binding: Object
    kinds: Sequence[BoundKind] | None = None
    """None if the consumer's own objects could not be listed either."""
    cluster_binding: ClusterBinding | None = None
    problem: str = ""
    reason: str = "NotReached"
    reached: bool = False
    absence: str = ""
    stop: KonnectorStop | None = None
    server: str = ""
    """Host and port of the provider's API server, "" if they are not known."""
    connection: Object | None = None
    """The Connection of kbind v2 that the binding names; None without one, or one not seen."""
    renewed: str = ""
    """Time of the last renewal of the consumer's Lease at the provider; kbind v2 alone has one."""
    unseen: str = ""
    """The caller's missing right, as a sentence, for want of which objects are not compared."""

    @property
    def is_kbind(self) -> bool:
        """Whether the binding is one of kbind v2."""
        group, _ = split_api_version(self.binding.api_version)
        return group == CONNECTIONS.group

    @property
    def title(self) -> str:
        """Kind and name as messages have them, such as ``Binding shop/all``."""
        return f"{self.binding.kind} {self.binding.key}"


class OverviewRow(msgspec.Struct, frozen=True, rename="camel"):
    """One line about one binding; unknown numbers are None.

    ``state``, ``reason``, ``since`` and ``remedy`` are those of its verdict; a reason of "" has a
    text alone.
    """

    binding: str
    provider: str
    resources: list[str]
    in_sync: int | None
    objects: int | None
    lag_seconds: float | None
    """Age of the oldest change that has not crossed; None also when there is no such change."""
    last_heartbeat_time: str | None
    problem: str
    state: State = "ok"
    reason: str = ""
    since: str = ""
    remedy: str = ""
    versions: dict[str, list[str]] = {}
    """Versions in which the bound kinds are served here, by plural and group."""
    remarks: list[Remark] = []
    """Remarks on a binding, and on objects that wait for what does not come by itself."""

    @property
    def title(self) -> str:
        """The name by which people and commands know the binding."""
        return self.binding

    def heartbeat_age(self, now: datetime) -> float | None:
        """Return the seconds since the last heartbeat; None if none is known."""
        return seconds_since(self.last_heartbeat_time or "", now)


class MirroredRow(OverviewRow, frozen=True, rename="camel", kw_only=True):
    """One line about a binding of kbind v2, or about a Connection that no binding names.

    ``conflicts`` is the number of objects of which another has the copy's place, as the binding
    says it.
    """

    protocol: str = "v2"
    kind: str
    namespace: str
    connection: str
    conflicts: int

    @property
    def title(self) -> str:
        """Kind and name, as ``fairlead explain`` takes them."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.lower()}/{place}{self.binding}"


def make_row(bound: FetchedBinding, now: datetime) -> OverviewRow:
    """Return the line about one binding at a moment, a :class:`MirroredRow` for kbind v2."""
    if bound.is_kbind:
        return _mirrored_row(bound, now)
    try:
        status = bound.binding.decode(APIServiceBinding).status
    except msgspec.ValidationError:
        status = BindingStatus()
    verdict = binding_verdict(bound)
    cluster = bound.cluster_binding
    sides = [found.side for kind in bound.kinds or () for _, found in unsynced(kind)]
    objects = None if bound.kinds is None else sum(len(kind.objects) for kind in bound.kinds)
    since = [moment for side in sides if (moment := changed_at(side)) is not None]
    pretty = cluster.spec.provider_pretty_name if cluster is not None else ""
    return OverviewRow(
        binding=bound.binding.meta.name,
        provider=_title(status.provider_pretty_name or pretty, bound.server),
        resources=[crd_name(item.resource, item.group) for item in status.bound_schemas],
        in_sync=objects - len(sides) if bound.reached and objects is not None else None,
        objects=objects,
        lag_seconds=_seconds(now, min(since, default=None)),
        last_heartbeat_time=(cluster.status.last_heartbeat_time or None) if cluster else None,
        # Findings, which have no condition, are whole sentences.
        problem="" if verdict.state == "ok" else verdict.text if verdict.type else verdict.message,
        state=verdict.state,
        reason="" if verdict.state == "ok" else verdict.reason,
        since="" if verdict.state == "ok" else verdict.since,
        remedy=verdict.remedy,
        versions=_served(bound),
        remarks=[*verdict.remarks, *_stuck(bound, now)],
    )


def _mirrored_row(bound: FetchedBinding, now: datetime) -> MirroredRow:
    """Return the line about a binding of kbind v2, or a Connection that no binding names."""
    verdict, obj = binding_verdict(bound), bound.binding
    name, resources, conflicts = mirrored_connection(bound), [], 0
    if obj.kind == CONNECTIONS.kind:
        way = obj.try_decode(Connection)
        resources = [api.name for api in way.status.exported_apis] if way is not None else []
    elif (parsed := obj.try_decode(KbindClusterBinding)) is not None:
        resources = list(dict.fromkeys(api.name for api in parsed.spec.apis))
        conflicts = sum(api.conflict_count for api in parsed.status.bound_apis)
    sides = [found.side for kind in bound.kinds or () for _, found in unsynced(kind)]
    objects = None if bound.kinds is None else sum(len(kind.objects) for kind in bound.kinds)
    since = [moment for side in sides if (moment := changed_at(side)) is not None]
    is_well = verdict.state == "ok"
    return MirroredRow(
        kind=obj.kind,
        namespace=obj.meta.namespace,
        binding=obj.meta.name,
        connection=name,
        provider=_title(name, bound.server),
        resources=resources,
        conflicts=conflicts,
        in_sync=objects - len(sides) if bound.reached and objects is not None else None,
        objects=objects,
        lag_seconds=_seconds(now, min(since, default=None)),
        last_heartbeat_time=bound.renewed or None,
        problem="" if is_well else verdict.text if verdict.type else verdict.message,
        state=verdict.state,
        reason="" if is_well else verdict.reason,
        since="" if is_well else verdict.since,
        remedy=verdict.remedy,
        versions=_served(bound),
        remarks=[*verdict.remarks, *_unseen(bound), *_stuck(bound, now)],
    )


def _served(bound: FetchedBinding) -> dict[str, list[str]]:
    """Return the versions in which the kinds of a binding are served, by plural and group."""
    return {
        kind.resource.group_resource: list(kind.versions)
        for kind in bound.kinds or ()
        if kind.resource is not None and kind.versions
    }


def _unseen(bound: FetchedBinding) -> list[Remark]:
    """Return the remark on objects that are not compared, or that nothing binds."""
    if bound.binding.kind == CONNECTIONS.kind:
        way = bound.binding.try_decode(Connection)
        if way is None or way.spec.auto_bind or bound.binding.meta.deleting:
            return []
        remedy = "create a ClusterBinding or Binding that names it"
        return [Remark("", "no binding names it, so it binds nothing", remedy=remedy)]
    if not bound.unseen or bound.problem:
        return []
    return [Remark("", f"{bound.unseen}, so objects are not compared with the provider's")]


def _stuck(bound: FetchedBinding, now: datetime) -> list[Remark]:
    """Return a remark for each reason why objects wait that no condition of the binding has.

    That is a finalizer of their copies, or a provider namespace that does not come.
    """
    findings: dict[str, list[tuple[str, Finding]]] = {}
    for kind in bound.kinds or ():
        for pair, awaited in unsynced(kind):
            delay = kind.delay(pair.key)
            obj, step = pair.consumer, awaited.step
            homeless = pair.target is None and isinstance(step, Wait | AskNamespace)
            is_held = isinstance(step, Wait) and step.reason == DELETION
            if obj is None or not (homeless or is_held):
                continue
            finding = crossing_finding(awaited, pair, bound.binding, delay=delay)
            if finding.state == "failed" or _lasts(finding, now):
                reason = finding.reason or ("DeletionPending" if is_held else "NamespacePending")
                findings.setdefault(reason, []).append((f"{obj.kind} {obj.key}", finding))
    return [_remark(reason, objects) for reason, objects in sorted(findings.items())]


def _remark(reason: str, objects: Sequence[tuple[str, Finding]]) -> Remark:
    """Return the remark on objects that wait for one reason, with the longest waiting first."""
    name, first = min(objects, key=lambda pair: (pair[1].since, pair[0]))
    more = f", and {len(objects) - 1} more" if len(objects) > 1 else ""
    remedy = first.remedy or remedy_of(reason, place="consumer")
    return Remark("", f"{name}{more}: {first.message}", reason, remedy, first.since)


def _lasts(finding: Finding, now: datetime) -> bool:
    """Whether an object waits for longer than what comes by itself takes."""
    try:
        return now - parse_time(finding.since) >= PATIENCE
    except ValueError:
        return False


def _title(pretty_name: str, server: str) -> str:
    """Return a provider's name and server; the name that all providers begin with says nothing."""
    if not server:
        return pretty_name
    return server if pretty_name in {"", DEFAULT_PRETTY_NAME} else f"{pretty_name} ({server})"


class UnsyncedObject(msgspec.Struct, frozen=True, rename="camel"):
    """One object that is not in sync."""

    kind: str
    namespace: str
    name: str
    since_seconds: float | None
    """The age of the change that has not crossed, in seconds; None if it is unknown."""
    waits_for: str
    """The event that it waits for; the obstacle if it is failed."""
    state: State = "waiting"
    reason: str = ""
    remedy: str = ""
    warning: str = ""
    """The last Warning about the object, its reason first."""
    warning_seconds: float | None = None
    """The age of the Warning, in seconds."""


def object_rows(
    bound: FetchedBinding, warnings: Mapping[str, Object], now: datetime
) -> list[UnsyncedObject]:
    """Return the objects of a binding that are not in sync, the longest waiting first.

    Args:
        bound: the data fetched for the binding.
        warnings: the last Warning about each object, by its uid.
        now: the moment from which ages are told.
    """
    rows = [
        _row(pair.consumer, step, _finding(bound, kind, pair, step, warnings), warnings, now)
        for kind in bound.kinds or ()
        for pair, step in unsynced(kind)
        if pair.consumer is not None
    ]
    return sorted(rows, key=lambda row: (-(row.since_seconds or 0), row.namespace, row.name))


def _finding(
    bound: FetchedBinding,
    kind: BoundKind,
    pair: Pair,
    step: AwaitedStep,
    warnings: Mapping[str, Object],
) -> Finding:
    warning = warnings.get(pair.consumer.meta.uid) if pair.consumer is not None else None
    return crossing_finding(step, pair, bound.binding, warning, kind.delay(pair.key))


def _row(
    obj: Object,
    step: AwaitedStep,
    finding: Finding,
    warnings: Mapping[str, Object],
    now: datetime,
) -> UnsyncedObject:
    event = warnings.get(obj.meta.uid)
    about_event = event.decode(EventAbout) if event is not None else EventAbout()
    if event is None or about_event.message in finding.message:
        # The finding repeats the message.
        event, about_event = None, EventAbout()
    when = happened_at(event) if event is not None else None
    return UnsyncedObject(
        kind=obj.kind,
        namespace=obj.meta.namespace,
        name=obj.meta.name,
        since_seconds=_seconds(now, changed_at(step.side)),
        waits_for=finding.message.removeprefix("waits for "),
        state=finding.state,
        reason=finding.reason,
        remedy=finding.remedy,
        warning=": ".join(part for part in (about_event.reason, about_event.message) if part),
        warning_seconds=_seconds(now, when),
    )


def unsynced(kind: BoundKind) -> Iterable[tuple[Pair, AwaitedStep]]:
    """Yield the objects of a kind that are not in sync, each with its next step."""
    copies = kind.copies
    if copies is None:
        return
    for obj in kind.objects:
        target, _, refusal = copies.strategy.place(obj.key)
        pair = Pair(
            key=obj.key,
            consumer=obj,
            provider=copies.objects.get(target) if target is not None else None,
            target=target,
            namespace_refusal=refusal,
        )
        if not isinstance(copies.policy, BoundPolicy):
            # Lists are the servers' own answers, which the engine of v1alpha2 asks for later.
            pair = pair.knowing(read=True)
            pair = pair if pair.provider is not None else pair.without("provider")
        step = waiting(copies.policy, pair)
        if step is not None:
            yield pair, step


def binding_verdict(bound: FetchedBinding) -> Judgement:
    """Return the verdict on a binding, by all that was fetched for it."""
    if bound.is_kbind:
        return _mirrored_verdict(bound)
    try:
        conditions = bound.binding.decode(APIServiceBinding).status.conditions
    except msgspec.ValidationError as error:
        invalid = Finding("failed", f"it cannot be read: {field_message(error)}", "Invalid")
        return with_findings(Judgement("unknown"), [invalid])
    findings: list[Finding] = []
    ready = get_condition(conditions, READY)
    if bound.problem:
        reason = bound.reason
        remedy = remedy_of(reason, bound.problem, place="consumer")
        since = _unanswered_since(conditions) if reason in _UNANSWERED else ""
        findings.append(Finding(KUBE_BIND.state(reason), bound.problem, reason, since, remedy))
    elif (ready is None or ready.reason == PENDING) and not bound.binding.meta.deleting:
        message = f"no konnector has picked it up: {bound.absence}"
        findings.append(Finding(KUBE_BIND.state(PENDING), message, PENDING))
        return with_findings(Judgement("unknown"), findings)
    elif bound.stop is not None and not bound.binding.meta.deleting:
        reason, since = "KonnectorStopped", bound.stop.since
        remedy = remedy_of(reason, place="consumer")
        findings.append(Finding("failed", bound.stop.message, reason, since, remedy))
    verdict = verdict_of(bound.binding, findings)
    if verdict.state != "ok":
        return verdict
    return with_findings(verdict, _providers_findings(bound.cluster_binding))


def _mirrored_verdict(bound: FetchedBinding) -> Judgement:
    """Return the verdict on a binding of kbind v2, or on a Connection that no binding names.

    What stops the konnector, the Connection or the way to the provider is told in place of the
    binding's own wait for it.
    """
    obj = bound.binding
    try:
        obj.decode(Connection if obj.kind == CONNECTIONS.kind else KbindClusterBinding)
    except msgspec.ValidationError as error:
        invalid = Finding("failed", f"it cannot be read: {field_message(error)}", "Invalid")
        return with_findings(Judgement("unknown"), [invalid])
    if obj.kind == CONNECTIONS.kind:
        return connection_verdict(bound)
    own = mirrored_own(bound)
    if obj.meta.deleting or bound.absence:
        return with_findings(own, _stops(bound))
    cause = connection_verdict(bound)
    if cause.state != "failed" and (own.state == "failed" or cause.state != "waiting"):
        return own
    if cause.reason not in _WHOLE:
        name = mirrored_connection(bound)
        cause = msgspec.structs.replace(cause, message=f"Connection {name}: {cause.message}")
    # In place of its own wait, which has the same rank and says less.
    finding = Finding(cause.state, cause.message, cause.reason, cause.since, cause.remedy)
    return with_findings(Judgement("unknown", remarks=own.remarks), [finding])


_WHOLE: Final = frozenset({"NotReached", "KonnectorStopped"})
"""Reasons of findings with messages that name what they are about."""


def mirrored_connection(bound: FetchedBinding) -> str:
    """Return the name of the Connection that a binding of kbind v2 names, or that it is."""
    if bound.binding.kind == CONNECTIONS.kind:
        return bound.binding.meta.name
    parsed = bound.binding.try_decode(KbindClusterBinding)
    return parsed.spec.connection_ref.name if parsed is not None else ""


def mirrored_own(bound: FetchedBinding) -> Judgement:
    """Return the verdict on a binding of kbind v2 without what concerns its Connection."""
    obj = bound.binding
    if bound.absence and obj.kind != CONNECTIONS.kind:
        return with_findings(Judgement("unknown"), [_untouched(bound)])
    return verdict_of(obj)


def _untouched(bound: FetchedBinding) -> Finding:
    message = f"no konnector has picked it up: {bound.absence}"
    return Finding("waiting", message, UNSEEN, written_at(bound.binding), KONNECTOR)


def _stops(bound: FetchedBinding) -> list[Finding]:
    if bound.stop is None:
        return []
    reason = "KonnectorStopped"
    remedy = remedy_of(reason, place="consumer")
    return [Finding("failed", bound.stop.message, reason, bound.stop.since, remedy)]


def connection_verdict(bound: FetchedBinding) -> Judgement:
    """Return the verdict on the Connection of a binding of kbind v2, or on one without binding.

    It is unknown without a reason if the caller may not see the Connection.
    """
    obj = bound.connection
    if obj is None:
        if bound.unseen:
            return Judgement("unknown", message=bound.unseen)
        name = mirrored_connection(bound)
        remedy = f"create Connection {name}, or correct spec.connectionRef"
        finding = Finding("waiting", "it does not exist", KBIND_PENDING, remedy=remedy)
        return with_findings(Judgement("unknown"), [finding])
    own = verdict_of(obj)
    if bound.binding is obj and bound.absence:
        own = with_findings(Judgement("unknown"), [_untouched(bound)])
    findings = _stops(bound)
    if bound.problem and own.state == "ok":
        reason = bound.reason
        remedy = remedy_of(reason, bound.problem, place="consumer", protocol=protocol_of(obj))
        findings.append(Finding(KUBE_BIND.state(reason), bound.problem, reason, "", remedy))
    return with_findings(own, findings)


_UNANSWERED: Final = frozenset({"CertificateRefused", "CredentialsRefused", "NotReached"})
"""Reasons of a provider that refuses the credentials, or does not answer."""


def _unanswered_since(conditions: Sequence[KubeBindCondition]) -> str:
    """Return when the konnector first got no answer of the provider, "" if it does not say.

    Ready goes on while watches that are open last, and heartbeats fail at once.
    """
    watched = (get_condition(conditions, type_) for type_ in (HEARTBEATING, INFORMERS_SYNCED))
    times = [
        condition.last_transition_time
        for condition in watched
        if condition is not None and condition.status == "False"
    ]
    return min(times, default="")


def _providers_findings(binding: ClusterBinding | None) -> list[Finding]:
    """Return the provider's report about the connection, which the binding does not have."""
    ready = get_condition(binding.status.conditions, READY) if binding is not None else None
    if ready is None or ready.status == "True":
        return []
    state: State = state_of(ready)
    # The konnector has yet to report it.
    state = "waiting" if state == "unknown" else state
    said = ": ".join(part for part in (ready.reason, ready.message) if part)
    message = said or f"{ready.type} is {ready.status}"
    remedy = "" if state == "ok" else remedy_of(ready.reason, place="consumer")
    since = ready.last_transition_time
    return [Finding(state, f"on the provider: {message}", ready.reason, since, remedy)]


def seconds_since(since: str, now: datetime) -> float | None:
    """Return the seconds since a time in RFC 3339; None if the text is none."""
    try:
        return _seconds(now, parse_time(since))
    except ValueError:
        return None


def _seconds(now: datetime, then: datetime | None) -> float | None:
    """Return the seconds between two times, 0 if the clocks disagree; None without a time."""
    return None if then is None else max((now - then).total_seconds(), 0.0)
