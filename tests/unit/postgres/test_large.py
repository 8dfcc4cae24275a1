"""The cache keeps little of a large PostgresAccess, and what decisions about others need."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest

from fairlead.api.kbind.names import COPY_MARKS
from fairlead.api.meta import JSON, Object, decode_object
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    END_SESSIONS_ANNOTATION,
    FINALIZER,
    ROTATE_ANNOTATION,
    PostgresAccess,
)
from fairlead.postgres import bounds
from fairlead.postgres.controllers.large import cached, is_stub, secret_metadata, without_unread
from fairlead.postgres.controllers.rules.desired import decode_access, names_of
from fairlead.postgres.controllers.rules.rotation import mark_of
from fairlead.postgres.controllers.watches import condition_of, server_of
from fairlead.runtime.cache.store import Store


NAMES = [{"database": f"d{one}", "names": ["x" * 500] * 128} for one in range(20)]
HUGE: dict[str, JSON] = {
    "labels": {"labels": {f"label{one}": "" for one in range(20_000)}},
    "owners": {
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": str(one)}
            for one in range(8_000)
        ]
    },
    "annotations": {"annotations": {"note": "x" * 250_000}},
    "finalizers": {"finalizers": [f"f{one}/x" for one in range(30_000)]},
    "approval": {"annotations": {APPROVE_ANNOTATION: "x" * 250_000}},
    "writers": {"managedFields": [{"manager": "x" * 100} for _ in range(3_000)]},
}


def access(name: str = "app", *, spec: JSON | None = None, **metadata: object) -> Object:
    body: JSON = {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresAccess",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 3,
            **metadata,
        },
        "spec": {
            "connection": {"serverRef": {"name": "main"}},
            "username": "app",
            "generatedSecret": "app-login",
            "passwordPolicy": {"rotation": "TwoLogins"},
            **(spec or {}),
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "Success"}],
            "observedGeneration": 3,
            "logins": [{"name": "app_a", "current": True}],
            "server": {"systemIdentifier": "42"},
        },
    }
    return decode_object(json.dumps(body).encode())


LARGE = access(spec={"grants": NAMES})


@pytest.mark.parametrize(
    "huge",
    [
        *(pytest.param({"metadata": one}, id=name) for name, one in HUGE.items()),
        pytest.param({"spec": {"grants": NAMES}}, id="spec"),
        pytest.param({"spec": {"grants": "x" * 1_000_000}}, id="unreadable"),
    ],
)
def test_a_store_holds_little_of_each_large_access(huge: dict[str, JSON]) -> None:
    raw = access(spec=huge.get("spec"), **huge.get("metadata", {})).raw
    count, store = 8, Store()
    tracemalloc.start()
    try:
        for one in range(count):
            store.put(cached(decode_object(raw.replace(b'"app"', b'"app%d"' % one))))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(raw) > 5 * bounds.LARGE_BYTES
    assert len(store) == count
    assert held < count * bounds.LARGE_BYTES


def secret(**metadata: object) -> Object:
    meta = {"name": "app-login", "namespace": "team", "uid": "u", "resourceVersion": "7"}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta | metadata}
    return decode_object(json.dumps(body).encode())


OWNER: JSON = {
    "apiVersion": "access.k8s.delta10.nl/v1",
    "kind": "PostgresAccess",
    "name": "app",
    "uid": "uid-app",
    "controller": True,
}


@pytest.mark.parametrize(
    "metadata",
    [
        *(pytest.param(one, id=name) for name, one in HUGE.items()),
        pytest.param({"ownerReferences": [{**OWNER, "uid": "x" * 250_000}]}, id="uid"),
        pytest.param({"ownerReferences": [OWNER] * 5_000}, id="accesses"),
    ],
)
def test_a_store_holds_little_of_each_secret(metadata: JSON) -> None:
    raw = secret(**metadata).raw
    count, store = 8, Store()
    tracemalloc.start()
    try:
        for one in range(count):
            store.put(secret_metadata(decode_object(raw.replace(b"app-login", b"app%d" % one))))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(store) == count
    assert held < count * 8192


def test_of_a_secret_is_kept_to_which_access_it_belongs_and_its_rotation() -> None:
    found = secret(
        annotations={ROTATE_ANNOTATION: "now", "note": "x"},
        ownerReferences=[*HUGE["owners"]["ownerReferences"][:3], OWNER],
    )
    kept = secret_metadata(found).meta
    assert kept.controller() == found.meta.controller()
    assert kept.owned_by("uid-app")
    assert mark_of(kept) == "now"
    assert (kept.name, kept.uid, kept.resource_version) == ("app-login", "u", "7")


def test_an_access_nested_too_deeply_is_a_stub() -> None:
    deep = b'{"connection":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}"
    raw = msgspec.json.decode(access().raw, type=dict[str, msgspec.Raw])
    parts = b",".join(b'"%s":%s' % (name.encode(), bytes(part)) for name, part in raw.items())
    found = decode_object(b"{" + parts + b',"status":' + deep + b"}")
    assert is_stub(cached(found))


def test_an_ordinary_access_is_kept_as_it_is() -> None:
    found = access(labels={"a": "b"}, annotations={"note": "x"})
    assert cached(found) is found
    assert without_unread(found) is found


@pytest.mark.parametrize("name", ["labels", "owners", "annotations", "writers"])
def test_metadata_that_nothing_reads_makes_no_stub(name: str) -> None:
    found = access(finalizers=[FINALIZER], **HUGE[name])
    kept = cached(found)
    assert not is_stub(kept)
    assert kept.meta.finalizers == [FINALIZER]
    assert kept.decode(PostgresAccess).spec == found.decode(PostgresAccess).spec
    assert kept.decode(PostgresAccess).status == found.decode(PostgresAccess).status


def test_a_stub_says_what_decisions_about_other_objects_need() -> None:
    kept = cached(LARGE)
    assert is_stub(kept)
    whole, stub = decode_access(LARGE), decode_access(kept)
    assert (server_of(kept), condition_of(kept)) == (server_of(LARGE), condition_of(LARGE))
    assert names_of(stub) == names_of(whole) == ("app", "app_a", "app_b")
    assert stub.status.server == whole.status.server
    assert stub.status.observed_generation == kept.meta.generation == 3
    fixed = ("name", "namespace", "uid", "resource_version", "generation")
    assert [getattr(kept.meta, one) for one in fixed] == [
        getattr(LARGE.meta, one) for one in fixed
    ]


@pytest.mark.parametrize(
    ("metadata", "is_news"),
    [
        ({"annotations": {ROTATE_ANNOTATION: "now"}}, True),
        ({"annotations": {END_SESSIONS_ANNOTATION: "now"}}, True),
        ({"finalizers": [FINALIZER]}, True),
        ({"annotations": {"note": "x"}}, False),
        ({"labels": {"team": "x"}}, False),
    ],
)
def test_a_stub_changes_with_what_calls_for_a_pass(metadata: JSON, is_news: bool) -> None:
    changed = cached(access(spec={"grants": NAMES}, **metadata)).meta
    before = cached(LARGE).meta
    assert (changed.annotations != before.annotations) is is_news


def test_the_stub_of_what_a_pass_has_read_is_that_of_the_cache() -> None:
    found = access(
        spec={"grants": NAMES},
        finalizers=[FINALIZER],
        annotations={"note": "x" * 1000, ROTATE_ANNOTATION: "now"},
        **HUGE["owners"],
    )
    kept = cached(found)
    assert cached(without_unread(found)) == kept
    assert cached(kept) is kept


def test_a_pass_over_a_large_access_has_all_that_it_reads() -> None:
    names = (
        ABANDON_ANNOTATION,
        *COPY_MARKS,
        APPROVE_ANNOTATION,
        END_SESSIONS_ANNOTATION,
        ROTATE_ANNOTATION,
    )
    found = access(
        spec={"grants": NAMES},
        finalizers=[FINALIZER, "other/one"],
        annotations=dict.fromkeys(names, "x"),
        labels={"a": "b"},
    )
    read = without_unread(found)
    assert read.meta.finalizers == found.meta.finalizers
    assert read.meta.annotations == found.meta.annotations
    assert read.decode(PostgresAccess).spec == found.decode(PostgresAccess).spec
    assert read.to_dict()["status"] == found.to_dict()["status"]
