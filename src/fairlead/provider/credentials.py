"""Access of a consumer: its ServiceAccount with rights and tokens, and its kubeconfig.

Every invited consumer has the same rights in its own cluster namespace. Each generation of its
token is a Secret of its own, so that a rotation can end one and keep the other.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import msgspec
import yaml

from fairlead.api.kubebind import BINDER_NAME, GROUP, KUBECONFIG_NAME
from fairlead.api.manifests import RBAC_GROUP, rule
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CLUSTERROLES, ROLEBINDINGS, SECRETS, SERVICEACCOUNTS, Resource
from fairlead.client import (
    AlreadyExists,
    Client,
    ClusterConfig,
    ConfigError,
    NotFound,
    parse_kubeconfig,
)
from fairlead.client.authorities import only_certificates
from fairlead.client.lookups import WaitTimeout, wait_for
from fairlead.provider.identity import InviteError
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import (
    ACCOUNT_ANNOTATION,
    TOKEN_TYPE,
    TokenSecret,
    chosen_token,
    next_name,
    token_secrets,
)
from fairlead.runtime import commit


A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


_Dumper: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's dumper if there is one; PyYAML's own takes many times as long."""


class Stored(msgspec.Struct, frozen=True):
    """The stored kubeconfig of a consumer, in its cluster namespace.

    ``config`` is None if the Secret is missing or its content is no usable kubeconfig.
    """

    secret: Object | None
    content: bytes
    config: ClusterConfig | None

    @property
    def token(self) -> str:
        """The token in the kubeconfig, "" without one."""
        return self.config.token if self.config is not None else ""


async def ensure_credentials(
    client: Client,
    namespace: str,
    options: InviteOptions,
    rights: Callable[[Client, str], Awaitable[None]] | None = None,
) -> tuple[bytes, str]:
    """Return the consumer's kubeconfig, stored for the konnector too, and its server.

    An existing token stays valid, and the address stays unless the options name another: running
    konnectors use the kubeconfig that is written here.

    Args:
        client: a client of the provider's cluster.
        namespace: the namespace of the consumer's account.
        options: the consumer's access to the provider; empty fields stay as they were.
        rights: creates the rights of the account; by default those in a cluster namespace.

    Raises:
        InviteError: the cluster makes no token, or no consumer would reach it.
        ApiError: the server refused.
    """
    account: JSON = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": BINDER_NAME, "namespace": namespace},
    }
    # The account comes before its token: the token controller deletes a token Secret that names no
    # ServiceAccount. All other objects may come in any order, and people wait for them.
    _, _, stored, listed = await _together(
        ensure(client, SERVICEACCOUNTS, account),
        (rights or _ensure_rights)(client, namespace),
        stored_kubeconfig(client, namespace),
        client.list(SECRETS, namespace),
    )
    reached = as_before(options, stored.config)
    if not reached.external_address and client.config.only_inside:
        raise InviteError(
            f"only Pods of this cluster reach {client.config.server}, and consumers would get "
            "this address of the API server: give the provider --external-address "
            "https://HOST:6443 (in the chart provider.externalAddress)"
        )
    existing = token_secrets(listed.items)
    chosen = chosen_token(existing, stored.token)
    name = chosen.name if chosen is not None else next_name(existing)
    token = await make_token(client, namespace, name, seconds=options.token_timeout)
    kubeconfig = consumer_kubeconfig(
        client.config, reached, namespace=namespace, token=token.token, ca=token.ca
    )
    await store_kubeconfig(client, namespace, kubeconfig)
    return kubeconfig, reached.external_address or client.config.server


async def _ensure_rights(client: Client, namespace: str) -> None:
    """Create the role of consumers, and its binding to this consumer's account."""
    await ensure(client, CLUSTERROLES, binder_cluster_role(), "rules")
    await ensure(client, ROLEBINDINGS, binder_role_binding(namespace), "subjects")


