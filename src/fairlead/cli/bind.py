"""``fairlead bind``: accept an invitation in the consumer's cluster."""

from __future__ import annotations

import asyncio
from typing import BinaryIO

import click

from fairlead import process
from fairlead.api.kubebind import decode_binding_response
from fairlead.cli.options import cluster_config, cluster_options
from fairlead.client import Client
from fairlead.konnector.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE


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
    "--timeout",
    default="2m",
    show_default=True,
    metavar="DURATION",
    help="How long to wait until it is Ready, for example 90s or 2m.",
)
@click.option(
    "--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="The konnector's namespace."
)
def command(
    file: BinaryIO, timeout: str, namespace: str, kubeconfig: str | None, context: str | None
) -> None:
    """Bind what a provider offers.

    Writes the kubeconfig Secret, the konnector's rights on exactly what is bound, the request at
    the provider and the APIServiceBinding, and waits until it is Ready. Doing it twice changes
    nothing.

    \b
    Example:
        fairlead bind -f shop-team.json --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    seconds = parse_duration(timeout)
    try:
        response = decode_binding_response(file.read())
    except ValueError as error:
        name = getattr(file, "name", "standard input")
        raise click.ClickException(f"{name}: {error}") from None
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

    for name in process.run(main):
        click.echo(f"apiservicebinding.kube-bind.io/{name} is Ready")


_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str) -> float:
    """Seconds of a duration such as 90s, 2m or 1h; a bare number is in seconds.

    Raises:
        click.UsageError: it is none, or not above zero.
    """
    number, factor = text, 1.0
    for unit, seconds in _UNITS.items():
        if text.endswith(unit) and text.removesuffix(unit)[-1:].isdigit():
            number, factor = text.removesuffix(unit), seconds
            break
    try:
        result = float(number) * factor
    except ValueError:
        result = 0.0
    if not 0 < result < float("inf"):
        raise click.UsageError(f"{text!r} is no duration: say for example 90s or 2m")
    return result
