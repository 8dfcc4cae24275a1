"""``fairlead postgres take-over``: the roles of a restored copy."""

from __future__ import annotations

import sys

import click

from fairlead.cli.options import cluster_options, yes_option
from fairlead.cli.postgresaccess.shared import (
    config_of,
    operator_namespace_option,
    roles_option,
    run,
    server_option,
)
from fairlead.cli.printing import note
from fairlead.cli.texts import printable
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.commands.takingover import (
    Candidate,
    Passed,
    TakeOver,
    find_candidates,
    take_over,
)


@click.command("take-over")
@cluster_options
@server_option
@roles_option("all roles that PostgresAccesses of the server name")
@operator_namespace_option
@yes_option
def command(
    server: str,
    roles: tuple[str, ...],
    operator_namespace: str,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Hand roles of a restored copy over to the PostgresAccesses that name them.

    On a restored server the comments of the roles name their former PostgresAccesses, and the new
    ones report UsernameConflict. The same happens with roles of a cluster that is gone. The
    command shows the former and the new owner of each role, and asks for confirmation. Then it
    writes the PostgresAccess that names a role into the comment of that role. The operator does
    the rest: it sets the password of the Secret, and the grants of the object.

    The command takes no role from an object of this cluster that uses the same server. Run it when
    the former installation is gone, or uses another server.

    \b
    Example:
        fairlead postgres take-over --server staging
        fairlead postgres take-over --server staging --role orders --yes
    """  # noqa: D301
    config = config_of(kubeconfig, context)

    async def search(around: Surroundings) -> TakeOver:
        return await find_candidates(around, server, roles)

    async def work(around: Surroundings) -> tuple[tuple[Candidate, ...], tuple[Passed, ...]]:
        return await take_over(around, takeover)

    takeover = run(config, operator_namespace, search)
    note(takeover.notes)
    _tell(takeover.passed)
    if not takeover.candidates:
        click.echo(f"no role of PostgresServer {server} can be taken over", err=True)
        raise click.exceptions.Exit(1 if takeover.passed else 0)
    _confirm(takeover, yes=yes)
    taken, failed = run(config, operator_namespace, work)
    for candidate in taken:
        click.echo(
            printable(f"role {candidate.role} now belongs to PostgresAccess {candidate.access}")
        )
    _tell(failed)
    if failed or takeover.passed:
        raise click.exceptions.Exit(1)


def _tell(passed: tuple[Passed, ...]) -> None:
    for role, why in ((left.role, left.why) for left in passed):
        click.echo(printable(f"not taken over: role {role}: {why}"), err=True)


def _confirm(takeover: TakeOver, *, yes: bool) -> None:
    """Show the roles that would be taken over, and ask.

    Raises:
        click.UsageError: there is no terminal to ask on.
        click.Abort: the answer is no.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes")
    for candidate in takeover.candidates:
        way = f"from {candidate.holder} to PostgresAccess {candidate.access}"
        click.echo(printable(f"role {candidate.role}: {way}"), err=True)
    if takeover.unasked:
        click.echo(
            f"{takeover.unasked} roles of other installations stay, since no PostgresAccess "
            "here requests them",
            err=True,
        )
    if not yes:
        question = f"Take over {len(takeover.candidates)} roles of {takeover.address}?"
        click.confirm(printable(question), abort=True, err=True)
