"""``fairlead postgres``: the PostgresAccess operator."""

from __future__ import annotations

from typing import Any

import click

from fairlead.api.postgresaccess import crds
from fairlead.api.postgresaccess.controller import UnmanagedUsers
from fairlead.cli.options import check_name, cluster_options, parse_duration, run_options
from fairlead.cli.postgresaccess import audit, explain, importing, plan, takingover
from fairlead.cli.running import RunOptions, run_program
from fairlead.postgres import app
from fairlead.postgres.manifests import NAME
from fairlead.postgres.options import (
    DEFAULT_NAMESPACE,
    DEFAULT_WORKERS,
    LEAST_PENDING_SECONDS,
    LEAST_SYNCED_SECONDS,
    PostgresOptions,
)
from fairlead.runtime import Cluster, Manager


_DEFAULTS = PostgresOptions()


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
@click.option(
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of the Secrets of PostgresServers and of the Lease.",
)
@click.option(
    "--exclude-user",
    multiple=True,
    metavar="ROLE",
    help="Role that the operator never changes; may be given several times.",
)
@click.option(
    "--exclude-user-pattern",
    multiple=True,
    metavar="PATTERN",
    help="Pattern of roles that the operator never changes, such as 'backup_*'; * stands for any "
    "text. May be given several times.",
)
@click.option(
    "--existing-secret-namespace",
    type=bool,
    default=False,
    show_default=True,
    help="Let objects name connection Secrets of other namespaces, except the operator's own.",
)
@click.option(
    "--unmanaged-users",
    type=click.Choice(["Report", "Owned", "Drop"]),
    default=_DEFAULTS.unmanaged_users,
    show_default=True,
    help="Treatment of roles that no object asks for: Report reports those that Fairlead made, "
    "Owned drops them, Drop also drops logins that others made.",
)
@click.option(
    "--synced-interval",
    default="5m",
    show_default=True,
    metavar="DURATION",
    help="Time between two checks of a role that is in sync.",
)
@click.option(
    "--pending-interval",
    default="30s",
    show_default=True,
    metavar="DURATION",
    help="Time between two checks of a role that waits for another object, or for a person.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="Number of objects that are reconciled at the same time; most of them wait for an "
    "answer.",
)
@click.option(
    "--exported", is_flag=True, help="Label PostgresAccess so that kube-bind may export it."
)
def run(
    namespace: str,
    exclude_user: tuple[str, ...],
    exclude_user_pattern: tuple[str, ...],
    existing_secret_namespace: bool,
    unmanaged_users: UnmanagedUsers,
    synced_interval: str,
    pending_interval: str,
    workers: int,
    exported: bool,
    **shared: Any,
) -> None:
    """Run the operator.

    A Controller in the operator's namespace has the same settings and more, and can change them
    while the operator runs. A role that the flags or the Controller exclude is excluded.

    \b
    Example:
        fairlead postgres run --kubeconfig provider.kubeconfig --exclude-user reporting
    """  # noqa: D301
    check_name("--namespace", namespace)
    options = PostgresOptions(
        namespace=namespace,
        excluded_users=exclude_user,
        excluded_user_patterns=exclude_user_pattern,
        existing_secret_namespace=existing_secret_namespace,
        unmanaged_users=unmanaged_users,
        synced_interval=parse_duration(
            synced_interval, option="--synced-interval", least=f"{LEAST_SYNCED_SECONDS:g}s"
        ),
        pending_interval=parse_duration(
            pending_interval, option="--pending-interval", least=f"{LEAST_PENDING_SECONDS:g}s"
        ),
        workers=workers,
    )

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    run_program(NAME, namespace, RunOptions(**shared), crds(exported=exported), build)


command.add_command(audit.command)
command.add_command(explain.command)
command.add_command(importing.command)
command.add_command(plan.command)
command.add_command(takingover.command)
