"""The dashboard for Grafana: ``python -m hack.dashboard > config/dashboards/fairlead.json``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple


Kind = Literal["timeseries", "stat", "table"]
JSON = dict[str, Any]

_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
"""Columns of Grafana's grid."""
_HEIGHT = 8
_OURS = "and on (job, instance) fairlead_build_info"
"""Tells our series from those of other controllers, which have the same names."""


_SERIES = re.compile(
    r"\b((?:fairlead|controller_runtime|workqueue|leader_election|process)_\w+)(\{?)"
)
VARIABLES = {
    "namespace": ("Namespace", "fairlead_build_info", "namespace"),
    "binding": ("Binding", "fairlead_sync_objects_in_sync", "binding"),
    "consumer": ("Consumer", "fairlead_provider_heartbeat_age_seconds", "consumer"),
    "server": ("Server", "fairlead_postgres_reachable", "owner"),
}
"""What people choose: its title, and the series and the label that have the values."""
WITHOUT_LABEL = frozenset(
    ("fairlead_build_info", "fairlead_provider_consumers", "fairlead_provider_uncounted_kinds")
)
"""Series of a row that do not have the label of its variable."""


class Query(NamedTuple):
    """An expression, and what its lines are called."""

    expr: str
    legend: str


class Panel(NamedTuple):
    """Something to look at; ``unit`` is Grafana's."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: Kind = "timeseries"
    tells: str = ""
    width: int = 8
    colours: Sequence[str] = ()
    """The colour of zero, and that of all above; default: Grafana's."""


class Row(NamedTuple):
    """Panels about one thing."""

    title: str
    panels: Sequence[Panel]
    label: str = ""
    """The label of the series that a variable of the dashboard chooses values of."""


def _one(expr: str, legend: str) -> tuple[Query]:
    return (Query(expr, legend),)


def _p99(metric: str, labels: str) -> str:
    rate = f"rate({metric}_bucket[$__rate_interval])"
    return f"histogram_quantile(0.99, sum by (le, {labels}) ({rate}))"


def _fault(title: str, expr: str, tells: str) -> Panel:
    # A sum of no series would be shown as no number.
    query = _one(f"({expr}) or vector(0)", title)
    return Panel(title, query, "short", "stat", tells, 3, ("green", "red"))


