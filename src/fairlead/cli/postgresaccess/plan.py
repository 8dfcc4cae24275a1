"""``fairlead postgres plan``: the SQL that the operator would run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import click
from rich.console import Console
from rich.text import Text

from fairlead.cli.options import cluster_options, json_option, namespace_option
from fairlead.cli.postgresaccess.shared import (
    Scripted,
    config_of,
    operator_namespace_option,
    run,
    statements,
)
from fairlead.cli.printing import console, note
from fairlead.cli.texts import plain, to_json
from fairlead.postgres.commands.accesses import (
    ManifestError,
    Manifests,
    as_applied,
    in_cluster,
    read_manifests,
)
from fairlead.postgres.commands.plan import PlanReport, ServerPlan, plan
from fairlead.postgres.commands.surroundings import Surroundings


@click.command("plan", cls=Scripted)
@cluster_options
@click.option(
    "-f",
    "--filename",
    "file",
    type=click.File("rb"),
    help="PostgresAccesses in YAML or JSON, in one document or several; - reads standard input.",
)
@click.option("--all", "all_", is_flag=True, help="Every PostgresAccess of the cluster, or of -n.")
@namespace_option(
    "With --all: show only accesses of this namespace. With -f: namespace of accesses that name "
    "none; default: the context's."
)
@operator_namespace_option
@json_option
def command(
    file: BinaryIO | None,
    all_: bool,
    namespace: str,
    operator_namespace: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print the SQL that the operator would run, and why; nothing is changed.

    The command compares each server with its PostgresAccesses. It logs in from this
    machine, which must reach the server, with the credentials that the cluster has for it. It
    reads PostgresAccesses, their servers and Secrets with the rights of the kubeconfig. Passwords
    are shown as ***.

    The exit code is 0 if all is in sync, 2 if statements would run, and 1 if something cannot be
    done or found out.

    \b
    Example:
        fairlead postgres plan -f access.yaml
        kustomize build . | fairlead postgres plan -f -
        fairlead postgres plan --all -n shop --json
    """  # noqa: D301
    # Neither of them, or both.
    if (file is None) != all_:
        raise click.UsageError("give -f FILE, or --all")
    config = config_of(kubeconfig, context)
    manifests = None
    if file is not None:
        manifests = _read(file, namespace or config.namespace or "default")
        note(f"{one} is not a PostgresAccess, and is skipped" for one in manifests.others)

    async def work(around: Surroundings) -> PlanReport:
        if manifests is None:
            return await plan(around, await in_cluster(around, namespace))
        return await plan(around, await as_applied(around, manifests.accesses))

    report = run(config, operator_namespace, work)
    if as_json:
        click.echo(to_json(report))
    else:
        show(console(), report)
    raise click.exceptions.Exit(report.exit_code)


def _read(file: BinaryIO, namespace: str) -> Manifests:
    source = "standard input" if file.name in {"-", "<stdin>"} else file.name
    try:
        content = file.read()
        if not content.strip():
            raise click.ClickException(f"{source}: it is empty")
        manifests = read_manifests(content, namespace)
    except ManifestError as error:
        raise click.ClickException(f"{source}: {error}") from None
    if not manifests.accesses:
        raise click.ClickException(f"{source}: there is no PostgresAccess in it")
    return manifests


def show(out: Console, report: PlanReport) -> None:
    """Print the plan for people, in psql's form; obstacles go to standard error."""
    for server in report.servers:
        if server.databases:
            _show_server(out, server)
    note(report.notes)
    note(f"nothing is done for {one.access}: {one.why}" for one in report.skipped)
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    for problem in report.problems:
        text = f"{plain(problem.access)}: {problem.reason}: {plain(problem.message)}"
        err.print(Text(text, style="red"))
    for server in report.servers:
        if server.remedies:
            err.print(
                Text(f"-- statements that would give the rights at {server.server}:", style="bold")
            )
            _print(err, statements(server.remedies))
    err.print(Text(_summary(report)))


def _show_server(out: Console, server: ServerPlan) -> None:
    out.print(Text(f"-- {plain(server.server)} at {plain(server.address)}", style="bold"))
    _print(out, statements(server.databases))
    for name, digest in server.digests.items():
        out.print(Text(f"-- digest of the plan of {plain(name)}: {digest}", style="dim"))


def _print(out: Console, lines: Iterable[Text]) -> None:
    for line in lines:
        out.print(line)


def _summary(report: PlanReport) -> str:
    accesses = sum(len(server.accesses) for server in report.servers)
    looked = f"{_count(accesses, 'access')} at {_count(len(report.servers), 'server')}"
    if not report.statements:
        return f"{looked}: " + ("in sync" if report.in_sync else "no statements would run")
    return f"{looked}: {_count(report.statements, 'statement')} would run"


def _count(number: int, thing: str) -> str:
    plural = "es" if thing.endswith("s") else "s"
    return f"{number} {thing}{'' if number == 1 else plural}"
