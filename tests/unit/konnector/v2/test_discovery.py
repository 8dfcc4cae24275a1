"""Every edge of discovery, and the looks at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
import pytest

from fairlead.api.kbind import ExportedAPI
from fairlead.api.meta import JSON
from fairlead.api.status import Status
from fairlead.client import Client, ClientError, Forbidden
from fairlead.client.errors import ConnectionFailed, NotFound, ServerError, UnexpectedAnswer
from fairlead.konnector import bounds
from fairlead.konnector.v2.schemas.discovery import (
    VERBS,
    DiscoveryError,
    aggregated,
    document_hashes,
    is_offered,
    plain_groups,
    plain_version,
)
from fairlead.konnector.v2.schemas.documents import ServedSchemas


@pytest.mark.parametrize(
    ("group", "offered"),
    [
        *((group, False) for group in ("", "apps", "batch", "extensions", "policy")),
        *((group, False) for group in ("autoscaling", "networking.k8s.io", "metrics.k8s.io")),
        *((group, False) for group in ("core.kbind.io", "kube-bind.io", "kbind.io")),
        *((group, False) for group in ("catalog.kube-bind.io", "core.kcp.io")),
        *(
            (group, True)
            for group in ("acme.io", "apps.acme.io", "notk8s.io", "csi.kubernetes.io")
        ),
    ],
)
def test_f8_groups_that_no_provider_offers(group: str, *, offered: bool) -> None:
    """The original also pulls groups of kcp and of its own protocols."""
    assert is_offered(group) == offered


def entry(plural: str = "widgets", **more: Any) -> JSON:
    """A resource in aggregated discovery."""
    return {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": sorted(VERBS),
        **more,
    }


def answer(*versions: JSON, group: str = "acme.io", kind: str = "APIGroupDiscoveryList") -> bytes:
    """An aggregated answer with one group."""
    body = {"kind": kind, "items": [{"metadata": {"name": group}, "versions": list(versions)}]}
    return msgspec.json.encode(body)


def version(name: str, *entries: JSON, freshness: str = "Current") -> JSON:
    return {"version": name, "freshness": freshness, "resources": list(entries)}


def test_an_api_has_all_its_versions_the_preferred_one_first() -> None:
    found = aggregated(
        answer(
            version(
                "v1",
                entry(
                    shortNames=["wd"],
                    categories=["all"],
                    subresources=[{"subresource": "status"}, {"subresource": "scale"}],
                ),
            ),
            version("v1beta1", entry(), entry("gadgets")),
        )
    )
    assert found is not None
    assert sorted(found.apis) == ["gadgets.acme.io", "widgets.acme.io"]
    api = found.apis["widgets.acme.io"]
    assert [(one.name, one.status) for one in api.versions] == [("v1", True), ("v1beta1", False)]
    assert (api.short_names, api.categories, api.singular) == (("wd",), ("all",), "widget")
    assert found.apis["gadgets.acme.io"].preferred == "v1beta1"
    assert not found.failed


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(entry(verbs=["create"]), id="reviews-that-are-only-created"),
        pytest.param(entry(responseKind=None), id="subresources-alone"),
        pytest.param(entry("../secrets"), id="a-name-that-is-a-path"),
    ],
)
def test_what_cannot_be_synchronised_is_no_api(odd: JSON) -> None:
    found = aggregated(answer(version("v1", odd)))
    assert found is not None
    assert not found.apis


def test_f9_a_group_that_is_down_is_known_to_have_failed() -> None:
    found = aggregated(answer(version("v1", entry(), freshness="Stale")))
    assert found is not None
    assert found.failed == {"acme.io"}
    assert list(found.apis) == ["widgets.acme.io"]


def test_plain_discovery_says_the_same() -> None:
    groups = {
        "kind": "APIGroupList",
        "groups": [
            {"name": "apps", "versions": [{"version": "v1"}]},
            {
                "name": "acme.io",
                "versions": [{"version": "v2alpha1"}, {"version": "v1"}],
                "preferredVersion": {"version": "v1"},
            },
        ],
    }
    body = msgspec.json.encode(groups)
    assert aggregated(body) is None
    assert [(one.group, one.version) for one in plain_groups(body)] == [
        ("acme.io", "v1"),
        ("acme.io", "v2alpha1"),
    ]
    resources = {
        "resources": [
            {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": sorted(VERBS)},
            {"name": "widgets/status", "kind": "Widget", "namespaced": True, "verbs": ["get"]},
        ]
    }
    served = plain_version(msgspec.json.encode(resources), "acme.io", "v1")
    assert [(one.plural, one.status) for one in served.resources] == [("widgets", True)]


@pytest.mark.parametrize("body", [b"<html>", b'{"items": 3}', b"\xff"])
def test_an_answer_of_something_else(body: bytes) -> None:
    with pytest.raises(DiscoveryError):
        aggregated(body)


def test_hashes_are_those_of_the_index() -> None:
    index = {
        "paths": {
            "apis/acme.io/v1": {"serverRelativeURL": "/openapi/v3/apis/acme.io/v1?hash=AB"},
            "version": {"serverRelativeURL": "/openapi/v3/version"},
        }
    }
    hashes = document_hashes(msgspec.json.encode(index))
    assert hashes == {"acme.io/v1": "AB", "version": ""}


class Server:
    """A provider's answers by path; an exception is raised."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, bytes | ClientError] = {}
        self.serve(version("v1", entry()))

    def serve(self, *versions: JSON, digest: str = "AB") -> None:
        place = {"serverRelativeURL": f"/openapi/v3/apis/acme.io/v1?hash={digest}"}
        self.answers["/openapi/v3"] = msgspec.json.encode({"paths": {"apis/acme.io/v1": place}})
        self.answers["/apis"] = answer(*versions)
        gvk = {"group": "acme.io", "version": "v1", "kind": "Widget"}
        schema = {
            "type": "object",
            "description": digest,
            "x-kubernetes-group-version-kind": [gvk],
        }
        document = {"components": {"schemas": {"io.acme.v1.Widget": schema}}}
        self.answers["/openapi/v3/apis/acme.io/v1"] = msgspec.json.encode(document)

    async def request(self, method: str, path: str, *, accept: str) -> bytes:
        assert method == "GET"
        assert accept
        self.asked.append(path)
        found = self.answers[path]
        if isinstance(found, ClientError):
            raise found
        return found


