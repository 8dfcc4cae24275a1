"""``fairlead konnector``: the consumer cluster's agent."""

from __future__ import annotations

from typing import Any

import click

from fairlead.cli.options import cluster_options, run_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.konnector import app
from fairlead.konnector.manifests import LEASE, NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE, Options
from fairlead.runtime import Cluster, Manager


@click.group("konnector")
def command() -> None:
    """Keep bound APIs of a consumer cluster in step with their providers.

    \b
    Example:
        fairlead konnector run --kubeconfig consumer.kubeconfig
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@click.option(
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Where the kubeconfig Secrets and the Lease are.",
)
def run(namespace: str, **shared: Any) -> None:
    """Run the konnector.

    \b
    Example:
        fairlead konnector run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    options = Options(namespace=namespace, install_crds=False)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    run_program(NAME, namespace, RunOptions(**shared), app.install_crds, build, lease=LEASE)
