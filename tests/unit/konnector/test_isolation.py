from __future__ import annotations

import msgspec
import pytest

from fairlead.api.meta import Key, OwnerReference
from fairlead.konnector.policies import isolation


CLUSTER_NS = "cluster-abc"
OWNER = OwnerReference("v1", "Namespace", CLUSTER_NS, "ns-uid")
FORWARD = {"shop": "cluster-abc-shop"}
REVERSE = {"cluster-abc-shop": "shop"}


def chosen(scope: str, mode: str) -> isolation.Strategy:
    return isolation.choose(
        scope=scope,
        isolation=mode,
        cluster_namespace=OWNER,
        provider_namespace=lambda name: FORWARD.get(name, ""),
        consumer_namespace=lambda name: REVERSE.get(name, ""),
    )


@pytest.mark.parametrize(
    ("scope", "mode", "kind"),
    [
        pytest.param("Namespaced", "Prefixed", isolation.ServiceNamespaced, id="namespaced-1"),
        pytest.param("Namespaced", "None", isolation.ServiceNamespaced, id="namespaced-2"),
        pytest.param("Cluster", "Prefixed", isolation.Prefixed, id="prefixed"),
        pytest.param("Cluster", "Namespaced", isolation.Namespaced, id="namespaced"),
        pytest.param("Cluster", "None", isolation.Identical, id="none"),
    ],
)
def test_the_strategy_follows_scope_and_isolation(scope: str, mode: str, kind: type) -> None:
    assert isinstance(chosen(scope, mode), kind)


@pytest.mark.parametrize("mode", ["", "prefixed", "Other"])
def test_an_unknown_isolation_is_refused(mode: str) -> None:
    with pytest.raises(ValueError, match="isolation"):
        chosen("Cluster", mode)


@pytest.mark.parametrize(
    ("scope", "mode", "consumer", "provider"),
    [
        pytest.param(
            "Namespaced", "None", Key("shop", "db"), Key("cluster-abc-shop", "db"), id="mapped"
        ),
        pytest.param("Cluster", "None", Key("", "db"), Key("", "db"), id="identical"),
        pytest.param(
            "Cluster", "Prefixed", Key("", "db"), Key("", "cluster-abc-db"), id="prefixed"
        ),
        pytest.param(
            "Cluster",
            "Prefixed",
            Key("", "cluster-abc-db"),
            Key("", "cluster-abc-cluster-abc-db"),
            id="prefix-comes-off-once",
        ),
        pytest.param("Cluster", "Namespaced", Key("", "db"), Key(CLUSTER_NS, "db"), id="own-ns"),
    ],
)
def test_keys_map_there_and_back(scope: str, mode: str, consumer: Key, provider: Key) -> None:
    strategy = chosen(scope, mode)
    assert strategy.to_provider(consumer) == provider
    assert strategy.to_consumer(provider) == consumer


@pytest.mark.parametrize(
    ("scope", "mode", "provider"),
    [
        pytest.param("Namespaced", "None", Key("other-shop", "db"), id="unknown-namespace"),
        pytest.param("Cluster", "Prefixed", Key("", "db"), id="no-prefix"),
        pytest.param("Cluster", "Prefixed", Key("", "cluster-abc-"), id="prefix-alone"),
        pytest.param("Cluster", "Namespaced", Key("elsewhere", "db"), id="other-namespace"),
    ],
)
def test_a_foreign_key_maps_to_nothing(scope: str, mode: str, provider: Key) -> None:
    assert chosen(scope, mode).to_consumer(provider) is None


def test_a_namespace_that_is_not_assigned_yet_maps_to_nothing() -> None:
    assert chosen("Namespaced", "None").to_provider(Key("new", "db")) is None


@pytest.mark.parametrize(
    ("mode", "key", "metadata"),
    [
        pytest.param(
            "Prefixed",
            Key("", "cluster-abc-db"),
            {
                "name": "cluster-abc-db",
                "labels": {"a": "b"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Namespace", "name": CLUSTER_NS, "uid": "ns-uid"}
                ],
            },
            id="prefixed-is-owned-by-the-cluster-namespace",
        ),
        pytest.param(
            "Namespaced",
            Key(CLUSTER_NS, "db"),
            {"name": "db", "namespace": CLUSTER_NS, "labels": {"a": "b"}},
            id="namespaced",
        ),
    ],
)
def test_a_copy_is_placed(mode: str, key: Key, metadata: dict[str, object]) -> None:
    body = {"metadata": {"name": "db", "labels": {"a": "b"}}, "spec": {}}
    owner = chosen("Cluster", mode).owner()
    placed = isolation.place(body, key, msgspec.to_builtins(owner) if owner else None)
    assert placed == {"metadata": metadata, "spec": {}}
    assert body["metadata"] == {"name": "db", "labels": {"a": "b"}}
