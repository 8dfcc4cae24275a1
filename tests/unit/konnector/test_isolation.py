from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.meta import Key, OwnerReference, object_from_dict
from fairlead.konnector.policies import isolation
from fairlead.konnector.policies.copies import put_at
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.runtime import Delta


CLUSTER_NS = "cluster-abc"
OWNER = OwnerReference("v1", "Namespace", CLUSTER_NS, "ns-uid")
TAKEN = [{"type": "NamespaceReady", "status": "False", "severity": "Error", "message": "taken"}]


def namespaces() -> ServiceNamespaces:
    """One namespace has its counterpart, one waits for it and one is refused."""
    known = {
        name: object_from_dict(
            {
                "apiVersion": "kube-bind.io/v1alpha2",
                "kind": "APIServiceNamespace",
                "metadata": {"name": name, "namespace": CLUSTER_NS},
                "status": status,
            }
        )
        for name, status in {
            "shop": {"namespace": "cluster-abc-shop"},
            "late": {},
            "taken": {"conditions": TAKEN},
        }.items()
    }
    handlers: list[Any] = []
    informer = SimpleNamespace(
        subscribe=handlers.append, get=lambda _namespace, name: known.get(name)
    )
    made = ServiceNamespaces(cast("Any", None), cast("Any", informer), CLUSTER_NS)
    for obj in known.values():
        handlers[0](Delta("ADDED", None, obj))
    return made


def chosen(scope: str, mode: str) -> isolation.IsolationStrategy:
    return isolation.choose(
        scope=scope,
        isolation=mode,
        cluster_namespace=OWNER,
        namespaces=namespaces(),
    )


@pytest.mark.parametrize(
    ("scope", "mode", "kind"),
    [
        pytest.param("Namespaced", "Prefixed", ServiceNamespaces, id="namespaced-1"),
        pytest.param("Namespaced", "None", ServiceNamespaces, id="namespaced-2"),
        pytest.param("Cluster", "Prefixed", isolation.Prefixed, id="prefixed"),
        pytest.param("Cluster", "Namespaced", isolation.Namespaced, id="namespaced"),
        pytest.param("Cluster", "None", isolation.Prefixed, id="none"),
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
    assert strategy.place(consumer) == (provider, True, "")
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


@pytest.mark.parametrize(
    ("namespace", "asked", "refusal"),
    [
        pytest.param("new", False, "", id="new"),
        pytest.param("late", True, "", id="asked"),
        pytest.param("taken", True, "taken", id="refused"),
    ],
)
def test_a_namespace_without_a_counterpart_has_no_place(
    namespace: str, asked: bool, refusal: str
) -> None:
    assert chosen("Namespaced", "None").place(Key(namespace, "db")) == (None, asked, refusal)


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
    placed = put_at(body, key, msgspec.to_builtins(chosen("Cluster", mode).owner))
    assert placed == {"metadata": metadata, "spec": {}}
    assert body["metadata"] == {"name": "db", "labels": {"a": "b"}}
