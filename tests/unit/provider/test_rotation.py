from __future__ import annotations

import base64
from typing import Any

import pytest

from fairlead.api.kubebind import kubeconfig_digest
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.provider.commands.rotation.reconcile import RotationPlan, missing, reconcile, tells
from fairlead.provider.tokens import TokenSecret, token_secrets


NEW = kubeconfig_digest(b"new")


def tokens(**by_name: str) -> list[TokenSecret]:
    """Secrets by their names, with _ for -, and the tokens in them."""
    found = []
    for name, token in by_name.items():
        annotations = {"kubernetes.io/service-account.name": "kube-binder"}
        found.append(
            object_from_dict(
                {
                    "kind": "Secret",
                    "apiVersion": "v1",
                    "type": "kubernetes.io/service-account-token",
                    "metadata": {"name": name.replace("_", "-"), "annotations": annotations},
                    "data": {"token": base64.b64encode(token.encode()).decode()} if token else {},
                }
            )
        )
    return token_secrets(found)


@pytest.mark.parametrize(
    ("existing", "in_use", "plan"),
    [
        pytest.param(
            tokens(kube_binder="a"), "a", RotationPlan("kube-binder-2", written=False), id="begin"
        ),
        pytest.param(
            tokens(kube_binder="a", kube_binder_2=""),
            "a",
            RotationPlan("kube-binder-2", written=False),
            id="killed before the token was filled in",
        ),
        pytest.param(
            tokens(kube_binder="a", kube_binder_2="b"),
            "a",
            RotationPlan("kube-binder-2", written=False),
            id="killed before it was handed out",
        ),
        pytest.param(
            tokens(kube_binder="a", kube_binder_2="b"),
            "b",
            RotationPlan("kube-binder-2", written=True),
            id="killed before the old one went",
        ),
        pytest.param(
            tokens(kube_binder_2="b"),
            "b",
            RotationPlan("kube-binder-3", written=False),
            id="once more",
        ),
        pytest.param(
            tokens(kube_binder_2="b"),
            "lost",
            RotationPlan("kube-binder-2", written=False),
            id="the token in use is gone",
        ),
        pytest.param(
            [], "lost", RotationPlan("kube-binder", written=False), id="all tokens are gone"
        ),
        pytest.param(
            tokens(kube_binder_token_x="x"),
            "x",
            RotationPlan("kube-binder", written=False),
            id="one that the cluster made",
        ),
        pytest.param(
            tokens(kube_binder_token_x="x", kube_binder="a"),
            "a",
            RotationPlan("kube-binder-2", written=False),
            id="an old cluster's own besides ours",
        ),
    ],
)
def test_a_rotation_goes_on_where_it_ended(
    existing: list[TokenSecret], in_use: str, plan: RotationPlan
) -> None:
    assert reconcile(existing, in_use) == plan


def binding(*conditions: JSON, **status: Any) -> Object:
    spec = {"kubeconfigSecretRef": {"name": "k", "key": "k"}, "providerPrettyName": "us"}
    status = {"conditions": list(conditions), **status}
    return object_from_dict({"metadata": {"name": "cluster"}, "spec": spec, "status": status})


def told(digest: str) -> JSON:
    return {"type": "CredentialsInUse", "status": "True", "message": digest}


REFUSED: JSON = {"type": "SecretValid", "status": "False", "message": "not taken over: no CA"}
BEAT: JSON = {"lastHeartbeatTime": "2026-05-01T12:00:00Z", "konnectorVersion": "v0.8.1"}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        pytest.param(binding(told(NEW), **BEAT), "", id="told"),
        pytest.param(
            binding(told("sha256:old"), **BEAT), "has not reported yet", id="the old ones"
        ),
        pytest.param(binding(told("sha256:old"), REFUSED, **BEAT), "no CA", id="refused"),
        pytest.param(binding(**BEAT), "v0.8.1) does not report", id="one that never tells"),
        pytest.param(binding(), "no konnector has reported", id="never seen"),
        pytest.param(None, "no ClusterBinding", id="not there"),
    ],
)
def test_only_the_digest_of_the_new_kubeconfig_is_proof(
    found: Object | None, message: str
) -> None:
    text = missing(found, NEW)
    assert message in text
    assert bool(text) is bool(message)


def test_who_told_before_will_tell_again() -> None:
    assert tells(binding(told("sha256:old")))
    assert not tells(binding(**BEAT))
    assert not tells(None)
