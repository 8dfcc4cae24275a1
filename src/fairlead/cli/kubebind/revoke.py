"""``fairlead provider revoke``: removal of a consumer."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.errors import INCOMPLETE
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    timeout_option,
    yes_option,
)
from fairlead.cli.texts import plain, say
from fairlead.client import Client
from fairlead.provider import bounds
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.revoke.inventory import Inventory, inventory
from fairlead.provider.commands.revoke.v2 import (
    kbind_inventory,
    lock_out_kbind,
    revoke_kbind,
)
from fairlead.provider.commands.revoke.work import ClearingError, RevokeError, lock_out
from fairlead.provider.commands.revoke.work import revoke as revoke_consumer
from fairlead.provider.manifests import NAME
from fairlead.provider.v2.record import is_home


class Unfinished(click.ClickException):
    """The access is removed, and objects remain."""

    exit_code = INCOMPLETE


@click.command("revoke")
@cluster_options
@click.argument("name", shell_complete=completion.names(completion.consumers))
@click.option(
    "--keep-data",
    is_flag=True,
    help="Leave the consumer's namespaces and objects on the provider; after that they belong to"
    " no consumer.",
)
@click.option(
    "--force",
    is_flag=True,
    help=f"Remove finalizers that hold the consumer's objects for longer than "
    f"{bounds.FINALIZER_SECONDS:g} s; what their owners would have removed stays.",
)
@yes_option
@timeout_option("10m", "for what finalizers hold")
def revoke(
    name: str,
    keep_data: bool,
    force: bool,
    yes: bool,
    seconds: float,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Remove the consumer NAME: its access at once, then its data.

    NAME is what `fairlead provider consumers` shows, or the cluster namespace. Once the access is
    gone, the provider's controllers delete the data; the command shows what they wait for. If it
    is interrupted, they go on, and the command run again waits on. If it is a consumer of kbind
    v2, the command deletes the data itself; run it again to continue. The exit code is 3 when the
    access is gone and data is left: the message says what helps.

    \b
    Example:
        fairlead provider revoke shop-team
    """  # noqa: D301
    config = cluster_config(kubeconfig, context)

    async def read_inventory(stop: asyncio.Event) -> Inventory:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:

            async def take_inventory() -> Inventory:
                consumer = await find_consumer(client, name)
                if yes:
                    # Without a question, no inventory is needed before the access is removed.
                    with suppress(RevokeError):
                        await (lock_out_kbind if is_home(consumer) else lock_out)(
                            client, consumer, say
                        )
                count = kbind_inventory if is_home(consumer) else inventory
                return await count(client, consumer)

            return await process.cancel_on(stop, take_inventory())

    async def work(stop: asyncio.Event) -> None:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:

            async def done() -> None:
                # By the namespace that the question named: while it was asked, the identity may
                # have come to mean another consumer, or several.
                consumer = await find_consumer(client, before.namespace)
                await (revoke_kbind if is_home(consumer) else revoke_consumer)(
                    client,
                    consumer,
                    keep_data=keep_data,
                    force=force,
                    timeout=seconds,
                    progress=say,
                )

            await process.cancel_on(stop, done())

    # A wrong name is reported before the question.
    before = process.run(read_inventory)
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes")
    click.echo(before.text(keep_data=keep_data, force=force), err=True)
    if not yes:
        click.confirm("Revoke it?", abort=True, err=True)
    try:
        process.run(work)
    except ClearingError as error:
        raise Unfinished(plain(str(error))) from None
    click.echo(f"{before.identity} is revoked")
