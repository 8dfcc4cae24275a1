"""``fairlead login``: sign in to a provider's front door."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fairlead import process
from fairlead.api.timestamps import format_time
from fairlead.cli.frontdoor import browser
from fairlead.cli.frontdoor.options import (
    Where,
    backend,
    config_file,
    find_server,
    server_options,
)
from fairlead.cli.options import timeout_option
from fairlead.cli.printing import note
from fairlead.cli.texts import plain


if TYPE_CHECKING:
    from fairlead.portal.client.handshakes import SignedIn

SHOWN = 20
"""Number of characters of a token that ``--show-token`` prints."""


@click.command("login")
@click.argument("url", required=False, default="")
@timeout_option("5m", "for the browser")
@click.option("--skip-browser", is_flag=True, help="Print the address instead of opening it.")
@click.option(
    "--show-token", is_flag=True, help=f"Print the first {SHOWN} characters of the token."
)
@server_options
def command(url: str, seconds: float, skip_browser: bool, show_token: bool, **where: Any) -> None:
    """Sign in to the front door of a provider with a browser.

    Without URL the server of the last login is used. The token is kept in ~/.kube-bind/config,
    which kube-bind's own CLI reads and writes too, and the server becomes the current one.

    \b
    Example:
        fairlead login https://bind.example.org
        fairlead login https://bind.example.org --skip-browser     # over ssh
    """  # noqa: D301
    log_in(url, seconds, Where(**where), skip_browser=skip_browser, show_token=show_token)


def log_in(
    url: str, seconds: float, where: Where, *, skip_browser: bool, show_token: bool
) -> None:
    """Sign in, and store the token and the server."""
    from fairlead.portal.client.configfile import ConfiguredServer
    from fairlead.portal.client.handshakes import sign_in

    front_door = find_server(where, url)
    address = front_door.address
    if address.exposed:
        note([f"{address.url} is not https: others on the network can read the token"])

    async def main(stop: asyncio.Event) -> SignedIn:
        async with backend(where, front_door, signed_in=False) as server:
            show = partial(browser.show, skip=skip_browser)
            session = await process.cancel_on(stop, sign_in(server, show, timeout=seconds))
            note(server.warnings)
            return session

    got = process.run(main)
    authority = front_door.certificate_authority
    if where.server_ca_file:
        # The config file is used from other folders too.
        authority = str(Path(where.server_ca_file).absolute())
    entry = ConfiguredServer(address, got.token, got.username, authority)
    config_file(where).change(lambda servers: servers.sign_in(entry))
    who = f" as {plain(got.username)}" if got.username else ""
    until = f" until {format_time(got.token.expires)}" if got.token.expires else ""
    click.echo(f"signed in to {plain(address.key)}{who}{until}")
    if show_token:
        click.echo(f"token: {got.token.text[:SHOWN]}...")