ROWS = (
    Row(
        "Overview: green is healthy",
        (
            Panel(
                "Processes with metrics",
                _one("count(fairlead_build_info) or vector(0)", "processes"),
                "short",
                "stat",
                "0 where Prometheus scrapes none: then the others say nothing.",
                3,
                ("red", "green"),
            ),
            _fault(
                "Programs without a leader",
                f"count(max by (name) (leader_election_master_status {_OURS}) == 0)",
                "No replica of these programs holds the Lease, so they do no work.",
            ),
            _fault(
                "Bindings that have failed",
                "(sum(max by (binding) (fairlead_konnector_binding_failed)) or vector(0)) + "
                "(count(min by (binding) (fairlead_konnector_connection_ready) < 1) or vector(0))",
                "Failed bindings in this consumer's cluster, and Connections that are not Ready.",
            ),
            _fault(
                "Objects that do not cross",
                "(sum(max by (binding, resource) (fairlead_sync_failing)) or vector(0)) + "
                "(sum(max by (binding, resource) (fairlead_sync_conflicts)) or vector(0))",
                "An API server refuses them, or they are in conflict with another object.",
            ),
            _fault(
                "Silent consumers",
                "sum(max by (consumer) (fairlead_provider_heartbeat_overdue))",
                "Consumers with a konnector that has missed two heartbeats.",
            ),
            _fault(
                "Servers that do not answer",
                "count(max by (owner) (fairlead_postgres_reachable) == 0)",
                "PostgreSQL servers that the operator cannot reach.",
            ),
            _fault(
                "Accesses that have failed",
                "sum(max by (owner) (fairlead_postgres_failing))",
                "Failed PostgresAccesses on servers that answer.",
            ),
        ),
    ),
    Row(
        "Programs",
        (
            Panel(
                "Versions",
                _one(
                    "count by (job, version, python) (fairlead_build_info)", "{{job}} {{version}}"
                ),
                kind="table",
            ),
            Panel(
                "Leader",
                _one(f"max by (name) (leader_election_master_status {_OURS})", "{{name}}"),
                kind="stat",
                tells="1 where a replica holds the Lease, 0 where none does.",
            ),
            Panel(
                "Certificates",
                _one(
                    "min by (job, certificate) (fairlead_certificate_remaining_seconds)",
                    "{{certificate}}",
                ),
                "s",
                "stat",
                "Time until they expire.",
            ),
            Panel(
                "Delay of event loops",
                _one("fairlead_event_loop_lag_seconds", "{{instance}}"),
                "s",
            ),
            Panel(
                "Objects that wait",
                _one(
                    f"sum by (job, controller) (workqueue_depth {_OURS})",
                    "{{job}} {{controller}}",
                ),
            ),
            Panel(
                "Failed reconciles",
                _one(
                    "sum by (job, controller) (rate(controller_runtime_reconcile_errors_total"
                    f"[$__rate_interval]) {_OURS})",
                    "{{job}} {{controller}}",
                ),
                "ops",
            ),
            Panel(
                "Watch restarts",
                _one(
                    "sum by (job, cluster, resource) (rate(fairlead_watch_restarts_total"
                    '{reason!~"closed|absent"}[$__rate_interval]))',
                    "{{cluster}} {{resource}}",
                ),
                "ops",
            ),
            Panel(
                "Objects in caches",
                _one("sum by (job, resource) (fairlead_informer_objects)", "{{job}} {{resource}}"),
            ),
            Panel(
                "Bytes of objects in caches",
                _one("sum by (job) (fairlead_informer_bytes)", "{{job}}"),
                "bytes",
            ),
            Panel(
                "Memory",
                _one(f"process_resident_memory_bytes {_OURS}", "{{job}} {{instance}}"),
                "bytes",
                tells=(
                    "Resident memory of each process. Kubernetes kills a Pod that exceeds its"
                    " limit."
                ),
                width=12,
            ),
            Panel(
                "CPU",
                _one(
                    f"rate(process_cpu_seconds_total[$__rate_interval]) {_OURS}",
                    "{{job}} {{instance}}",
                ),
                tells="CPU cores that each process uses.",
                width=12,
            ),
        ),
    ),
    Row(
        "Objects that cross (consumer)",
        (
            Panel(
                "In sync",
                _one(
                    "max by (binding, resource) (fairlead_sync_objects_in_sync)",
                    "{{binding}} {{resource}}",
                ),
            ),
            Panel(
                "In conflict, and refused by a server",
                (
                    Query(
                        "max by (binding, resource) (fairlead_sync_conflicts)",
                        "conflict: {{binding}} {{resource}}",
                    ),
                    Query(
                        "max by (binding) (fairlead_konnector_binding_failed)",
                        "binding failed: {{binding}}",
                    ),
                    Query(
                        "max by (binding, resource) (fairlead_sync_failing)",
                        "refused: {{binding}} {{resource}}",
                    ),
                ),
            ),
            Panel(
                "Changes that are not synchronized yet",
                _one(
                    "max by (binding, resource, direction) (fairlead_sync_pending)",
                    "{{binding}} {{resource}} {{direction}}",
                ),
            ),
            Panel(
                "Age of the oldest change",
                _one(
                    "max by (binding, resource, direction) (fairlead_sync_oldest_pending_seconds)",
                    "{{binding}} {{resource}} {{direction}}",
                ),
                "s",
                width=12,
            ),
            Panel(
                "Time until changes cross (99th percentile)",
                _one(
                    _p99("fairlead_sync_latency_seconds", "binding, resource, direction"),
                    "{{binding}} {{resource}} {{direction}}",
                ),
                "s",
                width=12,
            ),
        ),
        "binding",
    ),
    Row(
        "Consumers (provider)",
        (
            Panel(
                "Consumers",
                (
                    Query("max(fairlead_provider_consumers)", "invited"),
                    Query(
                        "sum(max by (consumer) (fairlead_provider_heartbeat_overdue))", "silent"
                    ),
                    Query(
                        "sum(max by (consumer) (fairlead_provider_requests_refused))",
                        "refused requests",
                    ),
                    Query("max(fairlead_provider_uncounted_kinds)", "kinds that are not counted"),
                ),
                kind="stat",
            ),
            Panel(
                "Time since the last heartbeat",
                _one(
                    "max by (consumer) (fairlead_provider_heartbeat_age_seconds)", "{{consumer}}"
                ),
                "s",
            ),
            Panel(
                "Age of tokens",
                _one(
                    "topk(20, max by (consumer) (fairlead_provider_token_age_seconds))",
                    "{{consumer}}",
                ),
                "s",
            ),
            Panel(
                "Objects",
                _one("topk(20, max by (consumer) (fairlead_provider_objects))", "{{consumer}}"),
                width=12,
            ),
            Panel(
                "Versions of konnectors",
                _one(
                    "max by (consumer, version) (fairlead_provider_konnector_info)",
                    "{{consumer}} {{version}}",
                ),
                kind="table",
                width=12,
            ),
        ),
        "consumer",
    ),
    Row(
        "PostgreSQL",
        (
            Panel(
                "Servers that answer",
                _one("max by (owner) (fairlead_postgres_reachable)", "{{owner}}"),
                kind="stat",
            ),
            Panel(
                "Accesses that wait",
                (
                    Query(
                        "max by (owner) (fairlead_postgres_changes_pending)", "server: {{owner}}"
                    ),
                    Query("max by (owner) (fairlead_postgres_locked)", "lock: {{owner}}"),
                ),
            ),
            Panel(
                "Accesses that the operator refuses",
                _one("max by (owner, reason) (fairlead_postgres_refused)", "{{owner}} {{reason}}"),
            ),
            Panel(
                "Accesses that have failed",
                _one("max by (owner) (fairlead_postgres_failing)", "{{owner}}"),
            ),
            Panel(
                "Accesses restored after drift",
                _one(
                    "sum by (owner) (increase(fairlead_postgres_drift_healed_total[1h]))",
                    "{{owner}}",
                ),
                tells="Within an hour.",
            ),
            Panel(
                "Roles",
                _one("max by (owner) (fairlead_postgres_roles)", "{{owner}}"),
            ),
            Panel(
                "Time to compare all roles of a server (99th percentile)",
                _one(_p99("fairlead_postgres_cycle_seconds", "owner"), "{{owner}}"),
                "s",
            ),
        ),
        "server",
    ),
    Row(
        "Bindings",
        (
            Panel(
                "Bindings",
                _one(
                    "max by (api, outcome) (fairlead_bindings)",
                    "{{api}} {{outcome}}",
                ),
            ),
            Panel(
                "Reviews of webhooks",
                _one(
                    "sum by (webhook, verdict) (rate(fairlead_webhook_reviews_total"
                    "[$__rate_interval]))",
                    "{{webhook}} {{verdict}}",
                ),
                "ops",
            ),
            Panel(
                "Duration of reviews (99th percentile)",
                _one(_p99("fairlead_webhook_review_seconds", "webhook"), "{{webhook}}"),
                "s",
            ),
        ),
    ),
    Row(
        "Front door",
        (
            Panel(
                "Sign-ins",
                _one(
                    "sum by (result) (increase(fairlead_portal_sign_ins_total[15m]))",
                    "{{result}}",
                ),
                tells="Within 15 minutes.",
            ),
            Panel(
                "Binds",
                _one("sum by (result) (increase(fairlead_portal_binds_total[15m]))", "{{result}}"),
                tells="Within 15 minutes.",
            ),
            Panel(
                "Requests",
                _one(
                    "sum by (code) (rate(fairlead_portal_requests_total[$__rate_interval]))",
                    "{{code}}",
                ),
                "reqps",
            ),
        ),
    ),
)


