"""Options about a provider's address, for all commands that write kubeconfigs of consumers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from fairlead.client.authorities import read_authority
from fairlead.provider.options import (
    DEFAULT_PREFIX,
    InviteOptions,
    check_external_address,
    check_namespace_prefix,
)


F = TypeVar("F", bound=Callable[..., Any])


class Naming(msgspec.Struct, kw_only=True):
    """Values of :func:`naming_options`."""

    namespace_prefix: str
    pretty_name: str


class Reaching(msgspec.Struct, kw_only=True):
    """Values of :func:`reaching_options`."""

    external_address: str
    external_ca_file: Path | None
    external_server_name: str


def naming_options(function: F) -> F:
    """Add ``--namespace-prefix`` and ``--pretty-name``, the values of :class:`Naming`."""
    prefix = click.option(
        "--namespace-prefix",
        default=DEFAULT_PREFIX,
        show_default=True,
        help="Prefix of the names of new cluster namespaces; give `run` and `invite` the same. "
        "With isolation none, consumers get no other namespace with this prefix.",
    )
    pretty = click.option(
        "--pretty-name",
        default="Fairlead",
        show_default=True,
        help="Name of this provider, as consumers see it.",
    )
    return prefix(pretty(function))


def reaching_options(function: F) -> F:
    """Add the options ``--external-*``, the values of :class:`Reaching`."""
    for option in (
        click.option(
            "--external-server-name",
            default="",
            metavar="NAME",
            help="Name in the server's certificate, if it is not the host of the address.",
        ),
        click.option(
            "--external-ca-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File of the CA that consumers trust for that server; default: the kubeconfig's "
            "CA.",
        ),
        click.option(
            "--external-address",
            default="",
            metavar="URL",
            help="Address of this cluster's API server for consumers, https://...; default: the "
            "consumer's former one, else the kubeconfig's server.",
        ),
    ):
        function = option(function)
    return function


def invite_options(reaching: Reaching, naming: Naming | None = None) -> InviteOptions:
    """Check the values of both groups of options, and return them for the provider.

    Raises:
        click.UsageError: a value is invalid.
    """
    chosen = naming or Naming(namespace_prefix=DEFAULT_PREFIX, pretty_name="Fairlead")
    if not chosen.pretty_name.strip():
        raise click.UsageError("the pretty name is empty: consumers would see no name")
    try:
        address = reaching.external_address and check_external_address(reaching.external_address)
        return InviteOptions(
            namespace_prefix=check_namespace_prefix(chosen.namespace_prefix),
            pretty_name=chosen.pretty_name,
            external_address=address,
            external_ca=_authority(reaching.external_ca_file),
            external_server_name=reaching.external_server_name,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _authority(path: Path | None) -> bytes:
    return read_authority(path, "--external-ca-file") if path is not None else b""
