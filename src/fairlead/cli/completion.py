"""``fairlead completion``, and names of a cluster for completion by shells.

A person who presses the tab key waits, and reads only candidates: a cluster that is slow, cannot
be reached or refuses has no names, and no error is printed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, ShellComplete, get_completion_class


if TYPE_CHECKING:
    from fairlead.api.resource import Resource
    from fairlead.client import Client


PATIENCE_SECONDS = 1.5
"""Seconds that a cluster may take to list its names, unless the environment sets others."""
PATIENCE_VARIABLE = "FAIRLEAD_COMPLETION_SECONDS"
_HARD_LIMIT_SECONDS = 2.5
"""Seconds later at which the process ends in any case: a resolver cannot be interrupted."""
_BASH_ADDS = "COMPREPLY+=($value)"
_BASH_ADDS_QUOTED = """case ${COMP_WORDS[COMP_CWORD]} in
                [\\'\\"]*) COMPREPLY+=("$value") ;;
                *) COMPREPLY+=("$(printf %q "$value")") ;;
            esac"""
"""Bash inserts candidates as they are; click's function leaves spaces in them unquoted."""
PROGRAMS = ("fairlead", "kubectl-fairlead")
BIND = "kubectl-bind"
"""The program with the commands of kube-bind's own plugin."""
Names = Callable[["Client"], Awaitable[Iterable[str]]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def command(shell: str) -> None:
    """Print shell code that completes commands, options and names of a cluster.

    Names of bindings, consumers and templates come from the cluster of --kubeconfig and --context
    on the same line, or from the default one. `kubectl fairlead` and `kubectl bind` are completed
    by kubectl 1.26 and newer, which finds the executables kubectl_complete-fairlead and
    kubectl_complete-bind on PATH. If the cluster does not answer within 1.5 s, no names are
    completed; $FAIRLEAD_COMPLETION_SECONDS changes that time.

    \b
    Example:
        source <(fairlead completion bash)      # in ~/.bashrc
        source <(fairlead completion zsh)       # in ~/.zshrc, after compinit
        fairlead completion fish > ~/.config/fish/completions/fairlead.fish
    """  # noqa: D301
    from fairlead.cli import main

    complete = get_completion_class(shell)
    assert complete is not None  # noqa: S101
    for program in (*PROGRAMS, BIND):
        variable = f"_{program}_COMPLETE".replace("-", "_").upper()
        click.echo(
            complete(main, {}, program, variable).source().replace(_BASH_ADDS, _BASH_ADDS_QUOTED)
        )


def kubectl_complete() -> None:
    """Complete the words of a line, as kubectl's program ``kubectl_complete-fairlead``.

    The last word is the one to complete, and may be empty. Prints a candidate a line, after a tab
    its description, and at the end a colon and the shell's directive: a sum of cobra's
    ShellCompDirective, of which 4 is to complete no files, 16 to complete folders alone and 0 to
    complete files (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
    """
    from fairlead.cli import main

    _tell_kubectl(main, "kubectl fairlead")


def kubectl_complete_bind() -> None:
    """Complete the words of a line, as kubectl's program ``kubectl_complete-bind``."""
    from fairlead.cli.frontdoor.kubectl_bind import main

    _tell_kubectl(main, "kubectl bind")


def _tell_kubectl(commands: click.Command, program: str) -> None:
    *words, incomplete = sys.argv[1:] or [""]
    with silence():
        found = ShellComplete(commands, {}, program, "").get_completions(words, incomplete)
    directive = 4
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
        else:
            directive = 16 if item.type == "dir" else 0
    click.echo(f":{directive}")


def names(list_names: Names) -> Completer:
    """Return a completer with names from the cluster that the line names."""

    def complete(
        context: click.Context, _parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        with silence():
            kubeconfig = context.params.get("kubeconfig")
            found = _ask(list_names, kubeconfig, context.params.get("context"))
            return [CompletionItem(one) for one in sorted(found) if one.startswith(incomplete)]
        return []

    return complete


def access_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete a parameter with PostgresAccesses of the namespace that the line names."""
    namespace = str(context.params.get("namespace") or "")

    async def list_names(client: Client) -> Iterable[str]:
        return await postgres_accesses(client, namespace or client.config.namespace or "default")

    return names(list_names)(context, parameter, incomplete)


async def bindings(client: Client) -> Iterable[str]:
    """Return the names of the APIServiceBindings."""
    from fairlead.api.kubebind import APISERVICEBINDINGS

    return await _named(client, APISERVICEBINDINGS)


async def templates(client: Client) -> Iterable[str]:
    """Return the names of the APIServiceExportTemplates."""
    from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES

    return await _named(client, APISERVICEEXPORTTEMPLATES)


async def consumers(client: Client) -> Iterable[str]:
    """Return the identities of a provider's consumers."""
    from fairlead.api.resource import NAMESPACES
    from fairlead.provider.namespaces import identity_of

    found = (await client.list(NAMESPACES, metadata_only=True)).items
    return {identity for one in found if (identity := identity_of(one))}


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


def offered(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete a parameter with the templates of the front door that the line names."""
    with silence():
        from fairlead.cli.frontdoor.options import Where, backend, find_server

        given = {name: context.params.get(name) for name in Where.__struct_fields__}
        where = Where(**{name: value for name, value in given.items() if value})
        patience = _patience()

        async def main() -> list[str]:
            async with asyncio.timeout(patience), backend(where, find_server(where)) as server:
                return [str(one["metadata"]["name"]) for one in await server.templates()]

        _limit(patience + _HARD_LIMIT_SECONDS)
        found = asyncio.run(main())
        return [CompletionItem(one) for one in sorted(found) if one.startswith(incomplete)]
    return []


def contexts(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete --context with the contexts of the kubeconfig."""
    with silence():
        from fairlead.client.loading import context_names

        found = context_names(context.params.get("kubeconfig"))
        return [CompletionItem(one) for one in found if one.startswith(incomplete)]
    return []


def files(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Leave the completion to the shell, which knows its files."""
    return [CompletionItem(incomplete, type="file")]


def _ask(list_names: Names, kubeconfig: str | None, context: str | None) -> Iterable[str]:
    from fairlead.client import Client, RetryPolicy, Timeouts, load_config

    patience = _patience()

    async def main() -> Iterable[str]:
        config = load_config(kubeconfig, context)
        limits = Timeouts(connect=patience, read=patience)
        async with (
            asyncio.timeout(patience),
            Client(
                config,
                user_agent="fairlead-completion",
                timeouts=limits,
                retries=RetryPolicy(attempts=1),
            ) as client,
        ):
            return await list_names(client)

    # asyncio.run also waits for the thread that resolves a name, which cannot be cancelled.
    _limit(patience + _HARD_LIMIT_SECONDS)
    return asyncio.run(main())


def _patience() -> float:
    return float(os.environ.get(PATIENCE_VARIABLE) or PATIENCE_SECONDS)


def _limit(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
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
