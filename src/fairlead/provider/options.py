"""Options of a provider's operator."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.api.durations import parse_duration
from fairlead.api.flags import Flag
from fairlead.api.kubebind import Isolation, Scope
from fairlead.api.kubebind.names import DEFAULT_PRETTY_NAME


DEFAULT_NAMESPACE = "fairlead-provider"
DEFAULT_PREFIX = "kube-bind-"
"""Prefix of cluster namespaces, that of kube-bind's chart; its binary has ``cluster-``."""

DEFAULT_SYNC_INTERVAL = 300.0
"""Seconds between two reads of the CRDs of a request that follows them."""
MINIMAL_SYNC_INTERVAL = 10.0
"""Least seconds of the flag ``--schema-sync-interval``."""
DEFAULT_NAMESPACES_PER_CONSUMER = 1000
"""Largest number of provider namespaces that are made for one consumer."""
_PREFIX_LENGTH = 30
"""Maximum length of the prefix, in characters: with hash, dash and name most fit into 63."""
_PREFIX = re.compile(rf"([a-z0-9][-a-z0-9]{{0,{_PREFIX_LENGTH - 1}}})?")

_ISOLATIONS: dict[str, Isolation] = {
    "prefixed": "Prefixed",
    "namespaced": "Namespaced",
    "none": "None",
}


Requests = Literal["invited", "any"]


def parse_isolation(text: str) -> Isolation:
    """Parse the isolation of a flag, in any case.

    kube-bind reads every unknown text as ``none``, which keeps no objects apart; here only the
    empty text means ``none``.

    Raises:
        ValueError: the text is none of prefixed, namespaced and none, nor empty.
    """
    if not text:
        return "None"
    try:
        return _ISOLATIONS[text.lower()]
    except KeyError:
        raise ValueError(
            f"isolation {text!r} is unknown: use prefixed, namespaced or none"
        ) from None


def parse_consumer_scope(text: str) -> Scope:
    """Parse the informer scope of a flag, in any case.

    Raises:
        ValueError: the text is neither namespaced nor cluster.
    """
    match text.lower():
        case "namespaced":
            return "Namespaced"
        case "cluster":
            return "Cluster"
    raise ValueError(f"consumer scope {text!r} is unknown: use namespaced or cluster")


def parse_sync_interval(text: str) -> float:
    """Parse the seconds of a flag such as ``5m``.

    Raises:
        ValueError: the text is no duration, or one that is too short.
    """
    duration = parse_duration(text)
    if duration is None:
        raise ValueError(f"schema sync interval {text!r} is not a duration: use one such as 5m")
    seconds = duration.total_seconds()
    if seconds < MINIMAL_SYNC_INTERVAL:
        raise ValueError(
            f"schema sync interval {text} is too short: the minimum is {MINIMAL_SYNC_INTERVAL:g}s"
        )
    return seconds


def check_external_address(address: str) -> str:
    """Check that consumers can use an address, if there is one, and return it.

    Raises:
        ValueError: the address is no https URL with a host.
    """
    parts = urlsplit(address)
    if address and (parts.scheme != "https" or not parts.hostname):
        raise ValueError(f"external address {address!r} has to be a URL such as https://host:6443")
    return address


def check_pretty_name(name: str) -> str:
    """Check that consumers can see a name, and return it.

    Raises:
        ValueError: the name is empty.
    """
    if not name.strip():
        raise ValueError("the pretty name is empty: consumers would see no name")
    return name


def check_namespace_prefix(prefix: str) -> str:
    """Check that namespaces can be named with a prefix and a hash of 13 characters; return it.

    Raises:
        ValueError: such names would be invalid or too long.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"namespace prefix {prefix!r} has to begin with a letter or digit, and may have "
            f"only lower-case letters, digits and dashes, at most {_PREFIX_LENGTH}"
        )
    return prefix


class ProviderOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The provider's flags.

    ``consumer_scope`` becomes the informerScope of every export: with Namespaced a konnector
    needs rights in its own namespaces only, with Cluster it may read all consumers' objects of
    the exported kinds. No consumer gets a namespace that begins with ``namespace_prefix``, as
    cluster namespaces do, or ``namespace``. ``schema_sync_interval`` is in seconds.

    Attributes:
        namespace: Namespace of the program and its Lease.
        consumer_scope: Extent of a consumer's rights: its own namespaces, or reading in all
            namespaces.
        isolation: Separation of the consumers' objects; with none they keep their own names.
        schema_sync_interval: Time between two checks of the CRDs that exports follow, in addition
            to the watch; at least 10s.
        original_konnectors: Also give the rights that kube-bind's own konnector needs. With
            --consumer-scope cluster, consumers may then use all objects of claimed kinds, also
            the Secrets of others; with --isolation namespaced, they may read the objects of
            exported kinds of all consumers.
        requests: What consumers may request. invited: the templates of their
            invitations. any: each CRD that is labeled for export, with any claim, as in
            kube-bind.
        namespaces_per_consumer: Largest number of namespaces that the provider creates for one
            consumer. Existing ones stay and count.
    """

    namespace: Annotated[str, Flag(names="namespace")] = DEFAULT_NAMESPACE
    consumer_scope: Annotated[
        Scope,
        Flag(default="namespaced", parse=parse_consumer_scope, choices=("namespaced", "cluster")),
    ] = "Namespaced"
    isolation: Annotated[
        Isolation,
        Flag(metavar="prefixed|namespaced|none", default="prefixed", parse=parse_isolation),
    ] = "Prefixed"
    schema_sync_interval: Annotated[float, Flag(default="5m", parse=parse_sync_interval)] = (
        DEFAULT_SYNC_INTERVAL
    )
    original_konnectors: Annotated[bool, Flag("--original-konnectors --cluster-wide-claims")] = (
        False
    )
    requests: Annotated[Requests, Flag()] = "invited"
    namespaces_per_consumer: Annotated[int, Flag(least=1, most=100_000)] = (
        DEFAULT_NAMESPACES_PER_CONSUMER
    )
    namespace_prefix: str = DEFAULT_PREFIX


class InviteOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Address, CA and name of the provider for its consumers, and the names of their namespaces.

    ``external_address`` and ``external_ca`` (PEM) replace the server and CA of the provider's own
    kubeconfig; ``token_timeout`` is in seconds.

    Attributes:
        namespace_prefix: Prefix of the names of new cluster namespaces; give `run` and `invite`
            the same. With isolation none, consumers get no other namespace with this prefix.
        pretty_name: Name of this provider, as consumers see it.
        external_address: Address of this cluster's API server for consumers, https://...; default:
            the address that the consumer has now, else the server of the kubeconfig.
        external_ca: File of the CA that consumers trust for that server; default: the
            kubeconfig's CA.
        external_server_name: Name in the server's certificate, if it is not the host of the
            address.
    """

    namespace_prefix: Annotated[str, Flag(parse=check_namespace_prefix)] = DEFAULT_PREFIX
    pretty_name: Annotated[str, Flag(parse=check_pretty_name)] = DEFAULT_PRETTY_NAME
    external_address: Annotated[str, Flag(metavar="URL", parse=check_external_address)] = ""
    external_ca: Annotated[bytes, Flag("--external-ca-file", default=None)] = b""
    external_server_name: Annotated[str, Flag(metavar="NAME")] = ""
    token_timeout: float = 10.0
