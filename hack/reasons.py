"""The page of all reasons: ``python -m hack.reasons > docs/reasons.md``."""

from __future__ import annotations

from fairlead.api.reasons.kbind import KBIND
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import Reason, Reasons
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.servicebinding import SERVICE_BINDING


_HEAD = """\
# Reasons

A condition or an Event shows a reason: find it here by its name, and read what has happened and
what helps. The column `state` tells whether you have to act: `failed` needs a person, `waiting`
goes on by itself, or when another object is there. `fairlead explain` prints the same for one
object.

There is one table for each system: [PostgresAccess](#postgresaccess),
[Service Binding](#service-binding), [kube-bind](#kube-bind), and [kbind v2](#kbind-v2) for its
successor.
"""
_TAIL = """\
This page is made of the program's own tables: `python -m hack.reasons > docs/reasons.md`.
"""
_BAD = {"failed": "failed", "waiting": "waiting", "unknown": "unknown", "ok": "healthy"}


def page() -> str:
    """The page in Markdown."""
    return "\n".join([_HEAD, *map(_section, (POSTGRES, SERVICE_BINDING, KUBE_BIND, KBIND)), _TAIL])


def _section(table: Reasons) -> str:
    rows = [
        f"| `{one.name}` | {one.what} | {_BAD[one.state]} | {_remedies(one)} |"
        for one in sorted(table, key=lambda one: one.name)
    ]
    head = [f"## {table.title}", "", "| reason | what has happened | state | what helps |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _remedies(reason: Reason) -> str:
    """The remedy, and those for who reads the reason in another cluster."""
    others = {"the consumer": reason.consumer, "the provider": reason.provider}
    parts = [f"at {place}: {remedy}" for place, remedy in others.items() if remedy]
    return "; ".join([reason.helps, *parts])


if __name__ == "__main__":
    print(page(), end="")
