"""Shared code of PostgresAccess's commands: options, the client, and the display of SQL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click
from rich.text import Text

from fairlead import process
from fairlead.cli import completion
from fairlead.cli.options import NAMESPACE, OBJECT_NAME, cluster_config
from fairlead.cli.texts import plain
from fairlead.client import Client, ClusterConfig
from fairlead.postgres.commands.plan import DatabasePlan
from fairlead.postgres.commands.surroundings import Surroundings
from fairlead.postgres.options import DEFAULT_NAMESPACE


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_STYLES = {
    "GRANT": "green",
    "CREATE": "green",
    "REVOKE": "red",
    "DROP": "red",
    "ALTER": "yellow",
    "COMMENT": "cyan",
}


class Scripted(click.Command):
    """Command whose exit code 2 is a result: wrong usage has exit code 1, as other failures."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Return click's context; wrong usage ends with exit code 1.

        Raises:
            click.UsageError: an option is wrong.
        """
        with _misused():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; wrong usage ends with exit code 1.

        Raises:
            click.UsageError: options do not go together.
        """
        with _misused():
            return super().invoke(ctx)


class _Misuse(click.UsageError):
    exit_code = 1


@contextmanager
def _misused() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        raise _Misuse(error.format_message(), error.ctx) from None


def operator_namespace_option(function: F) -> F:
    """Add ``--operator-namespace``, with the Controller and the credentials of PostgresServers."""
    return click.option(
        "--operator-namespace",
        type=NAMESPACE,
        default=DEFAULT_NAMESPACE,
        show_default=True,
        metavar="NAMESPACE",
        help="Namespace of the operator's Controller and of the Secrets of PostgresServers.",
    )(function)


def server_option(function: F) -> F:
    """Add ``--server``, the name of an existing PostgresServer."""
    return click.option(
        "--server",
        type=OBJECT_NAME,
        required=True,
        metavar="NAME",
        shell_complete=completion.names(completion.postgres_servers),
        help="Name of the PostgresServer.",
    )(function)


def roles_option(default: str) -> Callable[[F], F]:
    """Add ``--role``, repeatable; ``default`` describes the meaning without it."""
    return click.option(
        "--role",
        "roles",
        multiple=True,
        metavar="ROLE",
        help=f"Name of a role; may be given several times. Default: {default}.",
    )


def run(
    config: ClusterConfig,
    operator_namespace: str,
    work: Callable[[Surroundings], Awaitable[T]],
) -> T:
    """Run the work of a command on its cluster."""

    async def main() -> T:
        async with Client(config, user_agent="fairlead-postgres") as client:
            return await work(await Surroundings.of(client, operator_namespace))

    return process.run(lambda stop: process.cancel_on(stop, main()))


def config_of(kubeconfig: str | None, context: str | None) -> ClusterConfig:
    """Return the cluster that the options name."""
    return cluster_config(kubeconfig, context)


def statements(databases: Iterable[DatabasePlan]) -> Iterable[Text]:
    """Yield lines of SQL, each statement with its reason as a comment before it."""
    for database in databases:
        yield Text(f"-- database {plain(database.database)}", style="bold")
        for statement in database.statements:
            whose = ", ".join(map(plain, statement.accesses))
            yield Text(f"-- {whose}: {plain(statement.reason)}", style="dim")
            sql = plain(statement.sql)
            yield Text(f"{sql};", style=_STYLES.get(sql.partition(" ")[0], ""))
