"""``fairlead provider serve``: the front door, with the flags of kube-bind's backend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource

from fairlead.cli.kubebind.storing import redis_options
from fairlead.cli.options import check_name, cluster_options, serving_options
from fairlead.cli.running import RunOptions, run_program
from fairlead.portal.options import (
    CALLBACK_PATH,
    DEFAULT_LISTEN,
    DEFAULT_NAMESPACE,
    DEFAULT_PERSON_CLAIMS,
    DEFAULT_SCOPES,
    ISSUER_PATH,
    LARGEST_MOST_GROUPS,
    NAME,
    ExternalURL,
    IssuerType,
    Limits,
    OIDCOptions,
    PersonClaims,
    Rate,
    ServeOptions,
    check,
    check_claim,
    check_prefix,
    check_subject_claim,
    parse_apply_networks,
    parse_cookie_keys,
    parse_external_url,
    parse_issuer_url,
    parse_networks,
    parse_redis,
    parse_scopes,
    parse_token_expiry,
)
from fairlead.process import raise_file_limit
from fairlead.provider.options import DEFAULT_PREFIX, check_namespace_prefix
from fairlead.runtime import Cluster, Manager
from fairlead.runtime.manager.health import AddressError, split_address


F = TypeVar("F", bound=Callable[..., Any])

_EMBEDDED_CLIENT = "fairlead"
_BURST = 4
"""Seconds of a rate whose requests may come in one burst."""
# How often --embedded-issuer-beyond-loopback has to be given: the issuer is for one machine, and a
# single flag may be a slip.
_TWICE = 2
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_LIMITS = Limits()
_ELSEWHERE = (
    *("--isolation", "--consumer-scope", "--schema-sync-interval", "--schema-source"),
    *("--external-address", "--external-ca-file", "--external-server-name"),
)
"""Flags of kube-bind's backend that belong to `provider run` here."""


