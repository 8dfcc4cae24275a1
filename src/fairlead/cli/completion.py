"""Completers of options and arguments, with names from a cluster.

A person waits at the tab key, and a shell shows candidates alone: if the cluster is slow, away or
refuses, there are no candidates and no error.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem


if TYPE_CHECKING:
    from fairlead.api.resource import Resource
    from fairlead.client import Client


PATIENCE_SECONDS = 1.5
"""Seconds that a cluster may take to list names; ``$FAIRLEAD_COMPLETION_SECONDS`` overrides it."""
PATIENCE_VARIABLE = "FAIRLEAD_COMPLETION_SECONDS"
_HARD_LIMIT_SECONDS = 2.5
"""Seconds after the patience until the process is ended: a resolver cannot be cancelled."""
Names = Callable[["Client"], Awaitable[Iterable[str]]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


def names(list_names: Names) -> Completer:
    """Return a completer with names from the cluster of --kubeconfig and --context."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        with silence():
            kubeconfig = context.params.get("kubeconfig")
            names = _ask_cluster(list_names, kubeconfig, context.params.get("context"))
            return beginning_with(incomplete, names)
        # Only after an error, which silence() swallows.
        return []

    return complete


def access_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete a parameter with PostgresAccesses of the namespace of -n."""
    namespace = str(context.params.get("namespace") or "")

    async def list_names(client: Client) -> Iterable[str]:
        return await postgres_accesses(client, namespace or client.config.namespace or "default")

    return names(list_names)(context, parameter, incomplete)


async def bindings(client: Client) -> Iterable[str]:
    """Return the names of the APIServiceBindings."""
    from fairlead.api.kubebind import APISERVICEBINDINGS

    return await _named(client, APISERVICEBINDINGS)


async def connections(client: Client) -> Iterable[str]:
    """Return the names of the Connections."""
    from fairlead.api.kbind import CONNECTIONS

    return await _named(client, CONNECTIONS)


async def exported_apis(client: Client, connection: str = "") -> Iterable[str]:
    """Return the APIs that a Connection, or any of them, says its provider exports."""
    from fairlead.api.kbind import CONNECTIONS, Connection

    return {
        api.name
        for obj in (await client.list(CONNECTIONS)).items
        if connection in {"", obj.meta.name} and (parsed := obj.try_decode(Connection))
        for api in parsed.status.exported_apis
    }


async def shown_bindings(client: Client) -> Iterable[str]:
    """Return the bindings of either protocol, and Connections, as a command's BINDING."""
    from fairlead.api.kubebind import APISERVICEBINDINGS

    prefix = f"{APISERVICEBINDINGS.kind.lower()}/"
    return [name.removeprefix(prefix) for name in await explained_bindings(client)]


async def explained_bindings(client: Client) -> Iterable[str]:
    """Return the bindings of either protocol as KIND/NAME, and the Connections.

    Where kinds are not served, or may not be listed, there are no candidates of them.
    """
    from fairlead.api.kbind.names import KBIND_KINDS
    from fairlead.api.kubebind import APISERVICEBINDINGS
    from fairlead.client.errors import ApiError

    titles: list[str] = []
    for resource in (APISERVICEBINDINGS, *KBIND_KINDS):
        with contextlib.suppress(ApiError):
            listed = await client.list(resource, metadata_only=True)
            kind = resource.kind.lower()
            titles += [f"{kind}/{obj.key}" for obj in listed.items]
    return titles


async def templates(client: Client) -> Iterable[str]:
    """Return the names of the APIServiceExportTemplates."""
    from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES

    return await _named(client, APISERVICEEXPORTTEMPLATES)


async def consumers(client: Client) -> Iterable[str]:
    """Return the identities of a provider's consumers, and the names of those of kbind v2."""
    from fairlead.api.resource import NAMESPACES
    from fairlead.provider.namespaces import identity_of
    from fairlead.provider.v2.record import consumer_of

    namespaces = (await client.list(NAMESPACES, metadata_only=True)).items
    return {name for one in namespaces if (name := identity_of(one) or consumer_of(one))}


async def namespaces(client: Client) -> Iterable[str]:
    """Return the names of the cluster's namespaces."""
    from fairlead.api.resource import NAMESPACES

    return await _named(client, NAMESPACES)


async def postgres_servers(client: Client) -> Iterable[str]:
    """Return the names of the PostgresServers."""
    from fairlead.api.postgresaccess.server import POSTGRESSERVERS

    return await _named(client, POSTGRESSERVERS)


async def postgres_accesses(client: Client, namespace: str) -> Iterable[str]:
    """Return the names of the PostgresAccesses of a namespace."""
    from fairlead.api.postgresaccess import POSTGRESACCESSES

    listed = await client.list(POSTGRESACCESSES, namespace, metadata_only=True)
    return [found.meta.name for found in listed.items]


async def _named(client: Client, resource: Resource) -> Iterable[str]:
    listed = await client.list(resource, metadata_only=True)
    return [found.meta.name for found in listed.items]


def contexts(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete --context with the contexts of the kubeconfig."""
    with silence():
        from fairlead.client.loading import context_names

        names = context_names(context.params.get("kubeconfig"))
        return [CompletionItem(one) for one in names if one.startswith(incomplete)]
    return []


def files(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Leave the completion to the shell, which knows its files."""
    return [CompletionItem(incomplete, type="file")]


def _ask_cluster(list_names: Names, kubeconfig: str | None, context: str | None) -> Iterable[str]:
    from fairlead.client import Client, RetryPolicy, Timeouts, load_config

    async def main() -> Iterable[str]:
        config = load_config(kubeconfig, context)
        limits = Timeouts(connect=_patience(), read=_patience())
        async with Client(
            config,
            user_agent="fairlead-completion",
            timeouts=limits,
            # A person waits: a second attempt would end after the patience.
            retries=RetryPolicy(attempts=1),
        ) as client:
            return await list_names(client)

    return ask(main)


def ask(list_names: Callable[[], Awaitable[Iterable[str]]]) -> Iterable[str]:
    """Return the names that a server lists.

    Raises:
        TimeoutError: the person has waited for ``PATIENCE_SECONDS``.
    """

    async def main() -> Iterable[str]:
        async with asyncio.timeout(_patience()):
            return await list_names()

    # asyncio.run also waits for the thread that resolves a name, which cannot be cancelled.
    _limit(_patience() + _HARD_LIMIT_SECONDS)
    return asyncio.run(main())


def beginning_with(incomplete: str, names: Iterable[str]) -> list[CompletionItem[str]]:
    """Return the candidates for an incomplete word, in order."""
    return [CompletionItem(one) for one in sorted(names) if one.startswith(incomplete)]


def _patience() -> float:
    return float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_SECONDS)


def _limit(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        # Not sys.exit, which waits for the thread too; code 0, for the shell is to show no error.
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Swallow every error inside, and all output to standard error."""
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stderr(nowhere),
        contextlib.suppress(Exception, SystemExit),
    ):
        yield
