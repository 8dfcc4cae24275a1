"""Kubeconfigs that providers hand out."""

from __future__ import annotations

from fairlead.client import ClusterConfig, ConfigError, parse_kubeconfig


def provider_config(kubeconfig: bytes) -> ClusterConfig:
    """How to reach a provider; the namespace of the current context is the cluster namespace.

    Raises:
        ConfigError: it cannot be used, or it names no namespace.
    """
    config = parse_kubeconfig(kubeconfig)
    if not config.namespace:
        raise ConfigError(
            "the current context has no namespace: it must name the cluster namespace that the "
            "provider has given"
        )
    return config
