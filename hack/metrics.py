"""The page of all metrics: ``python -m hack.metrics > docs/metrics.md``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.binding.metrics import BindingMetrics
from fairlead.client import Client, ClusterConfig
from fairlead.konnector import bounds as konnector_bounds
from fairlead.konnector.metrics import BindingStates, KbindInformers, Syncs
from fairlead.portal.http.metrics import PortalMetrics
from fairlead.postgres.metrics import PostgresMetrics
from fairlead.provider import bounds
from fairlead.provider.metrics import ConsumerMetrics
from fairlead.runtime import Cluster, Metrics
from fairlead.runtime.admission.server import ReviewMetrics


_HEAD = """\
# Metrics

Use this page to look up what a series counts, when you read a graph or write your own query. You
do not need it to start: there are [alerts](reference/alerts.md), each with a
[runbook](runbooks/README.md), and a Grafana dashboard in
[config/dashboards](../config/dashboards). [Monitor Fairlead](how-to/monitor.md) shows how to set
them up.

Each program serves its series at path `/metrics`, on port 8080 of its Pods
(`fairlead provider serve`: 8082), or at the address in `--metrics-bind-address`.

No label contains a database host, a role, a credential or a person. The number of values of each
label is bounded, whatever clients request and tenants write:
"""
_LABELS = {
    "`cluster`": "an API server: the program's own name for the cluster in which it runs, or the "
    "name of a connection",
    "`resource`": "a resource by plural and group, such as `widgets.example.org`",
    "`controller`, `name`": "a controller; for `leader_election_master_status` the Lease",
    "`binding`": "an APIServiceBinding of the consumer; for kbind v2 `connection/NAME`, "
    "`clusterbinding/NAME` or `binding/NAMESPACE/NAME`. The oldest "
    f"{konnector_bounds.BINDING_SERIES} Bindings have their own value; `binding/other` is the sum "
    "of all others",
    "`direction`, `side`": "`direction`: `spec` goes to the provider, `status` comes back; "
    "`side`: `consumer` or `provider`",
    "`consumer`": "the identity that `fairlead provider consumers` shows. The oldest "
    f"{bounds.CONSUMERS} consumers have their own value; `other` stands for all others, with the "
    "largest of their ages, and the sum of all other values",
    "`owner`": "`PostgresServer NAME`, or `namespace NAME` for all servers to which accesses of "
    "this namespace connect without a PostgresServer",
    "`api`, `stage`, `outcome`": "`api`: `servicebinding` or `servicebinding-coreos`; `stage`: "
    "where a pass stopped; `outcome`: its result",
    "`webhook`, `verdict`": "`webhook`: a webhook of `fairlead binding run`; `verdict`: "
    "`allowed`, `changed`, `warned`, `refused` or `failed`",
    "`certificate`": "the use of a certificate: `webhooks` or `front door`",
    "`within`": "how soon a login ends: `1d`, `7d` or `30d`; each value includes the shorter ones",
    "`reason` of `fairlead_watch_restarts_total`": "`closed` and `absent` are no faults: a server "
    "ends each watch after some minutes, and may not serve a kind yet",
}
_TAIL = """
Histograms have the series `_bucket`, `_sum` and `_count`.
`python -m hack.metrics > docs/metrics.md` generates this page from the collectors of the programs.
"""


class Part(NamedTuple):
    """What serves some metrics, and how it counts them."""

    title: str
    collectors: Iterable[Collector]


def parts() -> list[Part]:
    """All collectors, as programs register them; nothing of them is connected anywhere."""
    metrics, konnector = Metrics(), Metrics()
    cluster = Cluster("provider", Client(ClusterConfig(server="http://127.0.0.1:1")))
    return [
        Part("Every program", [metrics.registry]),
        Part(
            "`fairlead konnector run`",
            [
                Syncs(konnector),
                BindingStates(konnector, cluster.informer(APISERVICEBINDINGS), _kbind(cluster)),
            ],
        ),
        Part("`fairlead provider run`", [ConsumerMetrics(cluster)]),
        Part("`fairlead postgres run`", [PostgresMetrics()]),
        Part("`fairlead binding run`", [BindingMetrics(), ReviewMetrics()]),
        Part("`fairlead provider serve`", [PortalMetrics()]),
    ]


def _kbind(cluster: Cluster) -> KbindInformers:
    return KbindInformers(
        cluster.informer(CONNECTIONS),
        cluster.informer(CLUSTERBINDINGS),
        cluster.informer(BINDINGS),
    )


async def page() -> str:
    """The page in Markdown."""
    labels = ["| label | value |", "|---|---|"]
    labels += [f"| {name} | {text} |" for name, text in _LABELS.items()]
    return "\n".join([_HEAD, *labels, _TAIL, *map(_section, parts())])


async def series() -> set[str]:
    """The names of all series that there may be."""
    found: set[str] = set()
    for part in parts():
        for family in _families(part):
            if family.type == "histogram":
                found |= {f"{family.name}_{end}" for end in ("bucket", "sum", "count")}
            else:
                found.add(_name(family))
    return found


def _families(part: Part) -> list[Metric]:
    found = (family for collector in part.collectors for family in collector.collect())
    return sorted(found, key=lambda family: family.name)


def _section(part: Part) -> str:
    rows = [_row(family) for family in _families(part)]
    head = [f"## {part.title}", "", "| metric | type | labels | description |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _row(family: Metric) -> str:
    # What a family is told to have; a sample would say it too, and there are none.
    names: tuple[str, ...] = vars(family)["_labelnames"]
    labels = ", ".join(f"`{name}`" for name in names)
    return f"| `{_name(family)}` | {family.type} | {labels} | {family.documentation} |"


def _name(family: Metric) -> str:
    return f"{family.name}_total" if family.type == "counter" else family.name


if __name__ == "__main__":
    print(asyncio.run(page()), end="")
