"""``fairlead provider rotate``: new credentials for a consumer."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.kubebind.reaching import invite_options, reaching_flags
from fairlead.cli.options import cluster_config, cluster_options, timeout_option
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.rotation.work import rotate as rotate_credentials
from fairlead.provider.manifests import NAME


@click.command("rotate")
@cluster_options
@click.argument("name", shell_complete=completion.names(completion.consumers))
@reaching_flags
@timeout_option("10m", "until the consumer uses its new token")
@click.option(
    "--finish",
    is_flag=True,
    help="Revoke the old token now, even if the consumer does not use the new one yet.",
)
def rotate(
    name: str,
    seconds: float,
    finish: bool,
    kubeconfig: str | None,
    context: str | None,
    **reaching: Any,
) -> None:
    """Give the consumer NAME a new token, which its konnector fetches by itself.

    The old token works until the konnector reports that it uses the new one. If the command is
    interrupted, run it again to continue.

    \b
    Example:
        fairlead provider rotate shop-team
    """  # noqa: D301
    options = invite_options(reaching)
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:

            async def work() -> None:
                await rotate_credentials(
                    client,
                    await find_consumer(client, name),
                    options=options,
                    timeout=seconds,
                    finish=finish,
                    progress=say,
                )

            await process.cancel_on(stop, work())

    process.run(main)
    click.echo(f"{name} has a new token")
