"""``fairlead postgres``: the PostgresAccess operator."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.options import cluster_options, run_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.client import Client
from fairlead.postgres import app
from fairlead.postgres.manifests import NAME
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions
from fairlead.runtime import Cluster, Manager


@click.group("postgres")
def command() -> None:
    """Make PostgreSQL roles, grants and Secrets of PostgresAccess objects.

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
    help="Where the Secrets of PostgresServers and the Lease are.",
)
@click.option("--exclude-user", multiple=True, metavar="ROLE", help="A role never to touch.")
@click.option(
    "--existing-secret-namespace",
    type=bool,
    default=False,
    show_default=True,
    help="Let objects name connection Secrets of other namespaces.",
)
@click.option(
    "--exported", is_flag=True, help="Label PostgresAccess so that kube-bind may export it."
)
def run(
    namespace: str,
    exclude_user: tuple[str, ...],
    existing_secret_namespace: bool,
    exported: bool,
    **shared: Any,
) -> None:
    """Run the operator.

    \b
    Example:
        fairlead postgres run --kubeconfig provider.kubeconfig --exclude-user reporting
    """  # noqa: D301
    options = PostgresOptions(
        namespace=namespace,
        excluded_users=exclude_user,
        existing_secret_namespace=existing_secret_namespace,
    )

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    async def install(client: Client) -> None:
        await app.install_crds(client, exported=exported)

    run_program(NAME, namespace, RunOptions(**shared), install, build)
