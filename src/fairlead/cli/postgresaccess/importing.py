"""``fairlead postgres import``: manifests of existing roles."""

from __future__ import annotations

import click
import yaml

from fairlead.api.postgresaccess import ROTATE_ANNOTATION
from fairlead.cli.options import cluster_options, json_option, namespace_option
from fairlead.cli.postgresaccess.shared import (
    config_of,
    operator_namespace_option,
    roles_option,
    run,
    server_option,
)
from fairlead.cli.printing import note
from fairlead.cli.texts import plain, to_json
from fairlead.postgres.commands.importing import Imported, ImportReport, import_roles
from fairlead.postgres.commands.surroundings import Surroundings


_COMMENT = (
    "Role {role} of PostgresServer {server}, as it is. {claim}\nIt keeps its password, which "
    "cannot be read, so there is no Secret: put it into one\nand name that in "
    f"spec.passwordSecretRef, or annotate the object with\n{ROTATE_ANNOTATION} to get a new "
    "password."
)
_CLAIMED = "Its comment names this object."
_UNCLAIMED = "Adoption will write this object into its comment."


@click.command("import")
@cluster_options
@server_option
@roles_option("all roles that may log in")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write nothing to the server; the plan of a manifest then includes the claim on its "
    "role.",
)
@namespace_option("Namespace of the manifests; default: the context's.")
@operator_namespace_option
@json_option
def command(
    server: str,
    roles: tuple[str, ...],
    dry_run: bool,
    namespace: str,
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print PostgresAccesses that describe existing roles as they are.

    The command adds a line to the comment of each role, which names its PostgresAccess. This
    claims the role for the object of the manifest, so that the object's plan is empty. Nothing
    else is written, and the role keeps its password.

    A grant that covers all objects of a schema has no names; other grants have names. The command
    compares each manifest with the server; comments in the manifest list what adoption would still
    change. It skips roles that cannot be adopted, with the reason on standard error: superusers,
    roles with powers over others, roles of PostgreSQL and its providers, and roles that have a
    PostgresAccess.

    \b
    Example:
        fairlead postgres import --server main --role reporting -n analytics > reporting.yaml
        fairlead postgres plan -f reporting.yaml
    """  # noqa: D301
    config = config_of(kubeconfig, context)
    there = namespace or config.namespace or "default"

    async def work(around: Surroundings) -> ImportReport:
        return await import_roles(around, server, there, roles, claiming=not dry_run)

    imports = run(config, operator_namespace, work)
    if as_json:
        click.echo(to_json(imports))
    else:
        for access in imports.accesses:
            click.echo(text_of(access, imports.server), nl=False)
    note(imports.notes)
    for left in imports.skipped:
        click.echo(f"skipped: role {plain(left.role)}: {plain(left.why)}", err=True)
    left_out = {one.role for one in imports.skipped}
    if not dry_run:
        left_out |= {one.role for one in imports.accesses if not one.claimed}
    # Some roles of a server can never be imported; only the named ones are an error.
    if left_out & {*roles}:
        raise click.exceptions.Exit(1)


def text_of(access: Imported, server: str) -> str:
    """Return one document of YAML, with its comments before it."""
    claim = _CLAIMED if access.claimed else _UNCLAIMED
    # plain() also keeps a line break in the name of a role from ending the comment of YAML.
    comments = _COMMENT.format(role=plain(access.role), server=server, claim=claim).splitlines()
    # An indented comment stays indented: plain() takes its blanks away.
    comments += [
        plain(line) if line.strip() == line else f"  {plain(line)}" for line in access.comments
    ]
    lines = "".join(f"# {line}\n" for line in comments)
    return f"---\n{lines}{yaml.safe_dump(access.manifest, sort_keys=False, allow_unicode=True)}"
