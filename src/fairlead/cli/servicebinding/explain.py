"""``fairlead binding explain``: the chain from a workload to its service, and where it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec
from rich.console import Console

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.binding.commands.explain import BindingExplanation, explain, parse_target
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    json_option,
    namespace_option,
)
from fairlead.cli.printing import console, next_step, note, steps, verdict
from fairlead.cli.texts import to_json
from fairlead.client import Client, ClusterConfig


if TYPE_CHECKING:
    from fairlead.explain.beyond import Beyond


@click.command("explain")
@cluster_options
@click.argument("target", required=False, default="", metavar="[KIND/NAME]")
@namespace_option("Namespace of the bindings; default: the context's.")
@json_option
def command(
    target: str, namespace: str, as_json: bool, kubeconfig: str | None, context: str | None
) -> None:
    """Explain whether workloads have the data of their bindings, and if not, why.

    The command follows the chain workload < binding < Secret < service < the provider's object <
    role as far as it goes, and shows the state of each part. Of the broken part that is nearest to
    the role it shows the reason and the remedy. KIND/NAME is a workload or a binding, such as
    deployment/web or servicebinding/web-db; without it all bindings of the namespace are
    explained. The command changes nothing and shows no value of a Secret. The exit code is 0 if
    all is well, else 1.

    \b
    Example:
        fairlead binding explain deployment/web -n shop
        fairlead binding explain servicebinding/web-db -n shop
        fairlead binding explain -n shop --json | jq -r '.chains[] | select(.ready | not).nextStep'
    """  # noqa: D301
    try:
        goal = parse_target(target)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    config = cluster_config(kubeconfig, context)
    there = namespace or config.namespace or "default"

    async def work() -> BindingExplanation:
        async with _client(config) as client:
            beyond = _beyond(client)
            explanation = await explain(client, goal, there, beyond)
            notes = tuple(dict.fromkeys([*explanation.notes, *beyond.notes]))
            return msgspec.structs.replace(explanation, notes=notes)

    explanation = process.run(lambda stop: process.cancel_on(stop, work()))
    if as_json:
        click.echo(to_json(_document(explanation)))
    else:
        show(console(), explanation)
    raise click.exceptions.Exit(0 if explanation.ready else 1)


def _client(config: ClusterConfig) -> Client:
    # Imported here: `fairlead binding run` needs nothing of the konnector.
    from fairlead.konnector.commands.overview.fetch import TIMEOUTS

    return Client(config, user_agent="fairlead-binding", timeouts=TIMEOUTS)


def _beyond(client: Client) -> Beyond:
    # Imported here: it knows all four systems.
    from fairlead.explain.beyond import Beyond
    from fairlead.postgres.options import DEFAULT_NAMESPACE

    return Beyond(client, DEFAULT_NAMESPACE)


def _document(explanation: BindingExplanation) -> JSON:
    """Return the JSON document, in which the subject is called ``binding``."""
    document: JSON = msgspec.to_builtins(explanation)
    document["chains"] = [
        {"binding": chain.pop("subject"), **chain, "works": chain["ready"] or chain["works"]}
        for chain in document["chains"]
    ]
    return document


def show(out: Console, explanation: BindingExplanation) -> None:
    """Print the chains for people."""
    if not explanation.chains:
        out.print(f"no ServiceBinding in {explanation.target}")
    for position, chain in enumerate(explanation.chains):
        if position:
            out.print()
        verdict(out, chain.subject, ready=chain.ready, reason=chain.reason, message=chain.message)
        out.print()
        steps(out, chain.links)
        next_step(out, chain.next_step)
    note(explanation.notes)
