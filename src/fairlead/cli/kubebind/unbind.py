"""``fairlead unbind``: remove a binding from the consumer's cluster."""

from __future__ import annotations

import asyncio
import sys

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.options import (
    OBJECT_NAME,
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    timeout_option,
    yes_option,
)
from fairlead.cli.texts import say
from fairlead.client import Client, ClusterConfig, Forbidden
from fairlead.client.lookups import Unseen
from fairlead.konnector.commands.readiness import within
from fairlead.konnector.commands.unbind import Impact, bundle_impact, impact, unbind


@click.command("unbind")
@cluster_options
@click.argument("binding", type=OBJECT_NAME, shell_complete=completion.names(completion.bindings))
@click.option(
    "--bundle",
    is_flag=True,
    help="BINDING is an APIServiceBindingBundle: remove all its bindings.",
)
@click.option("--orphan", is_flag=True, help="Leave the copies on the provider.")
@yes_option
@timeout_option("2m", "until it is gone")
@konnector_namespace_option
def command(
    binding: str,
    bundle: bool,
    orphan: bool,
    yes: bool,
    seconds: float,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Remove BINDING: its objects here, their copies on the provider, and its rights.

    The command waits until the konnector has removed the binding, and shows what it waits for. If
    it is interrupted, run it again to continue. With --orphan the copies on the provider stay.
    Without it objects are deleted on both sides: the command asks first, and without a terminal it
    needs --yes.

    \b
    Example:
        fairlead unbind postgres --kubeconfig consumer.kubeconfig
        fairlead unbind postgres --orphan --timeout 10m
        fairlead unbind --bundle shop-team
    """  # noqa: D301
    config = cluster_config(kubeconfig, context)
    if not (orphan or yes):
        _confirm(binding, config, seconds, bundle=bundle)

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-unbind") as client:
            work = unbind(
                client,
                binding,
                bundle=bundle,
                orphan=orphan,
                timeout=seconds,
                progress=say,
                namespace=namespace,
            )
            await process.cancel_on(stop, work)

    process.run(main)
    kind = "apiservicebindingbundle" if bundle else "apiservicebinding"
    click.echo(f"{kind}.kube-bind.io/{binding} is unbound")


def _confirm(binding: str, config: ClusterConfig, seconds: float, *, bundle: bool) -> None:
    """Ask for confirmation; a wrong name is reported before."""
    impact_of = bundle_impact if bundle else impact

    async def count(client: Client) -> Impact | None:
        try:
            return await within(
                seconds, impact_of(client, binding), lambda: f"counting what {binding} has bound"
            )
        except (Forbidden, Unseen):
            # A person without the right to count may still unbind, and so may everyone while a
            # conversion webhook does not answer: the question then has no numbers.
            return None

    async def main(stop: asyncio.Event) -> Impact | None:
        async with Client(config, user_agent="fairlead-unbind") as client:
            return await process.cancel_on(stop, count(client))

    effect = process.run(main)
    # Only rights are left then, and no object is lost.
    if effect is not None and effect.gone:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes, or --orphan")
    click.confirm(question(binding, effect), abort=True, err=True)


def question(binding: str, effect: Impact | None) -> str:
    """Return the question; None is for objects that cannot be counted."""
    if effect is None:
        what = "all its objects here and their copies on the provider"
    else:
        single = effect.objects == 1
        what = f"{effect.objects} object{'' if single else 's'} here and "
        what += f"{effect.copies} cop{'y' if effect.copies == 1 else 'ies'} on the provider"
    return f"Unbinding {binding} deletes {what}. Go on?"
