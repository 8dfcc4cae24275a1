from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.postgres.commands.accesses import ManifestError, read_manifests


ONE = """
apiVersion: access.k8s.delta10.nl/v1
kind: PostgresAccess
metadata: {name: shop, uid: forged}
spec:
  connection: {serverRef: {name: main}}
  username: shop
  generatedSecret: shop
  grants:
  - {database: shop, on: Tables, names: [t], privileges: [SELECT]}
status: {username: forged}
"""


def test_an_unquoted_on_is_what_an_api_server_makes_of_it() -> None:
    (access,) = read_manifests(ONE.encode(), "team").accesses
    assert access.spec.grants[0].level == "Tables"
    assert str(access.metadata.key) == "team/shop"


def test_what_only_the_server_may_say_is_not_believed() -> None:
    (access,) = read_manifests(ONE.encode(), "team").accesses
    assert (access.metadata.uid, access.status.username) == ("", "")


def test_lists_and_other_kinds() -> None:
    text = f"""
apiVersion: v1
kind: List
items:
- kind: Service
  metadata: {{name: db}}
- {ONE.strip().replace(chr(10), chr(10) + "  ")}
---
---
kind: Secret
"""
    found = read_manifests(text.encode(), "team")
    assert [one.metadata.name for one in found.accesses] == ["shop"]
    assert found.others == ["Service db", "Secret"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "kind: List\nitems: [1]", "lists an item that is not a Kubernetes object", id="list"
        ),
        pytest.param("kind: [1]", "has no kind", id="kind"),
        pytest.param("- 1", "document 1 is not a Kubernetes object", id="sequence"),
        pytest.param("a: 1\n---\nkind: x\n---\n- 2", "document 1 is no", id="first"),
        pytest.param("[" * 80, "levels deep", id="deep"),
        pytest.param("\x01", "it is not valid YAML", id="binary"),
        pytest.param(ONE.replace("{name: shop, uid: forged}", "[]"), "name is missing", id="meta"),
        pytest.param(
            ONE.replace("shop}", "1}").replace("SELECT", "FLY"),
            "'FLY' is not an allowed",
            id="enum",
        ),
        pytest.param(
            ONE.replace("grants:", "grant:"),
            r"document 1: PostgresAccess shop: spec\.grant: .* did you mean grants\?",
            id="unknown",
        ),
        pytest.param(
            ONE.replace("username: shop\n  gen", "username: shop\n  cleanupPolcy: Retain\n  gen"),
            r"spec\.cleanupPolcy: there is no such field; did you mean cleanupPolicy\?",
            id="misspelled",
        ),
        pytest.param(
            ONE.replace("privileges: [", "priviledges: ["),
            r"spec\.grants\[0\]\.priviledges: .* did you mean privileges\?",
            id="in-a-list",
        ),
        pytest.param(
            ONE.replace("uid: forged", "lables: {a: b}"),
            r"metadata\.lables: there is no such field; did you mean labels\?",
            id="metadata",
        ),
    ],
)
def test_what_is_no_manifest_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        read_manifests(text.encode(), "team")


@given(st.binary(max_size=200))
def test_no_bytes_end_it_otherwise(content: bytes) -> None:
    with suppress(ManifestError):
        read_manifests(content, "team")
