"""The objects of a file that binds APIs by kbind v2: Secret, Connection, and a binding.

Their order does not matter to a konnector. The roles beside them are in
:mod:`fairlead.api.kbind.rights`. Source: kbind v2.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

import msgspec

from fairlead.api.kbind.names import (
    API_VERSION,
    BINDINGS,
    CLUSTERBINDINGS,
    CONNECTIONS,
    DEFAULT_KUBECONFIG_KEY,
)
from fairlead.api.kbind.types import (
    BoundAPIName,
    ConflictPolicy,
    ConnectionRef,
    KbindBindingSpec,
    KbindConnectionSpec,
    KubeconfigSecretRef,
    RelatedResource,
    SchemaPolicy,
)
from fairlead.api.meta import JSON


def secret_name(connection: str) -> str:
    """Return the name of the Secret that is made for a Connection."""
    return f"{connection}-kubeconfig"


def kubeconfig_secret(connection: str, kubeconfig: bytes, *, namespace: str) -> JSON:
    """Return the Secret of a Connection.

    Args:
        connection: name of the Connection.
        kubeconfig: kubeconfig of the provider, with everything in itself.
        namespace: the konnector's own.
    """
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(connection), "namespace": namespace},
        "type": "Opaque",
        "data": {DEFAULT_KUBECONFIG_KEY: base64.b64encode(kubeconfig).decode()},
    }


def connection(
    name: str,
    *,
    namespace: str,
    secret: str = "",
    schema: SchemaPolicy = SchemaPolicy(),  # noqa: B008  it is frozen
    auto_bind: bool = False,
) -> JSON:
    """Return a Connection.

    Args:
        name: its name.
        namespace: the konnector's own, where the Secret is.
        secret: name of the Secret; by default that of :func:`kubeconfig_secret`.
        schema: where schemas come from, and what is made of them.
        auto_bind: whether all exported APIs are bound.
    """
    ref = KubeconfigSecretRef(namespace=namespace, name=secret or secret_name(name))
    spec = KbindConnectionSpec(kubeconfig_secret_ref=ref, schema=schema, auto_bind=auto_bind)
    return _object(CONNECTIONS.kind, {"name": name}, spec)


def binding(
    name: str,
    apis: Sequence[str],
    *,
    connection: str,
    namespace: str = "",
    conflict_policy: ConflictPolicy = "Fail",
    related: Iterable[RelatedResource] = (),
) -> JSON:
    """Return a Binding in a namespace, or a ClusterBinding without one.

    Args:
        name: its name.
        apis: names of APIs, PLURAL.GROUP.
        connection: name of the Connection.
        namespace: namespace of a Binding.
        conflict_policy: what becomes of an object that has a copy's place.
        related: rules about Secrets and ConfigMaps beside the objects.
    """
    spec = KbindBindingSpec(
        connection_ref=ConnectionRef(name=connection),
        apis=[BoundAPIName(name=api) for api in dict.fromkeys(apis)],
        conflict_policy=conflict_policy,
        related_resources=list(related),
    )
    kind = BINDINGS if namespace else CLUSTERBINDINGS
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return _object(kind.kind, metadata, spec)


def _object(kind: str, metadata: JSON, spec: msgspec.Struct) -> JSON:
    body: JSON = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata}
    fields: JSON = msgspec.to_builtins(spec)
    # A policy of defaults alone is left out, as its parts are.
    return body | {"spec": {name: value for name, value in fields.items() if value != {}}}
