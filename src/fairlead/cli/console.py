"""``fairlead console``: pages about a cluster, served on loopback with the caller's rights."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fairlead import process
from fairlead.cli.frontdoor import browser
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.cli.postgresaccess.shared import operator_namespace_option
from fairlead.cli.texts import printable


if TYPE_CHECKING:
    from fairlead.client import Client
    from fairlead.portal.own import OwnConsole


_LOOK_SECONDS = 0.2
"""Seconds between two checks for a key that was pressed in the terminal."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Fairlead</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url={url}">
<p><a href="{url}">Go on</a></p></html>
"""


@click.command("console")
@cluster_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port on 127.0.0.1 to listen on; default: a free one.",
)
@click.option(
    "--address",
    default="127.0.0.1",
    hidden=True,
    help="Refused: the pages have the caller's rights, and no one signs in.",
)
@click.option("--skip-browser", is_flag=True, help="Print the link instead of opening it.")
@operator_namespace_option
def command(
    port: int,
    address: str,
    skip_browser: bool,
    operator_namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Show bindings, accesses and workloads of a cluster in a browser.

    The pages are served on 127.0.0.1 only, with the rights of the kubeconfig, until Ctrl-C. The
    command prints a link that admits one browser, once, within a minute; Enter prints another. The
    pages say which objects you may not see. The only thing they write is an unbinding that you
    confirm.

    \b
    Example:
        fairlead console --kubeconfig consumer.kubeconfig
        fairlead console --context shop --port 8088 --skip-browser
    """  # noqa: D301
    if address != "127.0.0.1":
        raise click.UsageError(
            f"--address {address}: the console listens only on 127.0.0.1, since its pages have "
            "your rights; over ssh, forward a port: ssh -L 8088:127.0.0.1:8088 HOST, with "
            "--port 8088 there"
        )
    config = cluster_config(kubeconfig, context)
    # Imported here: an installation without the front door's extra lists its commands too.
    from fairlead.client import Client
    from fairlead.konnector.commands.overview.fetch import TIMEOUTS
    from fairlead.portal.own import OwnConsole, administers, hosts_mirrors, listen

    # Before the cluster is asked: a port that is in use is reported at once.
    listening = listen(port)

    async def main(stop: asyncio.Event) -> None:
        client = Client(config, user_agent="fairlead-console", timeouts=TIMEOUTS)
        with contextlib.closing(listening):
            async with client:
                # At once, since each waits for a cluster that hangs.
                async with asyncio.TaskGroup() as group:
                    consumers = group.create_task(_allowed(administers, client))
                    mirrored = group.create_task(_allowed(hosts_mirrors, client))
                console = OwnConsole(
                    client,
                    listening,
                    print_link,
                    operator_namespace=operator_namespace,
                    consumers=consumers.result(),
                    mirrored=mirrored.result(),
                )
                click.echo(f"serving {printable(config.server)} at {console.external.origin}")
                # Ctrl-C is how the command ends, and no error.
                with contextlib.suppress(asyncio.CancelledError):
                    await process.cancel_on(stop, _serve(console, skip_browser=skip_browser))

    process.run(main)


async def _allowed(sees: Callable[[Client], Awaitable[bool]], client: Client) -> bool:
    """Whether the caller sees consumers; False for a cluster that cannot be reached."""
    from fairlead.client import ClientError

    try:
        return await sees(client)
    except ClientError:
        return False


async def _serve(console: OwnConsole, *, skip_browser: bool) -> None:
    url = await console.link()
    with _opening(url) as file:
        browser.show(url, skip=skip_browser, by=file)
        if sys.stdin.isatty():
            click.echo("Enter prints another link, Ctrl-C ends.", err=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(console.run())
            group.create_task(answer_enter(console))


def print_link(url: str) -> None:
    """Print a link, and how long it is valid."""
    click.echo(
        f"open this link within a minute; it works once:\n\n    {printable(url)}\n", err=True
    )


@contextlib.contextmanager
def _opening(url: str) -> Iterator[str]:
    """Yield the URL of a file of this user alone that redirects a browser to an address.

    All users of a machine see the arguments of its processes: the address itself, which signs a
    browser in, must not be an argument.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-console-") as folder:
        file = Path(folder) / "open.html"
        file.touch(mode=0o600)
        file.write_text(_PAGE.format(url=escape(url)))
        yield file.as_uri()


async def answer_enter(console: OwnConsole) -> None:
    """Print a link whenever Enter is pressed, until cancelled or until the input ends."""
    try:
        terminal = sys.stdin.fileno()
    except (OSError, ValueError):
        return
    while os.isatty(terminal):
        await asyncio.sleep(_LOOK_SECONDS)
        # In the background a read would stop the program.
        if os.tcgetpgrp(terminal) != os.getpgrp():
            continue
        if select.select([terminal], [], [], 0)[0]:
            if not os.read(terminal, 4096):
                return
            print_link(await console.link())
