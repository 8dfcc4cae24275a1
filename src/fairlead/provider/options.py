"""Options of a provider's operator."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from fairlead.api.durations import parse_duration
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


class ProviderOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The provider's flags.

    ``consumer_scope`` becomes the informerScope of every export: with Namespaced a konnector
    needs rights in its own namespaces only, with Cluster it may read all consumers' objects of
    the exported kinds. ``isolation`` says how cluster-scoped objects are kept apart.

    ``namespace`` is the controllers' own and ``namespace_prefix`` begins the names of cluster
    namespaces: no consumer gets a namespace there. ``schema_sync_interval`` is in seconds.

    With ``original_konnectors`` consumers get what kube-bind's own konnector needs beyond ours:
    under scope Cluster all objects of claimed kinds, wherever they are, and under isolation
    Namespaced reading all consumers' objects of exported kinds.

    ``requests`` says what a consumer may request: what it was invited to, or whatever can be
    exported, which is kube-bind's own rule.

    ``namespaces_per_consumer`` is the largest number of provider namespaces that are made for one
    consumer; those that exist stay and count.
    """

    consumer_scope: Scope = "Namespaced"
    isolation: Isolation = "Prefixed"
    original_konnectors: bool = False
    requests: Requests = "invited"
    schema_sync_interval: float = DEFAULT_SYNC_INTERVAL
    namespaces_per_consumer: int = DEFAULT_NAMESPACES_PER_CONSUMER
    namespace: str = DEFAULT_NAMESPACE
    namespace_prefix: str = DEFAULT_PREFIX


class InviteOptions(msgspec.Struct, kw_only=True, frozen=True):
    """Address, CA and name of the provider for its consumers, and the names of their namespaces.

    ``external_address`` and ``external_ca`` (PEM) replace the server and CA of the provider's own
    kubeconfig; ``token_timeout`` is in seconds.
    """

    namespace_prefix: str = DEFAULT_PREFIX
    pretty_name: str = DEFAULT_PRETTY_NAME
    external_address: str = ""
    external_ca: bytes = b""
    external_server_name: str = ""
    token_timeout: float = 10.0


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
            f"schema sync interval {text} is too short: {MINIMAL_SYNC_INTERVAL:g}s is the least"
        )
    return seconds


def check_external_address(address: str) -> str:
    """Check that consumers can use an address, and return it.

    Raises:
        ValueError: the address is no https URL with a host.
    """
    parts = urlsplit(address)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"external address {address!r} has to be a URL such as https://host:6443")
    return address


def check_namespace_prefix(prefix: str) -> str:
    """Check that namespaces can be named with a prefix and a hash of 13 characters; return it.

    Raises:
        ValueError: such names would be invalid or too long.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"namespace prefix {prefix!r} has to begin with a letter or digit and to have nothing "
            f"but lower-case letters, digits and dashes, at most {_PREFIX_LENGTH}"
        )
    return prefix
