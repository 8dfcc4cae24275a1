"""``fairlead bind``: accept an invitation in the consumer's cluster."""

from __future__ import annotations

import asyncio
from typing import BinaryIO

import click

from fairlead import process
from fairlead.api.kubebind import BindingResponse, decode_binding_response
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    parse_duration,
    timeout_option,
)
from fairlead.client import Client
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.commands.names import with_name


@click.command("bind")
@cluster_options
@click.option(
    "-f",
    "--filename",
    "file",
    required=True,
    type=click.File("rb"),
    help="The invitation, a BindingResponse; - reads standard input.",
)
@click.option(
    "--name",
    metavar="BINDING",
    default="",
    help="Of the binding and of the request at the provider; default: as the invitation says.",
)
@timeout_option("2m", "until it is Ready")
@konnector_namespace_option
def command(
    file: BinaryIO,
    name: str,
    timeout: str,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Bind what a provider offers.

    Writes the kubeconfig Secret, the konnector's rights on exactly what is bound, the request at
    the provider and the APIServiceBinding, and waits until it is Ready. Doing it twice changes
    nothing. A name that stands for something else already gets a number.

    \b
    Example:
        fairlead bind -f shop-team.json --kubeconfig consumer.kubeconfig
        fairlead bind -f shop-team.json --name shop-database
    """  # noqa: D301
    seconds = parse_duration(timeout)
    response = _response(file, name)
    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> list[str]:
        async with Client(config, user_agent="fairlead-bind") as client:
            work = bind(
                client,
                response,
                timeout=seconds,
                progress=lambda line: click.echo(line, err=True),
                namespace=namespace,
            )
            return await process.cancel_on(stop, work)

    for bound in process.run(main):
        click.echo(f"apiservicebinding.kube-bind.io/{bound} is Ready")


def _response(file: BinaryIO, name: str) -> BindingResponse:
    """The invitation, under the name that is wanted."""
    try:
        response = decode_binding_response(file.read())
    except ValueError as error:
        source = getattr(file, "name", "standard input")
        raise click.ClickException(f"{source}: {error}") from None
    try:
        return with_name(response, name)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
