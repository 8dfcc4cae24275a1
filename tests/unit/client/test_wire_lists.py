from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import msgspec
import pytest
from tests.support.fakeserver import FakeServer, chunks, failure, respond, text

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, Resource
from fairlead.client import Client, ClusterConfig, Gone, UnexpectedAnswer, limits
from fairlead.client.wire import decode_page


PATH = "/api/v1/namespaces/shop/configmaps"


def config_map(name: str, **more: Any) -> JSON:
    return {"metadata": {"name": name, "namespace": "shop"}} | more


def page(*names: str, version: str = "7", continue_: str = "") -> JSON:
    metadata = {"resourceVersion": version}
    if continue_:
        metadata["continue"] = continue_
    return {
        "kind": "ConfigMapList",
        "apiVersion": "v1",
        "metadata": metadata,
        "items": [config_map(name) for name in names],
    }


def names(items: list[Any]) -> list[str]:
    return [item.meta.name for item in items]


class TestPages:
    """A list is fetched page by page and means one moment."""

    async def test_all_pages(self, server: FakeServer, client: Client) -> None:
        server.on(
            PATH,
            respond(page("a", "b", continue_="two")),
            respond(page("c", continue_="three")),
            respond(page("d")),
        )
        found = await client.list(CONFIGMAPS, "shop", limit=2)
        assert names(found.items) == ["a", "b", "c", "d"]
        assert [seen.query.get("continue") for seen in server.seen] == [None, "two", "three"]
        assert {seen.query["limit"] for seen in server.seen} == {"2"}

    async def test_pages_are_told_as_they_arrive(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, respond(page("a", "b", continue_="two")), respond(page("c")))
        told: list[list[str]] = []
        await client.list(CONFIGMAPS, "shop", arrived=lambda some: told.append(names([*some])))
        assert told == [["a", "b"]]

    async def test_the_first_page_says_where_to_watch_from(
        self, server: FakeServer, client: Client
    ) -> None:
        server.on(PATH, respond(page("a", continue_="x")), respond(page("b", version="9")))
        assert (await client.list(CONFIGMAPS, "shop")).resource_version == "7"

    async def test_pages_may_be_empty(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, respond(page(continue_="x")), respond(page("b")))
        assert names((await client.list(CONFIGMAPS, "shop")).items) == ["b"]

    @pytest.mark.parametrize(
        ("trusted", "limit"),
        [
            pytest.param(True, {}, id="whole"),
            pytest.param(False, {"limit": "500"}, id="page-by-page-where-answers-have-bounds"),
        ],
    )
    async def test_an_expired_page_starts_the_list_over(
        self, server: FakeServer, trusted: bool, limit: dict[str, str]
    ) -> None:
        server.on(
            PATH,
            respond(page("a", continue_="x")),
            failure(410, "Expired", "the provided continue parameter is too old"),
            respond(page("b", "c", version="9")),
        )
        async with Client(ClusterConfig(server.url, trusted=trusted)) as client:
            found = await client.list(CONFIGMAPS, "shop", labels="app=x")
        assert (names(found.items), found.resource_version) == (["b", "c"], "9")
        assert dict(server.seen[2].query) == {"labelSelector": "app=x"} | limit

    async def test_a_list_with_large_pages_starts_over_page_by_page(
        self, server: FakeServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "PAGE_BYTES", 1000)
        large = config_map("a", data={"x": "x" * 1000})
        server.on(
            PATH,
            respond(page() | {"items": [large]}),
            respond(page("b", continue_="x")),
            failure(410, "Expired", "the provided continue parameter is too old"),
            respond(page("b", "c", version="9")),
        )
        async with Client(ClusterConfig(server.url, trusted=True)) as client:
            found = await client.list(CONFIGMAPS, "shop")
        assert names(found.items) == ["b", "c"]
        assert [seen.query.get("limit") for seen in server.seen] == ["500", "62", "62", "62"]

    async def test_pages_that_expire_again_and_again_are_an_error(
        self, server: FakeServer, client: Client
    ) -> None:
        first, expired = respond(page("a", continue_="x")), failure(410, "Expired")
        server.on(PATH, *[first, expired] * 3)
        with pytest.raises(Gone):
            await client.list(CONFIGMAPS, "shop")
        assert len(server.seen) == 6

    async def test_gone_without_a_page_is_raised(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, failure(410, "Gone"))
        with pytest.raises(Gone):
            await client.list(CONFIGMAPS, "shop")
        assert len(server.seen) == 1

    async def test_selectors(self, server: FakeServer, client: Client) -> None:
        server.on(PATH, respond(page()))
        await client.list(CONFIGMAPS, "shop", labels="a in (b,c)", fields="metadata.name=x&y")
        assert server.seen[0].query["labelSelector"] == "a in (b,c)"
        assert server.seen[0].query["fieldSelector"] == "metadata.name=x&y"

    async def test_everywhere(self, server: FakeServer, client: Client) -> None:
        server.on("/api/v1/configmaps", respond(page("a")))
        assert names((await client.list(CONFIGMAPS)).items) == ["a"]

    async def test_metadata_only_keeps_the_kind(self, server: FakeServer, client: Client) -> None:
        item = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {}}
        server.on(PATH, respond({"kind": "PartialObjectMetadataList", "items": [item]}))
        found = await client.list(CONFIGMAPS, "shop", metadata_only=True)
        assert (found.items[0].kind, found.items[0].api_version) == ("ConfigMap", "v1")
        assert "as=PartialObjectMetadataList" in server.seen[0].headers["Accept"]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            pytest.param(text("<html>login"), "cannot be read", id="html"),
            pytest.param(text(""), "cannot be read", id="empty"),
            pytest.param(respond([]), "it must be an object, not a list", id="array"),
            pytest.param(respond({"kind": "Status"}), "items: it is required", id="none"),
            pytest.param(
                respond({"items": [{"metadata": {"name": 7}}]}), "metadata.name", id="metadata"
            ),
            pytest.param(chunks(b'{"items": ['), "cannot be read", id="truncated"),
        ],
    )
    async def test_garbage(
        self, server: FakeServer, client: Client, answer: Any, message: str
    ) -> None:
        server.on(PATH, answer)
        with pytest.raises(UnexpectedAnswer) as caught:
            await client.list(CONFIGMAPS, "shop")
        assert "the list of configmaps/v1 cannot be read" in str(caught.value)
        assert message in str(caught.value)


