"""A file that binds by kbind v2, as its reader finds it: Secrets, Connections and bindings.

``fairlead provider invite``, ``fairlead bind -o yaml`` or a person has made it. Roles in it are
kept apart: who binds writes roles of its own, and takes none from a stranger. Source: kbind v2.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from fairlead.api import unknownfields
from fairlead.api.crd import object_schema
from fairlead.api.decoding import field_message
from fairlead.api.kbind.names import API_VERSION, BINDINGS, CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.types import KbindBinding, KbindClusterBinding, KbindConnection
from fairlead.api.kubebind.wire import read_documents
from fairlead.api.manifests import RBAC_GROUP
from fairlead.api.meta import JSON, Key


_TYPES: dict[str, type[KbindConnection | KbindClusterBinding | KbindBinding]] = {
    CONNECTIONS.kind: KbindConnection,
    CLUSTERBINDINGS.kind: KbindClusterBinding,
    BINDINGS.kind: KbindBinding,
}
_ROLES = frozenset({"ClusterRole", "Role", "RoleBinding"})


class BindFile(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that bind, each as it is to be written."""

    secrets: Sequence[JSON] = ()
    connections: Sequence[JSON] = ()
    bindings: Sequence[JSON] = ()
    roles: Sequence[JSON] = ()

    def secret_of(self, connection: JSON) -> JSON | None:
        """Return the Secret of a Connection, None if the file does not have it."""
        key = secret_key(connection)
        return next((secret for secret in self.secrets if key_of(secret) == key), None)


def key_of(body: JSON) -> Key:
    """Return namespace and name of an object."""
    metadata = body["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


def secret_key(connection: JSON) -> Key:
    """Return namespace and name of the Secret that a Connection names."""
    ref = connection["spec"]["kubeconfigSecretRef"]
    return Key(ref["namespace"], ref["name"])


def kubeconfig_of(connection: JSON, secret: JSON) -> bytes:
    """Return the kubeconfig in the Secret of a Connection; b"" if it has none."""
    parsed = msgspec.convert(connection, KbindConnection)
    key = parsed.spec.kubeconfig_secret_ref.key
    # An API server takes stringData over data.
    if text := (secret.get("stringData") or {}).get(key):
        return str(text).encode()
    try:
        return base64.b64decode((secret.get("data") or {}).get(key) or "", validate=True)
    except ValueError:
        return b""


def is_kbind_file(data: bytes) -> bool:
    """Whether any object of a file is of kbind v2."""
    try:
        documents = _objects(read_documents(data))
    except ValueError:
        return False
    return any(isinstance(one, dict) and one.get("apiVersion") == API_VERSION for one in documents)


def read_bind_file(data: bytes) -> BindFile:
    """Return the objects of a file in JSON or YAML, of several documents or Lists.

    Raises:
        ValueError: it has another object, two of one name, or one with a wrong field; the message
            names it.
    """
    parts: dict[str, list[JSON]] = {"secrets": [], "connections": [], "bindings": [], "roles": []}
    titles: set[tuple[str, Key]] = set()
    for body in _objects(read_documents(data)):
        part = _part(body)
        where = (body["kind"], key_of(body))
        if where in titles:
            raise ValueError(f"{body['kind']} {key_of(body)} is in it twice: leave one out")
        titles.add(where)
        if part:
            parts[part].append(body)
    return BindFile(**parts)


def _objects(documents: Iterable[Any]) -> list[Any]:
    objects: list[Any] = []
    for document in documents:
        is_list = isinstance(document, dict) and document.get("kind") == "List"
        items = document.get("items") if is_list else [document]
        objects += items if isinstance(items, list) else []
    return objects


def _part(body: Any) -> str:
    """Return which part of the file an object is in, "" for a namespace.

    Raises:
        ValueError: it is in none, or has a wrong field.
    """
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise ValueError(  # noqa: TRY004  the file is wrong, not the program
            "it contains something other than objects with kind and metadata"
        )
    kind, version = str(body.get("kind", "")), body.get("apiVersion", "")
    name = body["metadata"].get("name")
    if not isinstance(name, str) or not name:
        raise ValueError(f"a {kind} in it has no metadata.name")
    if not isinstance(body["metadata"].get("namespace", ""), str):
        raise ValueError(  # noqa: TRY004  as above
            f"{kind} {name}: metadata.namespace is not text"
        )
    if version == API_VERSION and kind in _TYPES:
        _check(body, kind, name)
        return "connections" if kind == CONNECTIONS.kind else "bindings"
    if (version, kind) == ("v1", "Secret"):
        return "secrets"
    if (version, kind) == ("v1", "Namespace"):
        return ""
    if version == f"{RBAC_GROUP}/v1" and kind in _ROLES:
        return "roles"
    raise ValueError(
        f"{kind} {name} ({version}) does not belong in a file that binds: read it, and apply it"
        " separately"
    )


def _check(body: JSON, kind: str, name: str) -> None:
    type_ = _TYPES[kind]
    # A person who writes a field by hand means it; a server would drop an unknown one.
    if why := unknownfields.refusal(body, object_schema(type_)):
        raise ValueError(f"{kind} {name}: {why}")
    try:
        msgspec.convert(body, type_)
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind} {name}: {field_message(error)}") from None
    namespaced = kind == BINDINGS.kind
    if namespaced and not body["metadata"].get("namespace"):
        raise ValueError(
            f"{kind} {name} has no metadata.namespace: set it, as objects of this kind are in a"
            " namespace"
        )
