"""What a bundle makes of exports and bindings."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.kubebind import APISERVICEEXPORTS, APIServiceBindingBundle
from fairlead.api.kubebind.conditions import KubeBindCondition, false, true
from fairlead.api.meta import JSON, ObjectMeta, OwnerReference
from fairlead.api.resource import Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client import ClientError
from fairlead.client.errors import api_error
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.bundle.controller import MissingExports
from fairlead.konnector.controllers.bundle.reconcile import (
    BundlePlan,
    BundleState,
    reconcile,
    status,
)


NOW = "2026-01-01T00:00:00Z"
OWNER = OwnerReference(
    *("kube-bind.io/v1alpha2", "APIServiceBindingBundle", "all", "uid-1"),
    controller=True,
    block_owner_deletion=True,
)
REF = {"name": "provider", "namespace": "kube-bind", "key": "kubeconfig"}


def bundle(*conditions: KubeBindCondition, deleting: bool = False) -> APIServiceBindingBundle:
    metadata: JSON = {"name": "all", "uid": "uid-1"}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    told = [msgspec.to_builtins(one) for one in conditions]
    body = {
        "metadata": metadata,
        "spec": {"kubeconfigSecretRef": REF},
        "status": {"conditions": told},
    }
    return msgspec.convert(body, APIServiceBindingBundle)


def meta(name: str, owner: OwnerReference | None = OWNER, *, deleting: bool = False) -> ObjectMeta:
    return ObjectMeta(
        name=name,
        uid=f"uid-{name}",
        deletion_timestamp=NOW if deleting else None,
        owner_references=[owner] if owner else [],
    )


def state(*bindings: ObjectMeta, **given: Any) -> BundleState:
    known: dict[str, Any] = {
        "bundle": bundle(),
        "owner": OWNER,
        "secret_valid": true("SecretValid"),
        "exports": {"db": False},
        "bindings": {one.name: one for one in bindings},
    }
    return BundleState(**{**known, **given})


def conditions(given: BundleState, **failures: str) -> dict[str, tuple[str, str, str]]:
    result = status(given, reconcile(given), failures, now=NOW)
    return {one.type: (one.status, one.reason, one.severity) for one in result.conditions}


MINE = meta("db")
ANOTHERS = meta("db", msgspec.structs.replace(OWNER, uid="uid-2"))
ADOPTED = meta("db", msgspec.structs.replace(OWNER, controller=None))


@pytest.mark.parametrize(
    ("given", "made", "deleted", "missing", "foreign"),
    [
        pytest.param(state(), ["db"], [], [], [], id="export-unbound-create"),
        pytest.param(state(MINE), [], [], [], [], id="export-bound-nothing"),
        pytest.param(state(exports={"db": True}), [], [], [], [], id="export-is-going"),
        pytest.param(
            state(MINE, exports={"db": True}), [], [], [], [], id="bound-export-is-going"
        ),
        pytest.param(state(meta("db", None)), [], [], [], ["db"], id="binding-of-nobody"),
        pytest.param(state(ANOTHERS), [], [], [], ["db"], id="binding-of-an-older-bundle"),
        pytest.param(state(ADOPTED), [], [], [], ["db"], id="bundle-is-not-its-controller"),
        pytest.param(state(MINE, exports={}), [], [], ["db"], [], id="export-not-seen-ask"),
        pytest.param(
            state(MINE, exports={}, gone=frozenset({"db"})),
            *([], ["db"], ["db"], []),
            id="export-gone-delete",
        ),
        pytest.param(
            state(MINE, gone=frozenset({"db"})), [], [], [], [], id="export-there-again-keep"
        ),
        pytest.param(
            state(ANOTHERS, exports={}, gone=frozenset({"db"})),
            [],
            [],
            [],
            [],
            id="others-are-kept",
        ),
        pytest.param(
            state(meta("db", deleting=True), exports={}), [], [], [], [], id="binding-is-going"
        ),
        pytest.param(
            state(meta("db", deleting=True)), [], [], [], [], id="binding-goes-made-anew-later"
        ),
        pytest.param(state(waiting=True), [], [], [], [], id="not-known-yet"),
        pytest.param(state(bundle=bundle(deleting=True)), [], [], [], [], id="bundle-is-going"),
        pytest.param(state(exports_error="cut"), [], [], [], [], id="exports-not-listed"),
        pytest.param(
            state(MINE, exports={}, exports_error="cut", gone=frozenset({"db"})),
            *([], [], [], []),
            id="exports-not-listed-keep",
        ),
        pytest.param(state(bindings_error="cut"), [], [], [], [], id="bindings-not-listed"),
    ],
)
def test_bindings(
    given: BundleState, made: list[str], deleted: list[str], missing: list[str], foreign: list[str]
) -> None:
    plan = reconcile(given)
    assert [body["metadata"]["name"] for body in plan.create] == made
    assert [one.name for one in plan.delete] == deleted
    assert plan.missing == missing
    assert plan.foreign == foreign


def test_a_binding_is_owned_and_refers_to_the_bundles_secret() -> None:
    (body,) = reconcile(state()).create
    assert body == {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceBinding",
        "metadata": {
            "name": "db",
            "ownerReferences": [
                {
                    "apiVersion": "kube-bind.io/v1alpha2",
                    "kind": "APIServiceBindingBundle",
                    "name": "all",
                    "uid": "uid-1",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"kubeconfigSecretRef": REF},
    }


BROKEN = false("SecretValid", "KubeconfigSecretNotFound", "m")
HOLDS = ("True", "", "")


@pytest.mark.parametrize(
    ("given", "synced", "ready"),
    [
        pytest.param(state(MINE), HOLDS, HOLDS, id="all-well"),
        pytest.param(
            state(secret_valid=BROKEN),
            ("False", "ProviderClientError", "Error"),
            ("False", "KubeconfigSecretNotFound", "Error"),
            id="secret-broken",
        ),
        pytest.param(
            state(client_error="no way", waiting=True),
            ("False", "ProviderClientError", "Error"),
            ("False", "ProviderClientError", "Error"),
            id="no-connection",
        ),
        pytest.param(
            state(exports_error="forbidden", waiting=True),
            ("False", "ListExportsFailed", "Error"),
            ("False", "ListExportsFailed", "Error"),
            id="exports-not-listed",
        ),
        pytest.param(
            state(bindings_error="forbidden"),
            ("False", "ListBindingsFailed", "Error"),
            ("False", "ListBindingsFailed", "Error"),
            id="bindings-not-listed",
        ),
        pytest.param(
            state(ANOTHERS),
            ("False", "SyncErrors", "Warning"),
            ("False", "SyncErrors", "Warning"),
            id="foreign-binding",
        ),
        pytest.param(state(waiting=True), None, HOLDS, id="not-known-yet"),
    ],
)
def test_conditions(
    given: BundleState, synced: tuple[str, str, str] | None, ready: tuple[str, str, str]
) -> None:
    found = conditions(given)
    assert found.get("Synced") == synced
    assert found["Ready"] == ready


def test_what_is_not_known_yet_leaves_what_was_said() -> None:
    before = false("Synced", "ListExportsFailed", "m")
    found = conditions(state(bundle=bundle(before), waiting=True))
    assert found["Synced"] == ("False", "ListExportsFailed", "Error")


def test_a_provider_gets_so_many_bindings_and_no_more() -> None:
    given = state(meta("e001"), exports={f"e{n:03}": False for n in range(bounds.BINDINGS + 3)})
    plan = reconcile(given)
    assert len(plan.create) == bounds.BINDINGS - 1
    assert plan.beyond == ["e100", "e101", "e102"]
    (synced,) = [
        one for one in status(given, plan, {}, now=NOW).conditions if one.type == "Synced"
    ]
    assert synced.message.startswith(
        "3 errors: APIServiceExport e100 is not bound, since a bundle"
    )


def test_errors_are_counted_and_the_first_are_named() -> None:
    failures = {name: f"{name} failed" for name in ("a", "b", "c")}
    result = status(state(ANOTHERS), BundlePlan(foreign=["db"]), failures, now=NOW)
    (synced,) = [one for one in result.conditions if one.type == "Synced"]
    assert synced.message == "4 errors: a failed; b failed; c failed; and 1 more"


class Answers:
    """A provider that answers looks in turn."""

    namespace = "cluster-abc"

    def __init__(self, *answers: str, tie: str = "there") -> None:
        self.client = self
        self.asked = 0
        self._answers = list(answers)
        self._tie = tie

    async def get(self, resource: Resource, name: str, _namespace: str) -> Any:
        if resource != APISERVICEEXPORTS:
            return self._answer(self._tie, name)
        self.asked += 1
        return self._answer(self._answers.pop(0), name)

    def _answer(self, answer: str, name: str) -> Any:
        gone = Status("Failure", "not found", "NotFound", 404, StatusDetails(name=name))
        match answer:
            case "gone":
                raise api_error(gone)
            case "forbidden":
                raise api_error(msgspec.structs.replace(gone, reason="Forbidden", code=403))
            case "kind-gone":
                raise api_error(Status("Failure", "no such kind", "NotFound", 404))
            case "going":
                return cast("Any", type("", (), {"meta": meta(name, deleting=True)}))
        return cast("Any", type("", (), {"meta": meta(name)}))


async def looks(absence: MissingExports, provider: Answers, times: int) -> list[bool | str]:
    result: list[bool | str] = []
    for _ in range(times):
        try:
            result.append(await absence.confirmed(cast("Provider", provider), "db"))
        except ClientError as error:
            result.append(type(error).__name__)
    return result


@pytest.mark.parametrize(
    ("answers", "tie", "found"),
    [
        pytest.param(["gone", "gone"], "there", [False, True], id="twice"),
        pytest.param(["gone", "there", "gone"], "there", [False, False, False], id="not-in-a-row"),
        pytest.param(
            ["gone", "forbidden", "gone"], "there", [False, "Forbidden", False], id="forbidden"
        ),
        pytest.param(
            ["gone", "kind-gone", "gone"], "there", [False, "NotFound", False], id="of-the-kind"
        ),
        pytest.param(["gone", "gone"], "going", [False, False], id="everything-goes"),
        pytest.param(["gone", "gone"], "gone", ["NotFound", "NotFound"], id="all-is-gone"),
    ],
)
async def test_an_export_is_gone_when_the_provider_says_so_twice(
    answers: list[str], tie: str, found: list[bool | str]
) -> None:
    provider = Answers(*answers, tie=tie)
    assert await looks(MissingExports(0.0), provider, len(answers)) == found


async def test_looks_that_follow_at_once_are_one() -> None:
    provider = Answers("gone")
    assert await looks(MissingExports(60.0), provider, 3) == [False, False, False]
    assert provider.asked == 1


async def test_the_first_look_counts_whatever_the_clock_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of such a time 0.2 cannot be taken and given back: the sum is less."""
    now = 40000.3
    assert now - (now - 0.2) < 0.2
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: SimpleNamespace(time=lambda: now))
    provider = Answers("gone")
    assert await looks(MissingExports(0.2), provider, 2) == [False, False]
    assert provider.asked == 1


async def test_an_export_that_was_seen_meanwhile_begins_anew() -> None:
    provider, absence = Answers("gone", "gone", "gone"), MissingExports(0.0)
    assert await looks(absence, provider, 1) == [False]
    absence.keep([])
    assert await looks(absence, provider, 2) == [False, True]