async def _together(
    first: Awaitable[A], two: Awaitable[B], three: Awaitable[C], four: Awaitable[D]
) -> tuple[A, B, C, D]:
    """Await all four; raise the first error only after the others have ended."""
    results = await asyncio.gather(first, two, three, four, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return cast("tuple[A, B, C, D]", tuple(results))


async def ensure(client: Client, resource: Resource, body: JSON, *fields: str) -> Object:
    """Create an object, or merge the members named by ``fields`` into the existing one.

    Without names an existing object stays as it is.

    Raises:
        Conflict: the object was changed meanwhile.
        ApiError: the server refused.
    """
    metadata = body["metadata"]
    try:
        stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    except NotFound:
        try:
            return await client.create(resource, body)
        except AlreadyExists:
            # Another invitation of the same consumer was faster.
            stored = await client.get(resource, metadata["name"], metadata.get("namespace", ""))
    live = stored.to_dict()
    for field in fields:
        both = isinstance(body[field], dict) and isinstance(live.get(field), dict)
        live[field] = live[field] | body[field] if both else body[field]
    return await commit(client, resource, stored, live)


async def stored_kubeconfig(client: Client, namespace: str) -> Stored:
    """Return the kubeconfig that is stored for the konnector to fetch.

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
        # An invitation writes a damaged kubeconfig anew, with the newest token that there is.
        return Stored(secret, content, None)


async def store_kubeconfig(client: Client, namespace: str, kubeconfig: bytes) -> None:
    """Store a kubeconfig in the cluster namespace, from which the konnector fetches it.

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
    """Return the options with their empty fields filled from a kubeconfig that is in use."""
    # CA and server name belong to the address: those of the old one do not go with another.
    if stored is None or options.external_address not in {"", stored.server}:
        return options
    return msgspec.structs.replace(
        options,
        external_address=stored.server,
        external_ca=options.external_ca or stored.certificate_authority,
        external_server_name=options.external_server_name or stored.tls_server_name,
    )


def consumer_kubeconfig(
    config: ClusterConfig, options: InviteOptions, *, namespace: str, token: str, ca: bytes
) -> bytes:
    """Return a kubeconfig with a token as its only credential.

    Args:
        config: the config of the provider's own client, whose server and CA are the default.
        options: options that may replace both.
        namespace: the cluster namespace, where the konnector finds all that is its own.
        token: the token of the ServiceAccount there.
        ca: the CA beside the token, as PEM; used if no other is known.
    """
    cluster: dict[str, str] = {"server": options.external_address or config.server}
    trusted = options.external_ca or config.certificate_authority or ca
    if trusted and cluster["server"].startswith("https:"):
        # What else the provider keeps in that file, such as a key, is no consumer's.
        authority = only_certificates(trusted)
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    server_name = options.external_server_name
    # The server name of the provider's own kubeconfig is for the address that is in it.
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
    return yaml.dump(body, Dumper=_Dumper, sort_keys=False).encode()


RBAC_VERSION = f"{RBAC_GROUP}/v1"

_ALL = ("create", "delete", "patch", "update", "get", "list", "watch")
_READ = ("get", "list", "watch")
_WRITE = ("get", "patch", "update")


def binder_cluster_role() -> JSON:
    """Return the ClusterRole of consumers in their cluster namespaces.

    ``finalizers`` of exports lets the konnector make objects that block an export's deletion,
    where the server asks for that right (OwnerReferencesPermissionEnforcement).
    """
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": BINDER_NAME},
        "rules": [
            rule("", ["namespaces"], ("get",)),
            rule("", ["secrets"], _READ),
            rule(GROUP, ["apiserviceexportrequests", "apiservicenamespaces"], _ALL),
            rule(GROUP, ["apiserviceexports", "boundschemas", "clusterbindings"], _READ),
            rule(
                GROUP,
                ["apiserviceexports/status", "boundschemas/status", "clusterbindings/status"],
                _WRITE,
            ),
            rule(GROUP, ["apiserviceexports/finalizers"], ("update",)),
        ],
    }


def binder_role_binding(namespace: str) -> JSON:
    """Return the RoleBinding of a cluster namespace's ServiceAccount to the consumers' role."""
    return {
        "apiVersion": RBAC_VERSION,
        "kind": "RoleBinding",
        "metadata": {"name": BINDER_NAME, "namespace": namespace},
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": BINDER_NAME},
        "subjects": [{"kind": "ServiceAccount", "name": BINDER_NAME, "namespace": namespace}],
    }


async def make_token(client: Client, namespace: str, name: str, *, seconds: float) -> TokenSecret:
    """Return the token in the Secret of this name, which is created if it does not exist.

    Raises:
        InviteError: the cluster has not filled it in within so many seconds.
        ApiError: the server refused.
    """
    # A token in a Secret does not expire. Tokens of the TokenRequest API do, and a konnector that
    # was switched off for longer could never log in again:
    # https://kubernetes.io/docs/concepts/configuration/secret/#serviceaccount-token-secrets.
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {ACCOUNT_ANNOTATION: BINDER_NAME},
        },
        "type": TOKEN_TYPE,
    }
    await ensure(client, SECRETS, body)
    try:
        secret = await wait_for(client, SECRETS, name, namespace, until=_unfilled, timeout=seconds)
    except WaitTimeout as error:
        raise InviteError(
            f"{error}: does the cluster's token controller run, and is Secret "
            f"{namespace}/{name} of type {TOKEN_TYPE}?"
        ) from None
    (token,) = token_secrets([secret] if secret is not None else [])
    return token


def _unfilled(secret: Object | None) -> str:
    if secret is None:
        return "it is not there"
    if not token_secrets([secret]):
        return f"it is not a token of ServiceAccount {BINDER_NAME}"
    return "" if token_secrets([secret])[0].token else "the token has not been filled in"


class _Secret(msgspec.Struct):
    data: dict[str, bytes] = {}
