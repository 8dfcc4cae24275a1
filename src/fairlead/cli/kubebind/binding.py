"""Binding of a provider's answer from any source: execution, dry run and output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from fairlead import process
from fairlead.api.addresses import parse_networks
from fairlead.api.kubebind import APISERVICEBINDINGBUNDLES, APISERVICEBINDINGS, BindingResponse
from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.cli.frontdoor.output import output_option, show
from fairlead.cli.frontdoor.sources import Fetch
from fairlead.cli.options import DURATION, konnector_namespace_option
from fairlead.cli.texts import printable, say
from fairlead.client import Client, ClusterConfig
from fairlead.konnector.commands.bind import bind, bind_bundle
from fairlead.konnector.commands.conversions import AcceptedWebhooks
from fairlead.konnector.commands.copies import Copies
from fairlead.konnector.commands.names import with_name
from fairlead.konnector.commands.rehearsal import planned, rehearse
from fairlead.konnector.conversions import ACCEPT_FLAG, NETWORKS_FLAG


F = TypeVar("F", bound=Callable[..., Any])
AGENT = "fairlead-bind"


class How(msgspec.Struct, kw_only=True):
    """Options of a bind; ``seconds`` limits all work after the answer has arrived.

    With ``requests`` a dry run prints the requests to the provider, as kube-bind's plugin does for
    ``apiservice -f``, and not the objects for the consumer's cluster.
    """

    seconds: float = 120.0
    namespace: str = "kube-bind"
    name: str = ""
    bundle: bool = False
    copies: Copies = ""
    webhooks: AcceptedWebhooks = AcceptedWebhooks()
    user_roles: bool = True
    dry_run: str = "none"
    output: str | None = None
    requests: bool = False

    @property
    def dry(self) -> bool:
        """Whether the run writes no object."""
        return self.dry_run != "none"


def user_roles_option(function: F) -> F:
    """Add ``--user-roles``."""
    return click.option(
        "--user-roles/--no-user-roles",
        default=True,
        show_default=True,
        help="Write ClusterRoles that let people with view in a namespace read objects of the"
        " bound kinds there, and people with edit or admin write them. --no-user-roles deletes"
        " those of this binding.",
    )(function)


def how_options(function: F) -> F:
    """Add the flags of every bind, such as ``--timeout`` and ``-o``, for :func:`make_how`."""
    for option in (
        user_roles_option,
        konnector_namespace_option,
        output_option,
        click.option(
            "--dry-run",
            type=click.Choice(["none", "client", "server"]),
            default="none",
            help="client prints what would be written into this cluster; server also has both API "
            "servers check it. Neither writes anything.",
        ),
        click.option(
            "--timeout",
            "seconds",
            type=DURATION,
            default="2m",
            show_default=True,
            metavar="DURATION",
            help="How long to wait until it is Ready, for example 90s or 2m.",
        ),
    ):
        function = option(function)
    return function


def webhook_options(function: F) -> F:
    """Add the flags by which conversion webhooks are accepted, for :func:`accepted_webhooks`."""
    for option in (
        click.option(
            NETWORKS_FLAG,
            "conversion_allow_cidr",
            metavar="NETWORK",
            multiple=True,
            help=f"Private network in which a webhook of {ACCEPT_FLAG} may be; loopback, "
            "link-local and metadata addresses are never allowed. May be given several times.",
        ),
        click.option(
            ACCEPT_FLAG,
            "conversion_webhook",
            metavar="URL",
            multiple=True,
            help="Conversion webhook of the provider that you trust: this cluster's API server"
            " sends it all objects of its kind and uses what it returns. You trust its host name,"
            " whatever address it resolves to later. May be given several times.",
        ),
    ):
        function = option(function)
    return function


def accepted_webhooks(urls: Sequence[str], networks: Sequence[str]) -> AcceptedWebhooks:
    """Return what the flags of :func:`webhook_options` accept.

    Raises:
        click.UsageError: a network is malformed or has all addresses, or stands without a URL.
    """
    everything = "would let the provider choose any address: name the networks of its webhook"
    try:
        allowed = parse_networks(networks, flag=NETWORKS_FLAG, everything=everything)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if allowed and not urls:
        raise click.UsageError(f"{NETWORKS_FLAG} needs {ACCEPT_FLAG}")
    return AcceptedWebhooks(tuple(urls), allowed)


def make_how(
    *,
    seconds: float,
    namespace: str,
    dry_run: str,
    output: str | None,
    name: str = "",
    bundle: bool = False,
    copies: Copies = "",
    webhooks: AcceptedWebhooks = AcceptedWebhooks(),  # noqa: B008  it is frozen
    user_roles: bool = True,
) -> How:
    """Check the values of :func:`how_options` and return them.

    Raises:
        click.UsageError: a value is invalid, or two of them exclude each other.
    """
    if bundle and dry_run != "none":
        raise click.UsageError(
            "--dry-run cannot say what a bundle would bind: the provider decides that"
        )
    return How(
        seconds=seconds,
        namespace=namespace,
        name=name,
        bundle=bundle,
        copies=copies,
        webhooks=webhooks,
        user_roles=user_roles,
        dry_run=dry_run,
        output=output,
    )


def carry_out(config: ClusterConfig, fetch: Fetch, how: How) -> None:
    """Fetch a provider's answer, bind its requests, and print the result."""

    async def main(stop: asyncio.Event) -> tuple[list[str], list[JSON]]:
        async with Client(config, user_agent=AGENT) as client:
            return await process.cancel_on(stop, _work(client, fetch, how))

    lines, objects = process.run(main)
    if how.output:
        show(objects, how.output, listed=False)
        return
    for line in lines:
        click.echo(printable(line))


