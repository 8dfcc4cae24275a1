"""Pages of Connections and bindings of kbind v2, from one look. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.kbind import (
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    ClusterBinding,
    Connection,
    RelatedResource,
    lease_name,
)
from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_ADMITTED,
    ANOTHER_KONNECTOR,
    KBIND_KINDS,
    LEASE_NAMESPACE,
    READY,
)
from fairlead.api.kbind.types import ConflictPolicy
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import conditions_of, short
from fairlead.api.remains import count
from fairlead.api.resource import SECRETS
from fairlead.api.selectors import LabelSelector, LabelSelectorTerms, SelectorError
from fairlead.api.timestamps import moment
from fairlead.konnector.commands.overview.rows import (
    FetchedBinding,
    OverviewRow,
    binding_verdict,
    make_row,
)
from fairlead.konnector.v2.bindings.coverage import ANNOTATION_BINDING_NAMESPACES
from fairlead.portal import bounds
from fairlead.portal.console.pages.viewing import path_of
from fairlead.portal.console.sources.rows import binding_row, crossings
from fairlead.portal.model.lists import (
    APIRow,
    BindingRow,
    Counts,
    MirrorDetail,
    ObjectRow,
    Words,
)
from fairlead.portal.model.thing import RANKS, explain_command, shown_conditions


_RESOURCES = {resource.kind: resource for resource in KBIND_KINDS}
_CRUMBS: Words = (("Bindings", "/bindings"),)
_UNKNOWN: Words = (("not known yet", ""),)


def mirrors_of(
    every: Sequence[FetchedBinding], warnings: Mapping[str, Object]
) -> list[MirrorDetail]:
    """Return the pages of all Connections and bindings, those of Connections first.

    Args:
        every: the bindings of kbind v2, and Connections that no binding names.
        warnings: the last Warning about each object, by its uid.
    """
    now = moment()
    bindings: list[MirrorDetail] = []
    connections: dict[str, FetchedBinding] = {}
    named: dict[str, list[tuple[MirrorDetail, OverviewRow]]] = {}
    for bound in every:
        if (connection := bound.connection) is not None:
            connections.setdefault(connection.meta.name, _of_connection(bound, connection))
        if bound.binding.kind == CONNECTIONS.kind:
            continue
        row = make_row(bound, now)
        detail = _binding(bound, row, warnings, now)
        bindings.append(detail)
        named.setdefault(_connection_name(bound), []).append((detail, row))
    ways = [_connection(bound, named.get(name, []), now) for name, bound in connections.items()]
    return [*ways, *bindings]


def mirror_path(obj: Object) -> str:
    """Return the path of the page of a Connection or binding of kbind v2."""
    meta = obj.meta
    return _path(obj.kind, meta.namespace, meta.name)


def _path(kind: str, namespace: str, name: str) -> str:
    return path_of("bindings", _RESOURCES[kind].group_resource, namespace, name)


def _of_connection(bound: FetchedBinding, connection: Object) -> FetchedBinding:
    """Return what was fetched for a binding as that of its Connection."""
    if bound.binding.kind == CONNECTIONS.kind:
        return bound
    # A konnector that reported on the Connection has picked it up.
    is_seen = get_condition(conditions_of(connection), READY) is not None
    return msgspec.structs.replace(
        bound, binding=connection, kinds=(), absence="" if is_seen else bound.absence
    )


def _row(
    bound: FetchedBinding, row: OverviewRow, objects: Sequence[ObjectRow], now: datetime
) -> BindingRow:
    obj = bound.binding
    return msgspec.structs.replace(
        binding_row(bound, row, objects, now),
        kind=obj.kind,
        within=obj.meta.namespace,
        at=mirror_path(obj),
    )


def _connection(
    bound: FetchedBinding, named: Sequence[tuple[MirrorDetail, OverviewRow]], now: datetime
) -> MirrorDetail:
    obj = bound.binding
    line = make_row(bound, now)
    if named:
        # The line is that of a Connection without a binding, and says that it has none.
        line = msgspec.structs.replace(line, remarks=list(binding_verdict(bound).remarks))
    row = _row(bound, line, (), now)
    row = msgspec.structs.replace(row, sync="", lag_since="")
    bindings = tuple(
        sorted((detail.row for detail, _ in named), key=lambda binding: RANKS[binding.state])
    )
    parsed = obj.try_decode(Connection)
    facts: list[tuple[str, Words]] = [("Provider", ((bound.server or "not known", ""),))]
    apis: tuple[APIRow, ...] = ()
    if parsed is not None:
        facts += _connection_facts(obj, parsed)
        apis = tuple(
            APIRow(
                name=api.name,
                facts=", ".join([f"scope {api.scope}", *api.versions]),
                bound=_joined(
                    (f"{detail.row.kind} {detail.row.place}", detail.row.at)
                    for detail, _ in named
                    if any(row.name == api.name for row in detail.apis)
                ),
            )
            for api in parsed.status.exported_apis
        )
    effect = "No binding names it, so nothing else is deleted with it. Its Secret stays."
    if bindings:
        effect = f"It waits until no binding names it: {_listed(row.text for row in bindings)}."
    return MirrorDetail(
        row=row,
        facts=tuple(facts),
        apis=apis,
        bindings=bindings,
        conditions=shown_conditions(obj),
        remarks=tuple(remark.text for remark in line.remarks),
        crumbs=_CRUMBS,
        explain=_explanation(obj),
        command=_deletion(obj),
        effect=effect,
    )


def _connection_facts(obj: Object, parsed: Connection) -> list[tuple[str, Words]]:
    spec, status, meta = parsed.spec, parsed.status, obj.meta
    ref, schema = spec.kubeconfig_secret_ref, spec.schema
    active = f", read from {status.active_schema_source}" if status.active_schema_source else ""
    policies = f"pull policy {schema.pull_policy}, update policy {schema.update_policy}"
    facts: list[tuple[str, Words]] = [
        ("Provider's cluster", _uid(status.remote_cluster_uid)),
        ("This cluster", _uid(status.local_cluster_uid)),
        (
            "Kubeconfig",
            (
                ("Secret ", ""),
                (
                    f"{ref.namespace}/{ref.name}",
                    path_of("objects", SECRETS.group_resource, ref.namespace, ref.name),
                ),
                (f", key {ref.key}", ""),
            ),
        ),
        (
            "Schemas",
            ((f"source {schema.source}{active}; {policies}", ""),),
        ),
    ]
    if spec.auto_bind:
        all_of = _path(CLUSTERBINDINGS.kind, "", meta.name)
        facts.append(
            ("Binds by itself", (("all APIs, by ClusterBinding ", ""), (meta.name, all_of)))
        )
    for label, annotation in (
        ("Namespaces that may bind", ANNOTATION_BINDING_NAMESPACES),
        ("Related resources that may cross", ANNOTATION_RELATED_ADMITTED),
    ):
        if (listed := meta.annotations.get(annotation)) is not None:
            facts.append((label, ((short(listed) or "none", ""),)))
    if status.local_cluster_uid:
        lease = f"{LEASE_NAMESPACE}/{lease_name(status.local_cluster_uid)} at the provider"
        facts.append(("Lease", ((lease, ""),)))
    another = get_condition(status.conditions, ANOTHER_KONNECTOR)
    if another is not None and another.status == "True":
        facts.append(("At work", (("another konnector; Fairlead's stands back", ""),)))
    return facts


def _binding(
    bound: FetchedBinding, line: OverviewRow, warnings: Mapping[str, Object], now: datetime
) -> MirrorDetail:
    obj = bound.binding
    objects = tuple(crossings(bound, warnings))
    row = _row(bound, line, objects, now)
    parsed = obj.try_decode(ClusterBinding)
    facts: list[tuple[str, Words]] = []
    apis: tuple[APIRow, ...] = ()
    rules: tuple[str, ...] = ()
    conflicts = 0
    if parsed is not None:
        spec, way = parsed.spec, parsed.spec.connection_ref.name
        facts += [
            ("Connection", ((way, _path(CONNECTIONS.kind, "", way)),)),
            ("Provider", ((row.cluster or "not known", ""),)),
            ("Scope", ((f"namespace {obj.meta.namespace}" if row.within else "all", ""),)),
            ("Conflict policy", ((_POLICIES[spec.conflict_policy], ""),)),
        ]
        apis = _apis(bound, parsed, objects)
        conflicts = sum(api.conflicts or 0 for api in apis)
        rules = tuple(_rule(rule, obj.meta.namespace) for rule in spec.related_resources)
    return MirrorDetail(
        row=msgspec.structs.replace(row, conflicts=conflicts),
        facts=tuple(facts),
        apis=apis,
        rules=rules,
        objects=objects,
        conditions=shown_conditions(obj),
        remarks=tuple(remark.text for remark in line.remarks),
        crumbs=_CRUMBS,
        explain=_explanation(obj),
        command=_deletion(obj),
        effect=_EFFECTS[obj.kind],
    )


_POLICIES: Mapping[ConflictPolicy, str] = {
    "Fail": "Fail: if the provider already has an object where a copy belongs, it is left alone",
    "Adopt": "Adopt: an existing object without a konnector's marks becomes the copy",
}
_EFFECTS = {
    CLUSTERBINDINGS.kind: "The konnector deletes the copies at the provider that no other binding"
    " covers. With the last ClusterBinding of an API it also deletes the CRD, if a konnector"
    " created it, and all its objects.",
    BINDINGS.kind: "The konnector deletes the copies of this namespace at the provider that no"
    " other binding covers. The objects and the CRD stay here.",
}


def _apis(
    bound: FetchedBinding, parsed: ClusterBinding, objects: Sequence[ObjectRow]
) -> tuple[APIRow, ...]:
    """Return the APIs that a binding names, with its objects of each."""
    said = {api.name: api for api in parsed.status.bound_apis}
    served = {
        kind.resource.group_resource: kind.versions
        for kind in bound.kinds or ()
        if kind.resource is not None
    }
    rows = []
    for name in dict.fromkeys(api.name for api in parsed.spec.apis):
        api = said.get(name)
        facts = [", ".join(served[name])] if name in served else ["not bound"]
        facts += [api.crd_hash] if api is not None and api.crd_hash else []
        rows.append(
            APIRow(
                name=name,
                facts=", ".join(filter(None, facts)),
                objects=Counts.of(one.state for one in objects if one.resource == name),
                conflicts=api.conflict_count if api is not None else None,
            )
        )
    return tuple(rows)


def _rule(rule: RelatedResource, namespace: str) -> str:
    """Describe a rule about related resources."""
    kind = {"secrets": "Secrets", "configmaps": "ConfigMaps"}[rule.resource]
    selector = rule.selector
    parts = []
    if selector is not None and selector.names:
        parts.append(f"named {_listed(selector.names)}")
    if selector is not None and selector.label_selector:
        parts.append(f"with the labels {_labels(selector.label_selector)}")
    chosen = f"{kind} {' and '.join(parts)}" if parts else f"all {kind}"
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    way = "from the provider" if rule.direction == "FromProvider" else "to the provider"
    return f"{chosen} {where}, {way}"


def _labels(terms: LabelSelectorTerms) -> str:
    try:
        return str(LabelSelector.from_dict(msgspec.to_builtins(terms)))
    except SelectorError as error:
        return f"that cannot be read: {error}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - bounds.LISTED
    shown = ", ".join(every[: bounds.LISTED])
    return f"{shown} and {count(more, 'other')}" if more > 0 else shown


def _joined(links: Iterable[tuple[str, str]]) -> Words:
    every = list(links)
    words: list[tuple[str, str]] = []
    for link in every[: bounds.LISTED]:
        words += [(", ", ""), link] if words else [link]
    more = len(every) - bounds.LISTED
    return (*words, (f" and {count(more, 'other')}", "")) if more > 0 else tuple(words)


def _uid(uid: str) -> Words:
    return ((uid, ""),) if uid else _UNKNOWN


def _connection_name(bound: FetchedBinding) -> str:
    parsed = bound.binding.try_decode(ClusterBinding)
    return parsed.spec.connection_ref.name if parsed is not None else ""


def _explanation(obj: Object) -> str:
    meta = obj.meta
    return explain_command(_RESOURCES[obj.kind].group_resource, meta.name, meta.namespace)


def _deletion(obj: Object) -> str:
    kind, meta = _RESOURCES[obj.kind].group_resource, obj.meta
    place = f" -n {shlex.quote(meta.namespace)}" if meta.namespace else ""
    return f"kubectl delete {kind} {shlex.quote(meta.name)}{place}"
