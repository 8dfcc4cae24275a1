"""The table of a provider's consumers: their exports, objects and heartbeats.

The table is read with an administrator's rights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.durations import rough_duration
from fairlead.api.kbind.names import LEASE_SECONDS
from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BINDER_NAME,
    CLUSTERBINDINGS,
    APIServiceExport,
    APIServiceExportTemplate,
    ClusterBinding,
    ClusterBindingStatus,
    TemplateSpec,
)
from fairlead.api.kubebind.conditions import (
    CLEARED,
    HEALTHY,
    READY,
    KubeBindCondition,
    get_condition,
    unknown,
)
from fairlead.api.meta import Object
from fairlead.api.reasons import model
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.verdict import (
    Finding,
    Judgement,
    condition_state,
    remedy_of,
    with_findings,
)
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, SECRETS, SERVICEACCOUNTS
from fairlead.api.timestamps import moment, parse_time
from fairlead.client import Client, Forbidden
from fairlead.client.lookups import list_all
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.copies import count_copies, exported, places
from fairlead.provider.identity import title_of
from fairlead.provider.konnectors import is_original, shortcoming
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import Offer, beyond, record_of
from fairlead.provider.tokens import ACCOUNT_ANNOTATION, TOKEN_TYPE
from fairlead.provider.v2.copies import KbindCopies
from fairlead.provider.v2.copies import count_copies as count_copies_of_kbind
from fairlead.provider.v2.reading import KbindConsumer, list_leases, read_consumers, renewals
from fairlead.provider.v2.record import is_home


class ConsumerRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One consumer; ``objects`` counts its copies of exported kinds.

    ``not_counted`` gives the reason why exported kinds are not counted, by plural and group.
    ``templates`` are the templates of its invitations, None if they were not recorded, and
    ``warnings`` are faults that need a person. ``state``, ``reason``, ``message``, ``since`` and
    ``remedy`` are those of the verdict on the consumer: its credentials, ``healthy``, the other
    conditions of the ClusterBinding, and those of its exports.

    Of a consumer of kbind v2, ``protocol`` "v2", ``exports`` are the names of its APIs,
    ``namespace`` is its home, and ``namespaces`` are those of its objects, none for the whole
    cluster. Its heartbeat is the time of its Lease.
    """

    identity: str
    pretty_name: str
    namespace: str
    templates: list[str] | None = None
    exports: list[str]
    objects: int
    not_counted: dict[str, str] = {}
    konnector_version: str
    original_konnector: bool = False
    last_heartbeat_time: str
    healthy: KubeBindCondition
    state: model.State
    reason: str = ""
    message: str = ""
    since: str = ""
    remedy: str = ""
    deleting: bool = False
    warnings: list[str] = []
    protocol: str = "v1alpha2"
    namespaces: list[str] = []

    @property
    def title(self) -> str:
        """Identity of the consumer, with its pretty name if that differs."""
        return title_of(self.identity, self.pretty_name)


class ProviderState(NamedTuple):
    """Objects of a provider's cluster from which the rows are made.

    ``counts`` are numbers of copies by cluster namespace, ``unseen`` the reasons why kinds are not
    counted, by plural and group, ``granted`` the names of ClusterRoleBindings, and ``lost`` what
    is gone of consumers' credentials, by cluster namespace.
    """

    namespaces: Sequence[Object]
    bindings: Sequence[Object] = ()
    exports: Sequence[Object] = ()
    templates: Sequence[Object] = ()
    counts: Mapping[str, int] = {}
    unseen: Mapping[str, str] = {}
    granted: frozenset[str] = frozenset()
    lost: Mapping[str, str] = {}


def rows(state: ProviderState, *, now: datetime) -> list[ConsumerRow]:
    """Return one row for each cluster namespace, in the order of the identities.

    Namespaces without an identity are no consumer's. Heartbeats are judged by ``now``.
    """
    bound = {binding.meta.namespace: binding for binding in state.bindings}
    exported: dict[str, list[Object]] = {}
    for export in state.exports:
        exported.setdefault(export.meta.namespace, []).append(export)
    consumers = [
        _row(state, namespace, bound.get(name), exported.get(name, []), now)
        for namespace in state.namespaces
        if identity_of(namespace) and (name := namespace.meta.name)
    ]
    return sorted(consumers, key=lambda row: (row.identity, row.namespace))


