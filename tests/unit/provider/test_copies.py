from __future__ import annotations

import pytest
from tests.support.kubebind import export, resource

from fairlead.api.meta import JSON, Object, ObjectMeta, object_from_dict
from fairlead.api.resource import Resource
from fairlead.provider.copies import places


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")
GAUGES = Resource("example.org", "v1", "gauges", "Gauge", namespaced=False)
SHOP, ZOO = "kube-bind-abc", "kube-bind-zoo"


def namespace(name: str, **annotations: str) -> Object:
    keys = {
        "identity": "backend.kube-bind.io/identity",
        "owner": "kube-bind.io/api-service-namespace",
    }
    given = {keys[key]: value for key, value in annotations.items()}
    return object_from_dict({"metadata": {"name": name, "annotations": given}})


NAMESPACES = [
    namespace(SHOP, identity="shop"),
    namespace(ZOO, identity="zoo"),
    namespace("shop-a", owner=f"{SHOP}/a"),
    namespace("zoo-a", owner=f"{ZOO}/a"),
    namespace("kube-system"),
]


def meta(name: str, where: str = "", says: str = "") -> ObjectMeta:
    annotations: JSON = {"kube-bind.io/cluster-namespace": says} if says else {}
    return ObjectMeta(name=name, namespace=where, annotations=annotations)


@pytest.mark.parametrize(
    ("found", "consumer"),
    [
        pytest.param(meta("x", "shop-a", SHOP), SHOP, id="in its namespace"),
        pytest.param(meta("x", "shop-a", ZOO), SHOP, id="in its namespace, with another's name"),
        pytest.param(meta("x", "shop-a"), SHOP, id="in its namespace, without a name"),
        pytest.param(meta("x", SHOP), SHOP, id="in its cluster namespace"),
        pytest.param(meta("x", "kube-system", SHOP), "", id="where no consumer has anything"),
        pytest.param(meta("x", "zoo-a", SHOP), ZOO, id="in another's namespace"),
    ],
)
def test_namespaced_copies_are_whose_namespace_they_are_in(
    found: ObjectMeta, consumer: str
) -> None:
    assert places(NAMESPACES, [export()]).whose(WIDGETS, found) == consumer


@pytest.mark.parametrize(
    ("isolation", "found", "consumer"),
    [
        pytest.param("Prefixed", meta(f"{SHOP}-x", says=SHOP), SHOP, id="prefixed"),
        pytest.param("Prefixed", meta("x", says=SHOP), "", id="said, without the prefix"),
        pytest.param("Prefixed", meta(f"{ZOO}-x", says=SHOP), "", id="said of another's"),
        pytest.param("Prefixed", meta(f"{SHOP}-x"), "", id="not said"),
        pytest.param("None", meta("x", says=SHOP), SHOP, id="none"),
        pytest.param("None", meta("x", says=ZOO), "", id="said of who has no such export"),
        pytest.param("None", meta("x", says="nobody"), "", id="said of nobody"),
    ],
)
def test_cluster_scoped_copies_are_whose_name_and_export_agree(
    isolation: str, found: ObjectMeta, consumer: str
) -> None:
    exports = [export(resources=[resource("gauges")], isolation=isolation)]
    assert places(NAMESPACES, exports).whose(GAUGES, found) == consumer


def test_an_export_that_is_not_valid_hides_no_other() -> None:
    exports = [export(isolation="Odd"), export(resources=[resource("gauges")], isolation="None")]
    assert places(NAMESPACES, exports).whose(GAUGES, meta("x", says=SHOP)) == SHOP
