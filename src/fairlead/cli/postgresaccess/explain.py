"""``fairlead postgres explain``: the steps of an access, and the obstacle that it waits for."""

from __future__ import annotations

import click
import msgspec
from rich.console import Console
from rich.text import Text

from fairlead.api.meta import JSON
from fairlead.cli import completion
from fairlead.cli.options import OBJECT_NAME, cluster_options, json_option, namespace_option
from fairlead.cli.postgresaccess.shared import (
    config_of,
    operator_namespace_option,
    run,
    statements,
)
from fairlead.cli.printing import console, next_step, note, steps, verdict
from fairlead.cli.texts import plain, to_json
from fairlead.postgres.commands.explain import AccessExplanation, explain
from fairlead.postgres.commands.surroundings import Surroundings


@click.command("explain")
@cluster_options
@click.argument("name", type=OBJECT_NAME, shell_complete=completion.access_names)
@namespace_option("Namespace of the PostgresAccess; default: the context's.")
@operator_namespace_option
@json_option
def command(
    name: str,
    namespace: str,
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Explain why the PostgresAccess NAME is not ready, and what helps.

    The command shows, step by step, how far the access has come; which object is in its way; what
    keeps its role from being removed; and which statements would give the operator's administrator
    the rights that it lacks. If you may read the server's credentials, the command asks the server
    itself; else it shows the status. It changes nothing. The exit code is 0 if the access is
    ready, else 1.

    \b
    Example:
        fairlead postgres explain shop-database -n shop
        fairlead postgres explain shop-database -n shop --json | jq -r .nextStep
    """  # noqa: D301
    config = config_of(kubeconfig, context)
    there = namespace or config.namespace or "default"

    async def work(around: Surroundings) -> AccessExplanation:
        return await explain(around, name, there)

    explanation = run(config, operator_namespace, work)
    if as_json:
        click.echo(to_json(_document(explanation)))
    else:
        show(console(), explanation)
    raise click.exceptions.Exit(0 if explanation.ready else 1)


def _document(explanation: AccessExplanation) -> JSON:
    """Return the JSON document, whose steps have no object."""
    document: JSON = msgspec.to_builtins(explanation)
    document["steps"] = [
        {"message" if name == "about" else name: value for name, value in step.items()}
        for step in document["steps"]
    ]
    return document


def show(out: Console, explanation: AccessExplanation) -> None:
    """Print the explanation for people."""
    verdict(
        out,
        explanation.access,
        ready=explanation.ready,
        reason=explanation.reason,
        message=explanation.message,
    )
    out.print()
    steps(out, explanation.steps)
    if explanation.in_the_way:
        out.print("\nin the way:")
    for obstacle in explanation.in_the_way:
        out.print(Text(f"  {obstacle.kind} {plain(obstacle.name)} {plain(obstacle.how)}"))
    if explanation.blockers:
        out.print("\nwhat the role owns:")
    for blocking in explanation.blockers:
        where = f"database {plain(blocking.database)}" if blocking.database else "shared"
        out.print(Text(f"  {where}: {', '.join(map(plain, blocking.objects))}"))
    if explanation.rights:
        out.print("\nstatements that would give the rights:")
    for line in statements(explanation.rights):
        out.print(Text("  ") + line)
    next_step(out, explanation.next_step)
    note(explanation.notes)
