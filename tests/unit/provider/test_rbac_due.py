"""Rights are compared where an event says that they may differ, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.support.kubebind import NS, bound_schema, claim, crd, export, kube
from tests.unit.provider.test_turns import (
    WIDGETS,
    Refusing,
    WatchedServer,
    drain,
    in_use,
    labelled,
    provider_namespace,
    watching,
)

from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    BOUNDSCHEMAS,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from fairlead.client import Forbidden, ServerError
from fairlead.client.errors import refusal
from fairlead.provider import bounds
from fairlead.provider.controllers.rbac import controller as rbac
from fairlead.provider.controllers.rbac.reconcile import RightsPlan, RightsState, reconcile
from fairlead.provider.options import ProviderOptions
from fairlead.provider.rights import Grounds, rights


def place(name: str) -> str:
    return f"{NS}-{name}"


def granted(cached: Mapping[Resource, Sequence[Object]]) -> dict[Resource, list[Object]]:
    """The same, with all rights there as the controller makes them."""
    (given,) = cached[APISERVICEEXPORTS]
    namespaces = frozenset(one.meta.name for one in cached[NAMESPACES])
    made: dict[Resource, list[Object]] = {}
    for identity, body in rights(Grounds(given, {}, namespaces)).items():
        uid = f"uid-{identity.resource.plural}-{identity.key}"
        metadata = body["metadata"] | {"uid": uid, "resourceVersion": "1"}
        made.setdefault(identity.resource, []).append(
            object_from_dict(body | {"metadata": metadata})
        )
    return {**{kind: list(found) for kind, found in cached.items()}, **made}


class Seen:
    """The controller, and the namespaces that it compares."""

    def __init__(self, server: WatchedServer, controller: rbac.RbacController) -> None:
        self.server = server
        self.controller = controller
        self.compared: list[frozenset[str]] = []

    async def look(self) -> set[str]:
        """Work until nothing waits; the namespaces that were compared."""
        self.compared.clear()
        while await drain(self.controller.controller):
            await self.controller.reconcile(WIDGETS)
        return {name for places in self.compared for name in places}


@asynccontextmanager
async def seen(
    monkeypatch: pytest.MonkeyPatch,
    cached: Mapping[Resource, Sequence[Object]],
    server: type[WatchedServer] = WatchedServer,
) -> AsyncIterator[Seen]:
    async with watching(cached, server) as (stale, cluster, watches):
        found = Seen(stale, rbac.RbacController(cluster, watches, ProviderOptions()))

        def noted(state: RightsState) -> RightsPlan:
            if state.places:
                found.compared.append(state.places)
            return reconcile(state)

        monkeypatch.setattr(rbac, "reconcile", noted)
        yield found


def named(made: Mapping[Resource, Sequence[Object]], resource: Resource, namespace: str) -> Object:
    return next(one for one in made[resource] if one.meta.namespace == namespace)


EVERYWHERE = {"", NS, place("n0"), place("n1"), place("n2")}
MADE = granted(in_use(3))


async def test_all_namespaces_are_compared_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seen(monkeypatch, MADE) as all_:
        assert await all_.look() == EVERYWHERE
        assert not [one for one in all_.server.writes if one[0] != "patch"]


@pytest.mark.parametrize(
    ("kind", "event", "changed", "places"),
    [
        pytest.param(
            NAMESPACES, "ADDED", provider_namespace("n9"), {place("n9")}, id="a namespace comes"
        ),
        pytest.param(
            NAMESPACES, "DELETED", MADE[NAMESPACES][1], {place("n1")}, id="a namespace goes"
        ),
        pytest.param(
            APISERVICENAMESPACES,
            "DELETED",
            kube("APIServiceNamespace", "n1"),
            {place("n1")},
            id="its APIServiceNamespace goes",
        ),
        pytest.param(
            ROLES,
            "MODIFIED",
            labelled(named(MADE, ROLES, place("n1")), rules=[]),
            {place("n1")},
            id="a Role is edited",
        ),
        pytest.param(
            ROLES, "DELETED", named(MADE, ROLES, place("n1")), {place("n1")}, id="a Role goes"
        ),
        pytest.param(
            ROLEBINDINGS,
            "DELETED",
            named(MADE, ROLEBINDINGS, place("n1")),
            {place("n1")},
            id="a RoleBinding goes",
        ),
        pytest.param(
            ROLEBINDINGS,
            "MODIFIED",
            labelled(named(MADE, ROLEBINDINGS, place("n1")), subjects=[]),
            {place("n1")},
            id="a RoleBinding is edited",
        ),
        pytest.param(
            CLUSTERROLES,
            "ADDED",
            object_from_dict(
                {
                    "kind": "ClusterRole",
                    "metadata": {"name": f"kube-binder-resources-{NS}.widgets"},
                }
            ),
            {""},
            id="a ClusterRole comes",
        ),
        pytest.param(
            CLUSTERROLEBINDINGS,
            "ADDED",
            object_from_dict(
                {
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"kube-binder-resources-{NS}.widgets"},
                    "subjects": [
                        {"kind": "ServiceAccount", "name": "kube-binder", "namespace": NS}
                    ],
                }
            ),
            {""},
            id="a ClusterRoleBinding comes",
        ),
        pytest.param(
            APISERVICEEXPORTS,
            "MODIFIED",
            labelled(kube("APIServiceExport", spec=export().to_dict()["spec"], generation=2)),
            EVERYWHERE,
            id="an export gets another spec",
        ),
        pytest.param(
            BOUNDSCHEMAS, "ADDED", bound_schema(), EVERYWHERE, id="a schema of the export comes"
        ),
        pytest.param(
            CUSTOMRESOURCEDEFINITIONS, "ADDED", crd(), EVERYWHERE, id="its CRD gets the label"
        ),
        pytest.param(
            CLUSTERBINDINGS,
            "ADDED",
            kube("ClusterBinding", "cluster", spec={"kubeconfigSecretRef": {"name": "x"}}),
            EVERYWHERE,
            id="the consumer's record comes",
        ),
        pytest.param(
            NAMESPACES,
            "ADDED",
            object_from_dict({"kind": "Namespace", "metadata": {"name": NS, "uid": "x"}}),
            EVERYWHERE,
            id="the cluster namespace comes",
        ),
    ],
)
async def test_an_event_has_compared_what_it_touches(
    monkeypatch: pytest.MonkeyPatch,
    kind: Resource,
    event: str,
    changed: Object,
    places: set[str],
) -> None:
    async with seen(monkeypatch, MADE) as all_:
        await all_.look()
        await all_.server.tell(kind, changed, event)
        assert await all_.look() == places


async def test_a_new_namespace_gets_its_rights_and_no_other_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seen(monkeypatch, MADE) as all_:
        await all_.look()
        all_.server.writes.clear()
        await all_.server.tell(APISERVICENAMESPACES, kube("APIServiceNamespace", "n9"), "ADDED")
        await all_.server.tell(NAMESPACES, provider_namespace("n9"), "ADDED")
        assert await all_.look() == {place("n9")}
        written = [(verb, kind) for verb, kind, *_ in all_.server.writes if verb != "patch"]
        assert written == [("create", "roles"), ("create", "rolebindings")]


async def test_a_consumer_keeps_no_rights_in_a_namespace_that_another_one_gets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seen(monkeypatch, MADE) as all_:
        await all_.look()
        moved = labelled(MADE[NAMESPACES][1]).to_dict()
        owner = {"kube-bind.io/api-service-namespace": "kube-bind-neighbour/n1"}
        moved["metadata"]["annotations"] = owner
        await all_.server.tell(NAMESPACES, object_from_dict(moved), "MODIFIED")
        assert await all_.look() == {place("n1")}
        deleted = [kind for verb, kind, *_ in all_.server.writes if verb == "delete"]
        assert deleted == ["rolebindings", "roles"]


class Away(WatchedServer):
    """Fails as long as it is said to be away."""

    away = False

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        if self.away:
            raise refusal("InternalError", "away")
        return await super().create(resource, body, namespace)


async def test_what_a_failed_turn_left_is_compared_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with seen(monkeypatch, MADE, Away) as all_:
        await all_.look()
        gone = named(MADE, ROLES, place("n1"))
        monkeypatch.setattr(Away, "away", True)
        await all_.server.tell(ROLES, gone, "DELETED")
        with pytest.raises(ServerError):
            await all_.look()
        monkeypatch.setattr(Away, "away", False)
        all_.compared.clear()
        await all_.controller.reconcile(WIDGETS)
        assert all_.compared == [{place("n1")}]
        assert [name for name, _ in all_.server.written("create", "roles")] == [gone.meta.name]


async def test_a_refused_object_alone_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = {**MADE, NAMESPACES: [*MADE[NAMESPACES], provider_namespace("n9")]}
    cached[APISERVICENAMESPACES] = [
        *MADE[APISERVICENAMESPACES],
        kube("APIServiceNamespace", "n9"),
    ]
    async with seen(monkeypatch, cached, Refusing) as all_:
        with pytest.raises(Forbidden):
            await all_.look()
        all_.compared.clear()
        with pytest.raises(Forbidden):
            await all_.controller.reconcile(WIDGETS)
        assert all_.compared == [{place("n9")}]


async def test_what_an_event_names_during_a_turn_is_compared_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Busy(WatchedServer):
        async def delete(self, *given: Any, **preconditions: Any) -> None:
            await super().delete(*given, **preconditions)
            if len(self.written("delete", "rolebindings")) == 1:
                await self.tell(NAMESPACES, MADE[NAMESPACES][2], "DELETED")

    async with seen(monkeypatch, MADE, Busy) as all_:
        await all_.look()
        await all_.server.tell(NAMESPACES, MADE[NAMESPACES][1], "DELETED")
        assert await all_.look() == {place("n1"), place("n2")}


class Living(WatchedServer):
    """Does what it is asked for, and tells its watches."""

    async def create(
        self, resource: Resource, body: JSON, namespace: str = "", **_: Any
    ) -> Object:
        made = await super().create(resource, body, namespace)
        await self.tell(resource, made, "ADDED")
        return made

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, **_: Any
    ) -> Object:
        found = await super().merge_patch(resource, name, namespace, patch)
        if resource == ROLES:
            known = next(
                one for one in self._cached[ROLES] if one.key == Key(namespace, name)
            ).to_dict()
            await self.tell(resource, object_from_dict(known | {"rules": patch["rules"]}))
        return found

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **preconditions: Any
    ) -> None:
        await super().delete(resource, name, namespace, **preconditions)
        gone = next(one for one in self._cached[resource] if one.key == Key(namespace, name))
        await self.tell(resource, gone, "DELETED")


async def test_obsolete_rights_go_everywhere_before_any_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that fails delays no end of a right, however many namespaces there are."""
    cached = in_use(bounds.LOT + 5)
    with_claim = {**cached, APISERVICEEXPORTS: [export(permissionClaims=[claim()])]}
    made = granted(with_claim)
    # The export offers another resource now, and claims nothing any more.
    other = {"group": "example.org", "resource": "gadgets", "versions": ["v1"]}
    made[APISERVICEEXPORTS] = [export(resources=[other])]
    async with seen(monkeypatch, made, Living) as all_:
        await all_.look()
        verbs = [verb for verb, kind, *_ in all_.server.writes if "role" in kind]
    deletions = 2 * (bounds.LOT + 5)
    assert verbs[:deletions] == ["delete"] * deletions
    assert verbs[deletions:] == ["patch"] * (bounds.LOT + 5)


async def test_no_turn_compares_more_than_two_lots(monkeypatch: pytest.MonkeyPatch) -> None:
    async with seen(monkeypatch, granted(in_use(3 * bounds.LOT))) as all_:
        assert len(await all_.look()) == 3 * bounds.LOT + 2
        assert max(map(len, all_.compared)) <= 2 * bounds.LOT
