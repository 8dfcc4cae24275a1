"""Writes the objects that a binding needs in the consumer's cluster, and deletes them again.

These are the konnector's namespace, the Secret with the provider's kubeconfig, and ClusterRoles
with the konnector's rights on the bound kinds. Existing objects stay as they are, as far as they
serve.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
    LABEL_PROVIDER_KUBECONFIG,
    ClusterSecretKeyRef,
    ExportRequestResponse,
    GroupResource,
    consumer_crds,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    Resource,
)
from fairlead.client import (
    AlreadyExists,
    Client,
    ClusterConfig,
    ConfigError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    NotFound,
    Unauthorized,
)
from fairlead.client.lookups import find, list_all
from fairlead.konnector.commands.request import Progress
from fairlead.konnector.policies.estate import secret_key, unowned
from fairlead.konnector.rights import (
    binding_roles,
    editor_role_name,
    role_labels,
    user_roles,
    viewer_role_name,
)
from fairlead.konnector.secrets import content, provider_config
from fairlead.runtime import install_crds


MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "fairlead-bind"


async def ensure_crds(client: Client, progress: Progress) -> None:
    """Install the missing CRDs of kube-bind: those of a newer konnector stay."""
    listed = await client.list(CUSTOMRESOURCEDEFINITIONS, metadata_only=True)
    there = {found.meta.name for found in listed.items}
    missing = [crd for crd in consumer_crds() if crd["metadata"]["name"] not in there]
    if missing:
        progress("installing kube-bind's CRDs")
        await install_crds(client, missing)


async def ensure_namespace(client: Client, name: str, progress: Progress) -> None:
    """Create the konnector's namespace if it is missing."""
    body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await _ensure(client, NAMESPACES, body, progress)


def secret_ref(config: ClusterConfig, namespace: str) -> ClusterSecretKeyRef:
    """Return the Secret for a provider's kubeconfig: one per server and cluster namespace."""
    return ClusterSecretKeyRef(name=_secret_name(config), namespace=namespace, key=KUBECONFIG_NAME)


async def find_secret_ref(
    client: Client, config: ClusterConfig, namespace: str
) -> ClusterSecretKeyRef:
    """Return the Secret with a provider's kubeconfig, also one of the original's ``kubectl bind``.

    The original names its Secrets at random, marks them by a label, and keeps one per server and
    cluster namespace as well.
    """
    mine = secret_ref(config, namespace)
    try:
        if await find(client, SECRETS, mine.name, namespace) is not None:
            return mine
        marked = await client.list(SECRETS, namespace, labels=f"{LABEL_PROVIDER_KUBECONFIG}=true")
    except Forbidden:
        return mine
    names = [secret.meta.name for secret in marked.items if _place(secret) == mine.name]
    # The first by name, so that each run finds the same one.
    return msgspec.structs.replace(mine, name=min(names, default=mine.name))


Reach = Callable[[ClusterConfig], Client]
"""Makes the client of a provider from the config in a kubeconfig."""


def directly(config: ClusterConfig) -> Client:
    """Return a client for the address in the provider's kubeconfig."""
    return Client(config, user_agent="fairlead-bind")


async def ensure_secret(
    client: Client,
    ref: ClusterSecretKeyRef,
    kubeconfig: bytes,
    progress: Progress,
    reach: Reach = directly,
) -> None:
    """Store the provider's kubeconfig; existing newer credentials that work stay."""
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {MANAGED_BY: MANAGER},
        },
        "type": "Opaque",
        "data": {KUBECONFIG_NAME: base64.b64encode(kubeconfig).decode()},
    }
    # An unbind may have left it to the garbage collector, by an owner that is going.
    secret = await disown(client, SECRETS, await find(client, SECRETS, ref.name, ref.namespace))
    if secret is None:
        await _ensure(client, SECRETS, body, progress)
        return
    stored = content(secret, KUBECONFIG_NAME)
    if stored != kubeconfig and not await _works(stored, reach, instead=kubeconfig):
        data = {**(secret.to_dict().get("data") or {}), **body["data"]}
        await client.update(SECRETS, {**secret.to_dict(), "data": data})
        progress(f"replaced the kubeconfig in Secret {secret.key}")


