"""Provider namespaces by the consumer's namespaces that they are assigned to."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    APIServiceNamespace,
)
from fairlead.api.kubebind.conditions import NAMESPACE_READY, KubeBindCondition, get_condition
from fairlead.api.meta import Key, Object, OwnerReference, Undecodable
from fairlead.client import Client
from fairlead.client.errors import AlreadyExists
from fairlead.client.lookups import find
from fairlead.konnector.policies.isolation import CopyPlace
from fairlead.runtime import Delta, Informer


Listener = Callable[[str, str], None]
"""Called with a consumer namespace and its provider namespace, "" without one.

Called also when the provider says for another reason than before why it has none.
"""


class ServiceNamespaces:
    """Maps keys between the consumer's namespaces and those that the provider has assigned.

    The informer of APIServiceNamespaces keeps it up to date. It is the isolation strategy of
    namespaced objects, whose copies are deleted with their namespaces.
    """

    needs_namespace = True
    owner = None

    def __init__(self, client: Client, informer: Informer, cluster_namespace: str) -> None:
        self._client = client
        self._informer = informer
        self._cluster_namespace = cluster_namespace
        self._forward: dict[str, str] = {}
        self._reverse: dict[str, str] = {}
        self._refusals: dict[str, str] = {}
        self._listeners: list[Listener] = []
        self._asking: set[str] = set()
        informer.subscribe(self._take)

    @property
    def informer(self) -> Informer:
        """The lease that feeds the mapping."""
        return self._informer

    def get(self, namespace: str) -> Object | None:
        """Return the APIServiceNamespace for a consumer namespace."""
        return self._informer.get(self._cluster_namespace, namespace)

    @property
    def has_synced(self) -> bool:
        """Whether the mapping is complete."""
        return self._informer.has_synced

    async def synced(self) -> None:
        """Wait until the mapping is complete."""
        await self._informer.synced()

    def place(self, key: Key) -> CopyPlace:
        """Return the same name in the namespace that the provider has assigned."""
        if assigned := self._forward.get(key.namespace):
            return CopyPlace(Key(assigned, key.name))
        return CopyPlace(
            None, self.is_requested(key.namespace), self._refusals.get(key.namespace, "")
        )

    def to_consumer(self, key: Key) -> Key | None:
        """Return the consumer's key; None for a namespace of another consumer."""
        namespace = self._reverse.get(key.namespace)
        return Key(namespace, key.name) if namespace else None

    def provider(self, namespace: str) -> str:
        """Return the provider namespace for a consumer namespace, "" if none is assigned."""
        return self._forward.get(namespace, "")

    def consumer(self, namespace: str) -> str:
        """Return the consumer namespace for a provider namespace, "" if it is none of ours."""
        return self._reverse.get(namespace, "")

    def assigned(self) -> dict[str, str]:
        """Return the provider namespaces by their consumer namespaces."""
        return dict(self._forward)

    def is_requested(self, namespace: str) -> bool:
        """Whether there is an APIServiceNamespace, or one is being created."""
        if namespace in self._asking:
            return True
        service_namespace = self._informer.get(self._cluster_namespace, namespace)
        return service_namespace is not None and not service_namespace.meta.deleting

    async def gone(self, namespace: str) -> bool:
        """Whether the provider itself says that there is no APIServiceNamespace.

        Raises:
            ClientError: the provider gave no answer.
        """
        service_namespace = await find(
            self._client, APISERVICENAMESPACES, namespace, self._cluster_namespace
        )
        return service_namespace is None

    def listen(self, listener: Listener) -> None:
        """Call the listener for each assignment, then for every change."""
        for consumer, provider in self._forward.items():
            listener(consumer, provider)
        self._listeners.append(listener)

    def unlisten(self, listener: Listener) -> None:
        """Call the listener no more."""
        self._listeners.remove(listener)

    async def ask(self, namespace: str, export: OwnerReference) -> None:
        """Create the APIServiceNamespace; an existing one is accepted.

        Nothing is asked for an export that the provider has no more: what it owns is collected
        at once, and its end would have us ask again for as long as the watch of exports is late.

        Raises:
            ClientError: the provider refused it or cannot be reached.
        """
        body = {
            "apiVersion": API_VERSION,
            "kind": APISERVICENAMESPACES.kind,
            "metadata": {
                "name": namespace,
                "namespace": self._cluster_namespace,
                "ownerReferences": [msgspec.to_builtins(export)],
            },
            "spec": {},
        }
        # Many objects of one namespace are looked at together: the first one asks, the others wait
        # for the event that assigns the namespace.
        self._asking.add(namespace)
        try:
            owner = await find(
                self._client, APISERVICEEXPORTS, export.name, self._cluster_namespace
            )
            if owner is None or owner.meta.uid != export.uid:
                return
            await self._client.create(APISERVICENAMESPACES, body, self._cluster_namespace)
        except AlreadyExists:
            # Between the answer to the first request and its event, another object may ask.
            return
        finally:
            self._asking.discard(namespace)

    def _take(self, delta: Delta) -> None:
        consumer = delta.object.meta.name
        assigned = _assigned(delta.new)
        former = self._forward.get(consumer, "")
        refusal = "" if assigned else refusal_of(delta.new)
        refused = self._refusals.get(consumer, "")
        # A deletion is reported in any case: an object that waits for an assignment has to ask
        # again.
        if (assigned, refusal) == (former, refused) and delta.new is not None:
            return
        if refusal:
            self._refusals[consumer] = refusal
        else:
            self._refusals.pop(consumer, None)
        # The provider namespace of before is none of ours any more, if it was another one.
        self._reverse.pop(former, None)
        if assigned:
            self._forward[consumer] = assigned
            self._reverse[assigned] = consumer
        else:
            self._forward.pop(consumer, None)
        for listener in list(self._listeners):
            listener(consumer, assigned)


def _assigned(obj: Object | None) -> str:
    parsed = obj.try_decode(APIServiceNamespace) if obj is not None else None
    return parsed.status.namespace if parsed is not None else ""


def refusal_of(obj: Object | None) -> str:
    """Return why an APIServiceNamespace gets no namespace; "" also while it is under way."""
    if obj is None:
        return ""
    try:
        condition = _unready(obj)
    except Undecodable as error:
        return error.message
    return condition.message if condition is not None and condition.severity == "Error" else ""


def delay_of(obj: Object) -> KubeBindCondition | None:
    """Return what an APIServiceNamespace waits for; None if it is refused or has a namespace."""
    try:
        condition = _unready(obj)
    except Undecodable:
        return None
    return condition if condition is not None and condition.severity != "Error" else None


def _unready(obj: Object) -> KubeBindCondition | None:
    conditions = obj.decode(APIServiceNamespace).status.conditions
    condition = get_condition(conditions, NAMESPACE_READY)
    return condition if condition is not None and condition.status == "False" else None