class Looks:
    """Schemas of a server, and the names that were told to have changed."""

    def __init__(self, former: Iterable[ExportedAPI] = ()) -> None:
        self.server = Server()
        self.changed: list[str] = []
        self.schemas = ServedSchemas(cast("Client", self.server), former, self.changed.extend)

    async def look(self) -> list[str]:
        """What one look asks for."""
        self.server.asked.clear()
        self.changed.clear()
        await self.schemas.refresh()
        return list(self.server.asked)

    @property
    def names(self) -> list[str]:
        return [api.name for api in self.schemas.exports]


def refused(kind: type[Any], code: int) -> ClientError:
    error = kind(Status("Failure", "injected", "", code))
    assert isinstance(error, ClientError)
    return error


WIDGETS = ExportedAPI(
    name="widgets.acme.io",
    group="acme.io",
    resource="widgets",
    scope="Namespaced",
    versions=["v1"],
)


async def test_at_rest_a_look_is_one_request() -> None:
    looks = Looks()
    assert await looks.look() == ["/openapi/v3", "/apis"]
    assert looks.changed == ["widgets.acme.io"]
    looks.schemas.follow("widgets.acme.io")
    assert await looks.look() == ["/openapi/v3", "/openapi/v3/apis/acme.io/v1"]
    assert looks.changed == ["widgets.acme.io"]
    assert looks.schemas.fault("widgets.acme.io") is None
    assert await looks.look() == ["/openapi/v3"]
    assert not looks.changed


async def test_a_schema_that_changes_is_read_again_and_has_another_generation() -> None:
    looks = Looks()
    looks.schemas.follow("widgets.acme.io")
    await looks.look()
    before = looks.schemas.get("widgets.acme.io")
    looks.server.serve(version("v1", entry()), digest="CD")
    assert len(await looks.look()) == 3
    after = looks.schemas.get("widgets.acme.io")
    assert before is not None
    assert after is not None
    assert before.meta.generation < after.meta.generation
    # Another field of the group has changed: no word about this one.
    place = looks.server.answers["/openapi/v3/apis/acme.io/v1"]
    looks.server.serve(version("v1", entry()), digest="EF")
    looks.server.answers["/openapi/v3/apis/acme.io/v1"] = place
    await looks.look()
    assert not looks.changed
    assert await looks.look() == ["/openapi/v3"]


async def test_discovery_is_read_now_and_then_for_what_no_hash_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks()
    await looks.look()
    monkeypatch.setattr(bounds, "WHOLE_SECONDS", 0.0)
    assert await looks.look() == ["/openapi/v3", "/apis"]


async def test_f9_an_api_goes_when_two_looks_miss_it_where_the_original_takes_one() -> None:
    looks = Looks()
    await looks.look()
    looks.server.serve(version("v1"), digest="CD")
    await looks.look()
    assert looks.names == ["widgets.acme.io"]
    # The second look is due although the index is the same.
    assert await looks.look() == ["/openapi/v3", "/apis"]
    assert looks.names == []
    assert looks.changed == ["widgets.acme.io"]
    assert await looks.look() == ["/openapi/v3"]


