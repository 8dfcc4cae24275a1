"""``fairlead postgres import``: manifests of roles that exist."""

from __future__ import annotations

import click
import yaml

from fairlead.cli.options import check_name, cluster_options, json_option, namespace_option
from fairlead.cli.postgresaccess.shared import (
    config_of,
    look,
    operator_namespace_option,
    roles_option,
    server_option,
)
from fairlead.cli.printing import note, plain, to_json
from fairlead.postgres.commands.importing import Imported, ImportReport, import_roles
from fairlead.postgres.commands.surroundings import Surroundings


_COMMENT = (
    "Role {role} of PostgresServer {server}, as it is. Adoption claims it in its comment,\n"
    "and gives it a new password: the one it has cannot be read. To keep that, put it into a\n"
    "Secret and name it in spec.passwordSecretRef."
)


@click.command("import")
@cluster_options
@server_option
@roles_option("all that may log in")
@namespace_option("Of the manifests; default: the context's.")
@operator_namespace_option
@json_option
def command(
    server: str,
    roles: tuple[str, ...],
    namespace: str,
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print PostgresAccesses that ask for what existing roles have, so that nothing changes.

    Privileges are written without names where they cover all objects of a schema, and with names
    elsewhere. Each manifest is held against the server: what its adoption would change all the
    same is in its comments. Roles that cannot be adopted are skipped, and standard error says why:
    superusers, roles with powers over others, those of PostgreSQL and its providers, and those
    that have a PostgresAccess.

    \b
    Example:
        fairlead postgres import --server main --role reporting -n analytics > reporting.yaml
        fairlead postgres plan -f reporting.yaml
    """  # noqa: D301
    check_name("--namespace", namespace)
    config = config_of(kubeconfig, context)
    there = namespace or config.namespace or "default"

    async def work(around: Surroundings) -> ImportReport:
        return await import_roles(around, server, there, roles)

    found = look(config, operator_namespace, work)
    if as_json:
        click.echo(to_json(found))
    else:
        for one in found.accesses:
            click.echo(text_of(one, found.server), nl=False)
    note(found.notes)
    for left in found.skipped:
        click.echo(f"skipped: role {plain(left.role)}: {plain(left.why)}", err=True)
    if roles and {one.role for one in found.skipped} & {*roles}:
        raise click.exceptions.Exit(1)


def text_of(one: Imported, server: str) -> str:
    """One document of YAML, with its comments before it."""
    comments = _COMMENT.format(role=plain(one.role), server=server).splitlines()
    comments += [
        plain(line) if line.strip() == line else f"  {plain(line)}" for line in one.comments
    ]
    lines = "".join(f"# {line}\n" for line in comments)
    return f"---\n{lines}{yaml.safe_dump(one.manifest, sort_keys=False, allow_unicode=True)}"
