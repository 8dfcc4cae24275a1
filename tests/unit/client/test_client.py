from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.fakeserver import FakeServer, failure, respond, text

import fairlead.client
from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SERVICEACCOUNTS
from fairlead.client import BadRequest, Client, Conflict, NotFound, UnexpectedAnswer


CONFIG_MAP: JSON = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "x", "namespace": "shop"},
    "data": {"a": "b"},
}
ALL = "/api/v1/namespaces/shop/configmaps"
ONE = f"{ALL}/x"


class Typed(msgspec.Struct, rename="camel", omit_defaults=True):
    """A body that is a Struct."""

    api_version: str
    kind: str
    metadata: dict[str, str]


@pytest.fixture
def api(server: FakeServer) -> FakeServer:
    for path in (ALL, ONE, f"{ONE}/status", f"{ONE}/token"):
        server.on(path, respond(CONFIG_MAP))
    return server


class TestVerbs:
    """Each verb is one request of the right form."""

    async def test_get(self, api: FakeServer, client: Client) -> None:
        found = await client.get(CONFIGMAPS, "x", "shop")
        assert (found.kind, found.meta.name, found.to_dict()["data"]) == (
            "ConfigMap",
            "x",
            {"a": "b"},
        )
        assert (api.seen[0].method, api.seen[0].path) == ("GET", ONE)

    @pytest.mark.parametrize("namespace", ["shop", ""], ids=["said", "of-the-body"])
    async def test_create(self, api: FakeServer, client: Client, namespace: str) -> None:
        await client.create(CONFIGMAPS, CONFIG_MAP, namespace)
        seen = api.seen[0]
        assert (seen.method, seen.path, seen.json) == ("POST", ALL, CONFIG_MAP)
        assert dict(seen.query) == {"fieldManager": "fairlead"}
        assert seen.headers["Content-Type"] == "application/json"

    async def test_create_dry_run(self, api: FakeServer, client: Client) -> None:
        await client.create(CONFIGMAPS, CONFIG_MAP, dry_run=True)
        assert api.seen[0].query["dryRun"] == "All"

    async def test_create_from_a_type(self, api: FakeServer, client: Client) -> None:
        await client.create(CONFIGMAPS, Typed("v1", "ConfigMap", {"namespace": "shop"}))
        assert api.seen[0].json == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "shop"},
        }

    async def test_create_a_subresource(self, server: FakeServer, client: Client) -> None:
        path = "/api/v1/namespaces/shop/serviceaccounts/bot/token"
        server.on(path, respond({"kind": "TokenRequest", "status": {"token": "t"}}, 201))
        body = {"kind": "TokenRequest"}
        found = await client.create(SERVICEACCOUNTS, body, "shop", name="bot", subresource="token")
        assert found.to_dict()["status"] == {"token": "t"}

    @pytest.mark.parametrize(
        ("subresource", "path"), [("", ONE), ("status", f"{ONE}/status")], ids=["main", "status"]
    )
    async def test_update(
        self, api: FakeServer, client: Client, subresource: str, path: str
    ) -> None:
        await client.update(CONFIGMAPS, CONFIG_MAP, subresource=subresource)
        assert (api.seen[0].method, api.seen[0].path) == ("PUT", path)
        assert api.seen[0].json == CONFIG_MAP

    async def test_merge_patch(self, api: FakeServer, client: Client) -> None:
        await client.merge_patch(CONFIGMAPS, "x", "shop", {"data": None}, subresource="status")
        seen = api.seen[0]
        assert (seen.method, seen.path) == ("PATCH", f"{ONE}/status")
        assert seen.json == {"data": None}
        assert seen.headers["Content-Type"] == "application/merge-patch+json"

    async def test_json_patch(self, api: FakeServer, client: Client) -> None:
        operations = [{"op": "remove", "path": "/data"}]
        await client.json_patch(CONFIGMAPS, "x", "shop", operations)
        assert api.seen[0].json == operations
        assert api.seen[0].headers["Content-Type"] == "application/json-patch+json"

    @pytest.mark.parametrize(
        ("options", "query"),
        [
            pytest.param({}, {"fieldManager": "fairlead", "force": "true"}, id="forced"),
            pytest.param({"force": False}, {"fieldManager": "fairlead"}, id="asking"),
            pytest.param(
                {"field_manager": "me"}, {"fieldManager": "me", "force": "true"}, id="manager"
            ),
        ],
    )
    async def test_apply(
        self, api: FakeServer, client: Client, options: Any, query: dict[str, str]
    ) -> None:
        await client.apply(CONFIGMAPS, CONFIG_MAP, **options)
        seen = api.seen[0]
        assert (seen.method, seen.path, dict(seen.query)) == ("PATCH", ONE, query)
        assert seen.headers["Content-Type"] == "application/apply-patch+yaml"

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            pytest.param({}, {}, id="plain"),
            pytest.param({"uid": "u"}, {"preconditions": {"uid": "u"}}, id="uid"),
            pytest.param(
                {"uid": "u", "resource_version": "7"},
                {"preconditions": {"uid": "u", "resourceVersion": "7"}},
                id="version",
            ),
            pytest.param(
                {"propagation": "Foreground"}, {"propagationPolicy": "Foreground"}, id="policy"
            ),
        ],
    )
    async def test_delete(
        self, api: FakeServer, client: Client, options: dict[str, str], expected: JSON
    ) -> None:
        await client.delete(CONFIGMAPS, "x", "shop", **options)
        assert (api.seen[0].method, api.seen[0].path) == ("DELETE", ONE)
        assert api.seen[0].json == {"apiVersion": "v1", "kind": "DeleteOptions"} | expected

    async def test_delete_collection(self, api: FakeServer, client: Client) -> None:
        await client.delete_collection(CONFIGMAPS, "shop", labels="a=b")
        assert (api.seen[0].method, api.seen[0].path) == ("DELETE", ALL)
        assert dict(api.seen[0].query) == {"labelSelector": "a=b"}

    async def test_any_request(self, server: FakeServer, client: Client) -> None:
        server.on("/healthz", text("ok"))
        assert await client.request("GET", "/healthz", params={"verbose": "1"}) == b"ok"
        assert server.seen[0].query["verbose"] == "1"


