"""Commands only: every line of work is in the packages below.

Commands are imported when they are called, so that ``--help`` and shell completion are quick.
"""

from __future__ import annotations

import importlib
from typing import Any

import click

from fairlead import garbage
from fairlead.cli.errors import explained


_COMMANDS = {
    "accept": "fairlead.cli.kubebind.accept",
    "bind": "fairlead.cli.kubebind.bind",
    "binding": "fairlead.cli.servicebinding",
    "bindings": "fairlead.cli.kubebind.bindings",
    "crds": "fairlead.cli.crds",
    "demo": "fairlead.cli.demo",
    "konnector": "fairlead.cli.kubebind.konnector",
    "manifests": "fairlead.cli.manifests",
    "postgres": "fairlead.cli.postgres",
    "provider": "fairlead.cli.kubebind.provider",
    "sandbox": "fairlead.cli.sandbox",
    "unbind": "fairlead.cli.kubebind.unbind",
}


class _Commands(click.Group):
    """Finds a command in the module that has its name, and explains every error in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def invoke(self, ctx: click.Context) -> Any:
        garbage.relax()
        with explained(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairlead")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Fairlead gets a service from the team that runs it to the app that needs it.

    \b
    Example, without any cluster:
        fairlead demo
    """  # noqa: D301
