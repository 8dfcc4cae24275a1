"""``fairlead accept``: give the konnector the rights of a binding that another party made."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    parse_duration,
    timeout_option,
)
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.konnector.commands.accept import accept


@click.command("accept")
@cluster_options
@click.argument("binding", shell_complete=completion.names(completion.bindings))
@timeout_option("2m", "until it is Ready")
@konnector_namespace_option
def command(
    binding: str, timeout: str, namespace: str, kubeconfig: str | None, context: str | None
) -> None:
    """Let the konnector synchronize the objects of BINDING.

    Use it for bindings that `fairlead bind` did not make, such as those of an
    APIServiceBindingBundle, for the konnector cannot give itself rights. The command shows what
    the provider exports and claims, writes ClusterRoles for exactly that, and waits until the
    binding is Ready.

    \b
    Example:
        fairlead accept postgres --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    seconds = parse_duration(timeout, option="--timeout")
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-accept") as client:
            work = accept(
                client,
                binding,
                timeout=seconds,
                progress=say,
                namespace=namespace,
            )
            await process.cancel_on(stop, work)

    process.run(main)
    click.echo(f"apiservicebinding.kube-bind.io/{binding} is Ready")