class TestRefusedBeforeSending:
    """What cannot be right, or would lead to another path, is never sent."""

    @pytest.mark.parametrize(
        ("name", "namespace", "message"),
        [
            pytest.param("", "shop", "a name is needed for configmaps", id="no-name"),
            pytest.param("x", "", "a namespace is needed for configmaps x", id="no-namespace"),
            pytest.param("../secrets/x", "shop", "is not a valid name", id="slash"),
            pytest.param("..", "shop", "is not a valid name", id="parent"),
            pytest.param(".", "shop", "is not a valid name", id="here"),
            pytest.param("%2e%2e", "shop", "is not a valid name", id="escaped"),
            pytest.param("x", "a/../../b", "is not a valid name", id="namespace"),
        ],
    )
    async def test_object(
        self, server: FakeServer, client: Client, name: str, namespace: str, message: str
    ) -> None:
        with pytest.raises(BadRequest, match=message):
            await client.get(CONFIGMAPS, name, namespace)
        with pytest.raises(BadRequest, match=message):
            await client.delete(CONFIGMAPS, name, namespace)
        assert not server.seen

    async def test_collection(self, server: FakeServer, client: Client) -> None:
        with pytest.raises(BadRequest, match="is not a valid name"):
            await client.list(CONFIGMAPS, "../x")
        assert not server.seen

    @pytest.mark.parametrize("api_version", ["../v1", "a/b/../v1", "%2e/v1"])
    async def test_discovery(self, server: FakeServer, client: Client, api_version: str) -> None:
        with pytest.raises(BadRequest, match="is not a valid name"):
            await client.discovery.resource_for(api_version, "X")
        assert not server.seen

    async def test_malformed_body(self, server: FakeServer, client: Client) -> None:
        with pytest.raises(BadRequest, match=r"is malformed.*metadata\.name"):
            await client.update(CONFIGMAPS, {"metadata": {"name": 7}})
        assert not server.seen

    async def test_odd_but_valid_names_are_escaped(
        self, server: FakeServer, client: Client
    ) -> None:
        with pytest.raises(NotFound):
            await client.get(NAMESPACES, "system:a b?c#d")
        assert server.seen[0].path == "/api/v1/namespaces/system:a b?c#d"


class TestAnswers:
    """What comes back is an object or an exception."""

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            pytest.param(text("<html>login"), "is not an object", id="html"),
            pytest.param(text(""), "is not an object", id="empty"),
            pytest.param(respond([1]), "is not an object", id="array"),
            pytest.param(respond({}), "has no kind", id="no-kind"),
        ],
    )
    async def test_garbage(
        self, server: FakeServer, client: Client, answer: Any, message: str
    ) -> None:
        server.on(ONE, answer)
        with pytest.raises(UnexpectedAnswer, match=f"the answer about configmaps/v1 {message}"):
            await client.get(CONFIGMAPS, "x", "shop")

    async def test_conflict(self, server: FakeServer, client: Client) -> None:
        said = 'Operation cannot be fulfilled on configmaps "x": the object has been modified'
        server.on(ONE, failure(409, "Conflict", said))
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.update(CONFIGMAPS, CONFIG_MAP)


def test_everything_public_is_exported() -> None:
    for name in fairlead.client.__all__:
        assert getattr(fairlead.client, name).__module__.startswith("fairlead.client")
