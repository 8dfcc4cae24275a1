"""Options of the konnector."""

from __future__ import annotations

from datetime import timedelta
from importlib import metadata

import msgspec


DEFAULT_NAMESPACE = "kube-bind"
"""Namespace of the konnector and of the kubeconfig Secrets."""
DEFAULT_WORKERS = 32
HEARTBEAT_INTERVAL = timedelta(minutes=5)
"""Time between two heartbeats that the provider is promised; they are sent twice as often."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The konnector's options; times are in seconds.

    ``namespace`` is the konnector's own, whose Secrets it may read.
    """

    namespace: str = DEFAULT_NAMESPACE
    version: str = msgspec.field(default_factory=lambda: metadata.version("fairlead"))
    install_crds: bool = True
    health_interval: float = 1.0
    """Seconds between looks at the state of the watches; they cost no request."""
    health_patience: int = 3
    """Looks in a row that must find a fault before a condition reports it."""
    unbind_timeout: float = 600.0
    """Seconds that a provider may be unreachable before a deleted binding goes without it."""
    conversion_interval: float = 30.0
    """Seconds between looks at the conversion webhooks of bound kinds, where there are any."""
    provider_polling_interval: float = 15.0
    """Seconds between a bundle's lists of exports, beside its watch."""
    files: int = 0
    """Open files that the process may have, which limits its watches; 0 for no limit."""
    local_keys: tuple[str, ...] = ()
    """Patterns of labels and annotations that do not cross, beside the default ones."""
    crossing_keys: tuple[str, ...] = ()
    """Patterns of labels and annotations that cross although another pattern has them."""
    workers: int = DEFAULT_WORKERS
    """Objects of one resource that are synchronised at the same time.

    Servers answer writes that come together for little more than one alone, since they wait for
    the disk once. Each worker in use has a connection to both servers, together about 0.3 MiB;
    connections are closed when there is less to do.
    """
