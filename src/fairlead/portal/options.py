"""Options of the front door, with their parsing and checks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.api import addresses
from fairlead.api.addresses import Network, is_loopback
from fairlead.api.durations import parse_duration
from fairlead.api.flags import Flag, read
from fairlead.client.authorities import read_authority
from fairlead.provider.options import DEFAULT_PREFIX, check_namespace_prefix


NAME = "fairlead-serve"
"""Name of the program's objects in a cluster."""
DEFAULT_NAMESPACE = NAME
"""Namespace of the server's sessions, keys and requests, by default."""
DEFAULT_LISTEN = "127.0.0.1:8080"
"""Default of ``--listen-address``, as of kube-bind's server."""
DEFAULT_TOKEN_EXPIRY = 3600.0
LEAST_TOKEN_EXPIRY = 60.0
LONGEST_TOKEN_EXPIRY = 30 * 86400.0
"""Default, shortest and longest lifetime of a sign-in, in seconds."""
DEFAULT_SCOPES = ("openid", "profile", "email", "groups")
"""Requested scopes; without offline_access, since no refresh token is used."""
CALLBACK_PATH = "/api/callback"
"""Path that the issuer sends browsers back to; kube-bind fixes this and the next one."""
AUTHORIZE_PATH = "/api/authorize"
"""Path where a sign-in begins."""
LARGEST_MOST_GROUPS = 5000
"""Largest value of ``--oidc-most-groups``: each session and review of rights has the groups."""
ISSUER_PATH = "/oidc"
"""Path prefix of the embedded issuer."""

IssuerType = Literal["external", "embedded"]
"""Values of ``--oidc-type``."""
_SHARED_CLAIMS = frozenset(
    {
        "iss",
        "aud",
        "azp",
        "acr",
        "exp",
        "iat",
        "nbf",
        "nonce",
        "jti",
        "sid",
        "tid",
        "at_hash",
        "name",
    }
)
"""Claims that people share, or that each sign-in has anew."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+")
_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_BURST = 4
"""Seconds of a rate whose requests may come in one burst."""
_SIGNING_BYTES = (32, 64)
"""Allowed lengths of a cookie signing key, in bytes, as kube-bind allows them."""
_ENCRYPTION_BYTES = (16, 24, 32)
"""Allowed lengths of a cookie encryption key, in bytes: those of AES."""


class ExternalURL(msgspec.Struct, frozen=True):
    """Scheme, authority and path of ``--external-url``; the path has no trailing slash.

    All addresses that the server sends are built from it, never from a Host header.
    """

    scheme: str
    authority: str
    path: str = ""

    @classmethod
    def parse(cls, text: str, *, flag: str = "--external-url") -> ExternalURL:
        """Read an address such as ``https://bind.example.org/fairlead``.

        Raises:
            ValueError: the text is not http or https, or has a user, a query or a fragment.
        """
        example = "use one such as https://bind.example.org"
        try:
            parts = urlsplit(text)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise ValueError(f"{flag} {text!r} is not an address: {example}") from None
        if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host):
            raise ValueError(f"{flag} {text!r} is not an http or https address: {example}")
        # User and password would be sent to every browser; a path cannot follow a query.
        if "@" in parts.netloc or "?" in text or "#" in text:
            raise ValueError(f"{flag} {text!r} may have no user, no query and no fragment")
        path = parts.path.rstrip("/")
        if not _PATH.fullmatch(path) or not text.isprintable() or " " in text:
            raise ValueError(
                f"{flag} {text!r}: its path may only have letters, digits, '-', '.', '_' and '~'"
            )
        shown = f"[{host}]" if ":" in host else host
        if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
            shown = f"{shown}:{port}"
        return cls(parts.scheme, shown, path)

    @property
    def secure(self) -> bool:
        """Whether the scheme is https."""
        return self.scheme == "https"

    @property
    def origin(self) -> str:
        """The origin, in the form of browsers' Origin headers."""
        return f"{self.scheme}://{self.authority}"

    @property
    def loopback(self) -> bool:
        """Whether the host is loopback."""
        return is_loopback(urlsplit(self.origin).hostname or "")

    def absolute(self, path: str) -> str:
        """Return the absolute URL of a path that begins with a slash."""
        return f"{self.origin}{self.path}{path}"


