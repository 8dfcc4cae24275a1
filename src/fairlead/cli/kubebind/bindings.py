"""``fairlead bindings``: the bindings in a consumer's cluster, and their state."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

import click
from rich.console import (
    Console,
    ConsoleOptions,
    Group,
    JustifyMethod,
    RenderableType,
    RenderResult,
)
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from fairlead import process
from fairlead.api.durations import rough_duration
from fairlead.api.timestamps import moment
from fairlead.cli import completion
from fairlead.cli.options import BINDING_NAME, cluster_config, cluster_options, json_option
from fairlead.cli.printing import STYLES, note
from fairlead.cli.texts import to_json
from fairlead.client import Client, ClientError, ClusterConfig
from fairlead.konnector.commands.overview.fetch import TIMEOUTS, Overview
from fairlead.konnector.commands.overview.rows import (
    MirroredRow,
    OverviewRow,
    UnsyncedObject,
    make_row,
    object_rows,
    seconds_since,
    unsynced,
)


REFRESH = 2.0
"""Seconds between two updates of the table on a terminal."""
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("BINDING", "left"),
    ("PROVIDER", "left"),
    ("RESOURCES", "left"),
    ("IN SYNC", "right"),
    ("LAG", "right"),
    ("HEARTBEAT", "right"),
    ("PROBLEM", "left"),
)
_NARROW = 120
"""Width of a line below which problems are printed under the table, in characters."""
_SLIM = 60
"""Width of a line below which each binding is a list of its own, in characters."""
_PROTOCOL: tuple[str, JustifyMethod] = ("PROTOCOL", "left")
"""The column that is there while one of kbind v2 is."""
_WIDE = 10_000
"""Width of a line without a terminal, in characters, so that no line is wrapped."""
_AGENT = "fairlead-bindings"
_EVENTS = (
    "Events about the copies stay in the provider's cluster, where its team reads them; "
    "`fairlead explain KIND/NAME` names the object there"
)
NO_VERSIONS: Mapping[str, Sequence[str]] = MappingProxyType({})
_NONE = "Nothing is bound here. With a provider's invitation: fairlead bind -f FILE"


@click.command("bindings")
@cluster_options
@click.argument(
    "binding",
    type=BINDING_NAME,
    required=False,
    shell_complete=completion.names(completion.shown_bindings),
    default="",
)
@click.option("--once", is_flag=True, help="Print the table once; the default without a terminal.")
@click.option(
    "--objects",
    is_flag=True,
    help="List the objects of BINDING that are not in sync, each with the reason and the remedy.",
)
@json_option
def command(
    binding: str,
    once: bool,
    objects: bool,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show all bindings of a cluster: objects in sync, lag, heartbeat, problem.

    IN SYNC counts objects that are equal to their copies. LAG is the age of the oldest change that
    has not crossed. HEARTBEAT is the age of the konnector's last report to the provider. A
    question mark stands for a value that could not be read. RESOURCES names the versions that the
    cluster serves; it refuses manifests of other versions. PROBLEM ends with the remedy. With
    BINDING only that binding is shown. The command writes nothing.

    The table also lists the bindings of kbind v2, and Connections that no binding names; their
    HEARTBEAT is the age of the Lease at the provider. BINDING may have their kind and namespace.
    The command compares their objects if you may read the Secret with the Connection's kubeconfig.

    \b
    Example:
        fairlead bindings --kubeconfig consumer.kubeconfig
        fairlead bindings --once
        fairlead bindings postgres --objects
        fairlead bindings binding/shop/widgets
        fairlead bindings --json | jq '.bindings[] | select(.problem != "")'
    """  # noqa: D301
    if objects and not binding:
        raise click.UsageError("--objects needs the name of a binding")
    config = cluster_config(kubeconfig, context)
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_WIDE)
    if objects:
        listed = process.run(lambda stop: process.cancel_on(stop, _objects(config, binding)))
        if as_json:
            click.echo(_json({"binding": binding, "objects": listed}))
        else:
            console.print(ObjectsTable(binding, listed))
            if listed:
                note([_EVENTS])
        return
    # A dumb terminal cannot move its cursor up, which a live table needs.
    if as_json or once or not console.is_terminal or console.is_dumb_terminal:
        rows, now, notes = process.run(
            lambda stop: process.cancel_on(stop, _once(config, binding))
        )
        if as_json:
            click.echo(rows_json(rows))
        else:
            console.print(BindingsTable(rows, now))
        note(notes)
        return
    process.run(lambda stop: _watch(config, binding, console, stop))


