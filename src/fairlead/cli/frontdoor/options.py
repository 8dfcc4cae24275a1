"""Options that name a front door, and the config file's entry for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec
from click.shell_completion import CompletionItem

from fairlead.api.timestamps import moment
from fairlead.cli import completion


if TYPE_CHECKING:
    from fairlead.portal.client.backend import BackendClient
    from fairlead.portal.client.configfile import ConfigFile, ConfiguredServer

F = TypeVar("F", bound=Callable[..., Any])


class Where(msgspec.Struct, kw_only=True):
    """Values of :func:`server_options`."""

    server: str = ""
    cluster: str = ""
    config_file: Path | None = None
    insecure_skip_tls_verify: bool = False
    server_ca_file: str = ""


def server_options(function: F) -> F:
    """Add ``--server`` and the options of :class:`Where`."""
    for option in (
        click.option(
            "--server-ca-file",
            default="",
            metavar="FILE",
            shell_complete=completion.files,
            help="File with the CA of the server's certificate; `login` remembers it. Default:"
            " the CAs of this system.",
        ),
        click.option(
            "--insecure-skip-tls-verify",
            is_flag=True,
            help="Accept any certificate of the server, also at sign-in; only for tests.",
        ),
        click.option(
            "--config-file",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            shell_complete=completion.files,
            help="File that keeps servers and tokens; default: ~/.kube-bind/config.",
        ),
        click.option(
            "--cluster", default="", metavar="NAME", help="Which of the server's clusters to use."
        ),
        click.option(
            "--server",
            default="",
            metavar="URL",
            help="Address of the front door, or CLUSTER@URL; default: the server of the last"
            " login.",
        ),
    ):
        function = option(function)
    return function


def config_file(where: Where) -> ConfigFile:
    """Return the file with the known servers."""
    from fairlead.portal.client.configfile import ConfigFile

    return ConfigFile(where.config_file)


def find_server(where: Where, url: str = "") -> ConfiguredServer:
    """Return the named server, with its entry in the config file.

    Args:
        where: the options.
        url: an argument of the command, "" where there is none.

    Raises:
        click.UsageError: none is named and none is known, or what is named is no server.
        FrontDoorError: the config file cannot be used.
    """
    from fairlead.portal.client.addresses import Address, parse_server
    from fairlead.portal.client.configfile import ConfiguredServer

    config = config_file(where).read()
    try:
        named = parse_server(where.server, where.cluster) if where.server else None
        if url:
            given = parse_server(url, where.cluster or (named.cluster if named else ""))
            if named is not None and given != named:
                raise click.UsageError("URL and --server name two servers: give one")
            named = given
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if named is None:
        current = config.current()
        if current is None:
            raise click.UsageError(
                "no server is known: name one with --server, or sign in with `fairlead login URL`"
            )
        if where.cluster in {"", current.address.cluster}:
            return current
        # Each cluster of a server has an entry, and so a token, of its own.
        named = Address(current.address.url, where.cluster)
    return config.find(named) or ConfiguredServer(named)


def backend(where: Where, entry: ConfiguredServer, *, signed_in: bool = True) -> BackendClient:
    """Return a client of a server, with the person's token unless ``signed_in`` is False.

    Raises:
        SignInNeeded: the token is missing or has expired.
        OSError: the authority's file cannot be read.
    """
    from fairlead.portal.client.backend import BackendClient, Trust

    token = _token(entry) if signed_in else ""
    trust = Trust.of_file(
        where.server_ca_file or entry.certificate_authority,
        insecure=where.insecure_skip_tls_verify,
    )
    return BackendClient(entry.address, token=token, trust=trust)


def _token(entry: ConfiguredServer) -> str:
    from fairlead.portal.client.addresses import SignInNeeded

    cluster = f" --cluster {entry.address.cluster}" if entry.address.cluster else ""
    login = f"fairlead login {entry.address.url}{cluster}"
    if entry.token is None:
        raise SignInNeeded(f"you are not signed in to {entry.address.url}: {login}")
    if entry.token.expired(moment()):
        raise SignInNeeded(f"your sign-in to {entry.address.url} is over: {login}")
    return entry.token.text


def offered(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem[str]]:
    """Complete a parameter with the templates of the front door of --server."""
    with completion.silence():
        given = {name: context.params.get(name) for name in Where.__struct_fields__}
        where = Where(**{name: value for name, value in given.items() if value})

        async def templates() -> list[str]:
            async with backend(where, find_server(where)) as server:
                return [str(one["metadata"]["name"]) for one in await server.templates()]

        return completion.beginning_with(incomplete, completion.ask(templates))
    return []