def parse_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Parse the networks of ``--trusted-proxies``.

    Raises:
        ValueError: a network is malformed, or has all addresses.
    """
    everything = "would let every client say who it is: name the networks of your proxies"
    return addresses.parse_networks(texts, flag="--trusted-proxies", everything=everything)


def parse_apply_networks(texts: tuple[str, ...]) -> tuple[Network, ...]:
    """Parse the networks of ``--apply-binding-allow-cidr``.

    Raises:
        ValueError: a network is malformed, or has all addresses.
    """
    everything = (
        "would let people choose any address for this server to connect to: name the networks of "
        "their clusters"
    )
    flag = "--apply-binding-allow-cidr"
    return addresses.parse_networks(texts, flag=flag, everything=everything)


def parse_token_expiry(text: str) -> float:
    """Parse ``--token-expiry``, such as ``1h``, to seconds.

    Raises:
        ValueError: the text is not a duration, or is too short or too long.
    """
    duration = parse_duration(text)
    if duration is None:
        raise ValueError(f"--token-expiry {text!r} is not a duration: use one such as 1h")
    seconds = duration.total_seconds()
    if not LEAST_TOKEN_EXPIRY <= seconds <= LONGEST_TOKEN_EXPIRY:
        raise ValueError(f"--token-expiry {text} is out of bounds: use 1m to 720h")
    return seconds


def parse_scopes(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Parse the scopes of a flag, which commas may separate; without any, use the default.

    Raises:
        ValueError: ``openid`` is missing, or a scope is malformed.
    """
    scopes = tuple(
        dict.fromkeys(text.strip() for text in ",".join(texts).split(",") if text.strip())
    )
    for scope in scopes:
        if not re.fullmatch(r"[!#-\[\]-~]+", scope):
            raise ValueError(f"--oidc-scopes {scope!r} is not a scope: separate them by commas")
    if scopes and "openid" not in scopes:
        raise ValueError("--oidc-scopes has to have openid: without it an issuer names no person")
    return scopes or DEFAULT_SCOPES


def check_claim(flag: str, text: str, *, example: str = "roles") -> str:
    """Return the name of a claim, if it can be one.

    Raises:
        ValueError: the name is empty, or has invisible characters.
    """
    if not text or not text.isprintable() or text != text.strip():
        raise ValueError(f"{flag} {text!r} is no name of a claim: give one such as {example}")
    return text


def check_subject_claim(text: str) -> str:
    """Return the name of the claim that tells people apart, if it can be one.

    Raises:
        ValueError: the name is malformed, or the claim is no person's.
    """
    flag = "--oidc-subject-claim"
    if check_claim(flag, text, example="oid") in _SHARED_CLAIMS:
        raise ValueError(
            f"{flag} {text!r} is no one person's for ever: give a claim that the issuer never "
            "gives to another person, such as sub or oid"
        )
    return text


def check_prefix(flag: str, text: str) -> str:
    """Return a prefix of names in reviews, if it is safe.

    Raises:
        ValueError: the prefix begins with ``system:``, or has invisible characters.
    """
    if text.startswith("system:"):
        raise ValueError(f"{flag} {text!r} makes names that are Kubernetes' own: take another")
    if not text.isprintable() or text != text.strip():
        raise ValueError(f"{flag} {text!r} has characters that cannot be seen: take another")
    return text


class PersonClaims(msgspec.Struct, kw_only=True, frozen=True):
    """The claims of an id_token that describe a person.

    Attributes:
        subject: Claim of the id_token that identifies the owner of what a person binds. The issuer
            must never give its value to another person; after a change `fairlead provider
            hand-over` moves consumers.
        groups: Claim of the id_token with a person's groups.
        most_groups: Largest number of groups that a person may have; people with more cannot sign
            in.
    """

    subject: Annotated[str, Flag("--oidc-subject-claim", "NAME", parse=check_subject_claim)] = (
        "sub"
    )
    groups: Annotated[
        str, Flag("--oidc-groups-claim", "NAME", parse=partial(check_claim, "--oidc-groups-claim"))
    ] = "groups"
    most_groups: Annotated[int, Flag("--oidc-most-groups", least=1, most=LARGEST_MOST_GROUPS)] = (
        2000
    )


