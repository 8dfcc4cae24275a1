"""``fairlead uninstall``: remove a program in order."""

from __future__ import annotations

import asyncio
import sys
from typing import get_args

import click

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.errors import interrupted
from fairlead.cli.options import (
    NAMESPACE,
    NAMESPACED_NAME,
    cluster_config,
    cluster_options,
    timeout_option,
    yes_option,
)
from fairlead.cli.texts import printable, say
from fairlead.client import Client
from fairlead.uninstall.findings import Choices, Survey, UninstallError, refusal
from fairlead.uninstall.footprints import Program
from fairlead.uninstall.release import why_kept
from fairlead.uninstall.work import survey, uninstall


_SHOWN = 20
"""Largest number of listed users of the program."""


@click.command("uninstall")
@cluster_options
@click.argument("program", type=click.Choice(sorted(get_args(Program))))
@click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    default="",
    metavar="NAMESPACE",
    shell_complete=completion.names(completion.namespaces),
    help="Namespace that the program runs in; each program has its own default.",
)
@click.option(
    "--orphan",
    is_flag=True,
    help="Release objects that wait for the program, such as those with its finalizer; copies, "
    "roles, projections and namespaces elsewhere stay.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Remove the program although it is in use, and show what that breaks.",
)
@click.option("--crds", is_flag=True, help="Also delete the program's CRDs that have no objects.")
@click.option(
    "--prepare",
    is_flag=True,
    help="Remove only the webhooks of the manifests; another program, such as Helm, deletes the"
    " other objects. You cannot combine it with --orphan.",
)
@click.option(
    "--helm-release",
    "release",
    type=NAMESPACED_NAME,
    default="",
    metavar="NAMESPACE/NAME",
    help="With --prepare: do nothing, and end with exit code 0, unless Helm is uninstalling this "
    "release. The hook of the chart gives it.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Report what would be removed; exit code 1 if something still needs the program.",
)
@yes_option
@timeout_option("2m", "until all is gone")
def command(
    program: Program,
    namespace: str,
    orphan: bool,
    force: bool,
    crds: bool,
    prepare: bool,
    release: str,
    dry_run: bool,
    yes: bool,
    seconds: float,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Remove PROGRAM: webhooks, Deployment, RBAC, ServiceAccount, namespace.

    The command refuses while something needs the program, and names the command that ends that
    use. If the program was deleted first, objects may wait for it, for example in a namespace that
    stays in Terminating: --orphan releases them. If the command is interrupted, run it again to
    continue. It asks first, and without a terminal it needs --yes.

    \b
    Examples:
        fairlead uninstall konnector --dry-run
        fairlead uninstall provider --yes --timeout 5m
        fairlead uninstall postgres --orphan
    """  # noqa: D301
    if orphan and prepare:
        raise _unprepared(program, namespace)
    place, name = _release(release, prepare=prepare)
    choices = Choices(orphan=orphan, force=force, crds=crds, prepare=prepare)
    config = cluster_config(kubeconfig, context)

    async def look_at_release(stop: asyncio.Event) -> str:
        async with Client(config, user_agent="fairlead-uninstall") as client:
            return await process.cancel_on(stop, why_kept(client, place, name))

    async def survey_of(stop: asyncio.Event) -> Survey:
        async with Client(config, user_agent="fairlead-uninstall") as client:
            return await process.cancel_on(stop, survey(client, program, namespace=namespace))

    async def work(stop: asyncio.Event) -> None:
        async with Client(config, user_agent="fairlead-uninstall") as client:
            await process.cancel_on(
                stop,
                uninstall(
                    client,
                    program,
                    namespace=namespace,
                    choices=choices,
                    timeout=seconds,
                    progress=say,
                ),
            )

    if name and (why := process.run(look_at_release)):
        say(
            f"nothing is done: Helm does not uninstall release {name}: {why}. A tool that applies "
            "what `helm template` prints leaves this Job out with --no-hooks or "
            "uninstall.hook=false; to prepare a removal by hand, run `fairlead uninstall "
            f"{program}{_where(namespace)} --prepare`"
        )
        return
    # The question comes between two runs of the event loop, which it would block. The work looks
    # again, since time has passed.
    found_uses = process.run(survey_of)
    _tell_uses(found_uses, choices)
    if blocking := found_uses.blocking(choices):
        raise UninstallError(refusal(found_uses, blocking))
    _tell_plan(found_uses, choices)
    if dry_run:
        return
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("there is no terminal to ask on: give --yes")
        click.confirm(f"Uninstall {program}?", abort=True, err=True)
    with interrupted(
        lambda: f"{program} is not completely uninstalled: run the command again to continue"
    ):
        process.run(work)
    if not (prepare or found_uses.steps(choices)):
        click.echo(f"{program} is not installed there, and nothing was removed")
        return
    click.echo(f"{program} is {'prepared' if prepare else 'uninstalled'}")


def _tell_uses(survey: Survey, choices: Choices) -> None:
    """Print the uses: the remedy of each, or the damage if its option was given."""
    for use in survey.uses[:_SHOWN]:
        if choices.allows(use):
            say(f"given up: {use.what}")
            say(f"  then: {use.breaks}")
        else:
            say(f"in use: {use.what}")
            say(f"  next: {use.remedy}")
            say(f"  or with --{use.option}: {use.breaks}")
    if len(survey.uses) > _SHOWN:
        say(f"and {len(survey.uses) - _SHOWN} more")


def _tell_plan(survey: Survey, choices: Choices) -> None:
    """Print the steps of the removal, and the objects that stay."""
    steps = survey.steps(choices)
    if not steps:
        say(f"no object of {survey.program}'s manifests is in namespace {survey.namespace}")
    for number, step in enumerate(steps, 1):
        click.echo(printable(f"{number:>3}. {step}"))
    if survey.crds and not choices.crds:
        say(f"kept: CustomResourceDefinitions {', '.join(survey.crds)} (--crds)")
    for note in survey.notes:
        say(f"note: {note}")


def _release(text: str, *, prepare: bool) -> tuple[str, str]:
    """Return namespace and name of a release, both "" without one."""
    if not text:
        return "", ""
    if not prepare:
        raise click.UsageError("--helm-release needs --prepare")
    namespace, _, name = text.partition("/")
    return namespace, name


def _unprepared(program: Program, namespace: str) -> click.UsageError:
    return click.UsageError(
        "--prepare leaves the program running, which would add its finalizers again: run "
        f"`fairlead uninstall {program}{_where(namespace)} --orphan` without --prepare, and then "
        "the other tool"
    )


def _where(namespace: str) -> str:
    return f" --namespace {namespace}" if namespace else ""
