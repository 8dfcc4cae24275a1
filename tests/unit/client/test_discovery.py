from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.fakeserver import FakeServer, failure, hang, respond, text

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS, Resource
from fairlead.api.status import Status
from fairlead.client import (
    Client,
    Discovery,
    GroupVersions,
    NotFound,
    NotServed,
    ServerError,
    UnexpectedAnswer,
)


WIDGETS = Resource("example.org", "v2", "widgets", "Widget")
GADGETS = Resource("example.org", "v1", "gadgets", "Gadget", namespaced=False)


def resource_list(*entries: tuple[str, str, bool]) -> JSON:
    resources = [
        {"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": []}
        for name, kind, namespaced in entries
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "resources": resources}


def group_list(**groups: list[str]) -> JSON:
    entries = [
        {
            "name": name.replace("_", "."),
            "versions": [{"groupVersion": "", "version": version} for version in versions[1:]],
            "preferredVersion": {"groupVersion": "", "version": versions[0]},
        }
        for name, versions in groups.items()
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": entries}


CORE = resource_list(
    ("pods", "Pod", True),
    ("pods/status", "Pod", True),
    ("secrets", "Secret", True),
    ("namespaces", "Namespace", False),
)
VERSIONS = {"kind": "APIVersions", "versions": ["v1"]}


def discovered(plural: str, kind: str, scope: str = "Namespaced") -> JSON:
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": scope,
        "subresources": [{"subresource": "status"}],
    }


def aggregated(*groups: JSON) -> JSON:
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": list(groups),
    }


@pytest.fixture
def plain(server: FakeServer) -> FakeServer:
    groups = group_list(apps=["v1", "v1"], example_org=["v2", "v1", "v2"])
    return (
        server.on("/api", respond(VERSIONS))
        .on("/api/v1", respond(CORE))
        .on("/apis", respond(groups))
        .on("/apis/apps/v1", respond(resource_list(("deployments", "Deployment", True))))
        .on("/apis/example.org/v1", respond(resource_list(("gadgets", "Gadget", False))))
        .on("/apis/example.org/v2", respond(resource_list(("widgets", "Widget", True))))
    )


class TestPlain:
    """Discovery as every server has it."""

    @pytest.mark.parametrize(
        ("api_version", "kind", "expected"),
        [
            ("v1", "Secret", SECRETS),
            ("apps/v1", "Deployment", DEPLOYMENTS),
            ("example.org/v2", "Widget", WIDGETS),
            (
                "example.org/v1",
                "Gadget",
                GADGETS,
            ),
        ],
    )
    async def test_by_kind(
        self, plain: FakeServer, client: Client, api_version: str, kind: str, expected: Resource
    ) -> None:
        assert await client.discovery.resource_for(api_version, kind) == expected
        assert len(plain.seen) == 1

    @pytest.mark.parametrize(
        ("group", "plural", "version", "expected"),
        [
            pytest.param("", "secrets", "", SECRETS, id="core"),
            pytest.param("", "secrets", "v1", SECRETS, id="core-version"),
            pytest.param("example.org", "widgets", "", WIDGETS, id="preferred"),
            pytest.param(
                "example.org",
                "gadgets",
                "",
                GADGETS,
                id="in-an-older-version-only",
            ),
        ],
    )
    async def test_by_plural(
        self,
        plain: FakeServer,
        client: Client,
        group: str,
        plural: str,
        version: str,
        expected: Resource,
    ) -> None:
        assert await client.discovery.resource_by_plural(group, plural, version) == expected

    @pytest.mark.parametrize(
        ("group", "plural", "versions"),
        [
            pytest.param("", "secrets", ["v1"], id="core"),
            pytest.param("example.org", "gadgets", ["v1"], id="in-one-of-two"),
            pytest.param("example.org", "nothing", [], id="in-none"),
            pytest.param("absent.org", "widgets", [], id="no-such-group"),
        ],
    )
    async def test_versions(
        self, plain: FakeServer, client: Client, group: str, plural: str, versions: list[str]
    ) -> None:
        assert await client.discovery.versions_of(group, plural) == versions

    async def test_groups(self, plain: FakeServer, client: Client) -> None:
        assert await client.discovery.groups() == [
            GroupVersions("", ("v1",)),
            GroupVersions("apps", ("v1",)),
            GroupVersions("example.org", ("v2", "v1")),
        ]

    @pytest.mark.parametrize(
        ("lookup", "message"),
        [
            pytest.param(("v1", "Nope"), "does not serve Nope in v1", id="kind"),
            pytest.param(("a.b/v1", "C"), "does not serve C in a.b/v1; is its CRD", id="group"),
        ],
    )
    async def test_unknown_kind(
        self, plain: FakeServer, client: Client, lookup: tuple[str, str], message: str
    ) -> None:
        with pytest.raises(NotServed, match=message):
            await client.discovery.resource_for(*lookup)

    @pytest.mark.parametrize(
        ("lookup", "message"),
        [
            pytest.param(("example.org", "x"), r"serve x\.example\.org; is", id="plural"),
            pytest.param(("example.org", "widgets", "v9"), "widgets.example.org/v9", id="version"),
            pytest.param(("a.b", "c"), r"serve c\.a\.b", id="group"),
        ],
    )
    async def test_unknown_plural(
        self, plain: FakeServer, client: Client, lookup: tuple[str, ...], message: str
    ) -> None:
        with pytest.raises(NotFound, match=message):
            await client.discovery.resource_by_plural(*lookup)