DEFAULT_PERSON_CLAIMS = PersonClaims()


class OIDCOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The issuer, and the prefixes of its users and groups in SubjectAccessReviews.

    An empty ``client_secret`` means a public client, which has no secret. ``beyond_loopback``
    allows other machines to use the embedded issuer.

    Attributes:
        type: external is your own OpenID Connect issuer; embedded is one in this program, for
            laptops and demonstrations.
        issuer_url: URL of the OpenID Connect issuer.
        client_id: Client id of this server at the issuer.
        client_secret: Client secret at the issuer; without one this server is a public client.
            Other users of this machine can read a command line: use the variable.
        callback_url: Redirect URL at the issuer, ending with /api/callback; default: made of
            --external-url.
        ca_file: File of the CA for the issuer's certificate.
        scopes: Scopes to request, as far as the issuer has them. Default:
            openid,profile,email,groups.
        username_prefix: Prefix of user names in RBAC; kube-bind has none.
        groups_prefix: Prefix of group names in RBAC; kube-bind has none.
        people_file: File of the people who may sign in with --oidc-type embedded.
    """

    type: Annotated[IssuerType, Flag("--oidc-type")] = "external"
    issuer_url: Annotated[str, Flag("--oidc-issuer-url", "URL", "")]
    client_id: Annotated[str, Flag("--oidc-issuer-client-id", default="")]
    client_secret: Annotated[
        str, Flag("--oidc-issuer-client-secret", environment="OIDC_CLIENT_SECRET")
    ] = ""
    callback_url: Annotated[str, Flag("--oidc-callback-url", "URL", "")]
    ca_file: Annotated[Path | None, Flag("--oidc-ca-file")] = None
    scopes: Annotated[tuple[str, ...], Flag("--oidc-scopes", "SCOPE", (), parse_scopes)] = (
        DEFAULT_SCOPES
    )
    claims: PersonClaims = DEFAULT_PERSON_CLAIMS
    username_prefix: Annotated[
        str, Flag("--oidc-username-prefix", parse=partial(check_prefix, "--oidc-username-prefix"))
    ] = "oidc:"
    groups_prefix: Annotated[
        str, Flag("--oidc-groups-prefix", parse=partial(check_prefix, "--oidc-groups-prefix"))
    ] = "oidc:"
    people_file: Annotated[Path | None, Flag("--oidc-people-file")] = None
    beyond_loopback: bool = False


class CookieKeys(msgspec.Struct, frozen=True):
    """An operator's keys: 32 or 64 bytes to sign, and 16, 24, 32 or none to encrypt."""

    signing: bytes
    encryption: bytes = b""


class RedisOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The Redis that stores sessions in place of Secrets; one flag has host and port.

    Attributes:
        host: Redis server that keeps the sessions, instead of Secrets; $REDIS_PASSWORD is its
            password.
        username: User at Redis; default: Redis' default user.
        database: Number of the database in Redis.
        tls: Use TLS to Redis.
        ca_file: File of the CA for Redis' certificate.
    """

    host: Annotated[str, Flag("--redis-addr", "HOST:PORT", "")]
    port: int
    username: Annotated[str, Flag("--redis-username")] = ""
    database: Annotated[int, Flag("--redis-database", least=0, most=1_000_000)] = 0
    tls: Annotated[bool, Flag("--redis-tls")] = False
    ca_file: Annotated[Path | None, Flag("--redis-ca-file")] = None
    # Hidden in favor of the variable: all users of a machine see the arguments of its processes.
    password: Annotated[
        str, Flag("--redis-password", environment="REDIS_PASSWORD", hidden=True)
    ] = ""


class Rate(msgspec.Struct, frozen=True):
    """A rate limit: ``per_second`` on average, ``burst`` at once; 0 per second is no limit."""

    per_second: float
    burst: int

    @classmethod
    def of(cls, per_second: float) -> Rate:
        """Return the rate whose burst is the requests of four seconds, and one at least."""
        # A burst of none would refuse every request of a small rate.
        return cls(per_second, max(1, round(per_second * _BURST)))


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """Limits of requests. Sizes are in bytes, times in seconds.

    ``addresses`` is the number of addresses and people with a bucket. Sign-ins and binds create
    objects, so they have rates of their own, per sender and in total; a sign-in's body has a
    smaller limit. A trusted proxy is only bounded by ``connections``, not by
    ``connections_per_address``.

    Attributes:
        per_address: Requests per second from one address; 0 means no limit.
        per_person: Requests per second from one person; 0 means no limit.
        requests_at_once: Largest number of requests at the same time; more are refused.
    """

    per_address: Annotated[
        Rate, Flag("--requests-per-address", default=50.0, parse=Rate.of, least=0, most=1e6)
    ] = Rate(50.0, 200)
    per_person: Annotated[
        Rate, Flag("--requests-per-person", default=20.0, parse=Rate.of, least=0, most=1e6)
    ] = Rate(20.0, 100)
    requests_at_once: Annotated[int, Flag(least=1, most=100_000)] = 256
    body: int = 1024 * 1024
    sign_in_body: int = 128 * 1024
    line: int = 8190
    headers: int = 64
    parameter: int = 4096
    parameters: int = 32
    header_seconds: float = 10.0
    body_seconds: float = 10.0
    request_seconds: float = 90.0
    idle_seconds: float = 60.0
    connections: int = 4096
    connections_per_address: int = 128
    addresses: int = 10_000
    sign_ins_per_address: Rate = Rate(1.0, 30)
    sign_ins: Rate = Rate(50.0, 200)
    binds_per_person: Rate = Rate(0.2, 10)
    binds: Rate = Rate(5.0, 50)


class ServeOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The flags of ``fairlead provider serve``, those of kube-bind's backend.

    ``namespace`` is the server's own. ``token_expiry`` is in seconds. ``cookie_keys`` has the
    newest first. With ``original_authors`` a namespace that kube-bind's own backend made belongs
    to the ``sub`` in its annotation.

    Attributes:
        namespace: Namespace of sessions and keys.
        host: Address to listen on; other than on loopback it needs TLS, or a proxy that
            terminates TLS.
        external_url: Address for browsers and CLIs; it may have a path. Default: that of
            --oidc-callback-url, else --listen-address. The Host header of requests is not used.
        tls_cert_file: Certificate in PEM; read again when it changes.
        tls_key_file: Private key in PEM; read again when it changes.
        trusted_proxies: Address or CIDR of a proxy that is trusted to set X-Forwarded-For; may be
            given several times.
        pretty_name: Name of this provider on pages.
        token_expiry: How long a sign-in lasts.
        cookie_keys: Key of 32 or 64 bytes in base64. If there are several, the first one signs and
            all are accepted. Default: generated keys, which are kept in a Secret and rotated.
        cookie_encryption_key: Key of 16, 24 or 32 bytes in base64; one for each signing key.
        namespace_prefix: Prefix of the names of cluster namespaces; the same as for `provider
            run`.
        consumers_per_person: Largest number of consumer clusters that one person may bind for.
        original_authors: A namespace that kube-bind's backend created belongs to the sub that its
            annotation names, whatever the issuer.
        apply_binding: Accept kubeconfigs of consumers' clusters at POST /api/apply-binding, and
            write there what `fairlead bind` writes.
        apply_networks: Private network in which such clusters may be; loopback, link-local and
            metadata addresses are never allowed. May be given several times.
    """

    namespace: Annotated[str, Flag(names="namespace")] = DEFAULT_NAMESPACE
    host: Annotated[str, Flag("--listen-address", "HOST:PORT", DEFAULT_LISTEN)] = "127.0.0.1"
    port: int = 8080
    external_url: Annotated[ExternalURL, Flag(metavar="URL", default="")]
    tls_cert_file: Annotated[Path | None, Flag()] = None
    tls_key_file: Annotated[Path | None, Flag()] = None
    trusted_proxies: Annotated[
        tuple[Network, ...], Flag(metavar="NETWORK", parse=parse_networks)
    ] = ()
    pretty_name: Annotated[str, Flag()] = "Fairlead"
    limits: Limits = Limits()
    oidc: OIDCOptions
    token_expiry: Annotated[
        float, Flag(metavar="DURATION", default="1h", parse=parse_token_expiry)
    ] = DEFAULT_TOKEN_EXPIRY
    cookie_keys: Annotated[
        tuple[CookieKeys, ...],
        Flag("--cookie-signing-key", environment="COOKIE_SIGNING_KEY"),
        Flag("--cookie-encryption-key", environment="COOKIE_ENCRYPTION_KEY"),
    ] = ()
    redis: RedisOptions | None = None
    namespace_prefix: Annotated[str, Flag(parse=check_namespace_prefix)] = DEFAULT_PREFIX
    consumers_per_person: Annotated[int, Flag(least=1, most=100_000)] = 10
    original_authors: Annotated[bool, Flag()] = False
    apply_binding: Annotated[bool, Flag("--allow-apply-binding")] = False
    apply_networks: Annotated[
        tuple[Network, ...],
        Flag(
            "--apply-binding-allow-cidr --apply-binding-allow-cidrs",
            "NETWORK",
            parse=parse_apply_networks,
        ),
    ] = ()


