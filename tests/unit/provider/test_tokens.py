from __future__ import annotations

import base64

import pytest

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.client import ClusterConfig
from fairlead.provider.credentials import as_before
from fairlead.provider.options import InviteOptions
from fairlead.provider.tokens import chosen_token, next_name, token_secrets


def secret(name: str, token: str = "t", *, account: str = "kube-binder", **extra: str) -> Object:
    metadata: JSON = {
        "name": name,
        "annotations": {"kubernetes.io/service-account.name": account},
        **({"deletionTimestamp": extra["deleted"]} if "deleted" in extra else {}),
    }
    data = {"token": base64.b64encode(token.encode()).decode()} if token else {}
    kind = extra.get("type", "kubernetes.io/service-account-token")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    return object_from_dict(body)


def names(*secrets: Object) -> list[str]:
    return [one.name for one in token_secrets(secrets)]


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        pytest.param([], [], id="none"),
        pytest.param(
            [secret("kube-binder-10"), secret("kube-binder-2"), secret("kube-binder")],
            ["kube-binder", "kube-binder-2", "kube-binder-10"],
            id="by number, not by letters",
        ),
        pytest.param(
            [secret("kube-binder"), secret("kube-binder-token-x7f2p")],
            ["kube-binder-token-x7f2p", "kube-binder"],
            id="one that the cluster made is older than all",
        ),
        pytest.param([secret("kube-binder", account="default")], [], id="another account's"),
        pytest.param([secret("kube-binder", type="Opaque")], [], id="no token"),
        pytest.param([secret("kube-binder", deleted="2026-01-01T00:00:00Z")], [], id="going"),
    ],
)
def test_tokens_are_in_the_order_of_their_generations(
    secrets: list[Object], expected: list[str]
) -> None:
    assert names(*secrets) == expected


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        pytest.param([], "kube-binder", id="the first has kube-bind's name"),
        pytest.param([secret("kube-binder")], "kube-binder-2", id="second"),
        pytest.param([secret("kube-binder-9")], "kube-binder-10", id="after a rotation"),
        pytest.param([secret("by-hand")], "kube-binder", id="besides one made by hand"),
    ],
)
def test_the_next_token_has_the_next_number(secrets: list[Object], expected: str) -> None:
    assert next_name(token_secrets(secrets)) == expected


@pytest.mark.parametrize(
    ("in_use", "expected"),
    [
        pytest.param("old", "kube-binder", id="the one in use, though there is a newer one"),
        pytest.param("new", "kube-binder-2", id="the new one once it is in use"),
        pytest.param("dead", "kube-binder-2", id="the newest when that in use is gone"),
        pytest.param("", "kube-binder-2", id="the newest when none is in use"),
    ],
)
def test_inviting_again_hands_out_the_token_in_use(in_use: str, expected: str) -> None:
    existing = token_secrets([secret("kube-binder-2", "new"), secret("kube-binder", "old")])
    chosen = chosen_token(existing, in_use)
    assert chosen is not None
    assert chosen.name == expected
    assert chosen_token([], in_use) is None
    assert chosen_token(token_secrets([secret("kube-binder-token-x7f2p")]), in_use) is None


STORED = ClusterConfig(
    server="https://out:6443", certificate_authority=b"ca", tls_server_name="inner"
)
BEFORE = {
    "external_address": "https://out:6443",
    "external_ca": b"ca",
    "external_server_name": "inner",
}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        pytest.param({}, BEFORE, id="nothing said"),
        pytest.param({"external_address": "https://out:6443"}, BEFORE, id="the same said"),
        pytest.param(
            {"external_address": "https://new"}, {"external_address": "https://new"}, id="moved"
        ),
        pytest.param(
            {"external_ca": b"renewed"}, BEFORE | {"external_ca": b"renewed"}, id="renewed CA"
        ),
        pytest.param(
            {"external_server_name": "outer"},
            BEFORE | {"external_server_name": "outer"},
            id="another name",
        ),
    ],
)
def test_what_is_not_said_stays_as_it_was(said: JSON, expected: JSON) -> None:
    assert as_before(InviteOptions(**said), STORED) == InviteOptions(**expected)
    assert as_before(InviteOptions(**said), None) == InviteOptions(**said)
