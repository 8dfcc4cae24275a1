"""Options of the konnector."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from importlib import metadata
from typing import Annotated

import msgspec

from fairlead.api.flags import Flag, parse_seconds, separated


DEFAULT_NAMESPACE = "kube-bind"
"""Namespace of the konnector and of the kubeconfig Secrets."""
DEFAULT_WORKERS = 32
HEARTBEAT_INTERVAL = timedelta(minutes=5)
"""Time between two heartbeats that the provider is promised; they are sent twice as often."""


PROTOCOLS = ("v1alpha2", "v2")
"""Protocols that the konnector has: kube-bind's, and kbind v2."""
DEFAULT_PROTOCOLS = PROTOCOLS


def parse_protocols(text: str) -> tuple[str, ...]:
    """Return the protocols in a text, in the order of :data:`PROTOCOLS`.

    Raises:
        ValueError: there is another one among them, or none.
    """
    names = separated([text])
    for name in names:
        if name not in PROTOCOLS:
            raise ValueError(f"--protocols: {name!r} is not one of {', '.join(PROTOCOLS)}")
    if not names:
        raise ValueError(f"--protocols: name at least one of {', '.join(PROTOCOLS)}")
    return tuple(name for name in PROTOCOLS if name in names)


ProtocolsFlag = Flag(metavar="NAMES", default=",".join(DEFAULT_PROTOCOLS), parse=parse_protocols)
"""Flag of the konnector and of its manifests."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The konnector's options; times are in seconds.

    ``namespace`` is the konnector's own, whose Secrets it may read. Servers answer writes that
    come together for little more than one alone, since they wait for the disk once. Each of the
    ``workers`` in use has a connection to both servers, together about 0.3 MiB; connections are
    closed when there is less to do.

    Attributes:
        protocols: Protocols to serve, separated by commas: v1alpha2 for the APIServiceBindings of
            kube-bind.io, v2 for the Connections and bindings of core.kbind.io. Each needs the
            rights that `fairlead manifests konnector --protocols NAMES` gives.
        provider_polling_interval: Time between two checks of the provider's exports by an
            APIServiceBindingBundle, in addition to the watch; at least 1s.
        unbind_timeout: How long the deletion of a binding waits for a provider that cannot be
            reached; after that the copies stay there.
        workers: Number of objects of one resource that are synchronized at the same time; raise
            it for distant providers.
        local_keys: Label or annotation that stays in the cluster where it was set, in addition to
            those of delivery tools: KEY, PREFIX/* or KEY=VALUE. May be given several times.
        crossing_keys: Label or annotation to synchronize although a delivery tool sets it, written
            as for --local-key; * for all. May be given several times.
    """

    protocols: Annotated[tuple[str, ...], ProtocolsFlag] = DEFAULT_PROTOCOLS
    namespace: str = DEFAULT_NAMESPACE
    version: str = msgspec.field(default_factory=lambda: metadata.version("fairlead"))
    install_crds: bool = True
    health_interval: float = 1.0
    """Seconds between looks at the state of the watches; they cost no request."""
    health_patience: int = 3
    """Looks in a row that must find a fault before a condition reports it."""
    conversion_interval: float = 30.0
    """Seconds between looks at the conversion webhooks of bound kinds, where there are any."""
    provider_polling_interval: Annotated[
        float,
        Flag(
            metavar="DURATION",
            default="15s",
            parse=partial(parse_seconds, "--provider-polling-interval", least="1s"),
        ),
    ] = 15.0
    unbind_timeout: Annotated[
        float,
        Flag(metavar="DURATION", default="10m", parse=partial(parse_seconds, "--unbind-timeout")),
    ] = 600.0
    files: int = 0
    """Open files that the process may have, which limits its watches; 0 for no limit."""
    workers: Annotated[int, Flag(least=1, most=256)] = DEFAULT_WORKERS
    local_keys: Annotated[tuple[str, ...], Flag("--local-key", "KEY")] = ()
    crossing_keys: Annotated[tuple[str, ...], Flag("--crossing-key", "KEY")] = ()