def check(options: ServeOptions) -> ServeOptions:
    """Return the options if they are consistent.

    Raises:
        ValueError: they are inconsistent; the message names the flag and the remedy.
    """
    if (options.tls_cert_file is None) != (options.tls_key_file is None):
        raise ValueError("--tls-cert-file and --tls-key-file go together: give both or none")
    encrypted = options.tls_cert_file is not None
    if not (is_loopback(options.host) or encrypted or options.external_url.secure):
        raise ValueError(
            f"--listen-address {options.host or '*'}:{options.port} is beyond loopback, where "
            "tokens may not travel in plain http: give --tls-cert-file and --tls-key-file, or an "
            "https --external-url of a proxy that ends TLS"
        )
    if not (options.external_url.secure or options.external_url.loopback):
        raise ValueError(
            f"--external-url {options.external_url.origin} is plain http to another machine: "
            "tokens could be read on the network; make it https"
        )
    if options.consumers_per_person < 1:
        raise ValueError("--consumers-per-person has to be 1 or more")
    if not options.pretty_name.strip():
        raise ValueError("--pretty-name is empty: people would see no name")
    if options.apply_networks and not options.apply_binding:
        raise ValueError("--apply-binding-allow-cidr needs --allow-apply-binding")
    _check_oidc(options)
    return options


def _check_oidc(options: ServeOptions) -> None:
    oidc, external = options.oidc, options.external_url
    if options.original_authors and oidc.claims.subject != DEFAULT_PERSON_CLAIMS.subject:
        # Otherwise a person whose other claim looks like another's sub would own their consumers.
        raise ValueError(
            "--original-authors goes by sub, and not with --oidc-subject-claim: leave one of them "
            "out, or hand the namespaces over by `fairlead provider hand-over`"
        )
    if oidc.callback_url != external.absolute(CALLBACK_PATH):
        raise ValueError(
            f"--oidc-callback-url {oidc.callback_url!r} has to be "
            f"{external.absolute(CALLBACK_PATH)}: cookies of a sign-in reach no other address"
        )
    if oidc.type == "external":
        if not oidc.client_id:
            raise ValueError(
                "--oidc-issuer-client-id is missing: give the client id at the issuer"
            )
        if oidc.people_file is not None:
            raise ValueError("--oidc-people-file belongs to --oidc-type embedded")
        return
    if not (oidc.beyond_loopback or (is_loopback(options.host) and external.loopback)):
        raise ValueError(
            "--oidc-type embedded is for one machine: --listen-address and --external-url have "
            "to be loopback; otherwise use a real issuer, or say "
            "--embedded-issuer-beyond-loopback twice"
        )
    if oidc.client_secret:
        raise ValueError(
            "--oidc-issuer-client-secret is of no use with --oidc-type embedded: leave it out"
        )
    if oidc.claims != DEFAULT_PERSON_CLAIMS:
        raise ValueError(
            "--oidc-subject-claim, --oidc-groups-claim and --oidc-most-groups are of no use with "
            "--oidc-type embedded: leave them out"
        )
    if oidc.people_file is None:
        raise ValueError("--oidc-type embedded needs --oidc-people-file: who may sign in")
    if oidc.issuer_url != external.absolute(ISSUER_PATH):
        raise ValueError(
            f"--oidc-issuer-url {oidc.issuer_url!r} has to be {external.absolute(ISSUER_PATH)} "
            "with --oidc-type embedded: leave it out"
        )


