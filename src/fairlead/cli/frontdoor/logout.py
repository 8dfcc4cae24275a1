"""``fairlead logout``: end a sign-in, here and on the server."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.api.timestamps import moment
from fairlead.cli.frontdoor.options import (
    Where,
    backend,
    config_file,
    find_server,
    server_options,
)
from fairlead.cli.texts import plain


@click.command("logout")
@click.argument("url", required=False, default="")
@server_options
def command(url: str, **where: Any) -> None:
    """End the sign-in to a front door, here and on the server.

    The token is removed here in any case. If the server cannot be reached, the command fails,
    because the token stays valid until it expires.

    \b
    Example:
        fairlead logout
        fairlead logout https://bind.example.org
    """  # noqa: D301
    from fairlead.portal.client.addresses import FrontDoorError, SignInNeeded

    chosen = Where(**where)
    front_door = find_server(chosen, url)
    name = plain(front_door.address.key)
    if front_door.token is None:
        click.echo(f"you are not signed in to {name}")
        return

    async def main(stop: asyncio.Event) -> None:
        async with backend(chosen, front_door) as server:
            await process.cancel_on(stop, server.logout())

    problem: FrontDoorError | None = None
    # A server forgets an expired sign-in by itself.
    if not front_door.token.expired(moment()):
        try:
            process.run(main)
        except SignInNeeded:
            # The session is over already, which is the wanted state.
            pass
        except FrontDoorError as error:
            problem = error
    config_file(chosen).change(lambda servers: servers.sign_out(front_door.address))
    if problem is not None:
        raise click.ClickException(
            f"the token is removed here, but not ended on the server: {plain(str(problem))}"
        )
    click.echo(f"signed out of {name}")
