"""Objects that a bind by kbind v2 writes, and the roles that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api.kbind import ClusterBinding as AnyBinding
from fairlead.api.kbind import Connection, RelatedResource, SchemaPolicy
from fairlead.api.kbind.bindfile import BindFile, key_of, kubeconfig_of, secret_key
from fairlead.api.kbind.files import binding, connection, kubeconfig_secret
from fairlead.api.kbind.names import BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.rights import (
    binding_roles,
    cluster_binding_roles,
    connection_roles,
    user_roles,
)
from fairlead.api.kbind.types import ConflictPolicy
from fairlead.api.kubebind import GroupResource
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, NAMESPACES, ROLEBINDINGS, ROLES, SECRETS, Resource
from fairlead.konnector.commands.consumer_objects import MANAGED_BY, MANAGER
from fairlead.konnector.manifests import NAME
from fairlead.konnector.options import DEFAULT_NAMESPACE


RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        NAMESPACES,
        SECRETS,
        CLUSTERROLES,
        ROLES,
        ROLEBINDINGS,
        CONNECTIONS,
        CLUSTERBINDINGS,
        BINDINGS,
    )
}
"""The resources of all that a bind writes, by kind."""


class BindWish(msgspec.Struct, frozen=True, kw_only=True):
    """A person's wish to bind APIs by a Connection, of which :func:`bind_file` makes the objects.

    Without a kubeconfig the Connection has to be there. ``everything`` is autoBind, ``namespace``
    that of a Binding, "" for a ClusterBinding, and ``place`` the konnector's.
    """

    connection: str
    apis: Sequence[str] = ()
    name: str = ""
    kubeconfig: bytes = b""
    everything: bool = False
    namespace: str = ""
    conflict_policy: ConflictPolicy = "Fail"
    related: Sequence[RelatedResource] = ()
    schema: SchemaPolicy = SchemaPolicy()
    place: str = DEFAULT_NAMESPACE


def bind_file(wish: BindWish) -> BindFile:
    """Return the objects of a wish; without a name the binding has the Connection's."""
    secrets: list[JSON] = []
    connections: list[JSON] = []
    bindings: list[JSON] = []
    if wish.kubeconfig:
        secrets.append(kubeconfig_secret(wish.connection, wish.kubeconfig, namespace=wish.place))
        connections.append(
            connection(
                wish.connection,
                namespace=wish.place,
                schema=wish.schema,
                auto_bind=wish.everything,
            )
        )
    if wish.apis:
        bindings.append(
            binding(
                wish.name or wish.connection,
                wish.apis,
                connection=wish.connection,
                namespace=wish.namespace,
                conflict_policy=wish.conflict_policy,
                related=wish.related,
            )
        )
    return BindFile(secrets=secrets, connections=connections, bindings=bindings)


def marked(file: BindFile) -> BindFile:
    """Return the objects as they are written: with bind's label, and without others' metadata.

    A Secret has its kubeconfig alone: what else a stranger's file says of it, such as its type,
    may have another program fill it in.
    """
    secrets = []
    for body in file.connections:
        secret = file.secret_of(body)
        if secret is not None:
            secrets.append(_labelled(_alone(body, secret)))
    return BindFile(
        secrets=secrets,
        connections=[_labelled(body) for body in file.connections],
        bindings=[_labelled(body) for body in file.bindings],
    )


def _alone(connection: JSON, secret: JSON) -> JSON:
    """Return the Secret of a Connection with nothing but its kubeconfig."""
    place = secret_key(connection)
    key = msgspec.convert(connection, Connection).spec.kubeconfig_secret_ref.key
    body = kubeconfig_secret("", kubeconfig_of(connection, secret), namespace=place.namespace)
    data = dict(zip([key], body["data"].values(), strict=True))
    return {**body, "metadata": {"name": place.name, "namespace": place.namespace}, "data": data}


def _labelled(body: JSON) -> JSON:
    fields = ("name", "namespace", "annotations")
    metadata = {field: body["metadata"][field] for field in fields if body["metadata"].get(field)}
    metadata["labels"] = {**(body["metadata"].get("labels") or {}), MANAGED_BY: MANAGER}
    return {**{field: body[field] for field in body if field != "status"}, "metadata": metadata}


def konnector_account(namespace: str, name: str = NAME) -> JSON:
    """Return the subject that is the konnector's ServiceAccount."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def roles_of_binding(body: JSON, konnector: JSON) -> list[JSON]:
    """Return the konnector's roles on exactly what a ClusterBinding or Binding binds."""
    key, spec = key_of(body), msgspec.convert(body, AnyBinding).spec
    apis = apis_of(body)
    if key.namespace:
        related = spec.related_resources
        return binding_roles(key.name, key.namespace, apis, related, konnector=konnector)
    return cluster_binding_roles(key.name, apis, spec.related_resources)


def roles_of_connection(body: JSON, exported: Sequence[str]) -> list[JSON]:
    """Return the konnector's role for what a Connection makes or binds by itself."""
    spec = msgspec.convert(body, Connection).spec
    if not spec.auto_bind and spec.schema.pull_policy != "All":
        return []
    return connection_roles(key_of(body).name, exported, objects=spec.auto_bind)


def user_roles_of_binding(body: JSON) -> list[JSON]:
    """Return the ClusterRoles of people on what a binding binds."""
    key = key_of(body)
    return user_roles(key.name, apis_of(body), key.namespace)


def apis_of(body: JSON) -> list[str]:
    """Return the names of the APIs that a binding lists, each once."""
    spec = msgspec.convert(body, AnyBinding).spec
    return list(dict.fromkeys(api.name for api in spec.apis))


def connection_name(body: JSON) -> str:
    """Return the Connection that a binding names."""
    return msgspec.convert(body, AnyBinding).spec.connection_ref.name


def kinds_of(apis: Iterable[str]) -> list[GroupResource]:
    """Return APIs as groups and plural names."""
    parts = [api.partition(".") for api in apis]
    return [GroupResource(group=group, resource=plural) for plural, _, group in parts]


def describe_related(rules: Iterable[RelatedResource]) -> list[str]:
    """Return what rules about related objects copy, a line each."""
    lines = []
    for item in rules:
        way = "from the provider" if item.direction == "FromProvider" else "to the provider"
        selector = item.selector
        which: list[str] = list(selector.names) if selector is not None else []
        terms = selector.label_selector if selector is not None else None
        if terms is not None:
            which.append(f"labels {msgspec.json.encode(terms).decode()}")
        lines.append(f"copies {item.resource} {way}: {', '.join(which) or 'all of them'}")
    return lines


def without_content(body: JSON) -> JSON:
    """Return an object as it may be printed: a Secret without its content."""
    hidden = ("data", "stringData") if body.get("kind") == SECRETS.kind else ()
    return {name: value for name, value in body.items() if name not in hidden}


def same(body: JSON, other: Mapping[str, Any], type_: type[Any]) -> bool:
    """Whether the specs of two objects of a kind mean the same, defaults included."""
    try:
        theirs = msgspec.convert(other, type_)
    except msgspec.ValidationError:
        return False
    return bool(msgspec.convert(body, type_).spec == theirs.spec)
