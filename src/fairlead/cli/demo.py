"""``fairlead demo``: the story of a database login, from one cluster to another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from fairlead import process
from fairlead.api.meta import JSON
from fairlead.cli.console import answer_enter, print_link
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.screen import SilentScreen, screen_for, summary
from fairlead.demo.steps import Screen, StoryReport
from fairlead.konnector.commands.overview.fetch import TIMEOUTS


if TYPE_CHECKING:
    from fairlead.demo.breaking import Breakage
    from fairlead.demo.postgres.database import DatabaseServer
    from fairlead.demo.world import Plane


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
@click.option(
    "--keep",
    is_flag=True,
    help="Keep everything running after the app has logged in; Ctrl-C ends.",
)
@click.option(
    "--log-file", type=click.Path(dir_okay=False, path_type=Path), help="File to write logs to."
)
def command(as_json: bool, keep: bool, log_file: Path | None) -> None:
    """Take a database login from one cluster to an app in another.

    Starts two embedded control planes, a real PostgreSQL and every part of Fairlead, tells the
    story, and removes everything. Needs no cluster and no kubectl.

    \b
    Examples:
        fairlead demo
        fairlead demo --keep
        fairlead demo --json | python -m json.tool
    """  # noqa: D301
    if as_json and keep:
        raise click.UsageError("--json and --keep exclude each other: give one of them")
    # Imported here: an installation without the extra of the demo lists its commands too.
    from fairlead.cli.logs import configure_logs
    from fairlead.demo.postgres.binaries import find_install

    # Of all that the story needs, this alone comes by no other extra than the demo's.
    find_install(18)
    from fairlead.demo.play import play

    console = Console(highlight=False)
    screen: Screen = SilentScreen()
    if not as_json:
        screen = screen_for(console)
    with contextlib.ExitStack() as stack:
        # The programs of the story run in this process, and their logs would come between its
        # lines.
        log = stack.enter_context((log_file or Path("/dev/null")).open("w"))
        configure_logs(json=True, file=log)

        hold = _Hold(console)

        async def main(stop: asyncio.Event) -> StoryReport | None:
            with contextlib.suppress(asyncio.CancelledError):
                return await process.cancel_on(stop, play(screen, keep=hold if keep else None))
            return None

        report = process.run(main)
    if report is None:
        # A signal is how --keep ends; before that it is an interruption.
        if not hold.entered:
            raise click.Abort
        console.print("Everything is removed.")
        return
    if as_json:
        click.echo(report.to_json())
    else:
        console.print(summary(report, console))
    if not report.ok:
        sys.exit(1)


class _Hold:
    """Prints the running parts, their addresses and things to break; waits until it is stopped."""

    def __init__(self, console: Console) -> None:
        self.entered = False
        self._console = console

    async def __call__(self, provider: Plane, consumer: Plane, database: DatabaseServer) -> None:
        self.entered = True
        with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
            paths = []
            for name, plane in (("provider", provider), ("consumer", consumer)):
                path = Path(folder) / f"{name}.kubeconfig"
                # The file is private before there is a credential in it.
                path.touch(mode=0o600)
                path.write_bytes(plane.kubeconfig())
                paths.append(path)
            async with Client(
                parse_kubeconfig(consumer.kubeconfig()), timeouts=TIMEOUTS
            ) as client:
                await self._show(client, paths, database)

    async def _show(self, client: Client, paths: Sequence[Path], database: DatabaseServer) -> None:
        """Serve the consumer's console, and print its address and the things to break."""
        from fairlead.portal.own import OwnConsole, listen
        from fairlead.postgres.options import DEFAULT_NAMESPACE

        with contextlib.closing(listen()) as listening:
            own_console = OwnConsole(
                client, listening, print_link, operator_namespace=DEFAULT_NAMESPACE
            )
            async with asyncio.TaskGroup() as group:
                group.create_task(own_console.run())
                link = await own_console.link()
                for line in _hints(paths[0], paths[1], database, link):
                    self._console.print(line, markup=False, soft_wrap=True)
                group.create_task(answer_enter(own_console))


def _hints(provider: Path, consumer: Path, database: DatabaseServer, link: str) -> list[str]:
    from fairlead.demo.breaking import breakages

    kubectl = f"kubectl --kubeconfig {consumer} -n shop"
    fairlead = _program()
    app = f"{fairlead} sandbox run deployment/shop -n shop --kubeconfig {consumer}"
    admin = "the administrator's login is Secret fairlead-postgres/main-admin of the provider"
    lines = [
        "",
        f"console:   {link}",
        "           (works once, within a minute; Enter prints another link)",
        f"provider:  {provider}",
        f"consumer:  {consumer}",
        f"database:  {database.host}:{database.port}; {admin}",
        "",
        "Look, in another terminal:",
        f"  {fairlead} bindings --kubeconfig {consumer}",
        f"  {kubectl} get postgresaccesses,servicebindings.servicebinding.io,secrets",
        f"  {kubectl} get deployment shop -o yaml",
        f"  kubectl --kubeconfig {provider} get postgresservers,postgresaccesses -A",
        f"  {app}",
        "",
        "Three things to break, with the console open:",
    ]
    for number, breakage in enumerate(breakages(database.port), 1):
        path = provider if breakage.side == "provider" else consumer
        lines += [
            "",
            f"{number}. {breakage.title}:",
            f"  {_patch(path, breakage, breakage.change)}",
            f"The console: {breakage.shows}. To fix it:",
            f"  {_patch(path, breakage, breakage.mend)}",
        ]
    return [*lines, "", "Ctrl-C removes everything."]


def _patch(kubeconfig: Path, breakage: Breakage, change: JSON) -> str:
    """Return the kubectl command that patches an object."""
    body = json.dumps(change, separators=(",", ":"))
    where = f" -n {breakage.namespace}" if breakage.namespace else ""
    return (
        f"kubectl --kubeconfig {kubeconfig}{where} patch {breakage.resource.group_resource}"
        f" {breakage.name} --type=merge -p {shlex.quote(body)}"
    )


def _program() -> str:
    """Return the shell command that starts this program in another terminal."""
    if shutil.which("fairlead"):
        return "fairlead"
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m fairlead"
    return shlex.quote(str(called.resolve()))
