from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from tests.support.kubebind import NOW, conditions, kube

from fairlead.api.meta import Object, ObjectMeta, object_from_dict
from fairlead.provider.controllers.namespace.departure import synced
from fairlead.provider.controllers.namespace.leaving import Leaving, LeavingPlan, Remains, leave
from fairlead.provider.controllers.namespace.reconcile import heir, leaving_status


NOTHING = Remains()
TWO = Remains(names=["widgets.example.org blue", "widgets.example.org red"])
MANY = Remains(names=[f"widgets.example.org w{number}" for number in range(5)], more=True)
UNSEEN = Remains(refused=["the provider may not list gadgets.example.org"])
BOTH = Remains(names=TWO.names, refused=UNSEEN.refused)


def namespace(name: str = "abc-shop") -> Object:
    return object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


SHOP = namespace()


@pytest.mark.parametrize(
    ("found", "deleted", "reason", "announced"),
    [
        pytest.param([], 0, "", "abc-shop", id="gone, or never there, or not ours"),
        pytest.param([(SHOP, NOTHING)], 1, "NamespaceTerminating", "", id="empty"),
        pytest.param([(SHOP, NOTHING, True)], 0, "NamespaceTerminating", "", id="empty and open"),
        pytest.param([(SHOP, None)], 0, "NamespaceTerminating", "", id="going"),
        pytest.param([(SHOP, TWO, True)], 0, "ObjectsRemain", "abc-shop", id="in use"),
        pytest.param([(SHOP, TWO)], 0, "ObjectsRemain", "abc-shop", id="objects remain"),
        pytest.param([(SHOP, UNSEEN)], 0, "ObjectsUnknown", "abc-shop", id="nobody could look"),
        pytest.param([(SHOP, BOTH)], 0, "ObjectsRemain", "abc-shop", id="some could be seen"),
        pytest.param(
            [(SHOP, NOTHING), (namespace("kept"), TWO)],
            1,
            "ObjectsRemain",
            "kept",
            id="one of two stays",
        ),
    ],
)
def test_a_namespace_goes_when_nothing_remains_in_it(
    found: Sequence[tuple[Object, Remains | None, bool]], deleted: int, reason: str, announced: str
) -> None:
    plan = leave([Leaving(*one) for one in found])
    assert len(plan.delete) == deleted
    assert plan.done is (not found)
    stored = kube("APIServiceNamespace", "shop", status={"namespace": "abc-shop"})
    body = leaving_status(stored, plan, now=NOW)
    if body is None:
        assert reason == ""
        return
    assert body["status"].get("namespace", "") == announced
    assert conditions(body)["NamespaceReady"]["reason"] == reason


def test_a_namespace_that_another_export_goes_on_with_stays() -> None:
    assert leave([Leaving(SHOP, NOTHING)], keep=True) == LeavingPlan(
        retained=["abc-shop"], done=True
    )
    assert not leave([Leaving(SHOP, NOTHING, open=True)], keep=True).done
    assert not leave([Leaving(SHOP, NOTHING), Leaving(namespace("b"), TWO)], keep=True).done


def exported(name: str, uid: str = "", **metadata: Any) -> Object:
    return kube("APIServiceExport", name, uid=uid or f"uid-{name}", **metadata)


def collected(*owners: Object) -> Object:
    references = [msgspec.to_builtins(owner.owner_reference()) for owner in owners]
    return kube("APIServiceNamespace", "shop", ownerReferences=references)


OLDER = exported("widgets", "uid-older")
WIDGETS, GADGETS = exported("widgets"), exported("gadgets")


@pytest.mark.parametrize(
    ("gone", "exports", "expected"),
    [
        pytest.param(collected(OLDER), [WIDGETS], "widgets", id="exported anew"),
        pytest.param(collected(WIDGETS), [GADGETS], "gadgets", id="exported by another"),
        pytest.param(collected(OLDER), [], None, id="exported no more"),
        pytest.param(
            collected(OLDER), [exported("widgets", deletionTimestamp=NOW)], None, id="going"
        ),
        pytest.param(collected(WIDGETS), [WIDGETS, GADGETS], None, id="deleted for itself"),
        pytest.param(collected(), [WIDGETS], None, id="nobody's"),
        pytest.param(None, [WIDGETS, GADGETS], "gadgets", id="gone"),
    ],
)
def test_another_export_goes_on_with_what_one_has_left(
    gone: Object | None, exports: list[Object], expected: str | None
) -> None:
    found = heir(gone, exports)
    assert (found and found.meta.name) == expected


@pytest.mark.parametrize(
    ("remains", "texts"),
    [
        (TWO, ["abc-shop is kept", "(2: widgets.example.org blue, widgets.example.org red):"]),
        (MANY, ["at least 5", "w0, widgets.example.org w1, widgets.example.org w2, ...)"]),
        (UNSEEN, ["may not list gadgets.example.org", "fairlead manifests provider --export"]),
    ],
)
def test_it_is_told_what_keeps_it(remains: Remains, texts: list[str]) -> None:
    ((kept, condition),) = leave([Leaving(SHOP, remains)]).staying
    assert kept is SHOP
    assert condition.severity == ("Warning" if remains.refused else "Info")
    for text in texts:
        assert text in condition.message


def test_nothing_found_is_nothing_to_wait_for() -> None:
    assert leave([]) == LeavingPlan(done=True)


OURS = {"kube-bind.io/cluster-namespace": "abc"}
COPIED = {"kube-bind.io/consumer-uid": "u"}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param(OURS | COPIED, True, id="a copy"),
        pytest.param(OURS, True, id="a copy of an older version"),
        pytest.param(COPIED, True, id="an orphan"),
        pytest.param({"kube-bind.io/cluster-namespace": "other"} | COPIED, False, id="another's"),
        pytest.param({}, False, id="the provider's own"),
    ],
)
def test_what_counts_as_synced(annotations: dict[str, str], *, expected: bool) -> None:
    assert synced(ObjectMeta(name="blue", annotations=annotations), "abc") is expected
