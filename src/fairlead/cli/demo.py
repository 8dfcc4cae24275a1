"""``fairlead demo``: the story."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from fairlead import process
from fairlead.demo.screen import SilentScreen, screen_for, summary
from fairlead.demo.steps import Report, Screen


if TYPE_CHECKING:
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
    "--log-file", type=click.Path(dir_okay=False, path_type=Path), help="Write logs here."
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
        raise click.UsageError("--json and --keep do not go together")
    # Not before: an installation without the extra of the demo lists its commands too.
    from fairlead.cli.logs import configure_logs
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

        async def main(stop: asyncio.Event) -> Report | None:
            with contextlib.suppress(asyncio.CancelledError):
                return await process.cancel_on(stop, play(screen, keep=hold if keep else None))
            return None

        report = process.run(main)
    if report is None:
        # To be stopped is how --keep ends; before that it is an interruption.
        if not hold.held:
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
    """Tells a person what is up and where, until the command is stopped."""

    def __init__(self, console: Console) -> None:
        self.held = False
        self._console = console

    async def __call__(self, provider: Plane, consumer: Plane, database: DatabaseServer) -> None:
        self.held = True
        with tempfile.TemporaryDirectory(prefix="fairlead-demo-") as folder:
            paths = []
            for name, plane in (("provider", provider), ("consumer", consumer)):
                path = Path(folder) / f"{name}.kubeconfig"
                # The file is private before there is a credential in it.
                path.touch(mode=0o600)
                path.write_bytes(plane.kubeconfig())
                paths.append(path)
            for line in _hints(paths[0], paths[1], database):
                self._console.print(line, markup=False, soft_wrap=True)
            await asyncio.Event().wait()


def _hints(provider: Path, consumer: Path, database: DatabaseServer) -> list[str]:
    kubectl = f"kubectl --kubeconfig {consumer} -n shop"
    fairlead = _program()
    app = f"{fairlead} sandbox run deployment/shop -n shop --kubeconfig {consumer}"
    admin = "the administrator's login is Secret fairlead-postgres/main-admin of the provider"
    payroll = '{"spec":{"grants":[{"database":"payroll","privileges":["CONNECT"]}]}}'
    return [
        "",
        f"provider:  {provider}",
        f"consumer:  {consumer}",
        f"database:  {database.host}:{database.port}; {admin}",
        "",
        "Look, in another terminal:",
        f"  {fairlead} bindings --kubeconfig {consumer}",
        f"  {kubectl} get postgresaccesses,servicebindings,secrets",
        f"  {kubectl} get deployment shop -o yaml",
        f"  kubectl --kubeconfig {provider} get postgresservers,postgresaccesses -A",
        f"  {app}",
        "",
        "Break something. The login comes back:",
        f"  {kubectl} delete secret shop-database-login",
        f"  {kubectl} get secret shop-database-login",
        "A database that is not offered is refused, and the old grants stay:",
        f"  {kubectl} patch postgresaccess shop-database --type=merge -p '{payroll}'",
        f"  {kubectl} describe postgresaccess shop-database",
        f"  {app}",
        "",
        "Ctrl-C removes everything.",
    ]


def _program() -> str:
    """How this program is called from another terminal."""
    if shutil.which("fairlead"):
        return "fairlead"
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m fairlead"
    return shlex.quote(str(called.resolve()))