async def test_f9_an_api_that_comes_back_starts_anew() -> None:
    looks = Looks()
    await looks.look()
    for digest in ("CD", "EF"):
        looks.server.serve(version("v1"), digest=digest)
        await looks.look()
        looks.server.serve(version("v1", entry()), digest=f"{digest}0")
        await looks.look()
        assert looks.names == ["widgets.acme.io"]


async def test_f9_while_a_group_is_down_none_of_its_apis_goes() -> None:
    """In the original one look at an aggregated API that is down shrinks what is bound."""
    looks = Looks()
    await looks.look()
    looks.server.serve(version("v1", freshness="Stale"), digest="CD")
    for _ in range(4):
        assert "/apis" in await looks.look()
        assert looks.names == ["widgets.acme.io"]
    looks.server.serve(version("v1"), digest="CD")
    await looks.look()
    await looks.look()
    assert looks.names == []


async def test_f9_what_was_known_before_a_restart_does_not_go_at_once() -> None:
    looks = Looks([WIDGETS])
    looks.server.serve(version("v1", freshness="Stale"))
    looks.schemas.follow("widgets.acme.io")
    await looks.look()
    assert looks.names == ["widgets.acme.io"]
    assert looks.schemas.get("widgets.acme.io") is None
    fault = looks.schemas.fault("widgets.acme.io")
    assert fault is not None
    assert (fault.reason, "acme.io is down" in fault.message) == ("Pending", True)


async def test_an_api_that_is_missed_is_looked_for_at_once() -> None:
    looks = Looks()
    await looks.look()
    looks.schemas.miss()
    assert await looks.look() == ["/openapi/v3", "/apis"]


async def test_one_schema_that_cannot_be_made_fails_that_api_alone() -> None:
    """The original fails the Connection."""
    looks = Looks()
    looks.server.serve(version("v1", entry(), entry("gadgets", responseKind={"kind": "Gadget"})))
    for name in ("widgets.acme.io", "gadgets.acme.io"):
        looks.schemas.follow(name)
    await looks.look()
    assert looks.schemas.fault("widgets.acme.io") is None
    fault = looks.schemas.fault("gadgets.acme.io")
    assert fault is not None
    assert fault.reason == "SchemaUnusable"
    assert "gadgets.acme.io: the OpenAPI document has no schema for Gadget" in fault.message
    # It is not tried again before the document changes.
    assert await looks.look() == ["/openapi/v3"]


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        pytest.param("/openapi/v3", refused(NotFound, 404), "no OpenAPI v3", id="old-server"),
        pytest.param("/openapi/v3", refused(Forbidden, 403), "no OpenAPI v3", id="no-right"),
        pytest.param(
            "/openapi/v3/apis/acme.io/v1", refused(ServerError, 503), "acme.io/v1", id="down"
        ),
    ],
)
async def test_documents_that_cannot_be_read_fail_no_look(
    path: str, error: ClientError, text: str
) -> None:
    looks = Looks()
    looks.schemas.follow("widgets.acme.io")
    good = looks.server.answers[path]
    looks.server.answers[path] = error
    await looks.look()
    assert looks.names == ["widgets.acme.io"]
    fault = looks.schemas.fault("widgets.acme.io")
    assert fault is not None
    assert fault.reason == "Pending"
    assert text in fault.message
    looks.server.answers[path] = good
    await looks.look()
    assert looks.schemas.fault("widgets.acme.io") is None
    # A schema that was read stays in use.
    looks.server.serve(version("v1", entry()), digest="CD")
    looks.server.answers[path] = error
    await looks.look()
    assert looks.schemas.fault("widgets.acme.io") is None


@pytest.mark.parametrize(
    "error", [refused(Forbidden, 403), refused(ServerError, 503), ConnectionFailed("gone")]
)
async def test_discovery_that_fails_changes_nothing(error: ClientError) -> None:
    looks = Looks()
    await looks.look()
    looks.schemas.miss()
    looks.server.answers["/apis"] = error
    with pytest.raises(type(error)):
        await looks.look()
    assert looks.names == ["widgets.acme.io"]
    # The next look is still due.
    looks.server.serve(version("v1", entry()))
    assert await looks.look() == ["/openapi/v3", "/apis"]


async def test_a_page_in_place_of_discovery_is_an_unexpected_answer() -> None:
    looks = Looks()
    looks.server.answers["/apis"] = b"<html>"
    with pytest.raises(UnexpectedAnswer):
        await looks.look()


async def test_f9_a_group_of_plain_discovery_that_is_down_keeps_its_apis() -> None:
    looks = Looks([WIDGETS])
    groups = {
        "kind": "APIGroupList",
        "groups": [{"name": "acme.io", "versions": [{"version": "v1"}]}],
    }
    looks.server.answers["/apis"] = msgspec.json.encode(groups)
    looks.server.answers["/apis/acme.io/v1"] = refused(ServerError, 503)
    for _ in range(3):
        await looks.look()
    assert looks.names == ["widgets.acme.io"]
