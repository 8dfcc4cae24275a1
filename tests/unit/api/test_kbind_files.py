"""The objects of a file that binds by kbind v2 are what the CRDs take, without defaults."""

from __future__ import annotations

import msgspec
import pytest

from fairlead.api.kbind import Binding, ClusterBinding, Connection, RelatedResource, SchemaPolicy
from fairlead.api.kbind.files import binding, connection, kubeconfig_secret
from fairlead.api.meta import JSON


def test_a_connection_names_the_secret_that_is_made_for_it() -> None:
    secret = kubeconfig_secret("shop", b"apiVersion: v1", namespace="kube-bind")
    made = connection("shop", namespace="kube-bind")

    assert made["spec"] == {
        "kubeconfigSecretRef": {"namespace": "kube-bind", "name": secret["metadata"]["name"]}
    }
    assert secret["data"] == {"kubeconfig": "YXBpVmVyc2lvbjogdjE="}
    assert msgspec.convert(made, Connection).spec.kubeconfig_secret_ref.key == "kubeconfig"


def test_a_connection_says_what_it_does_otherwise_than_by_default() -> None:
    policy = SchemaPolicy(source="OpenAPI", pull_policy="All")
    made = connection("shop", namespace="x", secret="own", schema=policy, auto_bind=True)

    assert made["spec"] == {
        "kubeconfigSecretRef": {"namespace": "x", "name": "own"},
        "schema": {"source": "OpenAPI", "pullPolicy": "All"},
        "autoBind": True,
    }


@pytest.mark.parametrize(
    ("made", "type_", "kind", "metadata"),
    [
        pytest.param(
            binding("b", ["x.y", "x.y", "z.y"], connection="shop"),
            ClusterBinding,
            "ClusterBinding",
            {"name": "b"},
            id="without a namespace",
        ),
        pytest.param(
            binding("b", ["x.y", "z.y"], connection="shop", namespace="team"),
            Binding,
            "Binding",
            {"name": "b", "namespace": "team"},
            id="of a namespace",
        ),
    ],
)
def test_a_binding_lists_each_api_once(
    made: JSON, type_: type[ClusterBinding | Binding], kind: str, metadata: JSON
) -> None:
    assert (made["kind"], made["metadata"]) == (kind, metadata)
    assert made["spec"] == {
        "connectionRef": {"name": "shop"},
        "apis": [{"name": "x.y"}, {"name": "z.y"}],
    }
    msgspec.convert(made, type_)


def test_a_binding_has_rules_about_related_objects() -> None:
    rule = RelatedResource(resource="secrets", direction="FromProvider")
    made = binding("b", ["x.y"], connection="shop", conflict_policy="Adopt", related=[rule])

    assert made["spec"]["conflictPolicy"] == "Adopt"
    assert made["spec"]["relatedResources"] == [
        {"resource": "secrets", "direction": "FromProvider"}
    ]