def parse_external_url(
    external: str, callback: str, authorize: str, *, host: str, port: int, encrypted: bool
) -> ExternalURL:
    """Return the external URL: as given, from kube-bind's flags, or the listening address.

    Raises:
        ValueError: it is malformed, or cannot be derived.
    """
    if external:
        return ExternalURL.parse(external)
    for flag, url, path in (
        ("--oidc-callback-url", callback, CALLBACK_PATH),
        ("--oidc-authorize-url", authorize, AUTHORIZE_PATH),
    ):
        if url:
            if not url.endswith(path):
                raise ValueError(f"{flag} {url!r} has to end with {path}")
            return ExternalURL.parse(url.removesuffix(path), flag=flag)
    if not is_loopback(host) or not port:
        raise ValueError(
            "--external-url is missing: give the address for browsers, such as "
            "https://bind.example.org"
        )
    shown = f"[{host}]" if ":" in host else host
    return ExternalURL.parse(f"{'https' if encrypted else 'http'}://{shown}:{port}")


def parse_issuer_url(text: str) -> str:
    """Return the issuer's URL exactly as its tokens name it.

    Raises:
        ValueError: it is neither https nor http to loopback.
    """
    issuer = ExternalURL.parse(text, flag="--oidc-issuer-url")
    if not (issuer.secure or issuer.loopback):
        raise ValueError(
            f"--oidc-issuer-url {text!r} has to be https: others on the network could sign in as "
            "anyone"
        )
    return text


def parse_cookie_keys(
    signing: tuple[str, ...], encryption: tuple[str, ...]
) -> tuple[CookieKeys, ...]:
    """Parse ``--cookie-signing-key`` and ``--cookie-encryption-key``, the newest first.

    Raises:
        ValueError: a key is not base64, has another length, or lacks its partner.
    """
    signers = [_key(text, "--cookie-signing-key", _SIGNING_BYTES) for text in signing if text]
    ciphers = [
        _key(text, "--cookie-encryption-key", _ENCRYPTION_BYTES) for text in encryption if text
    ]
    if ciphers and len(ciphers) != len(signers):
        raise ValueError(
            "--cookie-encryption-key needs a --cookie-signing-key for each: give both, or neither "
            "to have keys made and kept in a Secret"
        )
    return tuple(
        CookieKeys(signer, ciphers[index] if ciphers else b"")
        for index, signer in enumerate(signers)
    )


def _key(text: str, flag: str, lengths: tuple[int, ...]) -> bytes:
    expected = " or ".join(map(str, lengths))
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        # The text is a secret: it is not repeated.
        raise ValueError(f"{flag} is not base64: give {expected} random bytes in base64") from None
    if len(key) not in lengths:
        raise ValueError(f"{flag} has {len(key)} bytes: give {expected} random bytes in base64")
    return key


def parse_redis(values: Mapping[str, Any]) -> RedisOptions | None:
    """Return the options in the flags of Redis; None without ``--redis-addr``.

    Raises:
        ValueError: the address has no port, or a related flag is given without it.
    """
    given = read(RedisOptions, {**values, "port": 0})
    address, ca_file = given.host, given.ca_file
    if not address:
        if given.username or given.tls or ca_file or given.database:
            raise ValueError("--redis-username, -database, -tls and -ca-file need --redis-addr")
        return None
    if "://" in address:
        raise ValueError(
            f"--redis-addr has to be host:port, without {address.partition('://')[0]}://: "
            "--redis-tls and --redis-ca-file speak TLS, and $REDIS_PASSWORD is the password"
        )
    host, colon, port = address.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"--redis-addr {address!r} is not an address: use host:port")
    if ca_file is not None:
        try:
            read_authority(ca_file, "--redis-ca-file")
        except OSError as error:
            raise ValueError(f"--redis-ca-file: {ca_file}: {error.strerror}") from None
    return msgspec.structs.replace(
        given, host=host, port=int(port), tls=given.tls or ca_file is not None
    )
