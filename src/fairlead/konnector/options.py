"""What can be told to the konnector."""

from __future__ import annotations

from importlib import metadata

import msgspec


DEFAULT_NAMESPACE = "kube-bind"
"""Where the konnector and the kubeconfig Secrets are."""
DEFAULT_WORKERS = 32


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The konnector's options; times are in seconds.

    ``namespace`` is the konnector's own, whose Secrets it may read.
    """

    namespace: str = DEFAULT_NAMESPACE
    version: str = msgspec.field(default_factory=lambda: metadata.version("fairlead"))
    install_crds: bool = True
    health_interval: float = 1.0
    """How often the state of the watches is looked at; it costs no request."""
    health_patience: int = 3
    """So many looks in a row must find a fault before a condition says so."""
    unbind_timeout: float = 600.0
    """So long may a provider be unreachable before a binding that is deleted goes without it."""
    provider_polling_interval: float = 15.0
    """How often a bundle looks for exports, besides watching them."""
    files: int = 0
    """How many files the process may have open, which watches have to fit into; 0 for no limit."""
    workers: int = DEFAULT_WORKERS
    """How many objects of one resource are synchronised at the same time.

    Servers answer writes that come together for little more than one alone: they wait for the
    disk once. Each that is at work costs a connection to both servers, together about 0.3 MiB,
    which are closed when there is less to do.
    """