def age(since: str, now: datetime) -> str:
    """Format the age of a time, as kubectl does: ``12s``, ``5m``, ``3h``, ``4d``; "" if never.

    A time that cannot be parsed is returned as it is.
    """
    if not since:
        return ""
    try:
        passed = now - parse_time(since)
    except (ValueError, OverflowError):
        return since
    return rough_duration(passed)


def _row(
    state: ProviderState,
    namespace: Object,
    binding: Object | None,
    exports: Sequence[Object],
    now: datetime,
) -> ConsumerRow:
    read = ClusterBindingView() if binding is None else _view(binding, now)
    record, name = record_of(binding), namespace.meta.name
    if record.revoked:
        verdict = _revocation_verdict(read, name)
    else:
        verdict = _verdict(read, exports, "" if binding is None else state.lost.get(name, ""))
    kinds = {kind for export in exports for kind in exported(export)}
    return ConsumerRow(
        identity=identity_of(namespace),
        pretty_name=read.pretty_name,
        namespace=name,
        templates=None if record.templates is None else list(record.templates),
        exports=sorted(export.meta.name for export in exports),
        objects=state.counts.get(name, 0),
        not_counted={kind: why for kind, why in state.unseen.items() if kind in kinds},
        konnector_version=read.version,
        original_konnector=read.original,
        last_heartbeat_time=read.heartbeat,
        healthy=read.healthy,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message if verdict.state != "ok" else "",
        since=verdict.since if verdict.state != "ok" else "",
        remedy=verdict.remedy,
        deleting=namespace.meta.deleting or record.revoked,
        warnings=[] if binding is None else _warnings(state, binding, exports),
    )


def connection_verdict(
    healthy: KubeBindCondition, conditions: Sequence[KubeBindCondition] = ()
) -> Judgement:
    """Return the verdict on a consumer's connection.

    Args:
        healthy: the heartbeat, judged as of now.
        conditions: those that are stored in the ClusterBinding, of which failures count that keep
            it from being Ready.
    """
    findings = [_finding(condition) for condition in (healthy, *_others(conditions))]
    return with_findings(Judgement("unknown"), findings)


def _verdict(read: ClusterBindingView, exports: Sequence[Object], lost: str) -> Judgement:
    """Return the verdict on a consumer, by what the provider can know of it.

    Without credentials nothing crosses, although the last heartbeat is good for a while. The
    konnector tells in conditions of the exports of objects that do not cross.
    """
    if lost:
        remedy = remedy_of(_REFUSED, place="provider")
        finding = Finding("failed", lost, _REFUSED, remedy=remedy)
        return with_findings(Judgement("unknown"), [finding])
    connection = connection_verdict(read.healthy, read.conditions)
    if connection.state in {"failed", "unknown"}:
        # The first that is broken on the way to the exports.
        return connection
    findings = [
        _export_finding(export, condition)
        for export in exports
        for condition in export_faults(export)
    ]
    return with_findings(connection, findings)


def _revocation_verdict(read: ClusterBindingView, consumer: str) -> Judgement:
    """Return the verdict on a consumer that is being revoked: what its data waits for."""
    cleared = get_condition(read.conditions, CLEARED)
    begun = Finding(
        "waiting",
        "the provider is revoking its access, and no controller deletes its data yet",
        remedy=f"to see what is left, and to continue: fairlead provider revoke {consumer}",
    )
    return with_findings(Judgement("unknown"), [_finding(cleared) if cleared else begun])


def _export_finding(export: Object, condition: KubeBindCondition) -> Finding:
    finding = _finding(condition)
    said = finding.message or f"{condition.type} is {condition.status}"
    return msgspec.structs.replace(
        finding,
        state=condition_state(export, condition) or finding.state,
        message=f"APIServiceExport {export.meta.name}: {said}",
        # Where a condition has no reason, its type is all that a table can show.
        reason=finding.reason or condition.type,
    )


_REFUSED = "CredentialsRefused"


def export_faults(export: Object) -> list[KubeBindCondition]:
    """Return an export's conditions that are not ok; Ready only if no other is."""
    conditions = export_conditions(export)
    wrong = [one for one in conditions if condition_state(export, one) not in {None, "ok"}]
    return [one for one in wrong if one.type != READY] or wrong


