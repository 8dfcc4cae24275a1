"""The kubeconfig that an invited consumer gets."""

from __future__ import annotations

import base64

import yaml

from fairlead.client import ClusterConfig
from fairlead.provider.options import InviteOptions


def consumer_kubeconfig(
    config: ClusterConfig, options: InviteOptions, *, namespace: str, token: str, ca: bytes
) -> bytes:
    """A kubeconfig with a token and nothing else to log in with.

    Args:
        config: of the provider's own client, whose server and CA are the default.
        options: which may replace both.
        namespace: the cluster namespace, where the konnector finds all that is its own.
        token: of the ServiceAccount there.
        ca: that came with the token, as PEM; used when nothing else is known.
    """
    cluster: dict[str, str] = {"server": options.external_address or config.server}
    trusted = options.external_ca or config.certificate_authority or ca
    if trusted and cluster["server"].startswith("https:"):
        cluster["certificate-authority-data"] = base64.b64encode(trusted).decode()
    server_name = options.external_server_name
    if not options.external_address:
        server_name = server_name or config.tls_server_name
    if server_name:
        cluster["tls-server-name"] = server_name
    context = {"cluster": "default", "user": "default", "namespace": namespace}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default", "cluster": cluster}],
        "users": [{"name": "default", "user": {"token": token}}],
        "contexts": [{"name": "default", "context": context}],
        "current-context": "default",
    }
    return yaml.safe_dump(body, sort_keys=False).encode()
