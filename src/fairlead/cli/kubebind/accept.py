"""``fairlead accept``: give the konnector the rights of a binding that another party made."""

from __future__ import annotations

import asyncio

import click

from fairlead import process
from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.cli.kubebind.binding import (
    accepted_webhooks,
    user_roles_option,
    webhook_options,
)
from fairlead.cli.kubebind.kbind import target_argument
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    timeout_option,
)
from fairlead.cli.texts import say
from fairlead.client import Client
from fairlead.konnector.commands.accept import accept
from fairlead.konnector.commands.conversions import remove_webhooks
from fairlead.konnector.commands.readiness import within
from fairlead.konnector.commands.v2.accept import accept_kbind
from fairlead.konnector.commands.v2.bind import KbindOptions
from fairlead.konnector.commands.v2.targets import KbindTarget, check_plain
from fairlead.konnector.conversions import ACCEPT_FLAG, REMOVE_FLAG


@click.command("accept")
@cluster_options
@target_argument
@webhook_options
@click.option(
    REMOVE_FLAG,
    "remove_conversion_webhook",
    metavar="URL",
    multiple=True,
    help="Accepted conversion webhook to remove, such as one that does not answer. Objects are"
    " then converted without it, and lose the fields that the other version does not have. You"
    " cannot combine it with the other webhook flags. May be given several times.",
)
@user_roles_option
@timeout_option("2m", "until it is Ready")
@konnector_namespace_option
def command(
    binding: KbindTarget,
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

    BINDING is the name of an APIServiceBinding. For kbind v2 it is clusterbinding/NAME,
    binding/NAMESPACE/NAME, or connection/NAME of a Connection with autoBind or schema.pullPolicy
    All.

    Use it for bindings that `fairlead bind` did not create, such as those of an
    APIServiceBindingBundle, because the konnector cannot grant rights to itself. The command shows
    what the provider exports and claims, writes ClusterRoles for exactly that, and waits until the
    binding is Ready. Then it lets people who have view, edit or admin in a namespace use the bound
    kinds there.

    A provider can name a webhook that converts between the versions of its kind. It is installed
    only after you have accepted its URL.

    \b
    Example:
        fairlead accept postgres --kubeconfig consumer.kubeconfig
        fairlead accept clusterbinding/acme
        fairlead accept binding/shop/acme
        fairlead accept postgres --conversion-webhook https://convert.example.org/v1
        fairlead accept postgres --remove-conversion-webhook https://convert.example.org/v1
    """  # noqa: D301
    webhooks = accepted_webhooks(conversion_webhook, conversion_allow_cidr)
    if remove_conversion_webhook and webhooks.urls:
        raise click.UsageError(f"{ACCEPT_FLAG} and {REMOVE_FLAG} exclude each other: give one")
    name = binding.key.name
    if binding.resource != APISERVICEBINDINGS and (remove_conversion_webhook or webhooks.urls):
        flag = REMOVE_FLAG if remove_conversion_webhook else ACCEPT_FLAG
        raise click.UsageError(f"{flag} is about an APIServiceBinding: kbind v2 has no webhooks")
    config = cluster_config(kubeconfig, context)

    async def work(client: Client) -> None:
        if binding.resource != APISERVICEBINDINGS:
            options = KbindOptions(
                timeout=seconds, namespace=namespace, user_roles=user_roles, progress=say
            )
            await accept_kbind(client, binding, options)
            return
        what = f"looking for {name} at {client.config.server}"
        await within(seconds, check_plain(client, name), lambda: what)
        if remove_conversion_webhook:
            await remove_webhooks(client, name, remove_conversion_webhook, say)
            return
        await accept(
            client,
            name,
            timeout=seconds,
            progress=say,
            namespace=namespace,
            webhooks=webhooks,
            user_roles=user_roles,
        )

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-accept") as client:
            await process.cancel_on(stop, work(client))

    process.run(main)
    if remove_conversion_webhook:
        click.echo(f"apiservicebinding.kube-bind.io/{name} no longer has this webhook")
        return
    click.echo(f"{binding.resource.kind.lower()}.{binding.resource.group}/{binding.key} is Ready")