class _Look(NamedTuple):
    """The lines of one look, its moment, and what the caller may not see."""

    rows: list[OverviewRow]
    now: datetime
    notes: list[str]

    def table(self) -> RenderableType:
        """Return the table, with the notes below it."""
        table = BindingsTable(self.rows, self.now)
        if not self.notes:
            return table
        return Group(table, *(Text(f"note: {_plain(line)}", style="dim") for line in self.notes))


async def _once(config: ClusterConfig, binding: str) -> _Look:
    async with _client(config) as client, Overview(client) as overview:
        return await _read(overview, binding)


async def _objects(config: ClusterConfig, binding: str) -> list[UnsyncedObject]:
    async with _client(config) as client, Overview(client) as overview:
        bindings = (await overview.fetch_all(binding)).bindings
        now = moment()
        if len(bindings) > 1:
            titles = " and ".join(make_row(bound, now).title for bound in bindings)
            raise click.ClickException(
                f"several bindings have the name {binding}: {titles}; name one with its kind"
            )
        (bound,) = bindings
        if not bound.reached:
            problem = _plain(make_row(bound, now).problem or bound.unseen)
            raise click.ClickException(f"the objects of {binding} cannot be compared: {problem}")
        waiting = [
            pair.consumer
            for kind in bound.kinds or ()
            for pair, _ in unsynced(kind)
            if pair.consumer is not None
        ]
        return object_rows(bound, await overview.warnings(waiting), now)


def _client(config: ClusterConfig) -> Client:
    return Client(config, user_agent=_AGENT, timeouts=TIMEOUTS)


async def _read(overview: Overview, binding: str) -> _Look:
    bindings, notes = await overview.fetch_all(binding)
    now = moment()
    return _Look([make_row(bound, now) for bound in bindings], now, notes)


async def _watch(
    config: ClusterConfig, binding: str, console: Console, stop: asyncio.Event
) -> None:
    """Refresh the table until ``stop``; the first look has to succeed, later ones are retried."""
    async with _client(config) as client, Overview(client) as overview:
        # Ctrl-C is how the table ends, and no error.
        with contextlib.suppress(asyncio.CancelledError):
            shown = await process.cancel_on(stop, _read(overview, binding))
            last = shown.table()
            with Live(last, console=console, auto_refresh=False) as live:
                while not stop.is_set():
                    await _pause(stop)
                    tried = await process.cancel_on(stop, _try(overview, binding))
                    failed = isinstance(tried, Text)
                    # The last table stays above the error: a failed look removes nothing from the
                    # screen.
                    last = last if failed else tried
                    live.update(Group(last, tried) if failed else last, refresh=True)


async def _try(overview: Overview, binding: str) -> RenderableType:
    """Return the table, or the reason why there is none this time."""
    try:
        return (await _read(overview, binding)).table()
    except ClientError as error:
        return Text(_plain(str(error)), style="red")


async def _pause(stop: asyncio.Event) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), REFRESH)


def rows_json(rows: Sequence[OverviewRow]) -> str:
    """Return one document with all rows."""
    return _json({"bindings": rows})


def _json(document: object) -> str:
    return to_json(document)


