"""``fairlead provider serve``: the front door, with the flags of kube-bind's backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from fairlead.api.flags import read
from fairlead.cli.options import cluster_options, flag_options
from fairlead.cli.running import RunOptions, run_program, serving_options
from fairlead.portal.options import (
    CALLBACK_PATH,
    ISSUER_PATH,
    NAME,
    ServeOptions,
    check,
    parse_cookie_keys,
    parse_external_url,
    parse_issuer_url,
    parse_redis,
)
from fairlead.process import raise_file_limit
from fairlead.runtime import Cluster, Manager
from fairlead.runtime.manager.health import AddressError, split_address


F = TypeVar("F", bound=Callable[..., Any])

# How often --embedded-issuer-beyond-loopback has to be given: the issuer is for one machine, and a
# single flag may be a slip.
_TWICE = 2
_ELSEWHERE = (
    *("--isolation", "--consumer-scope", "--schema-sync-interval", "--schema-source"),
    *("--external-address", "--external-ca-file", "--external-server-name"),
)
"""Flags of kube-bind's backend that belong to `provider run` here."""
_IGNORED = ("--oidc-allowed-groups", "--oidc-allowed-users")
"""Flags of kube-bind's backend for which a role stands here: RBAC says who may bind."""


def _hidden_options(function: F) -> F:
    """Add the flags that no help has, most of them kube-bind's."""
    # Its address is taken where --external-url is missing.
    function = click.option("--oidc-authorize-url", default="", hidden=True)(function)
    function = click.option("--embedded-issuer-beyond-loopback", count=True, hidden=True)(function)
    for flag in (*_IGNORED, *_ELSEWHERE):
        function = click.option(flag, _name(flag), multiple=True, hidden=True)(function)
    return function


def _name(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


@click.command("serve")
@cluster_options
@serving_options
@flag_options(ServeOptions)
@_hidden_options
def serve(**flags: Any) -> None:
    """Let teams sign in, see what is offered, and bind it.

    This program creates no credentials: `fairlead provider run` answers the requests. All replicas
    work at the same time.

    \b
    Example:
        fairlead provider serve --external-url https://bind.example.org --listen-address :8443 \\
            --tls-cert-file tls.crt --tls-key-file tls.key \\
            --oidc-issuer-url https://login.example.org --oidc-issuer-client-id fairlead
    """  # noqa: D301
    for flag in _ELSEWHERE:
        if flags[_name(flag)]:
            _warn(f"{flag} has no effect here: give it to `fairlead provider run`")
    try:
        options = options_of(flags)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if any(flags[_name(flag)] for flag in _IGNORED):
        _warn(
            "--oidc-allowed-groups and --oidc-allowed-users grant nothing here: `fairlead "
            "manifests serve` prints a role and its binding for them"
        )
    # All replicas serve at once: they share their sessions in Secrets or in Redis.
    shared = read(RunOptions, {**flags, "install_crds": False})

    # Imported here: the other programs do without these modules.
    from fairlead.portal import app

    # Each page that is open has a connection.
    raise_file_limit()

    async def build(manager: Manager, cluster: Cluster) -> None:
        try:
            await app.run_all(manager, cluster, options)
        except (OSError, ValueError) as error:
            raise click.ClickException(str(error)) from None

    run_program(NAME, options.namespace, shared, (), build)


def options_of(given: Mapping[str, Any]) -> ServeOptions:
    """Return the options for the flags.

    Raises:
        ValueError: flags are invalid or do not go together; the message names the flag.
    """
    try:
        host, port = split_address(given["listen_address"])
    except AddressError as error:
        raise ValueError(f"--listen-address: {error}") from None
    external = parse_external_url(
        given["external_url"],
        given["oidc_callback_url"],
        given["oidc_authorize_url"],
        host=host,
        port=port,
        encrypted=given["tls_cert_file"] is not None,
    )
    embedded = given["oidc_type"] == "embedded"
    issuer, client = given["oidc_issuer_url"], given["oidc_issuer_client_id"]
    if not (embedded or issuer):
        raise ValueError(
            "--oidc-issuer-url is missing: give the URL of your OpenID Connect issuer, or "
            "--oidc-type embedded on a laptop"
        )
    keys = parse_cookie_keys(given["cookie_signing_key"], given["cookie_encryption_key"])
    values = {
        **given,
        "listen_address": host,
        "port": port,
        "external_url": external,
        "oidc_issuer_url": parse_issuer_url(issuer or external.absolute(ISSUER_PATH)),
        "oidc_issuer_client_id": client or "",
        "oidc_callback_url": given["oidc_callback_url"] or external.absolute(CALLBACK_PATH),
        "cookie_signing_key": keys,
        "redis": parse_redis(given),
        "beyond_loopback": given["embedded_issuer_beyond_loopback"] >= _TWICE,
    }
    return check(read(ServeOptions, values))


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)
