"""``fairlead postgres``: the PostgresAccess operator."""

from __future__ import annotations

from typing import Any

import click

from fairlead.api.postgresaccess import crds
from fairlead.cli.options import cluster_options, flag_options, options_of
from fairlead.cli.postgresaccess import audit, explain, importing, plan, takingover
from fairlead.cli.running import RunOptions, run_options, run_program
from fairlead.postgres import app
from fairlead.postgres.manifests import NAME
from fairlead.postgres.options import PostgresOptions
from fairlead.runtime import Cluster, Manager


@click.group("postgres")
def command() -> None:
    """Make PostgreSQL roles, grants and Secrets for PostgresAccess objects.

    \b
    Example:
        fairlead postgres run --kubeconfig provider.kubeconfig
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@flag_options(PostgresOptions)
@click.option(
    "--exported", is_flag=True, help="Label PostgresAccess so that kube-bind may export it."
)
def run(exported: bool, **flags: Any) -> None:
    """Run the operator.

    A Controller in the operator's namespace has the same settings and more, and can change them
    while the operator runs. A role is excluded if the flags or the Controller exclude it.

    \b
    Example:
        fairlead postgres run --kubeconfig provider.kubeconfig --exclude-user reporting
    """  # noqa: D301
    options = options_of(PostgresOptions, flags)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    shared = options_of(RunOptions, flags)
    run_program(NAME, options.namespace, shared, crds(exported=exported), build)


command.add_command(audit.command)
command.add_command(explain.command)
command.add_command(importing.command)
command.add_command(plan.command)
command.add_command(takingover.command)
