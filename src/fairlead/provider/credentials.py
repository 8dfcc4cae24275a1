"""The way in for a consumer: its ServiceAccount, the rights of that, and its kubeconfig."""

from __future__ import annotations

import base64

import msgspec

from fairlead.api.kubebind import BINDER_NAME, KUBECONFIG_NAME
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS, SECRETS, SERVICEACCOUNTS
from fairlead.client import Client, ClusterConfig, ConfigError, NotFound, parse_kubeconfig
from fairlead.provider.binder import binder_cluster_role, binder_role_binding
from fairlead.provider.kubeconfig import consumer_kubeconfig
from fairlead.provider.options import InviteOptions
from fairlead.provider.storing import ensure
from fairlead.provider.tokens import chosen_token, make_token, next_name, token_secrets


class Stored(msgspec.Struct, frozen=True):
    """The kubeconfig of a consumer as its cluster namespace has it.

    ``config`` is None where there is none, or none that can be used.
    """

    secret: Object | None
    content: bytes
    config: ClusterConfig | None

    @property
    def token(self) -> str:
        """That it logs in with."""
        return self.config.token if self.config is not None else ""


async def ensure_credentials(
    client: Client, namespace: str, options: InviteOptions
) -> tuple[bytes, str]:
    """The consumer's kubeconfig, also stored for the konnector to fetch, and its server.

    A token that was handed out stays, and so does the address unless the options name another:
    a konnector takes over whatever is written here.

    Raises:
        InviteError: the cluster makes no token.
        ApiError: the server refused.
    """
    account: JSON = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": BINDER_NAME, "namespace": namespace},
    }
    await ensure(client, SERVICEACCOUNTS, account)
    await ensure(client, CLUSTERROLES, binder_cluster_role(), "rules")
    await ensure(client, ROLEBINDINGS, binder_role_binding(namespace), "subjects")
    stored = await stored_kubeconfig(client, namespace)
    existing = token_secrets((await client.list(SECRETS, namespace)).items)
    chosen = chosen_token(existing, stored.token)
    name = chosen.name if chosen is not None else next_name(existing)
    made = await make_token(client, namespace, name, seconds=options.token_timeout)
    reached = as_before(options, stored.config)
    kubeconfig = consumer_kubeconfig(
        client.config, reached, namespace=namespace, token=made.token, ca=made.ca
    )
    await store_kubeconfig(client, namespace, kubeconfig)
    return kubeconfig, reached.external_address or client.config.server


async def stored_kubeconfig(client: Client, namespace: str) -> Stored:
    """What is stored for the konnector to fetch.

    Raises:
        ApiError: the server refused.
    """
    try:
        secret = await client.get(SECRETS, KUBECONFIG_NAME, namespace)
    except NotFound:
        return Stored(None, b"", None)
    content = secret.decode(_Secret).data.get(KUBECONFIG_NAME, b"")
    try:
        return Stored(secret, content, parse_kubeconfig(content))
    except ConfigError:
        return Stored(secret, content, None)


async def store_kubeconfig(client: Client, namespace: str, kubeconfig: bytes) -> None:
    """Hand a kubeconfig to the konnector, which fetches it from here.

    Raises:
        ApiError: the server refused.
    """
    secret: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": KUBECONFIG_NAME, "namespace": namespace},
        "type": "Opaque",
        "data": {KUBECONFIG_NAME: base64.b64encode(kubeconfig).decode()},
    }
    await ensure(client, SECRETS, secret, "data")


def as_before(options: InviteOptions, stored: ClusterConfig | None) -> InviteOptions:
    """The options with what they do not say filled in from a kubeconfig that is in use."""
    if stored is None or options.external_address not in {"", stored.server}:
        return options
    return msgspec.structs.replace(
        options,
        external_address=stored.server,
        external_ca=options.external_ca or stored.certificate_authority,
        external_server_name=options.external_server_name or stored.tls_server_name,
    )


class _Secret(msgspec.Struct):
    data: dict[str, bytes] = {}