def export_conditions(export: Object) -> list[KubeBindCondition]:
    """Return the conditions of an export; an invalid one gets a Ready of its own."""
    try:
        return export.decode(APIServiceExport).status.conditions
    except msgspec.ValidationError as error:
        return [KubeBindCondition(READY, "False", reason="Invalid", message=field_message(error))]


def _finding(condition: KubeBindCondition) -> Finding:
    state, reason, message = state_of(condition), condition.reason, condition.message
    remedy = "" if state == "ok" else remedy_of(reason, message, place="provider")
    return Finding(state, message, reason, condition.last_transition_time, remedy)


def _others(conditions: Sequence[KubeBindCondition]) -> tuple[KubeBindCondition, ...]:
    ready = get_condition(conditions, READY)
    if ready is None or ready.status == "True":
        return ()
    others = [condition for condition in conditions if condition.type not in {HEALTHY, READY}]
    return tuple(condition for condition in others if state_of(condition) == "failed")


def _warnings(state: ProviderState, binding: Object, exports: Sequence[Object]) -> list[str]:
    record = record_of(binding)
    if record.revoked:
        return []
    templates = {item.meta.name: _spec(item) for item in state.templates}
    offer = Offer(record, {name: templates.get(name) for name in record.templates or ()})
    warnings = [] if record.templates is not None or not exports else [_UNRECORDED]
    for export in sorted(exports, key=lambda export: export.meta.name):
        try:
            spec = export.decode(APIServiceExport).spec
            lacks = shortcoming(binding, export, state.granted.__contains__)
        except msgspec.ValidationError as error:
            warnings.append(
                f"APIServiceExport {export.meta.name} is not valid: {field_message(error)}"
            )
            continue
        if record.templates is not None and (
            why := beyond(offer, spec.resources, spec.permission_claims)
        ):
            warnings.append(
                f"APIServiceExport {export.meta.name} exceeds the consumer's invitations: {why}"
            )
        warnings += [lacks] if lacks else []
    return warnings


_UNRECORDED = (
    "there is no record of its invitation: its exports stay, and it can request nothing more "
    "until you invite it again"
)


def _spec(template: Object) -> TemplateSpec | None:
    try:
        return template.decode(APIServiceExportTemplate).spec
    except msgspec.ValidationError:
        return None


