"""The record of an invitation by kbind v2, and the marks of namespaces that are a consumer's."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from fairlead.api.kbind.names import CONSUMER_CLUSTER_UID, LEASE_NAMESPACE
from fairlead.api.kbind.types import Direction, RelatedResource, RelatedResourceName
from fairlead.api.kubebind import cluster_namespace
from fairlead.api.meta import JSON, Object
from fairlead.provider.namespaces import identity_of, owner_of, system_reservation
from fairlead.provider.options import DEFAULT_NAMESPACE


LABEL_CONSUMER = "fairlead.dev/kbind-consumer"
"""Label of all namespaces of a consumer: the name of its home, which bears it too."""
ANNOTATION_NAME = "fairlead.dev/kbind-consumer-name"
"""Annotation of a home: the consumer's name."""
ANNOTATION_MADE = "fairlead.dev/kbind-made-for"
"""Annotation of a namespace that was created for a consumer's objects: the consumer's name."""
HOME_PREFIX = "kbind-consumer-"
"""Prefix of the names of homes."""
RECORD_NAME = "kbind-invitation"
"""Name of the ConfigMap in a home that records the invitation."""
_KEY = "invitation.json"

RelatedName = str
"""RESOURCE/DIRECTION, such as ``secrets/FromProvider``."""
RELATED: dict[RelatedName, tuple[RelatedResourceName, Direction]] = {
    "secrets/FromProvider": ("secrets", "FromProvider"),
    "secrets/FromConsumer": ("secrets", "FromConsumer"),
    "configmaps/FromProvider": ("configmaps", "FromProvider"),
    "configmaps/FromConsumer": ("configmaps", "FromConsumer"),
}
"""Rules about related resources that an invitation can have."""


class KbindInvitation(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """Content of an invitation, from which its rights and its file are made.

    ``connection`` names Connection and bindings, ``konnector_namespace`` is that of the consumer's
    konnector. With ``whole_cluster`` there are no ``namespaces``, and the rights are everywhere.
    """

    apis: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    whole_cluster: bool = False
    related: tuple[RelatedName, ...] = ()
    connection: str = ""
    konnector_namespace: str = ""
    revoked: bool = False

    @property
    def related_resources(self) -> list[RelatedResource]:
        """The rules of its bindings about Secrets and ConfigMaps."""
        pairs = [RELATED[name] for name in self.related if name in RELATED]
        return [RelatedResource(resource=kind, direction=way) for kind, way in pairs]

    def extended(self, more: KbindInvitation) -> KbindInvitation:
        """Return this invitation with all that another one adds; its names stay."""
        return msgspec.structs.replace(
            self,
            apis=_union(self.apis, more.apis),
            namespaces=_union(self.namespaces, more.namespaces),
            whole_cluster=self.whole_cluster or more.whole_cluster,
            related=_union(self.related, more.related),
            connection=self.connection or more.connection,
            konnector_namespace=self.konnector_namespace or more.konnector_namespace,
        )


def _union(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def home_of(name: str) -> str:
    """Return the name of a consumer's home."""
    return cluster_namespace(name, HOME_PREFIX)


def home_body(name: str) -> JSON:
    """Return the home of a consumer."""
    home = home_of(name)
    metadata = {
        "name": home,
        "labels": {LABEL_CONSUMER: home},
        "annotations": {ANNOTATION_NAME: name},
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def consumer_of(namespace: Object) -> str:
    """Return the name of the consumer that a namespace is the home of; "" for any other."""
    if namespace.meta.labels.get(LABEL_CONSUMER) != namespace.meta.name:
        return ""
    return namespace.meta.annotations.get(ANNOTATION_NAME, "")


def is_home(namespace: Object) -> bool:
    """Whether a namespace is the home of a consumer that was invited by kbind v2."""
    return bool(consumer_of(namespace))


def namespaces_of(namespaces: Iterable[Object], home: str) -> list[Object]:
    """Return the namespaces for a consumer's objects, without its home."""
    return [
        namespace
        for namespace in namespaces
        if namespace.meta.labels.get(LABEL_CONSUMER) == home and namespace.meta.name != home
    ]


def record_body(home: str, invitation: KbindInvitation) -> JSON:
    """Return the ConfigMap that records an invitation."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD_NAME, "namespace": home},
        "data": {_KEY: msgspec.json.encode(invitation).decode()},
    }


def revocation_body(home: str, record: Object | None) -> JSON:
    """Return the ConfigMap of a consumer that is being revoked, by the one that is there.

    What it says else stays as it is, if it can be read at all.
    """
    try:
        invitation = invitation_of(record)
    except msgspec.ValidationError:
        invitation = KbindInvitation()
    body = record_body(home, msgspec.structs.replace(invitation, revoked=True))
    return body if record is None else record.to_dict() | {"data": body["data"]}


def invitation_of(record: Object | None) -> KbindInvitation:
    """Return the invitation that a ConfigMap records; an empty one without a ConfigMap.

    Raises:
        msgspec.ValidationError: it was edited, and is none any more.
    """
    if record is None:
        return KbindInvitation()
    text = record.decode(_Record).data.get(_KEY, "{}")
    try:
        return msgspec.json.decode(text, type=KbindInvitation)
    except msgspec.DecodeError as error:
        raise msgspec.ValidationError(str(error)) from None


def reserved(name: str, *, konnector_namespace: str) -> str:
    """Return why no consumer gets a namespace of this name, "" if one may.

    The konnector's namespace is that in the consumer's cluster: names are the same on both sides.
    """
    if reason := system_reservation(name):
        return reason
    if name == LEASE_NAMESPACE:
        return "it holds the Leases of all consumers"
    if name == DEFAULT_NAMESPACE:
        return "a provider's controllers run in it"
    if name.startswith(HOME_PREFIX):
        return f"names that begin with {HOME_PREFIX} are reserved for the accounts of consumers"
    if name == konnector_namespace:
        return "it has the name of the konnector's own namespace in the consumer's cluster"
    return ""


def foreign(namespace: Object, home: str, clusters: Collection[str]) -> str:
    """Return whose an existing namespace is by its marks, "" if it has no mark of another.

    Args:
        namespace: the namespace, as it is stored.
        home: the home of the consumer that is to get it.
        clusters: uids of clusters that are known to be this consumer's.
    """
    meta = namespace.meta
    if meta.labels.get(LABEL_CONSUMER, home) != home:
        return f"it belongs to the consumer with home {meta.labels[LABEL_CONSUMER]}"
    if identity_of(namespace) or owner_of(namespace) is not None:
        return "it belongs to a consumer of kube-bind.io/v1alpha2"
    uid = meta.labels.get(CONSUMER_CLUSTER_UID) or meta.annotations.get(CONSUMER_CLUSTER_UID)
    if uid and uid not in clusters:
        return f"a konnector of cluster {uid} has created it"
    return ""


class _Record(msgspec.Struct, frozen=True):
    data: dict[str, str] = {}
