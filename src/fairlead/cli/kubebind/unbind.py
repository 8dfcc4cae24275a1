"""``fairlead unbind``: remove a binding from the consumer's cluster."""

from __future__ import annotations

import asyncio
import sys

import click

from fairlead import process
from fairlead.api.kubebind import APISERVICEBINDINGBUNDLES, APISERVICEBINDINGS
from fairlead.api.resource import CLUSTERROLES
from fairlead.cli.kubebind.kbind import target_argument
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    timeout_option,
    yes_option,
)
from fairlead.cli.texts import say
from fairlead.client import Client, ClusterConfig, Forbidden
from fairlead.client.lookups import Unseen, find
from fairlead.konnector.commands.readiness import within
from fairlead.konnector.commands.request import BindError
from fairlead.konnector.commands.unbind import Impact, bundle_impact, impact, unbind
from fairlead.konnector.commands.v2.targets import KbindTarget, check_plain
from fairlead.konnector.commands.v2.unbind import UnbindPreview, preview, unbind_kbind
from fairlead.konnector.rights import konnector_role_name


@click.command("unbind")
@cluster_options
@target_argument
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
    binding: KbindTarget,
    bundle: bool,
    orphan: bool,
    yes: bool,
    seconds: float,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Remove BINDING: its objects here, their copies on the provider, and its rights.

    BINDING is the name of an APIServiceBinding, or for kbind v2 clusterbinding/NAME,
    binding/NAMESPACE/NAME, or connection/NAME for a Connection with all its bindings. With the
    last binding the command also deletes the Connection, if `fairlead bind` created it. When a
    Binding is deleted, its objects stay in this cluster.

    The command waits until the konnector has removed the binding, and shows what it waits for. If
    it is interrupted, run it again to continue. With --orphan the copies on the provider stay.
    Without it objects are deleted on both sides: the command asks first, and without a terminal it
    needs --yes.

    \b
    Example:
        fairlead unbind postgres --kubeconfig consumer.kubeconfig
        fairlead unbind postgres --orphan --timeout 10m
        fairlead unbind --bundle shop-team
        fairlead unbind clusterbinding/acme
        fairlead unbind connection/acme
    """  # noqa: D301
    is_kbind = binding.resource != APISERVICEBINDINGS
    if is_kbind and bundle:
        raise click.UsageError("--bundle is about an APIServiceBindingBundle: give its name alone")
    config = cluster_config(kubeconfig, context)
    if not (orphan or yes):
        _confirm(binding, config, seconds, bundle=bundle)
    name = binding.key.name

    async def work(client: Client) -> None:
        if is_kbind:
            await unbind_kbind(
                client,
                binding,
                orphan=orphan,
                timeout=seconds,
                progress=say,
                namespace=namespace,
            )
            return
        if not bundle:
            what = f"looking for {name} at {client.config.server}"
            await within(seconds, _check_plain(client, name), lambda: what)
        await unbind(
            client,
            name,
            bundle=bundle,
            orphan=orphan,
            timeout=seconds,
            progress=say,
            namespace=namespace,
        )

    async def main(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-unbind") as client:
            await process.cancel_on(stop, work(client))

    process.run(main)
    resource = APISERVICEBINDINGBUNDLES if bundle else binding.resource
    click.echo(f"{resource.kind.lower()}.{resource.group}/{binding.key} is unbound")


async def _check_plain(client: Client, name: str) -> None:
    """Raise if a name is of objects of kbind v2, and v1alpha2 has left nothing under it."""
    try:
        await check_plain(client, name)
    except BindError:
        if await find(client, CLUSTERROLES, konnector_role_name(name)) is None:
            raise


def _confirm(binding: KbindTarget, config: ClusterConfig, seconds: float, *, bundle: bool) -> None:
    """Ask for confirmation; a wrong name is reported before."""

    async def ask(client: Client) -> str:
        """Return the question, "" if no object is lost."""
        if binding.resource != APISERVICEBINDINGS:
            return kbind_question(binding, await preview(client, binding))
        name = binding.key.name
        if not bundle:
            await _check_plain(client, name)
        effect = await (bundle_impact if bundle else impact)(client, name)
        # Only rights are left then, and no object is lost.
        return "" if effect.gone else question(name, effect)

    async def count(client: Client) -> str:
        try:
            what = f"counting the objects that {binding.text} has bound"
            return await within(seconds, ask(client), lambda: what)
        except (Forbidden, Unseen):
            # A person without the right to count may still unbind, and so may everyone while a
            # conversion webhook does not answer: the question then has no numbers.
            return question(binding.text, None)

    async def main(stop: asyncio.Event) -> str:
        async with Client(config, user_agent="fairlead-unbind") as client:
            return await process.cancel_on(stop, count(client))

    text = process.run(main)
    if not text:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes, or --orphan")
    click.confirm(text, abort=True, err=True)


def question(binding: str, effect: Impact | None) -> str:
    """Return the question; None is for objects that cannot be counted."""
    if effect is None:
        what = "all its objects here and their copies on the provider"
    else:
        what = f"{_objects(effect.objects)} here and {_copies(effect.copies)} on the provider"
    return f"Unbinding {binding} deletes {what}. Go on?"


def kbind_question(binding: KbindTarget, effect: UnbindPreview) -> str:
    """Return the question about an object of kbind v2, "" if nothing is lost."""
    if effect.gone:
        return ""
    also = f" with {', '.join(effect.bindings)}" if effect.bindings else ""
    if effect.impact is None:
        return question(f"{binding.text}{also}", None)
    objects, copies = effect.impact.objects, effect.impact.copies
    what = f"{_objects(objects)} here and " if objects else ""
    what += f"{_copies(copies)} on the provider"
    if not objects:
        what += ", and objects stay here"
    return f"Unbinding {binding.text}{also} deletes {what}. Go on?"


def _objects(count: int) -> str:
    return f"{count} object{'' if count == 1 else 's'}"


def _copies(count: int) -> str:
    return f"{count} cop{'y' if count == 1 else 'ies'}"
