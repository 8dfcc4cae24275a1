"""``fairlead migrate``: move a binding from kube-bind's v1alpha2 to kbind v2."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.crds import to_yaml
from fairlead.cli.options import (
    OBJECT_NAME,
    cluster_config,
    cluster_options,
    konnector_namespace_option,
    timeout_option,
    yes_option,
)
from fairlead.cli.texts import printable, say
from fairlead.client import Client, load_config
from fairlead.konnector.commands.migrate import MigrationError, MigrationSurvey, migrate, survey
from fairlead.konnector.commands.readiness import within


@click.command("migrate")
@cluster_options
@click.argument("binding", type=OBJECT_NAME, shell_complete=completion.names(completion.bindings))
@click.option("--dry-run", is_flag=True, help="Print the steps, and write nothing.")
@yes_option
@click.option(
    "--provider-kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kubeconfig of an administrator of the provider: the command then grants the consumer's"
    " account the rights that it lacks, and labels the CRDs. Without it the provider's team has"
    " to do both.",
)
@timeout_option("5m", "until all is done")
@konnector_namespace_option
def command(
    binding: str,
    dry_run: bool,
    yes: bool,
    provider_kubeconfig: Path | None,
    seconds: float,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Move BINDING to kbind v2: Connection and ClusterBinding take the APIServiceBinding's place.

    No object and no copy is deleted. The command can move a binding if its objects have the same
    names on both sides; otherwise it says why it cannot, and writes nothing. If rights at the
    provider are missing, it prints the roles that grant them, and writes nothing either. The
    konnector has to serve both protocols.

    If it is interrupted, run it again to continue.

    \b
    Example:
        fairlead migrate widgets --dry-run
        fairlead migrate widgets --yes --provider-kubeconfig provider.kubeconfig
    """  # noqa: D301
    config = cluster_config(kubeconfig, context)
    administrator = load_config(str(provider_kubeconfig)) if provider_kubeconfig else None

    async def observe(stop: asyncio.Event) -> MigrationSurvey:
        async with Client(config, user_agent="fairlead-migrate") as client:
            work = survey(client, binding, administrator=administrator, namespace=namespace)
            limited = within(seconds, work, lambda: f"looking at {binding} in both clusters")
            return await process.cancel_on(stop, limited)

    findings = process.run(observe)
    if dry_run:
        _print_plan(findings, namespace)
    if findings.plan.misfits or administrator is None:
        _refuse(findings, dry_run=dry_run)
    if dry_run:
        return
    if not (yes or findings.resumes):
        _confirm(binding)

    async def move(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-migrate") as client:
            work = migrate(
                client,
                findings,
                administrator=administrator,
                namespace=namespace,
                timeout=seconds,
                progress=say,
            )
            await process.cancel_on(stop, work)

    process.run(move)
    click.echo(f"connection.core.kbind.io/{binding} has replaced {binding}")


def _print_plan(findings: MigrationSurvey, namespace: str) -> None:
    if findings.plan.misfits:
        return
    for number, step in enumerate(findings.plan.steps(namespace), 1):
        click.echo(printable(f"{number}. {step}"))
    for note in findings.plan.notes:
        click.echo(printable(f"Note: {note}."))


def _refuse(findings: MigrationSurvey, *, dry_run: bool) -> None:
    """Raise if nothing can be moved, and print the roles that are missing at the provider."""
    if not (fault := findings.fault()):
        return
    if findings.roles and not findings.plan.misfits and not dry_run:
        click.echo(to_yaml(list(findings.roles)), nl=False)
    raise MigrationError(fault)


def _confirm(binding: str) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes, or --dry-run")
    click.confirm(
        f"Move {binding} to kbind v2? Its APIServiceBinding is deleted; objects and copies stay.",
        abort=True,
        err=True,
    )
