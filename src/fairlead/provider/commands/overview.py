"""The table of a provider's consumers: their exports, objects and heartbeats.

The table is read with an administrator's rights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from fairlead.api.durations import rough_duration
from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    CLUSTERBINDINGS,
    APIServiceExport,
    APIServiceExportTemplate,
    ClusterBinding,
    TemplateSpec,
)
from fairlead.api.kubebind.conditions import (
    HEALTHY,
    READY,
    KubeBindCondition,
    get_condition,
    unknown,
)
from fairlead.api.meta import Object
from fairlead.api.reasons import model
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.verdict import Finding, Judgement, remedy_of, with_findings
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES
from fairlead.api.timestamps import moment, parse_time
from fairlead.client import Client
from fairlead.client.lookups import list_all
from fairlead.provider.controllers.clusterbinding.reconcile import health
from fairlead.provider.copies import count_copies, exported, places
from fairlead.provider.identity import title_of
from fairlead.provider.konnectors import is_original, shortcoming
from fairlead.provider.namespaces import identity_of
from fairlead.provider.offer import Offer, beyond, record_of


class ConsumerRow(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """One consumer; ``objects`` counts its copies of exported kinds.

    ``not_counted`` gives the reason why exported kinds are not counted, by plural and group.
    ``templates`` are the templates of its invitations, None if they were not recorded, and
    ``warnings`` are faults that need a person. ``state``, ``reason`` and ``remedy`` are those of
    the verdict on the connection: ``healthy``, and the other conditions of the ClusterBinding.
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
    remedy: str = ""
    deleting: bool = False
    warnings: list[str] = []

    @property
    def title(self) -> str:
        """Identity of the consumer, with its pretty name if that differs."""
        return title_of(self.identity, self.pretty_name)


class ProviderState(NamedTuple):
    """Objects of a provider's cluster from which the rows are made.

    ``counts`` are numbers of copies by cluster namespace, ``unseen`` the reasons why kinds are not
    counted, by plural and group, and ``granted`` the names of ClusterRoleBindings.
    """

    namespaces: Sequence[Object]
    bindings: Sequence[Object] = ()
    exports: Sequence[Object] = ()
    templates: Sequence[Object] = ()
    counts: Mapping[str, int] = {}
    unseen: Mapping[str, str] = {}
    granted: frozenset[str] = frozenset()


def rows(state: ProviderState, *, now: datetime) -> list[ConsumerRow]:
    """Return one row for each cluster namespace, in the order of the identities.

    Namespaces without an identity are no consumer's. Heartbeats are judged by ``now``.
    """
    bound = {binding.meta.namespace: binding for binding in state.bindings}
    exported: dict[str, list[Object]] = {}
    for export in state.exports:
        exported.setdefault(export.meta.namespace, []).append(export)
    found = [
        _row(state, namespace, bound.get(name), exported.get(name, []), now)
        for namespace in state.namespaces
        if identity_of(namespace) and (name := namespace.meta.name)
    ]
    return sorted(found, key=lambda row: (row.identity, row.namespace))


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
    record = record_of(binding)
    verdict = connection_verdict(read.healthy, read.conditions)
    kinds = {kind for export in exports for kind in exported(export)}
    return ConsumerRow(
        identity=identity_of(namespace),
        pretty_name=read.pretty_name,
        namespace=namespace.meta.name,
        templates=None if record.templates is None else list(record.templates),
        exports=sorted(export.meta.name for export in exports),
        objects=state.counts.get(namespace.meta.name, 0),
        not_counted={kind: why for kind, why in state.unseen.items() if kind in kinds},
        konnector_version=read.version,
        original_konnector=read.original,
        last_heartbeat_time=read.heartbeat,
        healthy=read.healthy,
        state=verdict.state,
        reason=verdict.reason,
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
    found = [] if record.templates is not None or not exports else [_UNRECORDED]
    for export in sorted(exports, key=lambda export: export.meta.name):
        try:
            spec = export.decode(APIServiceExport).spec
            lacks = shortcoming(binding, export, state.granted.__contains__)
        except msgspec.ValidationError as error:
            found.append(f"APIServiceExport {export.meta.name} is not valid: {error}")
            continue
        if record.templates is not None and (
            why := beyond(offer, spec.resources, spec.permission_claims)
        ):
            found.append(f"APIServiceExport {export.meta.name} goes beyond its invitations: {why}")
        found += [lacks] if lacks else []
    return found


_UNRECORDED = (
    "what it was invited to is not recorded: its exports stay, and it can request nothing more "
    "until it is invited again"
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
        invalid = unknown(HEALTHY, "Invalid", f"its ClusterBinding is not valid: {error}")
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
    )
    return rows(state, now=moment())
