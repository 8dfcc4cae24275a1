"""``fairlead provider rotate``: new credentials for a consumer."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import Any

import click

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.cli import completion
from fairlead.cli.kubebind.kbindinvite import check_folder, hand_out
from fairlead.cli.kubebind.reaching import invite_options, reaching_flags
from fairlead.cli.options import cluster_config, cluster_options, timeout_option
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.rotation.v2 import rotate_kbind
from fairlead.provider.commands.rotation.work import rotate as rotate_credentials
from fairlead.provider.manifests import NAME
from fairlead.provider.v2.record import is_home


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
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for a consumer of kbind v2, with the new token; its mode is 0600. Without it the "
    "file is printed.",
)
def rotate(
    name: str,
    seconds: float,
    finish: bool,
    output: Path | None,
    kubeconfig: str | None,
    context: str | None,
    **reaching: Any,
) -> None:
    """Give the consumer NAME a new token, which its konnector fetches by itself.

    The old token works until the konnector reports that it uses the new one. If the command is
    interrupted, run it again to continue. For a consumer of kbind v2 the command writes a file:
    have it applied in the consumer's cluster, then revoke the old token with --finish.

    \b
    Example:
        fairlead provider rotate shop-team
        fairlead provider rotate shop-team -o shop-team.yaml
    """  # noqa: D301
    if output is not None:
        check_folder(output)
    options = invite_options(reaching)
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> list[JSON]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:

            async def work() -> list[JSON]:
                consumer = await find_consumer(client, name)
                if is_home(consumer):
                    return await rotate_kbind(
                        client, consumer, options=options, finish=finish, progress=say
                    )
                if output is not None:
                    raise click.UsageError(
                        f"--output is for consumers of kbind v2: the konnector of {name} fetches "
                        "its new token by itself"
                    )
                await rotate_credentials(
                    client,
                    consumer,
                    options=options,
                    timeout=seconds,
                    finish=finish,
                    progress=say,
                )
                return []

            return await process.cancel_on(stop, work())

    documents = process.run(main)
    if not documents:
        click.echo(f"{name} has a new token")
        return
    if not finish or output is not None:
        hand_out(documents, output, name)
    if finish:
        say(f"the new token of {name} is the only one")
    else:
        say(f"then delete the old token: fairlead provider rotate {shlex.quote(name)} --finish")