def _all(*options: Callable[[F], F]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


_listening = _all(
    click.option(
        "--listen-address",
        default=DEFAULT_LISTEN,
        show_default=True,
        metavar="HOST:PORT",
        help="Address to listen on; other than on loopback it needs TLS, or a proxy that "
        "terminates TLS.",
    ),
    click.option(
        "--external-url",
        default="",
        metavar="URL",
        help="Address for browsers and CLIs; it may have a path. Default: that of "
        "--oidc-callback-url, else --listen-address. The Host header of requests is not "
        "used.",
    ),
    click.option(
        "--tls-cert-file", type=_FILE, help="Certificate in PEM; read again when it changes."
    ),
    click.option(
        "--tls-key-file", type=_FILE, help="Private key in PEM; read again when it changes."
    ),
    click.option(
        "--trusted-proxies",
        multiple=True,
        metavar="NETWORK",
        help="Address or CIDR of a proxy with a trusted X-Forwarded-For; may be given several "
        "times.",
    ),
    click.option(
        "--pretty-name",
        default="Fairlead",
        show_default=True,
        help="Name of this provider on pages.",
    ),
    click.option(
        "--requests-per-address",
        type=click.FloatRange(0, 1e6),
        default=_LIMITS.per_address.per_second,
        show_default=True,
        help="Requests per second from one address; 0 means no limit.",
    ),
    click.option(
        "--requests-per-person",
        type=click.FloatRange(0, 1e6),
        default=_LIMITS.per_person.per_second,
        show_default=True,
        help="Requests per second from one person; 0 means no limit.",
    ),
    click.option(
        "--requests-at-once",
        type=click.IntRange(1, 100_000),
        default=_LIMITS.requests_at_once,
        show_default=True,
        help="Number of requests at the same time; more are refused.",
    ),
)

_oidc = _all(
    click.option(
        "--oidc-type",
        type=click.Choice(["external", "embedded"]),
        default="external",
        show_default=True,
        help="external is your own OpenID Connect issuer; embedded is one in this program, for "
        "laptops and demonstrations.",
    ),
    click.option(
        "--oidc-issuer-url", default="", metavar="URL", help="URL of the OpenID Connect issuer."
    ),
    click.option(
        "--oidc-issuer-client-id", default="", help="Client id of this server at the issuer."
    ),
    click.option(
        "--oidc-issuer-client-secret",
        default="",
        envvar="OIDC_CLIENT_SECRET",
        show_envvar=True,
        help="Client secret at the issuer; without one this server is a public client. Other "
        "users of this machine can read a command line: use the variable.",
    ),
    click.option(
        "--oidc-callback-url",
        default="",
        metavar="URL",
        help=f"Redirect URL at the issuer, ending with {CALLBACK_PATH}; default: made of "
        "--external-url.",
    ),
    # kube-bind's flag: the address in it is taken where --external-url is missing.
    click.option("--oidc-authorize-url", default="", hidden=True),
    click.option(
        "--oidc-ca-file", type=_FILE, help="File of the CA for the issuer's certificate."
    ),
    click.option(
        "--oidc-scopes",
        multiple=True,
        metavar="SCOPE",
        help="Scopes to request, as far as the issuer has them. Default: "
        f"{','.join(DEFAULT_SCOPES)}.",
    ),
    click.option(
        "--oidc-subject-claim",
        default=DEFAULT_PERSON_CLAIMS.subject,
        show_default=True,
        metavar="NAME",
        help="Claim of the id_token that owns what a person binds. The issuer must never give its "
        "value to another person; after a change `fairlead provider hand-over` moves consumers.",
    ),
    click.option(
        "--oidc-groups-claim",
        default=DEFAULT_PERSON_CLAIMS.groups,
        show_default=True,
        metavar="NAME",
        help="Claim of the id_token with a person's groups.",
    ),
    click.option(
        "--oidc-most-groups",
        type=click.IntRange(1, LARGEST_MOST_GROUPS),
        default=DEFAULT_PERSON_CLAIMS.most_groups,
        show_default=True,
        help="Largest number of a person's groups; who has more cannot sign in.",
    ),
    click.option(
        "--oidc-username-prefix",
        default="oidc:",
        show_default=True,
        help="Prefix of names of people in RBAC; kube-bind has none.",
    ),
    click.option(
        "--oidc-groups-prefix",
        default="oidc:",
        show_default=True,
        help="Prefix of names of groups in RBAC; kube-bind has none.",
    ),
    click.option(
        "--oidc-people-file",
        type=_FILE,
        help="File of the people who may sign in with --oidc-type embedded.",
    ),
    click.option("--embedded-issuer-beyond-loopback", count=True, hidden=True),
    # kube-bind's flags, accepted with a warning: here RBAC says who may bind.
    click.option("--oidc-allowed-groups", multiple=True, hidden=True),
    click.option("--oidc-allowed-users", multiple=True, hidden=True),
)

_sessions = _all(
    click.option(
        "--token-expiry",
        default="1h",
        show_default=True,
        metavar="DURATION",
        help="How long a sign-in lasts.",
    ),
    click.option(
        "--cookie-signing-key",
        multiple=True,
        envvar="COOKIE_SIGNING_KEY",
        show_envvar=True,
        help="Key of 32 or 64 bytes in base64. Of several the first one signs, and all are "
        "accepted. Default: generated keys, which are kept in a Secret and rotated.",
    ),
    click.option(
        "--cookie-encryption-key",
        multiple=True,
        envvar="COOKIE_ENCRYPTION_KEY",
        show_envvar=True,
        help="Key of 16, 24 or 32 bytes in base64; one for each signing key.",
    ),
    redis_options,
)

_consumers = _all(
    click.option(
        "--namespace-prefix",
        default=DEFAULT_PREFIX,
        show_default=True,
        help="Prefix of the names of cluster namespaces; the same as for `provider run`.",
    ),
    click.option(
        "--consumers-per-person",
        type=click.IntRange(1, 100_000),
        default=10,
        show_default=True,
        help="Number of consumer clusters that one person may bind for.",
    ),
    click.option(
        "--original-authors",
        is_flag=True,
        help="Namespaces that kube-bind's backend made belong to the sub noted on them, with any "
        "issuer.",
    ),
    click.option(
        "--allow-apply-binding",
        is_flag=True,
        help="Accept kubeconfigs of consumers' clusters at POST /api/apply-binding, and write "
        "there what `fairlead bind` writes.",
    ),
    click.option(
        "--apply-binding-allow-cidr",
        "--apply-binding-allow-cidrs",
        multiple=True,
        metavar="NETWORK",
        help="Private network in which such clusters may be; loopback, link-local and metadata "
        "addresses are never allowed. May be given several times.",
    ),
    # Marked as given by their source alone; what they say is not looked at.
    *(
        click.option(flag, flag.removeprefix("--").replace("-", "_"), hidden=True)
        for flag in _ELSEWHERE
    ),
)


class _Given(msgspec.Struct, kw_only=True):
    """The flags as click passes them."""

    listen_address: str
    external_url: str
    tls_cert_file: Path | None
    tls_key_file: Path | None
    trusted_proxies: tuple[str, ...]
    pretty_name: str
    requests_per_address: float
    requests_per_person: float
    requests_at_once: int
    oidc_type: IssuerType
    oidc_issuer_url: str
    oidc_issuer_client_id: str
    oidc_issuer_client_secret: str
    oidc_callback_url: str
    oidc_authorize_url: str
    oidc_ca_file: Path | None
    oidc_scopes: tuple[str, ...]
    oidc_subject_claim: str
    oidc_groups_claim: str
    oidc_most_groups: int
    oidc_username_prefix: str
    oidc_groups_prefix: str
    oidc_people_file: Path | None
    embedded_issuer_beyond_loopback: int
    oidc_allowed_groups: tuple[str, ...]
    oidc_allowed_users: tuple[str, ...]
    token_expiry: str
    cookie_signing_key: tuple[str, ...]
    cookie_encryption_key: tuple[str, ...]
    redis_addr: str
    redis_username: str
    redis_database: int
    redis_tls: bool
    redis_ca_file: Path | None
    redis_password: str
    namespace: str
    namespace_prefix: str
    consumers_per_person: int
    original_authors: bool
    allow_apply_binding: bool
    apply_binding_allow_cidr: tuple[str, ...]


@click.command("serve")
@cluster_options
@serving_options
@click.option(
    "--namespace",
    default=DEFAULT_NAMESPACE,
    show_default=True,
    help="Namespace of sessions and keys.",
)
@_listening
@_oidc
@_sessions
@_consumers
@click.pass_context
def serve(
    given: click.Context,
    /,
    kubeconfig: str | None,
    context: str | None,
    health_address: str | None,
    metrics_address: str | None,
    log_format: str,
    **flags: Any,
) -> None:
    """Let teams sign in, see what is offered, and bind it.

    This program makes no credentials: `fairlead provider run` answers the requests. All replicas
    work at the same time.

    \b
    Example:
        fairlead provider serve --external-url https://bind.example.org --listen-address :8443 \\
            --tls-cert-file tls.crt --tls-key-file tls.key \\
            --oidc-issuer-url https://login.example.org --oidc-issuer-client-id fairlead
    """  # noqa: D301
    _drop_elsewhere(given, flags)
    flags_given = _Given(**flags)
    check_name("--namespace", flags_given.namespace)
    try:
        options = options_of(flags_given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if flags_given.oidc_allowed_groups or flags_given.oidc_allowed_users:
        _warn(
            "--oidc-allowed-groups and --oidc-allowed-users grant nothing here: `fairlead "
            "manifests serve` prints a role and its binding for them"
        )
    shared = RunOptions(
        kubeconfig=kubeconfig,
        context=context,
        install_crds=False,
        health_address=health_address,
        metrics_address=metrics_address,
        # All replicas serve at once: they share their sessions in Secrets or in Redis.
        leader_elect=False,
        lease_name="",
        log_format=log_format,
    )

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


def _drop_elsewhere(given: click.Context, flags: dict[str, Any]) -> None:
    """Remove the flags of other programs from ``flags``, with a warning for each that is set."""
    for flag in _ELSEWHERE:
        name = flag.removeprefix("--").replace("-", "_")
        del flags[name]
        if given.get_parameter_source(name) is not ParameterSource.DEFAULT:
            _warn(f"{flag} has no effect here: give it to `fairlead provider run`")


def options_of(given: _Given) -> ServeOptions:
    """Return the options for the flags.

    Raises:
        ValueError: flags are invalid or do not go together; the message names the flag.
    """
    try:
        host, port = split_address(given.listen_address)
    except AddressError as error:
        raise ValueError(f"--listen-address: {error}") from None
    external = parse_external_url(
        given.external_url,
        given.oidc_callback_url,
        given.oidc_authorize_url,
        host=host,
        port=port,
        encrypted=given.tls_cert_file is not None,
    )
    oidc = _sign_in(given, external)
    if not given.pretty_name.strip():
        raise ValueError("--pretty-name is empty: people would see no name")
    return _options(given, host, port, external, oidc)


def _sign_in(given: _Given, external: ExternalURL) -> OIDCOptions:
    """Return the options of sign-in.

    Raises:
        ValueError: a flag is invalid or missing; the message names the flag.
    """
    embedded = given.oidc_type == "embedded"
    if not (embedded or given.oidc_issuer_url):
        raise ValueError(
            "--oidc-issuer-url is missing: give the URL of your OpenID Connect issuer, or "
            "--oidc-type embedded on a laptop"
        )
    return OIDCOptions(
        type=given.oidc_type,
        issuer_url=parse_issuer_url(given.oidc_issuer_url or external.absolute(ISSUER_PATH)),
        client_id=given.oidc_issuer_client_id or (_EMBEDDED_CLIENT if embedded else ""),
        client_secret=given.oidc_issuer_client_secret,
        callback_url=given.oidc_callback_url or external.absolute(CALLBACK_PATH),
        ca_file=given.oidc_ca_file,
        scopes=parse_scopes(given.oidc_scopes),
        claims=PersonClaims(
            subject=check_subject_claim(given.oidc_subject_claim),
            groups=check_claim(given.oidc_groups_claim, "--oidc-groups-claim"),
            most_groups=given.oidc_most_groups,
        ),
        username_prefix=check_prefix(given.oidc_username_prefix, "--oidc-username-prefix"),
        groups_prefix=check_prefix(given.oidc_groups_prefix, "--oidc-groups-prefix"),
        people_file=given.oidc_people_file,
        beyond_loopback=given.embedded_issuer_beyond_loopback >= _TWICE,
    )


def _options(
    given: _Given, host: str, port: int, external: ExternalURL, oidc: OIDCOptions
) -> ServeOptions:
    """Return the options of the server, checked against one another.

    Raises:
        ValueError: flags are invalid or do not go together; the message names the flag.
    """
    return check(
        ServeOptions(
            external_url=external,
            host=host,
            port=port,
            tls_cert_file=given.tls_cert_file,
            tls_key_file=given.tls_key_file,
            pretty_name=given.pretty_name,
            namespace=given.namespace,
            namespace_prefix=check_namespace_prefix(given.namespace_prefix),
            trusted_proxies=parse_networks(given.trusted_proxies),
            token_expiry=parse_token_expiry(given.token_expiry),
            oidc=oidc,
            cookie_keys=parse_cookie_keys(given.cookie_signing_key, given.cookie_encryption_key),
            redis=parse_redis(
                given.redis_addr,
                username=given.redis_username,
                password=given.redis_password,
                database=given.redis_database,
                tls=given.redis_tls,
                ca_file=given.redis_ca_file,
            ),
            consumers_per_person=given.consumers_per_person,
            original_authors=given.original_authors,
            apply_binding=given.allow_apply_binding,
            apply_networks=parse_apply_networks(
                given.apply_binding_allow_cidr, allowed=given.allow_apply_binding
            ),
            limits=Limits(
                per_address=_rate(given.requests_per_address),
                per_person=_rate(given.requests_per_person),
                requests_at_once=given.requests_at_once,
            ),
        )
    )


def _rate(per_second: float) -> Rate:
    # One at least: a burst of none would refuse every request of a small rate.
    return Rate(per_second, max(1, round(per_second * _BURST)))


def _warn(text: str) -> None:
    click.echo(f"warning: {text}", err=True)
