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

Here you look up what a series counts, when you read a graph or write a query of your own. You need
none of it to begin: [alerts](reference/alerts.md) with a [runbook](runbooks/README.md) each, and a
dashboard for Grafana in [config/dashboards](../config/dashboards), are ready to use.
[Monitor Fairlead](how-to/monitor.md) sets them up.

Each program serves its series at `/metrics`, at port 8080 of its Pods (`fairlead provider serve`:
8082), or at the address of `--metrics-bind-address`.

No series names a host of a database, a role, a credential or a person. Labels have few values,
whatever strangers ask and tenants write:
"""
_LABELS = {
    "`cluster`": "an API server, as the program calls it: its own name for the cluster that it "
    "runs in, else that of a connection",
    "`resource`": "plural and group, such as `widgets.example.org`",
    "`controller`, `name`": "a controller; of `leader_election_master_status` the Lease",
    "`binding`": "an APIServiceBinding of the consumer; of kbind v2 `connection/NAME`, "
    "`clusterbinding/NAME` or `binding/NAMESPACE/NAME`: the first "
    f"{konnector_bounds.BINDING_SERIES} Bindings by age, and `binding/other` for the sum of all "
    "others",
    "`direction`, `side`": "`spec` goes to the provider, `status` comes back; `consumer` or "
    "`provider`",
    "`consumer`": "the identity that `fairlead provider consumers` shows; the first "
    f"{bounds.CONSUMERS} by age, and `other` for all others: of an age the oldest, of all else "
    "the sum",
    "`owner`": "whose connections: `PostgresServer NAME`, or `namespace NAME` for all servers "
    "that accesses of it write out themselves",
    "`api`, `stage`, `outcome`": "`servicebinding` or `servicebinding-coreos`; where a pass "
    "stopped; how it ended",
    "`webhook`, `verdict`": "a webhook of the binding; `allowed`, `changed`, `warned`, `refused` "
    "or `failed`",
    "`certificate`": "what a certificate is for: `webhooks` or `front door`",
    "`within`": "how soon a login ends: `1d`, `7d` or `30d`, each with the sooner ones",
    "`reason` of `fairlead_watch_restarts_total`": "`closed` and `absent` are no faults: a server "
    "ends each watch after some minutes, and a kind may not be served yet",
}
_TAIL = """
Histograms have the series `_bucket`, `_sum` and `_count`. This page is made of the programs' own
collectors: `python -m hack.metrics > docs/metrics.md`.
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
    labels = ["| label | what it is |", "|---|---|"]
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
    head = [f"## {part.title}", "", "| metric | type | labels | what it tells |"]
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
