"""Output of objects as tables, JSON, YAML or names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import click

from fairlead.api.durations import rough_duration
from fairlead.api.meta import JSON
from fairlead.api.timestamps import moment, parse_time
from fairlead.cli.texts import plain, printable, to_json


F = TypeVar("F", bound=Callable[..., Any])

_GAP = "   "


def output_option(function: F) -> F:
    """Add ``-o``, the form of printed objects."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["json", "yaml", "name"]),
        help="Print objects in this form.",
    )(function)


def show(objects: Sequence[JSON], output: str, *, listed: bool = True) -> None:
    """Print objects as JSON, YAML or names.

    Args:
        objects: each with kind and apiVersion.
        output: the format: json, yaml or name.
        listed: whether a single object is printed as a List in JSON and YAML, too.
    """
    if output == "name":
        for body in objects:
            click.echo(plain(_name(body)))
        return
    bodies = list(objects)
    if output == "yaml" and not listed:
        _yaml(bodies)
        return
    document: JSON = {"apiVersion": "v1", "kind": "List", "items": bodies}
    if not listed and len(bodies) == 1:
        document = bodies[0]
    if output == "json":
        click.echo(to_json(document))
    else:
        _yaml([document])


def _yaml(documents: list[JSON]) -> None:
    from fairlead.cli.crds import to_yaml

    click.echo(to_yaml(documents), nl=False)


def _name(body: JSON) -> str:
    # The form of kubectl's -o name: kind.group/name.
    group = str(body.get("apiVersion") or "").rpartition("/")[0]
    kind = str(body.get("kind") or "").lower()
    return f"{kind}.{group}/{name_of(body)}" if group else f"{kind}/{name_of(body)}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], none: str) -> None:
    """Print rows below their columns, as kubectl does; where there are none, say so."""
    if not rows:
        click.echo(none, err=True)
        return
    lines = [list(columns), *([plain(cell) or "-" for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        click.echo(printable(_GAP.join(cells).rstrip()))


def name_of(body: JSON) -> str:
    """Return an object's name."""
    return str((body.get("metadata") or {}).get("name") or "")


def age(body: JSON) -> str:
    """Return the age of an object; "" if it is unknown."""
    try:
        created = parse_time(str((body.get("metadata") or {}).get("creationTimestamp") or ""))
    except (ValueError, OverflowError):
        # OverflowError is of a time at the edge of Python's years, which a server may send.
        return ""
    return rough_duration(max(moment() - created, timedelta()))


def members(body: JSON, *path: str) -> list[JSON]:
    """Return the objects of a list somewhere in an object; [] if its form is wrong."""
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
