"""``fairlead explain``: the state of each link of the chain, and where it breaks first."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console

from fairlead import process
from fairlead.api.links import Link
from fairlead.cli import completion
from fairlead.cli.options import (
    cluster_config,
    cluster_options,
    json_option,
    namespace_option,
)
from fairlead.cli.postgresaccess.shared import operator_namespace_option
from fairlead.cli.printing import console, next_step, note, steps, verdict
from fairlead.cli.texts import to_json
from fairlead.client import Client
from fairlead.explain.explaining import Explanation, explain
from fairlead.explain.targets import parse_target
from fairlead.konnector.commands.overview.fetch import TIMEOUTS


@click.command("explain")
@cluster_options
@click.argument(
    "target",
    required=False,
    default="",
    metavar="[KIND/NAME]",
    shell_complete=completion.names(completion.explained_bindings),
)
@namespace_option("Namespace of the target; default: the context's.")
@operator_namespace_option
@json_option
def command(
    target: str,
    namespace: str,
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Explain whether KIND/NAME works, and if not, where it breaks first and what helps.

    The command follows the chain workload < binding < Secret < service < the provider's object <
    role as far as KIND/NAME depends on it, and shows the state of each part. KIND/NAME is a
    workload, a ServiceBinding, a PostgresAccess, an APIServiceBinding, a Secret, a Connection,
    ClusterBinding or Binding of kbind v2 (binding/NAMESPACE/NAME), or an object of a kind that a
    provider brings; without it the command explains all ServiceBindings of the namespace. With
    KIND as in widgets.v1.example.org the command says whether that version is served. The command
    changes nothing and shows no value of a Secret. The exit code is 0 if all is well, else
    1.

    \b
    Example:
        fairlead explain deployment/web -n shop
        fairlead explain postgresaccess/shop-database -n shop
        fairlead explain connection/acme
        fairlead explain -n shop --json | jq -r '.chains[] | select(.ready | not).nextStep'
    """  # noqa: D301
    explanation = answer(target, namespace, operator_namespace, kubeconfig, context)
    if as_json:
        click.echo(to_json(explanation))
    else:
        show(console(), explanation)
    raise click.exceptions.Exit(0 if explanation.ready else 1)


def answer(
    target: str,
    namespace: str,
    operator_namespace: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    bindings_only: bool = False,
) -> Explanation:
    """Explain a target with the flags of a command.

    Raises:
        click.UsageError: the target or the namespace has another form.
    """
    try:
        goal = parse_target(target)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    config = cluster_config(kubeconfig, context)
    there = namespace or config.namespace or "default"

    async def work() -> Explanation:
        async with Client(config, user_agent="fairlead-explain", timeouts=TIMEOUTS) as client:
            return await explain(
                client, goal, there, operator_namespace, bindings_only=bindings_only
            )

    return process.run(lambda stop: process.cancel_on(stop, work()))


def show(out: Console, explanation: Explanation, *, bindings_only: bool = False) -> None:
    """Print the chains for people; those of bindings alone are without times."""
    if not explanation.chains:
        out.print(f"no ServiceBinding in {explanation.target}")
    for position, chain in enumerate(explanation.chains):
        if position:
            out.print()
        verdict(
            out,
            chain.subject,
            ready=chain.ready,
            reason=chain.reason,
            message=chain.message,
            works=chain.works and not bindings_only,
        )
        out.print()
        steps(out, chain.links if bindings_only else map(_dated, chain.links))
        next_step(out, chain.next_step)
    note(explanation.notes)


def _dated(link: Link) -> Link:
    """Return a link with the start of its state in its text, if it does not work."""
    if not link.since or link.state == "ok":
        return link
    return msgspec.structs.replace(link, about=f"{link.about} (since {link.since})")
