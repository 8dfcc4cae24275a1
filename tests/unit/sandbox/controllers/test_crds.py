from __future__ import annotations

import copy

from tests.unit.sandbox.api import CRDS, TABLE, WIDGETS, Api, crd, widget

from fairlead.api.meta import JSON


GADGETS = "/apis/example.org/v1/namespaces/default/gadgets"


async def _conditions(api: Api, name: str) -> dict[str, JSON]:
    status = (await api.get(f"{CRDS}/{name}.example.org")).body["status"]
    return {one["type"]: one for one in status["conditions"]}


async def test_freed_names_are_given_to_those_who_wait(api: Api) -> None:
    await api.post(CRDS, crd())
    await api.post(CRDS, crd("gadgets", "Widget"))
    found = await _conditions(api, "gadgets")
    assert found["NamesAccepted"]["reason"] == "ListKindConflict"
    assert found["Established"]["status"] == "False"
    assert (await api.get(GADGETS)).code == 404
    await api.delete(f"{CRDS}/widgets.example.org")
    assert (await _conditions(api, "gadgets"))["Established"]["status"] == "True"
    assert (await api.get(GADGETS)).code == 200


async def test_the_storage_version_can_move_on(api: Api) -> None:
    body = crd()
    await api.post(CRDS, body)
    await api.post(WIDGETS, widget("a", spec={"size": 1}))
    old = body["spec"]["versions"][0]
    new = copy.deepcopy(old) | {"name": "v2"}
    versions = [old | {"storage": False}, new]
    changed = await api.patch(f"{CRDS}/widgets.example.org", {"spec": {"versions": versions}})
    assert changed.body["status"]["storedVersions"] == ["v1", "v2"]
    await api.post(WIDGETS, widget("b", spec={"size": 2}))
    for version in ("v1", "v2"):
        path = f"/apis/example.org/{version}/namespaces/default/widgets"
        items = (await api.get(path)).body["items"]
        assert [item["metadata"]["name"] for item in items] == ["a", "b"]
        assert {item["apiVersion"] for item in items} == {f"example.org/{version}"}


async def test_a_version_that_is_not_served_is_not_found(api: Api) -> None:
    body = crd()
    extra = copy.deepcopy(body["spec"]["versions"][0])
    extra |= {"name": "v0", "served": False, "storage": False}
    body["spec"]["versions"].append(extra)
    await api.post(CRDS, body)
    assert (await api.get("/apis/example.org/v0/widgets")).code == 404
    assert (await api.get("/apis/example.org/v1/widgets")).code == 200


async def test_a_crd_without_a_served_version_goes_with_its_objects(api: Api) -> None:
    body = crd()
    await api.post(CRDS, body)
    await api.post(WIDGETS, widget("a"))
    path = f"{CRDS}/widgets.example.org"
    unserved = [body["spec"]["versions"][0] | {"served": False}]
    await api.patch(path, {"spec": {"versions": unserved}})
    await api.delete(path)
    assert (await api.get(path)).code == 404


async def test_columns_show_what_their_type_can(api: Api) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.parts[*].name"},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts"},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.size"},
        {"name": "None", "type": "string", "jsonPath": ".spec.none"},
    ]
    await api.post(CRDS, crd(additionalPrinterColumns=columns))
    await api.post(WIDGETS, widget("a", spec={"size": 1, "parts": [{"name": "x"}, {"name": "y"}]}))
    table = (await api.get(WIDGETS, accept=TABLE)).body
    cells = table["rows"][0]["cells"]
    assert cells[:4] == ["a", 1, "x y", '[{"name":"x"},{"name":"y"}]']
    assert cells[4].endswith("s")
    assert cells[5:] == [None, None]


async def test_an_unsound_crd_is_refused(api: Api) -> None:
    body = crd()
    body["metadata"]["name"] = "other.example.org"
    reply = await api.post(CRDS, body)
    assert reply.code == 422
    assert "metadata.name: Invalid value" in reply.message


async def test_kinds_change_only_before_they_are_established(api: Api) -> None:
    await api.post(CRDS, crd())
    reply = await api.patch(f"{CRDS}/widgets.example.org", {"spec": {"names": {"kind": "Other"}}})
    assert reply.code == 422
    await api.post(CRDS, crd("gadgets", "Widget"))
    names = {"kind": "Gadget", "listKind": "GadgetList", "singular": "gadget"}
    await api.patch(f"{CRDS}/gadgets.example.org", {"spec": {"names": names}})
    assert (await _conditions(api, "gadgets"))["Established"]["status"] == "True"
