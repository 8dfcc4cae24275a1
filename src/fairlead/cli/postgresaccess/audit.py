"""``fairlead postgres audit``: privileges and ownership of the roles on a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fairlead.cli.options import cluster_options, json_option
from fairlead.cli.postgresaccess.shared import (
    config_of,
    operator_namespace_option,
    roles_option,
    run,
    server_option,
)
from fairlead.cli.printing import console, note
from fairlead.cli.texts import plain, to_json
from fairlead.postgres.commands.audit import (
    EVERYBODY,
    AuditReport,
    OwnedObjects,
    Privilege,
    RoleAudit,
    audit,
)
from fairlead.postgres.commands.surroundings import Surroundings


_STYLES = {
    "asked": "green",
    "conflict": "red",
    "group": "green",
    "stranger": "yellow",
    "leftover": "yellow",
    "imported": "yellow",
    "foreign": "yellow",
    "superuser": "red",
}
_MEMBERS = 10
"""Number of members of a group that are listed."""
_COLUMNS = ("ROLE", "IS", "ASKED FOR BY", "LOGIN", "HOLDS", "THROUGH", "OWNS", "DRIFT")


@click.command("audit")
@cluster_options
@server_option
@roles_option("all roles that may log in or that an access has claimed")
@operator_namespace_option
@json_option
def command(
    server: str,
    roles: tuple[str, ...],
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Compare what the roles of a server hold and own with what PostgresAccesses specify.

    A role belongs to a PostgresAccess, or is a leftover of a deleted one, foreign (of another
    installation), or a stranger that no object names. It is a conflict if one PostgresAccess names
    the role and another has claimed it. The list shows the privileges that a role holds itself,
    through groups and through PUBLIC, and the objects that it owns, with which it may do anything.
    Drift is the list of statements that the operator would run. The command changes nothing.

    \b
    Example:
        fairlead postgres audit --server main
        fairlead postgres audit --server main --role reporting
        fairlead postgres audit --server main --json | jq '.roles[] | select(.kind == "stranger")'
    """  # noqa: D301
    config = config_of(kubeconfig, context)

    async def work(around: Surroundings) -> AuditReport:
        return await audit(around, server, roles)

    report = run(config, operator_namespace, work)
    if as_json:
        click.echo(to_json(report))
    else:
        show(console(), report)


def show(out: Console, report: AuditReport) -> None:
    """Print the table of all roles, and below it the privileges of each."""
    out.print(
        Text(
            f"PostgresServer {report.server} at {report.address}, PostgreSQL {report.version}",
            style="bold",
        )
    )
    out.print()
    out.print(_table(report.roles))
    everybody = Text(f"\n{EVERYBODY}, which is every role", style="bold")
    for head, lines in (
        (everybody, _privileges(report.everybody)),
        *((_head(role), _details(role)) for role in report.roles),
    ):
        out.print(head)
        for line in lines:
            out.print(line)
    for name in report.absent:
        out.print(Text(f"\n{plain(name)} has no role yet", style="yellow"))
    note(report.notes)


def _table(roles: Iterable[RoleAudit]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in _COLUMNS:
        table.add_column(name, overflow="fold")
    for role in roles:
        through = [group.name for group in role.groups if group.inherited]
        table.add_row(
            Text(plain(role.role), style="bold"),
            Text(role.kind, style=_STYLES.get(role.kind, "")),
            Text(plain(role.asked_by) or "-"),
            Text("yes" if role.login else "no"),
            Text(str(len(role.direct)) if role.direct else "-"),
            Text(plain(", ".join([*through, EVERYBODY]))),
            Text(str(sum(one.total for one in role.owns)) if role.owns else "-"),
            Text(
                str(len(role.drift)) if role.drift else "-", style="yellow" if role.drift else ""
            ),
        )
    return table


def _head(role: RoleAudit) -> Text:
    requester = f", asked for by {plain(role.asked_by)}" if role.asked_by else ""
    powers = f", {', '.join(role.powers)}" if role.powers else ""
    return Text.assemble(
        "\n",
        (plain(role.role), "bold"),
        f" ({role.kind}{requester}{powers})",
    )


def _details(role: RoleAudit) -> Iterator[Text]:
    yield from _privileges(role.direct)
    for name in role.members[:_MEMBERS]:
        yield Text(f"  shared by {plain(name)}")
    if len(role.members) > _MEMBERS:
        yield Text(f"  shared by {len(role.members) - _MEMBERS} more")
    for group in role.groups:
        how = "through" if group.inherited else "after SET ROLE to"
        if not group.privileges:
            yield Text(f"  {how} {plain(group.name)}: no privileges")
        yield from _privileges(group.privileges, f"{how} {plain(group.name)}: ")
    for owned in role.owns:
        yield Text(f"  owns {_things(owned, 0)}")
    for line in role.drift:
        yield Text(f"  drift: {plain(line.sql)};", style="yellow")
    for problem in role.problems:
        yield Text(f"  {plain(problem)}", style="red")


def _privileges(privileges: Sequence[Privilege], how: str = "") -> Iterator[Text]:
    for privilege in privileges:
        option = " with grant option" if privilege.grant_option else ""
        yield Text(
            f"  {how}{', '.join(privilege.privileges)}{option}"
            f" on {_things(privilege, privilege.of)}"
        )


def _things(thing: Privilege | OwnedObjects, of: int) -> str:
    """Return objects in words; ``of`` is the number of their kind, 0 if unknown."""
    database = plain(thing.database)
    if thing.on == "database":
        return f"database {database}"
    if thing.on == "schema":
        return f"schema {plain(thing.schema)} in {database}"
    table = plain(thing.table) if isinstance(thing, Privilege) else ""
    place = ".".join(filter(None, (plain(thing.schema), table)))
    where = f"in {place} of {database}" if place else f"in {database}"
    more = thing.total - len(thing.names)
    names = ", ".join(map(plain, thing.names)) + (f" and {more} more" if more > 0 else "")
    if thing.on.startswith("future"):
        return f"{thing.on}s of {names} {where}"
    if thing.total == 1:
        others = f", of {of}" if of > 1 else ""
        return f"{thing.on} {names} {where}{others}"
    count = (
        f"all {of}" if of == thing.total else f"{thing.total} of {of}" if of else f"{thing.total}"
    )
    return f"{count} {thing.on}s {where}: {names}"
