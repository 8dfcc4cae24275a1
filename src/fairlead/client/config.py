"""Configuration of one server: address, identity and trust, resolved from a kubeconfig."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit


IN_CLUSTER = "in-cluster"
"""Context of a Pod's own cluster and ServiceAccount."""


@dataclass(frozen=True)
class ExecPlugin:
    """A command that prints an ``ExecCredential`` (client.authentication.k8s.io)."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    provide_cluster_info: bool = False
    install_hint: str = ""
    cluster_extension: object = None
    """``cluster.extensions`` named client.authentication.k8s.io/exec, passed on verbatim."""


@dataclass(frozen=True)
class Impersonation:
    """User and groups to impersonate (``as`` and its companions in a kubeconfig)."""

    user: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class ClusterConfig:
    """Address, trust and identity for one cluster; credentials never show in its repr.

    Certificates and keys are PEM. ``namespace`` is that of the context, "" where it names none.
    """

    server: str
    namespace: str = ""
    certificate_authority: bytes = field(default=b"", repr=False)
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    client_certificate: bytes = field(default=b"", repr=False)
    client_key: bytes = field(default=b"", repr=False)
    exec_plugin: ExecPlugin | None = None
    impersonation: Impersonation | None = None
    context: str = ""
    """Name of the context this came from, for messages."""
    trusted: bool = False
    """Whether the user or the Pod has named the server, so that its answers need no bounds."""

    @property
    def only_inside(self) -> bool:
        """Whether only Pods of the cluster reach the server: it is the Service in their variables.

        A provider of clusters may put an address into them that all reach.
        """
        if self.context != IN_CLUSTER:
            return False
        try:
            return not ip_address(urlsplit(self.server).hostname or "").is_global
        except ValueError:
            return False
