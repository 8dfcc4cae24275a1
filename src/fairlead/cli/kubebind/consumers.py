"""``fairlead provider consumers``: the consumers of a provider, as a table or as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairlead import process
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.remains import count
from fairlead.api.timestamps import moment
from fairlead.cli.errors import INCOMPLETE
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.cli.printing import STYLES, note
from fairlead.cli.texts import printable, to_json
from fairlead.client import Client
from fairlead.provider.commands.overview import ConsumerRow, age
from fairlead.provider.commands.overview import consumers as census
from fairlead.provider.manifests import NAME
from fairlead.provider.presence import check_provider


_COLUMNS = (
    *("CONSUMER", "PROTOCOL", "NAMESPACE", "TEMPLATES", "EXPORTS", "OBJECTS"),
    *("KONNECTOR", "HEARTBEAT", "HEALTH"),
)
_PIPE_WIDTH = 10_000
"""Width of a line without a terminal, in characters: each consumer is one line for grep."""
_LONG = 80
"""Length to which a konnector's version is cut, in characters; consumers write it."""
_DISPENSABLE = ("PROTOCOL", "KONNECTOR", "TEMPLATES", "EXPORTS", "HEARTBEAT")
"""Columns that are left out one after another before words would be cut."""
_GAP = 2
"""Blanks between two columns."""


@click.command("consumers")
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def consumers(as_json: bool, kubeconfig: str | None, context: str | None) -> None:
    """List the consumers of a provider's cluster, with heartbeat and synced objects.

    TEMPLATES lists the templates that the consumer was invited to, and may request. For a consumer
    of kbind v2, NAMESPACE is the namespace of its objects, EXPORTS are its APIs, and HEARTBEAT is
    the age of its Lease. A narrow terminal shows fewer columns. If a kind cannot be listed, the
    command names it, puts "+ ?" behind the OBJECTS of its consumers, and ends with exit code 3.
    HEALTH names the problem: with the credentials, with the konnector's reports, or with objects
    that a server refuses, as the konnector reports. The command prints the message and the remedy
    below the table, on standard error.

    \b
    Example:
        fairlead provider consumers --kubeconfig provider.kubeconfig
    """  # noqa: D301
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> list[ConsumerRow]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            return await process.cancel_on(stop, listed(client))

    async def listed(client: Client) -> list[ConsumerRow]:
        rows = await census(client)
        if not rows:
            await check_provider(client)
        return rows

    rows = process.run(main)
    if as_json:
        click.echo(to_json(rows))
    elif rows:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_PIPE_WIDTH)
        shown = table(rows, now=moment(), width=console.width)
        console.print(shown.table)
        if shown.left_out:
            note(
                [
                    (
                        f"this terminal is too narrow for {', '.join(shown.left_out)}; --json "
                        "prints everything"
                    )
                ]
            )
        for row in rows:
            for warning in row.warnings:
                click.echo(printable(f"warning: {row.title}: {warning}"), err=True)
            if row.message:
                click.echo(printable(f"because: {row.title}: {row.message}"), err=True)
            if row.remedy:
                click.echo(printable(f"next: {row.title}: {row.remedy}"), err=True)
    else:
        click.echo(
            "no consumers yet: fairlead provider invite NAME --template T -o FILE", err=True
        )
    unseen = {kind: why for row in rows for kind, why in row.not_counted.items()}
    for kind, why in sorted(unseen.items()):
        line = f"warning: objects of {kind} are not counted, since they cannot be listed: {why}"
        click.echo(printable(line), err=True)
    if unseen:
        raise click.exceptions.Exit(INCOMPLETE)


class Shown(NamedTuple):
    """The table, and the names of the columns that are left out for want of room."""

    table: Table
    left_out: list[str]


def table(rows: Sequence[ConsumerRow], *, now: datetime, width: int = _PIPE_WIDTH) -> Shown:
    """Return the table for a width in characters: words stay whole, and so do namespaces."""
    cells = [_cells(row, now) for row in rows]
    columns = {
        name: [Text(name), *(row[index] for row in cells)] for index, name in enumerate(_COLUMNS)
    }
    left_out: list[str] = []
    if all(row.protocol == "v1alpha2" for row in rows):
        del columns["PROTOCOL"]
    for name in _DISPENSABLE:
        if name not in columns:
            continue
        if sum(map(_least, columns.values())) + _GAP * (len(columns) - 1) <= width:
            break
        del columns[name]
        left_out.append(name)
    result = Table(box=None, pad_edge=False, header_style="bold")
    for name, wide in _widths(columns, width).items():
        justify: Literal["left", "right"] = "right" if name == "OBJECTS" else "left"
        whole = name == "NAMESPACE"
        result.add_column(name, justify=justify, overflow="fold", no_wrap=whole, width=wide)
    for row in zip(*columns.values(), strict=True):
        # The first are the names of the columns.
        if row[0] is not columns["CONSUMER"][0]:
            result.add_row(*row)
    return Shown(result, left_out)


def _cells(row: ConsumerRow, now: datetime) -> tuple[Text, ...]:
    return (
        Text(printable(row.title)),
        Text(row.protocol),
        Text(_namespaces(row)),
        _templates(row),
        Text(", ".join(row.exports) or "-"),
        Text(f"{row.objects} + ?" if row.not_counted else str(row.objects)),
        Text(_konnector(row)),
        Text(printable(age(row.last_heartbeat_time, now)) or "never"),
        _health(row),
    )


def _least(column: Sequence[Text]) -> int:
    """Return the width of a column's longest word."""
    return max(cell_len(word) for text in column for word in text.plain.split() or [""])


def _widths(columns: Mapping[str, Sequence[Text]], width: int) -> dict[str, int]:
    """Return the width of each column: its longest word, and more while there is room."""
    widths = {name: _least(column) for name, column in columns.items()}
    room = width - sum(widths.values()) - _GAP * (len(columns) - 1)
    # The narrowest first: each takes what it needs, and the rest is for the wide ones.
    for name, column in sorted(columns.items(), key=lambda item: widths[item[0]]):
        more = max(0, min(room, max(text.cell_len for text in column) - widths[name]))
        widths[name] += more
        room -= more
    return widths


def _namespaces(row: ConsumerRow) -> str:
    """Return the cluster namespace, or those of the objects of a consumer of kbind v2."""
    if row.protocol != "v2":
        return row.namespace
    more = len(row.namespaces) - 1
    shown = row.namespaces[0] if row.namespaces else "all"
    return f"{shown} + {more}" if more > 0 else shown


def _templates(row: ConsumerRow) -> Text:
    if row.templates is None:
        return Text("not recorded", style="yellow")
    return Text(", ".join(row.templates) or "-")


def _konnector(row: ConsumerRow) -> str:
    version = printable(row.konnector_version[:_LONG]) or "-"
    return f"{version} (not Fairlead's)" if row.original_konnector else version


def _health(row: ConsumerRow) -> Text:
    if row.deleting:
        return Text("being revoked", style=STYLES["waiting"])
    if row.warnings and row.state != "failed":
        return Text(count(len(row.warnings), "warning"), style=STYLES["failed"])
    text = "healthy" if row.state == "ok" else KUBE_BIND.what(row.reason)
    return Text(printable(text), style=STYLES[row.state])
