"""``fairlead provider hand-over``: transfer of a consumer to another owner."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.cli.texts import printable
from fairlead.client import Client
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.handover import check_author
from fairlead.provider.commands.handover import hand_over as write
from fairlead.provider.manifests import NAME


@click.command("hand-over")
@cluster_options
@click.argument("name", shell_complete=completion.names(completion.consumers))
@click.option(
    "--to",
    "author",
    required=True,
    metavar="USER|GROUP",
    help="The new owner: a person as ISSUER/SUB, or a group as group:NAME, with its name in RBAC.",
)
def hand_over(name: str, author: str, kubeconfig: str | None, context: str | None) -> None:
    """Hand the consumer NAME over to another person, or to a group.

    At the front door a cluster's identity belongs to the person who bound it first. The kubeconfig
    of the former owner still works: `fairlead provider rotate NAME` ends that.

    \b
    Example:
        fairlead provider hand-over shop-cluster --to https://login.example.org/ada
        fairlead provider hand-over shop-cluster --to group:oidc:team-a
    """  # noqa: D301
    try:
        check_author(author)
    except ValueError as error:
        raise click.UsageError(f"--to {error}") from None
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> tuple[str, str]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:

            async def work() -> tuple[str, str]:
                namespace = await find_consumer(client, name)
                return namespace.meta.name, await write(client, namespace, author)

            return await process.cancel_on(stop, work())

    namespace, former = process.run(main)
    before = former or "no one"
    click.echo(printable(f"namespace/{namespace} belongs to {author} now, before to {before}"))
    click.echo(
        "the former owner's kubeconfig still works; to end that: "
        f"fairlead provider rotate {namespace}",
        err=True,
    )
