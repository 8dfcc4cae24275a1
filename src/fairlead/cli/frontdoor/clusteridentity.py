"""``fairlead cluster-identity``: the name by which providers know a cluster."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.frontdoor.sources import identity_of
from fairlead.cli.options import NAMESPACE, cluster_config, cluster_options
from fairlead.client import Client, ClusterConfig


@click.command("cluster-identity")
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    default="kube-system",
    show_default=True,
    shell_complete=completion.names(completion.namespaces),
    help="Namespace that gives the uid.",
)
@cluster_options
def command(namespace: str, kubeconfig: str | None, context: str | None) -> None:
    """Print the identity of a cluster: the uid of one of its namespaces.

    \b
    Example:
        fairlead cluster-identity --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    print_identity(cluster_config(kubeconfig, context), namespace)


def print_identity(config: ClusterConfig, namespace: str) -> None:
    """Print the uid of a namespace."""

    async def main(stop: asyncio.Event) -> str:
        async with Client(config, user_agent="fairlead-bind") as client:
            return await process.cancel_on(stop, identity_of(client, namespace))

    click.echo(process.run(main))