class TestAggregated:
    """Discovery in two requests, from Kubernetes 1.26 on."""

    @pytest.fixture
    def modern(self, server: FakeServer) -> FakeServer:
        core = {
            "metadata": {"name": "", "creationTimestamp": None},
            "versions": [{"version": "v1", "resources": [discovered("secrets", "Secret")]}],
        }
        example = {
            "metadata": {"name": "example.org"},
            "versions": [
                {"version": "v2", "resources": [discovered("widgets", "Widget")]},
                {"version": "v1", "resources": [discovered("gadgets", "Gadget", "Cluster")]},
            ],
        }
        down = {
            "metadata": {"name": "down.example"},
            "versions": [
                {
                    "version": "v1",
                    "freshness": "Stale",
                    "resources": [discovered("olds", "Old")],
                }
            ],
        }
        return server.on("/api", respond(aggregated(core))).on(
            "/apis", respond(aggregated(example, down))
        )

    async def test_everything_in_two_requests(self, modern: FakeServer, client: Client) -> None:
        discovery = client.discovery
        assert await discovery.resource_by_plural("example.org", "widgets") == WIDGETS
        gadgets = await discovery.resource_by_plural("example.org", "gadgets")
        assert (gadgets.version, gadgets.namespaced) == ("v1", False)
        assert await discovery.resource_for("v1", "Secret") == SECRETS
        assert modern.paths == ["/api", "/apis"]

    async def test_asks_for_it_and_takes_the_plain_form(
        self, modern: FakeServer, client: Client
    ) -> None:
        await client.discovery.groups()
        first, second, third = modern.seen[1].headers["Accept"].split(",")
        assert "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" in first
        assert "v=v2beta1" in second
        assert third == "application/json"

    async def test_a_stale_group_is_asked_itself(self, modern: FakeServer, client: Client) -> None:
        modern.on("/apis/down.example/v1", failure(503, "ServiceUnavailable"))
        with pytest.raises(ServerError):
            await client.discovery.resource_by_plural("down.example", "olds")


