"""What an operator of a provider may decide."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from fairlead.api.kubebind import Isolation, Scope


DEFAULT_NAMESPACE = "fairlead-provider"
DEFAULT_PREFIX = "kube-bind-"
"""The default of kube-bind's own chart; its binary alone has ``cluster-``."""

_ISOLATIONS: dict[str, Isolation] = {
    "prefixed": "Prefixed",
    "namespaced": "Namespaced",
    "none": "None",
}


class ProviderOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The provider's flags.

    ``consumer_scope`` becomes the informerScope of every export: with Namespaced a konnector
    needs rights in its own namespaces only, with Cluster it may read all consumers' objects of
    the exported kinds. ``isolation`` says how cluster-scoped objects are kept apart.
    """

    consumer_scope: Scope = "Namespaced"
    isolation: Isolation = "Prefixed"


class InviteOptions(msgspec.Struct, kw_only=True, frozen=True):
    """How consumers reach the provider, and what they see of it.

    ``external_address`` and ``external_ca`` (PEM) replace the server and CA of the provider's own
    kubeconfig; ``token_timeout`` is in seconds.
    """

    namespace_prefix: str = DEFAULT_PREFIX
    pretty_name: str = "Fairlead"
    external_address: str = ""
    external_ca: bytes = b""
    external_server_name: str = ""
    token_timeout: float = 10.0


def parse_isolation(text: str) -> Isolation:
    """The isolation of a flag's text, in any case.

    kube-bind takes whatever it does not know for ``none``, which keeps nothing apart; here that
    has to be said.

    Raises:
        ValueError: the text is none of prefixed, namespaced and none.
    """
    try:
        return _ISOLATIONS[text.lower()]
    except KeyError:
        raise ValueError(
            f"isolation {text!r} is unknown: say prefixed, namespaced or none"
        ) from None


def parse_consumer_scope(text: str) -> Scope:
    """The informer scope of a flag's text, in any case.

    Raises:
        ValueError: the text is neither namespaced nor cluster.
    """
    match text.lower():
        case "namespaced":
            return "Namespaced"
        case "cluster":
            return "Cluster"
    raise ValueError(f"consumer scope {text!r} is unknown: say namespaced or cluster")


def check_external_address(address: str) -> str:
    """The address, if consumers can use it.

    Raises:
        ValueError: it is no https URL with a host.
    """
    parts = urlsplit(address)
    if parts.scheme != "https" or not parts.hostname:
        raise ValueError(f"external address {address!r} has to be a URL such as https://host:6443")
    return address
