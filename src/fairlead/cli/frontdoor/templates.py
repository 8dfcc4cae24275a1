"""``fairlead templates``: the templates that a provider offers to the caller."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.cli.frontdoor.options import Where, backend, find_server, server_options
from fairlead.cli.frontdoor.output import age, members, name_of, output_option, show, table
from fairlead.cli.printing import note


@click.command("templates")
@output_option
@server_options
def command(output: str | None, **where: Any) -> None:
    """List what the provider offers you.

    \b
    Example:
        fairlead templates
        fairlead templates -o name
    """  # noqa: D301
    list_templates(output, Where(**where))


def list_templates(output: str | None, where: Where, url: str = "") -> None:
    """Print the templates of a server."""
    front_door = find_server(where, url)

    async def main(stop: asyncio.Event) -> list[JSON]:
        async with backend(where, front_door) as server:
            items = await process.cancel_on(stop, server.templates())
            note(server.warnings)
            return items

    items = sorted(process.run(main), key=name_of)
    if output:
        # Lists of the original's have items without kind and apiVersion in some versions.
        kinds = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "APIServiceExportTemplate"}
        show([kinds | item for item in items], output)
        return
    rows = [
        (
            name_of(item),
            _kinds(members(item, "spec", "resources")),
            _kinds(members(item, "spec", "permissionClaims")),
            age(item),
        )
        for item in items
    ]
    none = f"{front_door.address.url} offers you nothing"
    table(("NAME", "RESOURCES", "PERMISSIONCLAIMS", "AGE"), rows, none)


def _kinds(items: list[JSON]) -> str:
    parts = ((str(one.get("resource") or ""), str(one.get("group") or "")) for one in items)
    return ",".join(f"{name}.{group}" if group else name for name, group in parts)