class TestCache:
    """Asked once, and again when it is worth it."""

    async def test_is_kept(self, plain: FakeServer, client: Client) -> None:
        for _ in range(3):
            await client.discovery.resource_for("apps/v1", "Deployment")
            await client.discovery.resource_by_plural("example.org", "widgets")
        assert plain.paths == ["/apis/apps/v1", "/api", "/apis", "/apis/example.org/v2"]

    async def test_many_at_once_ask_once(self, plain: FakeServer, client: Client) -> None:
        lookups = (client.discovery.resource_for("apps/v1", "Deployment") for _ in range(20))
        assert set(await asyncio.gather(*lookups)) == {DEPLOYMENTS}
        assert plain.paths == ["/apis/apps/v1"]

    async def test_invalidate(self, plain: FakeServer, client: Client) -> None:
        await client.discovery.resource_for("apps/v1", "Deployment")
        client.discovery.invalidate()
        await client.discovery.resource_for("apps/v1", "Deployment")
        assert plain.paths == ["/apis/apps/v1"] * 2

    async def test_an_answer_older_than_the_invalidation_is_not_kept(
        self, server: FakeServer, client: Client
    ) -> None:
        asked, done = asyncio.Event(), asyncio.Event()
        deployments = respond(resource_list(("deployments", "Deployment", True)))

        async def late(request: Any) -> Any:
            asked.set()
            await done.wait()
            return await deployments(request)

        server.on("/apis/apps/v1", late, deployments)
        lookup = asyncio.create_task(client.discovery.resource_for("apps/v1", "Deployment"))
        await asked.wait()
        client.discovery.invalidate()
        done.set()
        assert await lookup == DEPLOYMENTS
        await client.discovery.resource_for("apps/v1", "Deployment")
        assert len(server.seen) == 2

    async def test_a_new_kind_is_found_at_once(self, server: FakeServer, client: Client) -> None:
        old, new = resource_list(("a", "A", True)), resource_list(("widgets", "Widget", True))
        server.on("/apis/example.org/v2", respond(old), respond(new))
        await client.discovery.resource_for("example.org/v2", "A")
        assert await client.discovery.resource_for("example.org/v2", "Widget") == WIDGETS

    async def test_a_new_group_is_found_at_once(self, server: FakeServer, client: Client) -> None:
        server.on("/api", respond(VERSIONS))
        server.on("/apis", respond(group_list()), respond(group_list(example_org=["v2"])))
        server.on("/apis/example.org/v2", respond(resource_list(("widgets", "Widget", True))))
        await client.discovery.groups()
        assert await client.discovery.resource_by_plural("example.org", "widgets") == WIDGETS

    async def test_an_unknown_kind_costs_one_request(
        self, plain: FakeServer, client: Client
    ) -> None:
        for _ in range(2):
            with pytest.raises(NotServed):
                await client.discovery.resource_for("a.b/v1", "C")
        assert plain.paths == ["/apis/a.b/v1"] * 2

    async def test_made_up_versions_do_not_pile_up(self, server: FakeServer) -> None:
        async def get(path: str, *, accept: str) -> bytes:
            raise NotFound(Status(code=404))

        discovery = Discovery(get, "s")
        for number in range(2500):
            with pytest.raises(NotServed):
                await discovery.resource_for(f"a.b/v{number}", "C")
        assert len(discovery._resources) <= 1000


class TestFaults:
    """A group that is down hurts those who ask for it, nobody else."""

    async def test_another_group_is_down(self, plain: FakeServer, client: Client) -> None:
        plain.on("/apis/down.example/v1", failure(503, "ServiceUnavailable"))
        with pytest.raises(ServerError):
            await client.discovery.resource_for("down.example/v1", "X")
        assert await client.discovery.resource_for("apps/v1", "Deployment") == DEPLOYMENTS

    async def test_another_group_hangs(self, plain: FakeServer, client: Client) -> None:
        asked, done = asyncio.Event(), asyncio.Event()
        plain.on("/apis/slow.example/v1", hang(done, asked=asked))
        slow = asyncio.create_task(client.discovery.resource_for("slow.example/v1", "X"))
        await asked.wait()
        assert await client.discovery.resource_for("apps/v1", "Deployment") == DEPLOYMENTS
        assert not slow.done()
        done.set()
        with pytest.raises(NotServed):
            await slow

    async def test_a_failure_is_not_kept(self, server: FakeServer, client: Client) -> None:
        widgets = respond(resource_list(("widgets", "Widget", True)))
        server.on("/apis/example.org/v2", failure(500, "InternalError"), widgets)
        with pytest.raises(ServerError):
            await client.discovery.resource_for("example.org/v2", "Widget")
        assert await client.discovery.resource_for("example.org/v2", "Widget") == WIDGETS

    @pytest.mark.parametrize("answer", [text("<html>"), respond({"kind": "Pod"}), respond([])])
    async def test_garbage(self, server: FakeServer, client: Client, answer: Any) -> None:
        server.on("/api", answer)
        with pytest.raises(UnexpectedAnswer, match="discovery at /api"):
            await client.discovery.groups()

    async def test_server_version(self, server: FakeServer, client: Client) -> None:
        server.on("/version", respond({"gitVersion": "v1.31.2"}), text("<html>"))
        assert await client.discovery.server_version() == "v1.31.2"
        with pytest.raises(UnexpectedAnswer, match="is not a Kubernetes API server"):
            await client.discovery.server_version()