def test_each_object_is_shrunk_before_the_next_one_is_decoded() -> None:
    def shrunk(object_: Object) -> Object:
        return msgspec.structs.replace(object_, raw=b"{}")

    size = 1 << 20
    large = [config_map(str(number), data={"x": "x" * size}) for number in range(10)]
    body = msgspec.json.encode(page() | {"items": large})
    tracemalloc.start()
    try:
        found = decode_page(body, CONFIGMAPS, transform=shrunk)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [one.raw for one in found.items] == [b"{}"] * 10
    assert most < 3 * size


class TestDecode:
    """An item is its metadata and its own bytes."""

    @pytest.mark.parametrize("items", [None, []], ids=["null", "empty"])
    def test_empty(self, items: object) -> None:
        assert decode_page(msgspec.json.encode({"items": items}), NAMESPACES).items == []

    def test_items_get_the_kind_of_the_list(self) -> None:
        widgets = Resource("example.org", "v1", "widgets", "Widget")
        (item,) = decode_page(msgspec.json.encode(page("a")), widgets).items
        assert (item.api_version, item.kind) == ("example.org/v1", "Widget")

    def test_items_do_not_keep_the_answer(self) -> None:
        body = msgspec.json.encode(page(*(f"x{number}" for number in range(50))))
        (first, *_) = decode_page(body, CONFIGMAPS).items
        assert body not in gc.get_referents(first)
        assert type(first.raw) is bytes
        assert first.to_dict() == config_map("x0")


def test_an_object_of_any_depth_keeps_no_neighbour_from_being_listed() -> None:
    deep = b'{"a":' * 20_000 + b"1" + b"}" * 20_000
    items = [
        b'{"metadata": {"name": "a"}}',
        b'{"metadata": {"name": "b"}, "spec": %s}' % deep,
        b'{"metadata": {"managedFields": [%s], "name": "c"}}' % deep,
    ]
    body = b'{"kind": "ConfigMapList", "items": [%s], "metadata": {"resourceVersion": "7"}}'
    found = decode_page(body % b", ".join(items), CONFIGMAPS)
    assert names(found.items) == ["a", "b", "c"]
    assert (found.resource_version, found.continue_) == ("7", "")
