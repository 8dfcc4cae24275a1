"""``fairlead provider consumers``: who uses a provider's cluster, as a table or as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairlead import process
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.timestamps import moment
from fairlead.cli.errors import INCOMPLETE
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.cli.printing import STYLES
from fairlead.cli.texts import printable, to_json
from fairlead.client import Client
from fairlead.provider.commands.overview import Row, age
from fairlead.provider.commands.overview import consumers as census
from fairlead.provider.manifests import NAME


_COLUMNS = (
    *("CONSUMER", "NAMESPACE", "TEMPLATES", "EXPORTS", "OBJECTS"),
    *("KONNECTOR", "HEARTBEAT", "HEALTH"),
)
_PIPE_WIDTH = 10_000
"""Columns where no terminal says how wide it is: a line for each consumer, for grep."""
_LONG = 80
"""So many characters of a version are shown: consumers write it, and as long as they like."""
_NARROW = 100
"""Columns below which versions are left out."""


@click.command("consumers")
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def consumers(as_json: bool, kubeconfig: str | None, context: str | None) -> None:
    """List the consumers of a provider's cluster, with heartbeat and synced objects.

    TEMPLATES is what each was invited to, and so what it may request. A kind that cannot be
    listed is told, with "+ ?" behind the OBJECTS of those that export it, and the exit code is 3.
    HEALTH says what is wrong; what helps stands below, on standard error.

    \b
    Example:
        fairlead provider consumers --kubeconfig provider.kubeconfig
    """  # noqa: D301
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> list[Row]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            return await process.cancel_on(stop, census(client))

    found = process.run(main)
    if as_json:
        click.echo(to_json(found))
    elif found:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_PIPE_WIDTH)
        narrow = console.width < _NARROW
        console.print(table(found, now=moment(), narrow=narrow))
        for row in found:
            for warning in row.warnings:
                click.echo(printable(f"warning: {row.title}: {warning}"), err=True)
            if row.remedy and not row.deleting:
                click.echo(printable(f"next: {row.title}: {row.remedy}"), err=True)
    else:
        click.echo(
            "no consumers yet: fairlead provider invite NAME --template T -o FILE", err=True
        )
    unseen = {kind: why for row in found for kind, why in row.not_counted.items()}
    for kind, why in sorted(unseen.items()):
        line = f"warning: objects of {kind} are not counted, for they cannot be listed: {why}"
        click.echo(printable(line), err=True)
    if unseen:
        raise click.exceptions.Exit(INCOMPLETE)


def table(found: Sequence[Row], *, now: datetime, narrow: bool = False) -> Table:
    """The table that people see; a narrow one has no versions, so that namespaces stay whole."""
    result = Table(box=None, pad_edge=False, header_style="bold")
    shown = [name for name in _COLUMNS if not (narrow and name == "KONNECTOR")]
    for name in shown:
        justify: Literal["left", "right"] = "right" if name == "OBJECTS" else "left"
        result.add_column(name, justify=justify, overflow="fold", no_wrap=name == "NAMESPACE")
    for row in found:
        cells: tuple[str | Text, ...] = (
            Text(printable(row.title)),
            row.namespace,
            _templates(row),
            Text(", ".join(row.exports) or "-"),
            f"{row.objects} + ?" if row.not_counted else str(row.objects),
            Text(_konnector(row)),
            Text(printable(age(row.last_heartbeat_time, now)) or "never"),
            _health(row),
        )
        by_name = dict(zip(_COLUMNS, cells, strict=True))
        result.add_row(*(by_name[name] for name in shown))
    return result


def _templates(row: Row) -> Text:
    if row.templates is None:
        return Text("not recorded", style="yellow")
    return Text(", ".join(row.templates) or "-")


def _konnector(row: Row) -> str:
    version = printable(row.konnector_version[:_LONG]) or "-"
    return f"{version} (not Fairlead's)" if row.original_konnector else version


def _health(row: Row) -> Text:
    if row.deleting:
        return Text("being revoked", style=STYLES["waiting"])
    text = "healthy" if row.state == "ok" else KUBE_BIND.what(row.healthy.reason)
    return Text(printable(text), style=STYLES[row.state])