async def _work(client: Client, fetch: Fetch, how: How) -> tuple[list[str], list[JSON]]:
    response = await fetch(client)
    # With --bundle the name is the bundle's, and the requests keep theirs.
    name = "" if how.bundle else how.name
    try:
        response = with_name(response, name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if how.dry:
        return await _rehearsed(client, response, how)
    options: dict[str, Any] = {
        "timeout": how.seconds,
        "progress": say,
        "namespace": how.namespace,
        "copies": how.copies,
        "webhooks": how.webhooks,
        "user_roles": how.user_roles,
    }
    if how.bundle:
        objects, names = await bind_bundle(client, response, name=how.name, **options)
        what = ", ".join(names) or "nothing yet: the provider exports nothing"
        lines = [f"apiservicebindingbundle.kube-bind.io/{objects} binds {what}"]
        return lines, await _created(client, APISERVICEBINDINGBUNDLES, [objects], how)
    names = await bind(client, response, **options)
    lines = [f"apiservicebinding.kube-bind.io/{one} is Ready" for one in names]
    return lines, await _created(client, APISERVICEBINDINGS, names, how)


async def _created(client: Client, resource: Resource, names: list[str], how: How) -> list[JSON]:
    if not how.output:
        return []
    bodies = [(await client.get(resource, name)).to_dict() for name in names]
    for body in bodies:
        # As kubectl prints objects.
        body.get("metadata", {}).pop("managedFields", None)
    return bodies


async def _rehearsed(
    client: Client, response: BindingResponse, how: How
) -> tuple[list[str], list[JSON]]:
    """Return lines and objects of a dry run; the Secret's content is in no output."""
    if how.dry_run == "server":
        objects = await rehearse(
            client,
            response,
            namespace=how.namespace,
            progress=say,
            user_roles=how.user_roles,
        )
    else:
        objects = planned(response, namespace=how.namespace, user_roles=how.user_roles)
    if how.requests:
        objects = [msgspec.to_builtins(request) for request in response.requests]
    lines = [
        f"{body['kind'].lower()}/{body['metadata']['name']} (dry run, {how.dry_run})"
        for body in objects
    ]
    return lines, objects