class ObjectsTable:
    """Table of the objects that are not in sync."""

    def __init__(self, binding: str, rows: Sequence[UnsyncedObject]) -> None:
        self._binding = binding
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for the current width."""
        if not self._rows:
            yield f"All objects of {_plain(self._binding)} are in sync."
            return
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("OBJECT", overflow="fold")
        table.add_column("SINCE", justify="right", no_wrap=True)
        table.add_column("WHY", overflow="fold")
        for row in self._rows:
            name = f"{row.namespace}/{row.name}" if row.namespace else row.name
            table.add_row(
                Text(_plain(f"{row.kind} {name}"), style="bold"),
                age(row.since_seconds),
                Text(_plain(_waits(row))),
            )
        yield table


def _waits(row: UnsyncedObject) -> str:
    text = row.waits_for
    if row.warning:
        text += f"; warned {age(row.warning_seconds)} ago of {row.warning}"
    return f"{text}; next: {row.remedy}" if row.remedy else text


class BindingsTable:
    """Table of the bindings; on a narrow terminal the problems are below it."""

    def __init__(self, rows: Sequence[OverviewRow], now: datetime) -> None:
        self._rows = rows
        self._now = now

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table for the current width."""
        if not self._rows:
            yield _NONE
            return
        columns = list(_COLUMNS)
        is_mixed = any(isinstance(row, MirroredRow) for row in self._rows)
        if is_mixed:
            columns.insert(1, _PROTOCOL)
        if options.max_width < _SLIM:
            yield from self._lists([header for header, _ in columns], is_mixed=is_mixed)
            return
        narrow = options.max_width < _NARROW
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for header, justify in columns[:-1] if narrow else columns:
            table.add_column(header, justify=justify, overflow="fold", no_wrap=justify == "right")
        for row in self._rows:
            cells = _cells(row, self._now, is_mixed=is_mixed)
            table.add_row(*(cells[:-1] if narrow else cells))
        yield table
        problems = [row for row in self._rows if row.problem or row.remarks] if narrow else []
        if problems:
            yield ""
        for row in problems:
            yield Text.assemble(_name(row), ": ", _problem(row, self._now))

    def _lists(self, headers: Sequence[str], *, is_mixed: bool) -> RenderResult:
        """Yield a list for each binding: columns of a table would have two or three letters."""
        for position, row in enumerate(self._rows):
            if position:
                yield ""
            cells = _cells(row, self._now, is_mixed=is_mixed)
            yield cells[0]
            table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
            table.add_column(no_wrap=True)
            table.add_column(overflow="fold")
            for header, cell in zip(headers[1:-1], cells[1:-1], strict=True):
                table.add_row(f"  {header}", cell)
            yield table
            if row.problem or row.remarks:
                yield Padding(cells[-1], (0, 0, 0, 2))


def _cells(row: OverviewRow, now: datetime, *, is_mixed: bool = False) -> list[Text]:
    """Return the cells of a line; the protocol is one where there is one of kbind v2."""
    protocol = row.protocol if isinstance(row, MirroredRow) else "v1alpha2"
    is_known = row.in_sync is not None
    behind = "yellow" if is_known and row.in_sync != row.objects else ""
    heartbeat = row.heartbeat_age(now)
    return [
        _name(row),
        *([Text(protocol)] if is_mixed else ()),
        Text(_plain(row.provider) or "-"),
        Text(_plain(short(row.resources, row.versions))),
        Text(_count(row.in_sync, row.objects), style=behind),
        Text(age(row.lag_seconds) if is_known else "?", style=behind),
        Text("?" if heartbeat is None else age(heartbeat)),
        _problem(row, now),
    ]


def _name(row: OverviewRow) -> Text:
    return Text(_plain(row.title), style="bold")


def _problem(row: OverviewRow, now: datetime) -> Text:
    """Return the problem, how long it is there, and its remedy.

    They are one line for each binding, if the width allows it; a binding that is well has its
    remarks there.
    """
    problems = [(row.problem, row.remedy, row.since)] if row.problem else []
    problems += [(f"remark: {remark.text}", remark.remedy, remark.since) for remark in row.remarks]
    text = Text("" if problems else "-")
    for number, (problem, remedy, since) in enumerate(problems):
        is_remark = number or not row.problem
        text.append("; " if number else "")
        text.append(_plain(problem), style="yellow" if is_remark else STYLES[row.state])
        lasts = seconds_since(since, now)
        if lasts is not None:
            text.append(f" (for {age(lasts)})")
        if remedy:
            text.append("; next: ", style="bold").append(_plain(remedy), style="default")
    return text


def _count(in_sync: int | None, objects: int | None) -> str:
    if objects is None:
        return "?"
    return f"{'?' if in_sync is None else in_sync}/{objects}"


def short(resources: Sequence[str], versions: Mapping[str, Sequence[str]] = NO_VERSIONS) -> str:
    """Return the plural names of resources, with the group if a plural occurs twice.

    ``versions`` are those that are served, by plural and group; manifests have to name one.
    """
    plurals = [name.partition(".")[0] for name in resources]
    shown: list[Any] = [
        (plural if plurals.count(plural) == 1 else name) + _in_versions(versions.get(name, ()))
        for plural, name in zip(plurals, resources, strict=True)
    ]
    return ", ".join(shown) or "-"


def _in_versions(versions: Sequence[str]) -> str:
    return f" ({', '.join(versions)})" if versions else ""


def age(seconds: float | None) -> str:
    """Return a duration in its largest unit; "-" for None."""
    return "-" if seconds is None else rough_duration(timedelta(seconds=seconds))


def _plain(text: str) -> str:
    """Return one line without control characters: providers choose part of these texts."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
