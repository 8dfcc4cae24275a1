"""The command line: commands turn flags into options, call a package below, and print the result.

The input is the words of a command line. click finds the command in the module that
``_COMMANDS`` names for it; modules are imported when their command is called, so that ``--help``
and shell completion are quick. A command reads its flags (``options``), calls one function of
``konnector.commands``, ``provider.commands``, ``sandbox`` or ``demo``, or runs one of the four
programs until a signal (``running``). The output is tables, YAML or JSON on standard output; an
error is one line on standard error, with exit code 1, or 2 for wrong usage (``errors``).

``kubebind``, ``postgresaccess`` and ``servicebinding`` have the commands of the three systems,
``frontdoor`` those that speak to a provider over HTTP; those of the sandbox and the demo are
modules beside them. Decisions and requests belong to the packages below.
"""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from fairlead import garbage
from fairlead.cli.errors import ARGUMENTS, explained, reported
from fairlead.cli.texts import open_streams


class _Lazy(NamedTuple):
    """Module of a command below ``fairlead.cli``, and the first sentence of the command's help."""

    module: str
    summary: str


_COMMANDS = {
    "accept": _Lazy("kubebind.accept", "Let the konnector synchronize the objects of BINDING."),
    "bind": _Lazy("kubebind.bind", "Bind what a provider offers."),
    "binding": _Lazy(
        "servicebinding.controllers", "Project binding data of services into workloads."
    ),
    "bindings": _Lazy(
        "kubebind.bindings",
        "Show all bindings of a cluster: objects in sync, lag, heartbeat, problem.",
    ),
    "cluster-identity": _Lazy(
        "frontdoor.clusteridentity",
        "Print the identity of a cluster: the uid of one of its namespaces.",
    ),
    "collections": _Lazy(
        "frontdoor.collections",
        "List the provider's templates by the collections that they are in.",
    ),
    "completion": _Lazy(
        "shells",
        "Print shell code that completes commands, options and names of a cluster.",
    ),
    "console": _Lazy(
        "console",
        "Show bindings, accesses and workloads of a cluster in a browser.",
    ),
    "crds": _Lazy("crds", "Print the CustomResourceDefinitions as YAML."),
    "demo": _Lazy("demo", "Take a database login from one cluster to an app in another."),
    "deploy": _Lazy(
        "frontdoor.deploy",
        "Bind by a BindingResponse from a Secret of this cluster or from a file.",
    ),
    "explain": _Lazy(
        "explain",
        "Explain whether KIND/NAME works, and if not, where it breaks first and what helps.",
    ),
    "konnector": _Lazy(
        "kubebind.konnector",
        "Keep bound APIs of a consumer cluster in step with their providers.",
    ),
    "login": _Lazy("frontdoor.login", "Sign in to the front door of a provider with a browser."),
    "logout": _Lazy(
        "frontdoor.logout", "End the sign-in to a front door, here and on the server."
    ),
    "manifests": _Lazy(
        "manifests",
        "Print namespace, ServiceAccount, least-privilege RBAC and Deployment as YAML.",
    ),
    "migrate": _Lazy(
        "kubebind.migrate",
        "Move BINDING to kbind v2: Connection and ClusterBinding take the APIServiceBinding's "
        "place.",
    ),
    "postgres": _Lazy(
        "postgresaccess.operator",
        "Make PostgreSQL roles, grants and Secrets for PostgresAccess objects.",
    ),
    "provider": _Lazy("kubebind.provider", "Offer services to other clusters."),
    "ready": _Lazy("ready", "Wait until the program at URL says that it is ready."),
    "sandbox": _Lazy("sandbox", "Run Kubernetes API servers on this machine, without containers."),
    "support": _Lazy(
        "support",
        "Write a support bundle: one file with the state of Fairlead in a cluster,"
        " without secrets.",
    ),
    "templates": _Lazy("frontdoor.templates", "List what the provider offers you."),
    "unbind": _Lazy(
        "kubebind.unbind",
        "Remove BINDING: its objects here, their copies on the provider, and its rights.",
    ),
    "uninstall": _Lazy(
        "uninstall",
        "Remove PROGRAM: webhooks, Deployment, RBAC, ServiceAccount, namespace.",
    ),
    "user-roles": _Lazy(
        "kubebind.userroles",
        "Print ClusterRoles that let people use the kinds that BINDINGS, or all bindings, bind.",
    ),
    "whoami": _Lazy(
        "frontdoor.whoami", "Show the front door in use, who is signed in, and until when."
    ),
}


class _Commands(click.Group):
    """Group that imports the module of the called command, and reports errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"fairlead.cli.{_COMMANDS[cmd_name].module}")
        command = module.command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], _COMMANDS, n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean {close[0]!r}?", ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # click's own method would import the modules of all commands for their first sentences.
        width = formatter.width - 6 - max(map(len, _COMMANDS))
        rows = [
            (name, click.Command(name, help=_COMMANDS[name].summary).get_short_help_str(width))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        items: list[CompletionItem[str]] = [
            CompletionItem(name, help=_COMMANDS[name].summary)
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        # The method of click.Group, which comes in between, would import the modules of all
        # commands.
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Recorded before they are parsed: a wrong flag is reported in JSON too, if JSON was asked
        # for.
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        open_streams()
        return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        garbage.relax()
        with reported(ctx), explained(debug=bool(ctx.params.get("debug"))):
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
