"""The page of alerts, from ``config/alerts``; each leads to its runbook."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import yaml
from hack.reference.tables import ROOT, code, table, words


_HEAD = """\
# Alerts

When an alert has fired, find it here by its name, read what it means, and follow the link to its
runbook, which says how to see the problem and how to fix it.
[Monitor Fairlead](../how-to/monitor.md) shows how to turn the alerts on, and
[Metrics](../metrics.md) says what the series count.

The rules are Prometheus rules in `config/alerts`. The chart can create them as PrometheusRules.
"""
_PROGRAMS = {
    "binding": "fairlead binding run",
    "konnector": "fairlead konnector run",
    "postgres": "fairlead postgres run",
    "programs": "Every program",
    "provider": "fairlead provider run",
    "serve": "fairlead provider serve",
}
"""The program that serves the series of a file of rules."""


def pages() -> dict[str, str]:
    """The page by its path below the reference."""
    files = sorted((ROOT / "config" / "alerts").glob("*.yaml"))
    parts = [_HEAD]
    for path in files:
        parts += _section(path)
    return {"alerts.md": "\n".join(parts)}


def _section(path: Path) -> Iterator[str]:
    text = path.read_text()
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    yield f"## {_PROGRAMS[path.stem]}\n"
    yield f"{words(_comment(text))} File: {code(f'config/alerts/{path.name}')}.\n"
    rows = [
        (f"[{rule['alert']}](#{rule['alert'].lower()})", rule["labels"]["severity"], _after(rule))
        for rule in rules
    ]
    yield table(("alert", "severity", "fires after"), rows)
    for rule in rules:
        yield f"### {rule['alert']}\n"
        notes = rule["annotations"]
        yield f"{words(_plain(notes['description']))}\n"
        yield f"```promql\n{textwrap.dedent(rule['expr']).strip()}\n```\n"
        name = Path(notes["runbook_url"]).name
        yield f"Runbook: [{rule['alert']}](../runbooks/{name})\n"


def _after(rule: dict[str, str]) -> str:
    return rule.get("for", "at once")


def _comment(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return " ".join(lines)


def _plain(text: str) -> str:
    """The text with what its template names as code."""
    return re.sub(r"\{\{\s*(.+?)\s*\}\}", lambda match: code(match.group(1)), text)