class ClusterBindingView(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a ClusterBinding for the table; the defaults are those of an absent one."""

    pretty_name: str = ""
    version: str = ""
    heartbeat: str = ""
    original: bool = False
    conditions: Sequence[KubeBindCondition] = ()
    healthy: KubeBindCondition = unknown(
        HEALTHY, "NotInvited", "it has no ClusterBinding: invite it again, or revoke it"
    )


def _view(binding: Object, now: datetime) -> ClusterBindingView:
    pretty = binding.meta.annotations.get(ANNOTATION_CLUSTER_PRETTY_NAME, "")
    try:
        status = binding.decode(ClusterBinding).status
    except msgspec.ValidationError as error:
        invalid = unknown(
            HEALTHY, "Invalid", f"its ClusterBinding is not valid: {field_message(error)}"
        )
        return ClusterBindingView(pretty_name=pretty, healthy=invalid)
    # Judged anew, by the controller's own rule: the controller may not be running.
    condition, _ = health(status, now=now)
    return ClusterBindingView(
        pretty_name=pretty,
        version=status.konnector_version,
        heartbeat=status.last_heartbeat_time,
        original=is_original(binding),
        conditions=status.conditions,
        healthy=condition,
    )


async def consumers(client: Client) -> list[ConsumerRow]:
    """Return all consumers of a provider's cluster; unlisted kinds have no objects in them.

    Raises:
        ApiError: the server refused.
    """
    namespaces = (await client.list(NAMESPACES)).items
    exports = await list_all(client, APISERVICEEXPORTS)
    bindings = (await client.list(CLUSTERROLEBINDINGS, metadata_only=True)).items
    copies = await count_copies(client, exports, places(namespaces, exports))
    state = ProviderState(
        namespaces,
        await list_all(client, CLUSTERBINDINGS),
        exports,
        await list_all(client, APISERVICEEXPORTTEMPLATES),
        copies.counts,
        copies.unseen,
        frozenset(binding.meta.name for binding in bindings),
        await _lost(client, [one.meta.name for one in namespaces if identity_of(one)]),
    )
    listed = rows(state, now=moment())
    if homes := [namespace for namespace in namespaces if is_home(namespace)]:
        lost = await _lost(client, [home.meta.name for home in homes])
        listed += await kbind_rows(client, namespaces, lost)
    return sorted(listed, key=lambda row: (row.identity, row.namespace))


async def kbind_rows(
    client: Client, namespaces: Sequence[Object], lost: Mapping[str, str]
) -> list[ConsumerRow]:
    """Return the rows of the consumers of kbind v2.

    Args:
        client: a client of the provider's cluster.
        namespaces: all of the cluster.
        lost: what is gone of their credentials, by home.

    Raises:
        ApiError: the server refused.
    """
    consumers = await read_consumers(client, namespaces)
    places = {consumer.home: consumer.places for consumer in consumers}
    apis = {consumer.home: consumer.invitation.apis for consumer in consumers}
    copies = await count_copies_of_kbind(client, apis, places)
    listed, now = [], moment()
    leases = renewals(await list_leases(client))
    for consumer in consumers:
        # A konnector that is not Fairlead's does not say whose account it has: its copies do.
        uids = copies.clusters.get(consumer.home, set()) | consumer.places.clusters
        beats = [leases[uid] for uid in uids if uid in leases]
        listed.append(
            _kbind_row(
                consumer,
                max(beats, default=""),
                copies,
                lost=lost.get(consumer.home, ""),
                now=now,
            )
        )
    return listed


def _kbind_row(
    consumer: KbindConsumer, heartbeat: str, copies: KbindCopies, *, lost: str, now: datetime
) -> ConsumerRow:
    status = ClusterBindingStatus(
        last_heartbeat_time=heartbeat, heartbeat_interval=f"{LEASE_SECONDS // 2}s"
    )
    healthy, _ = health(status, now=now)
    invitation = consumer.invitation
    verdict = _verdict(ClusterBindingView(healthy=healthy), [], lost)
    if invitation.revoked:
        remedy = f"to continue: fairlead provider revoke {consumer.home}"
        begun = Finding(
            "waiting", ("its access is revoked, but not all of its data is deleted"), remedy=remedy
        )
        verdict = with_findings(Judgement("unknown"), [begun])
    return ConsumerRow(
        identity=consumer.name,
        pretty_name="",
        namespace=consumer.home,
        templates=[],
        exports=sorted(invitation.apis),
        objects=copies.counts[consumer.home],
        not_counted={api: why for api, why in copies.unseen.items() if api in invitation.apis},
        konnector_version="",
        last_heartbeat_time=heartbeat,
        healthy=healthy,
        state=verdict.state,
        reason=verdict.reason,
        message=verdict.message if verdict.state != "ok" else "",
        since=verdict.since if verdict.state != "ok" else "",
        remedy=verdict.remedy,
        deleting=consumer.deleting or invitation.revoked,
        warnings=list(consumer.warnings),
        protocol="v2",
        namespaces=sorted(consumer.places.namespaces),
    )


async def _lost(client: Client, consumers: Sequence[str]) -> dict[str, str]:
    """Return what is gone of the credentials in these cluster namespaces.

    A reader who may not list them learns nothing of them.
    """
    by_name, by_type = f"metadata.name={BINDER_NAME}", f"type={TOKEN_TYPE}"
    try:
        accounts = await client.list(SERVICEACCOUNTS, fields=by_name, metadata_only=True)
        # Of Secrets the names and annotations, not the tokens.
        secrets = await client.list(SECRETS, fields=by_type, metadata_only=True)
    except Forbidden:
        return {}
    present = {one.meta.namespace for one in accounts.items if not one.meta.deleting}
    armed = {
        secret.meta.namespace
        for secret in secrets.items
        if secret.meta.annotations.get(ACCOUNT_ANNOTATION) == BINDER_NAME
        and not secret.meta.deleting
    }
    lost = {}
    for name in consumers:
        if name not in present:
            lost[name] = f"its ServiceAccount {name}/{BINDER_NAME} is gone"
        elif name not in armed:
            lost[name] = f"the token of its ServiceAccount {name}/{BINDER_NAME} is gone"
    return lost
