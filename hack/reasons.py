"""The page of all reasons: ``python -m hack.reasons > docs/reasons.md``."""

from __future__ import annotations

from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import Reasons
from fairlead.api.reasons.postgres import POSTGRES
from fairlead.api.reasons.servicebinding import SERVICE_BINDING


_HEAD = """\
# Reasons

What conditions and Events of the three systems give for a reason, what has happened, and what
helps: the explaining commands end with the same words. This page is made of the program's own
tables by `python -m hack.reasons > docs/reasons.md`.
"""
_BAD = {"failed": "broken", "waiting": "waits", "unknown": "not seen", "ok": "well"}


def page() -> str:
    """The page in Markdown."""
    return "\n".join([_HEAD, *map(_section, (POSTGRES, SERVICE_BINDING, KUBE_BIND))])


def _section(table: Reasons) -> str:
    rows = [
        f"| `{one.name}` | {one.what} | {_BAD[one.state]} | {one.helps} |"
        for one in sorted(table, key=lambda one: one.name)
    ]
    head = [f"## {table.title}", "", "| reason | what has happened | | what helps |"]
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    print(page(), end="")