async def provider_of(client: Client, ref: ClusterSecretKeyRef) -> ClusterConfig:
    """Return the config of a provider from a Secret of the consumer.

    Raises:
        ConfigError: the Secret is not there, or what it holds cannot be used; names it.
        ClientError: the consumer's server refused the look or cannot be reached.
    """
    where = f"Secret {ref.namespace}/{ref.name}"
    secret = await find(client, SECRETS, ref.name, ref.namespace)
    if secret is None:
        raise ConfigError(f"{where} with the provider's kubeconfig does not exist")
    try:
        return provider_config(content(secret, ref.key))
    except ConfigError as error:
        raise ConfigError(f"{where}, key {ref.key!r}: {error}") from None


async def _ensure(client: Client, resource: Resource, body: JSON, progress: Progress) -> None:
    """Create an object that is not there."""
    key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
    if await find(client, resource, key.name, key.namespace) is not None:
        return
    try:
        await client.create(resource, body, key.namespace)
    except AlreadyExists:
        return
    progress(f"created {resource.kind} {key}")


def _written_by_bind(secret: Object) -> bool:
    """Whether ``fairlead bind`` has made a Secret, and not a person."""
    if secret.meta.labels.get(MANAGED_BY) == MANAGER:
        return True
    return _place(secret) == secret.meta.name


def _place(secret: Object) -> str:
    """Return the name that bind gives a Secret with such a kubeconfig, "" if it holds none."""
    try:
        return _secret_name(provider_config(content(secret, KUBECONFIG_NAME)))
    except ConfigError:
        return ""


def _secret_name(config: ClusterConfig) -> str:
    place = sha256(f"{config.server} {config.namespace}".encode()).hexdigest()[:10]
    return f"kubeconfig-{place}"


async def _works(kubeconfig: bytes, reach: Reach, *, instead: bytes) -> bool:
    """Whether the provider accepts these credentials, or has accepted the others ``instead``."""
    try:
        config = provider_config(kubeconfig)
    except ConfigError:
        return False
    try:
        async with reach(config) as provider:
            await provider.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, config.namespace)
    except (Unauthorized, Forbidden, NotFound):
        return False
    except ConnectionFailed:
        # A provider that was built anew at its address has another authority. With the same
        # authority it is away at the moment, and the credentials may be good.
        other = provider_config(instead)
        if _trust(other) == _trust(config):
            raise
        return False
    return True


def _trust(config: ClusterConfig) -> tuple[bytes, str]:
    return config.certificate_authority, config.tls_server_name


class ChangedRole(NamedTuple):
    """A role or a binding of one that was changed, as it was before and as it was written."""

    before: Object
    written: Object


async def ensure_roles(
    client: Client, request: ExportRequestResponse, progress: Progress
) -> list[ChangedRole]:
    """Write the konnector's rights on the bound kinds, and the Service Binding operator's.

    Returns:
        The ClusterRoles that were changed.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    spec = request.spec
    roles = binding_roles(request.metadata.name, spec.resources, spec.permission_claims)
    return await write_roles(client, roles, progress)


async def ensure_user_roles(
    client: Client, binding: str, resources: Sequence[GroupResource], progress: Progress
) -> list[ChangedRole]:
    """Write the rights of people with view, edit or admin on bound kinds.

    The kinds have to be the binding's own: a kind of this cluster that a provider only names would
    be opened to everyone with edit.

    Returns:
        The ClusterRoles that were changed.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    return await write_roles(client, user_roles(binding, resources), progress)


ROLE_KINDS = {kind.kind: kind for kind in (CLUSTERROLES, ROLES, ROLEBINDINGS)}
_GRANTS = ("rules", "subjects", "roleRef")
"""Fields of roles and of their bindings that grant something."""


