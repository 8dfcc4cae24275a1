from __future__ import annotations

from tests.unit.sandbox.api import Api


NAMESPACES = "/api/v1/namespaces"


async def test_the_default_account_comes_back(api: Api) -> None:
    path = f"{NAMESPACES}/default/serviceaccounts"
    first = (await api.get(f"{path}/default")).body
    async with api.watch(path, resourceVersion=first["metadata"]["resourceVersion"]) as events:
        await api.delete(f"{path}/default")
        kinds = [(await events.next())["type"] for _ in range(2)]
    assert kinds == ["DELETED", "ADDED"]
    again = (await api.get(f"{path}/default")).body
    assert again["metadata"]["uid"] != first["metadata"]["uid"]


async def test_finalize_changes_the_finalizers_of_the_spec_alone(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "a"}})
    body = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"finalizers": ["a.b/c"]}}
    reply = await api.send("PUT", f"{NAMESPACES}/a/finalize", body)
    assert reply.body["spec"]["finalizers"] == ["a.b/c"]
    assert "x" not in reply.body["metadata"]["labels"]
    await api.delete(f"{NAMESPACES}/a")
    assert (await api.get(f"{NAMESPACES}/a")).body["status"]["phase"] == "Terminating"
    await api.send("PUT", f"{NAMESPACES}/a/finalize", {"spec": {"finalizers": []}})
    assert (await api.get(f"{NAMESPACES}/a")).code == 404


async def test_finalizers_do_not_change_with_the_rest(api: Api) -> None:
    await api.post(NAMESPACES, {"metadata": {"name": "a"}})
    reply = await api.patch(f"{NAMESPACES}/a", {"spec": {"finalizers": []}})
    assert reply.body["spec"]["finalizers"] == ["kubernetes"]
