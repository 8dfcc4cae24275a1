"""``fairlead provider sign-out``: the end of sessions at the front door."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from fairlead import process
from fairlead.cli.options import (
    NAMESPACE,
    cluster_config,
    cluster_options,
    flag_options,
)
from fairlead.cli.texts import printable
from fairlead.client import Client
from fairlead.portal.options import DEFAULT_NAMESPACE, RedisOptions, parse_redis
from fairlead.provider.commands.handover import check_author
from fairlead.provider.identity import GROUP_AUTHOR
from fairlead.provider.manifests import NAME


@click.command("sign-out")
@cluster_options
@click.option(
    "--author",
    default="",
    metavar="ISSUER/SUB",
    help="The person, such as https://login.example.org/ada, as audit lines name them.",
)
@click.option("--all", "everybody", is_flag=True, help="End the sessions of all people.")
@click.option("--dry-run", is_flag=True, help="Report how many sessions would end.")
@click.option(
    "--namespace",
    type=NAMESPACE,
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of `provider serve`, where sessions are Secrets.",
)
@flag_options(RedisOptions)
def sign_out(
    author: str,
    everybody: bool,
    dry_run: bool,
    namespace: str,
    kubeconfig: str | None,
    context: str | None,
    **flags: Any,
) -> None:
    """Sign one person or all people out of the front door, on all replicas at once.

    They may sign in again if the issuer lets them. Their kubeconfigs still work: `fairlead
    provider rotate NAME` ends that.

    \b
    Example:
        fairlead provider sign-out --author https://login.example.org/ada
        fairlead provider sign-out --all --dry-run
    """  # noqa: D301
    if bool(author) is everybody:
        raise click.UsageError("name the person by --author ISSUER/SUB, or give --all")
    if author:
        try:
            check_author(author)
        except ValueError as error:
            raise click.UsageError(f"--author {error}") from None
        if author.startswith(GROUP_AUTHOR):
            raise click.UsageError("--author is a person, ISSUER/SUB: groups have no sessions")
    try:
        redis = parse_redis(flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    owner = author or None
    if redis is not None:
        number = _in_redis(redis, owner, dry_run=dry_run)
    else:
        number = _in_secrets(kubeconfig, context, namespace, owner, dry_run=dry_run)
    sessions = "1 session" if number == 1 else f"{number} sessions"
    done = "would be ended" if dry_run else "ended"
    click.echo(printable(f"{sessions} of {author or 'all people'} {done}"))
    if not number:
        place = (
            flags["redis_addr"]
            if redis
            else (f"namespace {namespace}; give another one with --namespace")
        )
        click.echo(f"there are none in {place}", err=True)


def _in_secrets(
    kubeconfig: str | None,
    context: str | None,
    namespace: str,
    owner: str | None,
    *,
    dry_run: bool,
) -> int:
    # Imported here: the front door's modules take their time.
    from fairlead.portal.identity.secretstore import sign_out

    config = cluster_config(kubeconfig, context)

    async def main(stop: asyncio.Event) -> int:
        async with Client(config, user_agent=NAME, field_manager=NAME) as client:
            work = sign_out(client, namespace, owner, dry_run=dry_run)
            return await process.cancel_on(stop, work)

    return process.run(main)


def _in_redis(redis: RedisOptions, owner: str | None, *, dry_run: bool) -> int:
    from fairlead.portal.http.errors import Refusal
    from fairlead.portal.identity.redisstore import sign_out

    async def main(stop: asyncio.Event) -> int:
        return await process.cancel_on(stop, sign_out(redis, owner, dry_run=dry_run))

    try:
        return process.run(main)
    except Refusal as refusal:
        address = f"--redis-addr {redis.host}:{redis.port}"
        raise click.ClickException(printable(f"{address}: {refusal.reason}")) from None
