"""``fairlead binding``: the service-binding controllers."""

from __future__ import annotations

from typing import Any

import click

from fairlead.binding import app
from fairlead.binding.manifests import NAME
from fairlead.binding.options import DEFAULT_NAMESPACE, DEFAULT_WORKERS, BindingOptions
from fairlead.cli.bindingfiles import compose, render
from fairlead.cli.options import cluster_options, run_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.runtime import Cluster, Manager


@click.group("binding")
def command() -> None:
    """Project binding data of services into workloads.

    \b
    Example:
        fairlead binding run --kubeconfig consumer.kubeconfig
    """  # noqa: D301


@command.command("run")
@cluster_options
@run_options
@click.option("--namespace", default=DEFAULT_NAMESPACE, show_default=True, help="Of the Lease.")
@click.option(
    "--cross-namespace",
    type=bool,
    default=False,
    show_default=True,
    help="Let bindings of binding.operators.coreos.com name services of other namespaces.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 1024),
    default=DEFAULT_WORKERS,
    show_default=True,
    help="How many bindings of one API are worked on at the same time; nearly all wait for an "
    "answer.",
)
def run(namespace: str, cross_namespace: bool, workers: int, **shared: Any) -> None:
    """Run the controllers of both ServiceBinding APIs.

    \b
    Example:
        fairlead binding run --kubeconfig consumer.kubeconfig
    """  # noqa: D301
    options = BindingOptions(cross_namespace=cross_namespace, workers=workers)

    async def build(manager: Manager, cluster: Cluster) -> None:
        await app.build(manager, cluster, options)

    run_program(NAME, namespace, RunOptions(**shared), app.install_crds, build)


command.add_command(compose)
command.add_command(render)
