"""``fairlead collections``: the templates of a provider by collection."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.cli.frontdoor.options import Where, backend, find_server, server_options
from fairlead.cli.frontdoor.output import age, members, name_of, output_option, show, table


@click.command("collections")
@output_option
@server_options
def command(output: str | None, **where: Any) -> None:
    """List the provider's templates by the collections that they are in.

    \b
    Example:
        fairlead collections
        fairlead collections -o yaml
    """  # noqa: D301
    list_collections(output, Where(**where))


def list_collections(output: str | None, where: Where, url: str = "") -> None:
    """Print the collections of a server."""
    front_door = find_server(where, url)

    async def main(stop: asyncio.Event) -> list[JSON]:
        async with backend(where, front_door) as server:
            return await process.cancel_on(stop, server.collections())

    items = sorted(process.run(main), key=name_of)
    if output:
        kinds = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "Collection"}
        show([kinds | item for item in items], output)
        return
    rows = [
        (
            name_of(item),
            _description(item),
            ",".join(str(one.get("name") or "") for one in members(item, "spec", "templates")),
            age(item),
        )
        for item in items
    ]
    table(
        ("NAME", "DESCRIPTION", "TEMPLATES", "AGE"),
        rows,
        f"{front_door.address.url} has no collections for you",
    )


def _description(item: JSON) -> str:
    spec = item.get("spec")
    return str(spec.get("description") or "") if isinstance(spec, dict) else ""
