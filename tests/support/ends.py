"""Both ends of ConfigMaps, on servers that a test makes up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from fairlead.api.meta import OwnerReference
from fairlead.api.resource import CONFIGMAPS
from fairlead.konnector.policies.bound import BoundPolicy
from fairlead.konnector.policies.isolation import Namespaced
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.sync.ends import EVERYWHERE, BothEnds, Executor, WatchedCollection


EXPORT = OwnerReference("kube-bind.io/v1alpha2", "APIServiceExport", "db", "export-1")
POLICY = BoundPolicy(cluster_namespace="abc")


def both_ends(consumer: Any, provider: Any) -> BothEnds:
    """The ends on two servers."""
    silent = SimpleNamespace(subscribe=lambda _: None)
    return BothEnds(
        consumer=_collection("consumer", consumer),
        provider=_collection("provider", provider),
        strategy=Namespaced("abc"),
        namespaces=ServiceNamespaces(provider, cast("Any", silent), "abc"),
        export=EXPORT,
    )


def executor(consumer: Any, provider: Any) -> Executor:
    """What carries out steps on two servers; outcomes are those of bound objects."""
    return Executor(both_ends(consumer, provider), POLICY.outcome)


def _collection(side: Any, client: Any) -> WatchedCollection:
    cluster = cast("Any", SimpleNamespace(client=client))
    return WatchedCollection(side, cluster, CONFIGMAPS, lambda: EVERYWHERE)
