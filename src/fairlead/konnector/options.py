"""What can be told to the konnector."""

from __future__ import annotations

from importlib import metadata

import msgspec


DEFAULT_NAMESPACE = "kube-bind"
"""Where the konnector and the kubeconfig Secrets are."""


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
    workers: int = 4
    """How many objects of one resource are synchronised at the same time."""
