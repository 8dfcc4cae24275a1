"""``fairlead provider hand-over``: transfer of consumers to another owner."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import click

from fairlead import process
from fairlead.api.kubebind import ANNOTATION_AUTHOR
from fairlead.api.meta import Object
from fairlead.cli import completion
from fairlead.cli.options import cluster_config, cluster_options, yes_option
from fairlead.cli.texts import printable
from fairlead.client import Client
from fairlead.provider.commands.consumers import find_consumers, find_owned
from fairlead.provider.commands.handover import check_author, hand_over_each
from fairlead.provider.manifests import NAME
from fairlead.provider.namespaces import identity_of


@click.command("hand-over")
@cluster_options
@click.argument("names", nargs=-1, shell_complete=completion.names(completion.consumers))
@click.option(
    "--author",
    "owner",
    default="",
    metavar="USER|GROUP",
    help="Hand over all consumers of this owner, as the annotation of their namespaces names it.",
)
@click.option(
    "--to",
    "author",
    required=True,
    metavar="USER|GROUP",
    help="The new owner: a person as ISSUER/SUB, or a group as group:NAME, with its name in RBAC.",
)
@yes_option
def hand_over(
    names: tuple[str, ...],
    owner: str,
    author: str,
    yes: bool,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Hand the consumers NAMES over to another person, or to a group.

    At the front door a cluster's identity belongs to the person who bound it first. The kubeconfig
    of the former owner still works: `fairlead provider rotate NAME` ends that. For several
    consumers, and for --author, the command lists them first and asks for confirmation.

    \b
    Example:
        fairlead provider hand-over shop-cluster --to https://login.example.org/ada
        fairlead provider hand-over shop-cluster --to group:oidc:team-a
        fairlead provider hand-over --author https://login.example.org/ada --to group:oidc:team-a
    """  # noqa: D301
    if bool(names) is bool(owner):
        raise click.UsageError("name the consumers, or give --author for all of an owner")
    try:
        check_author(author)
    except ValueError as error:
        raise click.UsageError(f"--to {error}") from None
    config = cluster_config(kubeconfig, context)

    async def list_consumers(stop: asyncio.Event) -> list[Object]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            search = find_owned(client, owner) if owner else find_consumers(client, names)
            return await process.cancel_on(stop, search)

    async def work(stop: asyncio.Event) -> list[str]:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            # As they were read before the question: what changed meanwhile is not handed over.
            each = hand_over_each(client, consumers, author, _tell_of(author))
            return await process.cancel_on(stop, each)

    # All names are looked up, and the question is answered, before the first is handed over.
    consumers = process.run(list_consumers)
    if owner or len(consumers) > 1:
        _confirm(consumers, author, yes=yes)
    failures = process.run(work)
    if len(failures) < len(consumers):
        which = consumers[0].meta.name if len(consumers) == 1 else "NAME"
        click.echo(
            "the former owner's kubeconfig still works; to end that: "
            f"fairlead provider rotate {which}",
            err=True,
        )
    if failures:
        raise click.ClickException(printable("; ".join(failures)))


def _confirm(consumers: list[Object], author: str, *, yes: bool) -> None:
    """Show what would be handed over, and ask.

    Raises:
        click.UsageError: there is no terminal to ask on.
        click.Abort: the answer is no.
    """
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("there is no terminal to ask on: give --yes")
    for consumer in consumers:
        before = consumer.meta.annotations.get(ANNOTATION_AUTHOR) or "no one"
        line = (
            f"{identity_of(consumer)} in namespace/{consumer.meta.name}: from {before} to {author}"
        )
        click.echo(printable(line), err=True)
    if not yes:
        click.confirm("Hand them over?", abort=True, err=True)


def _tell_of(author: str) -> Callable[[Object, str], None]:
    def tell(namespace: Object, former: str) -> None:
        before = former or "no one"
        name = namespace.meta.name
        click.echo(printable(f"namespace/{name} belongs to {author} now, before to {before}"))

    return tell
