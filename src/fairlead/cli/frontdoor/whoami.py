"""``fairlead whoami``: the front door in use, the person, and the end of the sign-in."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.api.timestamps import format_time
from fairlead.cli.frontdoor.options import Where, backend, find_server, server_options
from fairlead.cli.options import json_option
from fairlead.cli.texts import plain, to_json


@click.command("whoami")
@click.argument("url", required=False, default="")
@json_option
@server_options
def command(url: str, as_json: bool, **where: Any) -> None:
    """Show the front door in use, who is signed in, and until when.

    The command asks the server whether the token is still valid.

    \b
    Example:
        fairlead whoami
        fairlead whoami --json | jq -r .server
    """  # noqa: D301
    chosen = Where(**where)
    front_door = find_server(chosen, url)

    async def main(stop: asyncio.Event) -> None:
        async with backend(chosen, front_door) as server:
            await process.cancel_on(stop, server.ping())

    process.run(main)
    expires = front_door.token.expires if front_door.token else None
    facts = {
        "server": front_door.address.url,
        "cluster": front_door.address.cluster,
        "username": front_door.username,
        "expires": format_time(expires) if expires else None,
    }
    if as_json:
        click.echo(to_json(facts))
        return
    for name, value in facts.items():
        if value:
            click.echo(f"{name + ':':<10}{plain(value)}")
