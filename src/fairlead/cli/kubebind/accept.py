"""``fairlead accept``: give the konnector the rights of a binding that another party made."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.kubebind.binding import (
    accepted_webhooks,
    user_roles_option,
    webhook_options,
)
from fairlead.cli.options import (
    OBJECT_NAME,
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    timeout_option,
)
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.conversions import remove_webhooks
from fairlead.konnector.conversions import ACCEPT_FLAG, REMOVE_FLAG


@click.command("accept")
@cluster_options
@click.argument("binding", type=OBJECT_NAME, shell_complete=completion.names(completion.bindings))
@webhook_options
@click.option(
    REMOVE_FLAG,
    "remove_conversion_webhook",
    metavar="URL",
    multiple=True,
    help="Accepted conversion webhook to remove, such as one that does not answer. Objects are "
    "then converted without it: versions drop the fields that they do not have. No other flag of "
    "webhooks goes with it. May be given several times.",
)
@user_roles_option
@timeout_option("2m", "until it is Ready")
@konnector_namespace_option
def command(
    binding: str,
    conversion_webhook: tuple[str, ...],
    conversion_allow_cidr: tuple[str, ...],
    remove_conversion_webhook: tuple[str, ...],
    user_roles: bool,
    seconds: float,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Let the konnector synchronize the objects of BINDING.

    Use it for bindings that `fairlead bind` did not make, such as those of an
    APIServiceBindingBundle, for the konnector cannot give itself rights. The command shows what
    the provider exports and claims, writes ClusterRoles for exactly that, and waits until the
    binding is Ready. Then it lets people who have view, edit or admin in a namespace use the bound
    kinds there.

    A provider can name a webhook that converts between the versions of its kind. It is installed
    only after you have accepted its URL.

    \b
    Example:
        fairlead accept postgres --kubeconfig consumer.kubeconfig
        fairlead accept postgres --conversion-webhook https://convert.example.org/v1
        fairlead accept postgres --remove-conversion-webhook https://convert.example.org/v1
    """  # noqa: D301
    webhooks = accepted_webhooks(conversion_webhook, conversion_allow_cidr)
    if remove_conversion_webhook and webhooks.urls:
        raise click.UsageError(f"{ACCEPT_FLAG} and {REMOVE_FLAG} exclude each other: give one")
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-accept") as client:
            if remove_conversion_webhook:
                removal = remove_webhooks(client, binding, remove_conversion_webhook, say)
                await process.cancel_on(stop, removal)
                return
            work = accept(
                client,
                binding,
                timeout=seconds,
                progress=say,
                namespace=namespace,
                webhooks=webhooks,
                user_roles=user_roles,
            )
            await process.cancel_on(stop, work)

    process.run(main)
    if remove_conversion_webhook:
        click.echo(f"apiservicebinding.kube-bind.io/{binding} has no such webhook any more")
        return
    click.echo(f"apiservicebinding.kube-bind.io/{binding} is Ready")
