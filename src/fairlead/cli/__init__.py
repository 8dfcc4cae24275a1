"""The command line: flags become options, options go to the packages below, and lines come out.

What comes in: the words of a command line. click finds the command in the module that
``_COMMANDS`` names for it; modules are imported when their command is called, so that ``--help``
and shell completion are quick. A command reads its flags (``options``), calls one function of
``konnector.commands``, ``provider.commands``, ``sandbox`` or ``demo``, or runs one of the four
programs until a signal (``running``). What goes out: tables, YAML or JSON on standard output, and
an error as one line on standard error, with exit code 1, or 2 for wrong usage (``errors``).

``kubebind`` has the commands of kube-bind; those of PostgresAccess, Service Binding, the sandbox
and the demo are modules beside it. No work is done here.
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