async def write_roles(
    client: Client, roles: Sequence[JSON], progress: Progress
) -> list[ChangedRole]:
    """Write ClusterRoles, Roles and RoleBindings; what other writers have added to them stays.

    Returns:
        Those that were there and were changed.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    changed: list[ChangedRole] = []
    for role in roles:
        resource, metadata = ROLE_KINDS[role["kind"]], role["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        existing = await find(client, resource, name, namespace)
        existing = await disown(client, resource, existing)
        if existing is None:
            await _ensure(client, resource, role, progress)
            continue
        new = regranted(existing, role)
        if new != existing.to_dict():
            changed.append(ChangedRole(existing, await client.update(resource, new)))
            progress(f"updated {resource.kind} {existing.key}")
    return changed


def regranted(existing: Object, role: JSON) -> JSON:
    """Return the body of a role that is there, with the labels and grants of another one."""
    old = existing.to_dict()
    metadata = old["metadata"]
    if labels := role["metadata"].get("labels"):
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    return {**old, "metadata": metadata, **_grants(role)}


def _grants(role: JSON) -> JSON:
    return {field: role[field] for field in _GRANTS if field in role}


async def restore_role(client: Client, changed: ChangedRole, progress: Progress) -> None:
    """Restore the former grants of a role, unless another writer has changed them since."""
    before, written = changed
    resource = ROLE_KINDS[before.kind]
    title = f"{before.kind} {before.key}"
    role = await find(client, resource, before.meta.name, before.meta.namespace)
    if role is None or role.meta.uid != before.meta.uid:
        return
    # Grants that another writer has set since are not ours to take away.
    if _grants(role.to_dict()) != _grants(written.to_dict()):
        progress(f"left {title} as it is: its rules were changed meanwhile")
        return
    try:
        await client.update(resource, {**role.to_dict(), **_grants(before.to_dict())})
    except Conflict:
        progress(f"left {title} as it is: it was changed meanwhile")
        return
    except NotFound:
        return
    progress(f"restored {title}")


async def roles_of(client: Client, binding: str) -> list[Object]:
    """Return the ClusterRoles of a binding that exist and have their label."""
    labels = role_labels(binding).items()
    roles = [(await find(client, CLUSTERROLES, name), label) for name, label in labels]
    return [role for role, label in roles if role and role.meta.labels.get(label) == "true"]


async def user_roles_of(client: Client, binding: str) -> list[Object]:
    """Return the ClusterRoles of people on what a binding binds that exist."""
    names = {editor_role_name(binding), viewer_role_name(binding)}
    return [role for role in await roles_of(client, binding) if role.meta.name in names]


async def remove_user_roles(client: Client, binding: str, progress: Progress) -> None:
    """Delete the rights of people on what a binding binds, however they came, as unbind does.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    for role in await user_roles_of(client, binding):
        await delete(client, CLUSTERROLES, role)
        progress(f"deleted ClusterRole {role.meta.name}")


async def remove_roles(client: Client, binding: str, progress: Progress) -> bool:
    """Delete the ClusterRoles of a binding; return whether there was any."""
    roles = await roles_of(client, binding)
    for role in roles:
        await delete(client, CLUSTERROLES, role)
        progress(f"deleted ClusterRole {role.meta.name}")
    return bool(roles)


async def remove_secret(client: Client, secret: Object, progress: Progress) -> None:
    """Delete a kubeconfig Secret, unless it is used or was not made by ``fairlead bind``."""
    if not disposable(secret):
        return
    users = sorted(f"{one.kind} {one.meta.name}" for one in await users_of(client, secret.key))
    if users:
        progress(f"kept Secret {secret.key}, which {', '.join(users)} uses")
        return
    await delete(client, SECRETS, secret)
    progress(f"deleted Secret {secret.key}")


def disposable(secret: Object) -> bool:
    """Whether a Secret serves bindings alone, and was made by ``fairlead bind``."""
    return _written_by_bind(secret) and secret.meta.labels.get(LABEL_PROVIDER_KUBECONFIG) != "true"


async def users_of(client: Client, secret: Key) -> list[Object]:
    """Return the bindings and bundles that refer to a Secret."""
    return [
        obj
        for resource in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES)
        for obj in await list_all(client, resource)
        if secret_key(obj) == secret
    ]


async def disown(client: Client, resource: Resource, obj: Object | None) -> Object | None:
    """Remove the owner references to bindings from an object that is in use again.

    Returns:
        The object as it is now; None where the garbage collector was faster.

    Raises:
        ClientError: the server refused or cannot be reached.
    """
    while obj is not None and (body := unowned(obj.to_dict())) != obj.to_dict():
        try:
            return await client.update(resource, body)
        except (Conflict, NotFound):
            obj = await find(client, resource, obj.meta.name, obj.meta.namespace)
    return obj


async def delete(client: Client, resource: Resource, obj: Object) -> None:
    """Delete this very object; its absence is accepted."""
    try:
        await client.delete(resource, obj.meta.name, obj.meta.namespace, uid=obj.meta.uid)
    except NotFound:
        return
