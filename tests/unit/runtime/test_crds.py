"""Installing CRDs: created, updated or left alone, and waited for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from tests.unit.runtime.fakes import refusal

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.runtime.crds import CRDError, install_crds, merged, refuse_bound_crds


Run = Callable[[Awaitable[Any]], Any]

ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
TAKEN = {
    "conditions": [
        {"type": "NamesAccepted", "status": "False", "message": '"widgets" is already in use'}
    ]
}


def crd(name: str = "widgets.example.org", **metadata: Any) -> JSON:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **metadata},
        "spec": {
            "group": "example.org",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


def served(body: JSON, status: JSON | None = None) -> JSON:
    """A CRD as the server gives it back: with its defaults and a status."""
    spec = {
        **body["spec"],
        "conversion": {"strategy": "None"},
        "names": {**body["spec"]["names"], "singular": "widget", "listKind": "WidgetList"},
    }
    metadata = {**body["metadata"], "uid": "u", "resourceVersion": "5"}
    return {**body, "metadata": metadata, "spec": spec, "status": status or {}}


class Server:
    """CRDs by name; what is written is established after so many looks."""

    def __init__(self, looks: int = 2, status: JSON | None = None) -> None:
        self.crds: dict[str, JSON] = {}
        self.writes: list[str] = []
        self.errors: list[Exception] = []
        self.looks = looks
        self.status = status or ESTABLISHED
        self.discovery = self
        self.invalidated = 0

    def invalidate(self) -> None:
        self.invalidated += 1

    async def get(self, resource: Resource, name: str) -> Object:
        if name not in self.crds:
            raise refusal("NotFound")
        if self.writes:
            self.looks -= 1
            if self.looks <= 0:
                self.crds[name]["status"] = self.status
        return object_from_dict(self.crds[name])

    async def create(self, resource: Resource, body: JSON) -> Object:
        return self.write("create", body)

    async def update(self, resource: Resource, body: JSON) -> Object:
        return self.write("update", body)

    def write(self, verb: str, body: JSON) -> Object:
        self.writes.append(f"{verb} {body['metadata']['name']}")
        if self.errors:
            error = self.errors.pop(0)
            if verb == "create":
                self.crds[body["metadata"]["name"]] = served(body)
            raise error
        self.crds[body["metadata"]["name"]] = served(body)
        return object_from_dict(body)


def test_creates_and_waits(virtual: Run) -> None:
    server = Server()
    virtual(install_crds(cast("Client", server), [crd("a.example.org"), crd("b.example.org")]))
    assert server.writes == ["create a.example.org", "create b.example.org"]
    assert server.looks <= 0
    assert server.invalidated == 1


def test_leaves_alone_what_is_as_wanted(virtual: Run) -> None:
    server = Server()
    server.crds["widgets.example.org"] = served(crd(labels={"other": "x"}), ESTABLISHED)
    virtual(install_crds(cast("Client", server), [crd()]))
    assert server.writes == []


@pytest.mark.parametrize(
    ("live", "wanted", "labels"),
    [
        pytest.param(crd(), crd(), None, id="equal"),
        pytest.param(crd(labels={"a": "1"}), crd(), None, id="labels-of-others"),
        pytest.param(crd(), crd(labels={"b": "2"}), {"b": "2"}, id="new-label"),
        pytest.param(
            crd(labels={"a": "1", "b": "1"}),
            crd(labels={"b": "2"}),
            {"a": "1", "b": "2"},
            id="merged-labels",
        ),
    ],
)
def test_merged_labels(live: JSON, wanted: JSON, labels: dict[str, str] | None) -> None:
    result = merged(object_from_dict(served(live)), wanted)
    assert (result and result["metadata"].get("labels")) == labels


def test_a_changed_spec_is_written_over_the_live_version() -> None:
    wanted = crd()
    wanted["spec"]["versions"].append({"name": "v2", "served": True, "storage": False})
    result = merged(object_from_dict(served(crd())), wanted)
    assert result is not None
    assert result["spec"] == wanted["spec"]
    assert result["metadata"]["resourceVersion"] == "5"


OLDER = {"name": "v1alpha1", "served": True, "storage": True, "schema": {"a": "b"}}
UNSERVED = {**OLDER, "served": False, "storage": False}
NEW = {"name": "v1", "served": True, "storage": True}


@pytest.mark.parametrize(
    ("live", "stored", "versions"),
    [
        pytest.param([OLDER], ["v1alpha1"], [NEW, UNSERVED], id="the-only-one"),
        pytest.param(
            [{**OLDER, "storage": False}, NEW],
            ["v1alpha1", "v1"],
            [NEW, UNSERVED],
            id="stored-earlier",
        ),
        pytest.param([NEW, UNSERVED], ["v1alpha1", "v1"], None, id="unserved-already"),
        pytest.param([NEW, UNSERVED], ["v1"], [NEW], id="stored-no-more"),
        pytest.param([{**OLDER, "storage": False}, NEW], ["v1"], [NEW], id="never-stored"),
        pytest.param([NEW], ["v1alpha1", "v1"], None, id="not-there-to-be-kept"),
    ],
)
def test_a_version_stays_unserved_while_objects_may_be_stored_in_it(
    live: list[JSON], stored: list[str], versions: list[JSON] | None
) -> None:
    body = crd()
    body["spec"]["versions"] = live
    found = object_from_dict(served(body, {"storedVersions": stored}))
    result = merged(found, crd())
    assert (result and result["spec"]["versions"]) == versions


@pytest.mark.parametrize("reason", ["Conflict", "NotFound"])
def test_somebody_else_at_the_same_crd_is_tried_again(virtual: Run, reason: str) -> None:
    server = Server()
    server.crds["widgets.example.org"] = served(crd())
    server.errors = [refusal(reason)]
    virtual(install_crds(cast("Client", server), [crd(labels={"a": "1"})]))
    assert server.writes == ["update widgets.example.org"] * 2


def test_two_that_create_at_once_agree(virtual: Run) -> None:
    server = Server()
    server.errors = [refusal("AlreadyExists")]
    virtual(install_crds(cast("Client", server), [crd()]))
    assert server.writes == ["create widgets.example.org"]


def owner(kind: str, api_version: str, *, controller: bool = True) -> JSON:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": "databases",
        "uid": "binding-1",
        "controller": controller,
    }


BOUND_BY = {"kube-bind.io/bound-by": "databases"}
HELM = {"meta.helm.sh/release-name": "ours", "meta.helm.sh/release-namespace": "default"}
ARGO = {"argocd.argoproj.io/tracking-id": "ours:apiextensions.k8s.io/CRD:default/widgets"}


@pytest.mark.parametrize(
    ("metadata", "bound"),
    [
        pytest.param({"annotations": BOUND_BY}, True, id="annotation-of-a-backup"),
        pytest.param(
            {"ownerReferences": [owner("APIServiceBinding", "kube-bind.io/v1alpha2")]},
            True,
            id="controller-of-kube-binds-own-konnector",
        ),
        pytest.param(
            {"ownerReferences": [owner("APIServiceBinding", "kube-bind.io/v1alpha1")]},
            True,
            id="controller-of-an-older-version",
        ),
        pytest.param(
            {"ownerReferences": [owner("APIServiceBinding", "kube-bind.io/v1", controller=False)]},
            False,
            id="an-owner-that-is-no-controller",
        ),
        pytest.param(
            {"ownerReferences": [owner("APIServiceBinding", "example.org/v1")]},
            False,
            id="a-kind-of-that-name-of-another-group",
        ),
        pytest.param(
            {"ownerReferences": [owner("App", "example.org/v1")]}, False, id="another-controller"
        ),
        pytest.param({"annotations": HELM}, False, id="helm"),
        pytest.param({"annotations": ARGO}, False, id="argo-cd"),
        pytest.param(
            {"labels": {"kube-bind.io/exported": "true"}}, False, id="exported-by-this-cluster"
        ),
        pytest.param({}, False, id="kubectl"),
    ],
)
def test_a_crd_that_kube_bind_brings_is_left_alone(
    virtual: Run, metadata: JSON, bound: bool
) -> None:
    server = Server()
    server.crds["widgets.example.org"] = served(crd(**metadata))
    client = cast("Client", server)
    wanted = [crd("another.example.org"), crd(labels={"version": "new"})]
    if not bound:
        virtual(refuse_bound_crds(client, wanted))
        virtual(install_crds(client, wanted))
        assert server.writes == ["create another.example.org", "update widgets.example.org"]
        return
    for look in (install_crds, refuse_bound_crds):
        with pytest.raises(CRDError, match="databases brings CRD widgets") as error:
            virtual(look(client, wanted))
        assert "run this program in the provider's cluster" in str(error.value)
        assert "`fairlead bindings databases`" in str(error.value)
    # Also none that comes before it.
    assert server.writes == []


@pytest.mark.parametrize("reason", ["AlreadyExists", "Conflict"])
def test_a_crd_that_is_bound_meanwhile_is_left_alone(
    virtual: Run, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    server = Server()
    bound = served(crd(annotations=BOUND_BY))
    if reason == "Conflict":
        server.crds["widgets.example.org"] = served(crd())

    def bind(verb: str, _body: JSON) -> Object:
        server.writes.append(verb)
        server.crds["widgets.example.org"] = bound
        raise refusal(reason)

    monkeypatch.setattr(server, "write", bind)
    with pytest.raises(CRDError, match="databases brings CRD"):
        virtual(install_crds(cast("Client", server), [crd(labels={"version": "new"})]))
    assert len(server.writes) == 1
    assert server.crds["widgets.example.org"] is bound


def test_who_may_not_read_crds_is_not_refused(
    virtual: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()

    async def get(_resource: Resource, _name: str) -> Object:
        raise refusal("Forbidden")

    monkeypatch.setattr(server, "get", get)
    virtual(refuse_bound_crds(cast("Client", server), [crd()]))


@pytest.mark.parametrize(
    ("server", "message"),
    [
        pytest.param(
            Server(status=TAKEN), 'names are not accepted: "widgets" is already', id="names-taken"
        ),
        pytest.param(
            Server(looks=10**6),
            "widgets.example.org is not established after 30 s: no Established condition yet",
            id="never-established",
        ),
    ],
)
def test_what_is_not_served_is_an_error(virtual: Run, server: Server, message: str) -> None:
    with pytest.raises(CRDError, match=message):
        virtual(install_crds(cast("Client", server), [crd()]))


def test_endless_conflicts_end(virtual: Run) -> None:
    server = Server()
    server.crds["widgets.example.org"] = served(crd())
    server.errors = [refusal("Conflict")] * 100
    with pytest.raises(CRDError, match="others keep changing it"):
        virtual(install_crds(cast("Client", server), [crd(labels={"a": "1"})]))
    assert len(server.writes) <= 20