def expressions() -> Iterator[str]:
    """All expressions, with an interval in place of Grafana's variable."""
    for row in ROWS:
        for panel in row.panels:
            for query in panel.queries:
                yield _chosen(query.expr, row).replace("$__rate_interval", "5m")


def _chosen(expr: str, row: Row) -> str:
    """Return the expression of the series that the dashboard's variables choose."""
    labels = {name: label for name, (_, _, label) in VARIABLES.items()}

    def matched(match: re.Match[str]) -> str:
        name, brace = match[1], match[2]
        chosen = ["namespace"]
        if row.label and name not in WITHOUT_LABEL:
            chosen.append(row.label)
        matchers = ",".join(f'{labels[one]}=~"${one}"' for one in chosen)
        return f"{name}{{{matchers}{',' if brace else '}'}"

    return _SERIES.sub(matched, expr)


def _variable(name: str) -> JSON:
    title, series, label = VARIABLES[name]
    return {
        "name": name,
        "label": title,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({series}, {label})", "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        # Series without the label are there too.
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def dashboard() -> str:
    """The file."""
    body: JSON = {
        "uid": "fairlead",
        "title": "Fairlead",
        "description": (
            "What crosses, who waits, and what is broken. docs/metrics.md describes all series."
        ),
        "tags": ["fairlead"],
        "schemaVersion": 39,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                },
                *map(_variable, VARIABLES),
            ]
        },
        "panels": list(_panels()),
    }
    return json.dumps(body, indent=2) + "\n"


def _panels() -> Iterator[JSON]:
    number = below = 0
    for row in ROWS:
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": {"x": 0, "y": below, "w": _WIDTH, "h": 1},
            "panels": [],
        }
        below += 1
        across = 0
        for panel in row.panels:
            if across + panel.width > _WIDTH:
                across, below = 0, below + _HEIGHT
            number += 1
            place = {"x": across, "y": below, "w": panel.width, "h": _HEIGHT}
            yield _panel(panel, row, number, place)
            across += panel.width
        below += _HEIGHT


def _panel(panel: Panel, row: Row, number: int, place: JSON) -> JSON:
    defaults: JSON = {"unit": panel.unit}
    if panel.colours:
        zero, more = panel.colours
        steps = [{"color": zero, "value": None}, {"color": more, "value": 1}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    is_table = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.tells,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + order),
                "datasource": _SOURCE,
                "expr": _chosen(query.expr, row),
                "legendFormat": query.legend,
                "instant": is_table,
                "range": not is_table,
                "format": "table" if is_table else "time_series",
            }
            for order, query in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    print(dashboard(), end="")
