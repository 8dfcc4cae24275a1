"""Bindings and their objects, as people with different rights see them."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.portal.console.test_live import followed
from tests.integration.portal.console.test_pages import MARKUP, read, shown
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    CEM,
    House,
    _quiet,
    admin,
    house,
    plane,
    template,
)
from tests.support.filled import GADGETS, Filled, condition, crd, gadget
from tests.support.portal import Answer
from tests.support.waiting import eventually

from fairlead.api.kubebind import (
    ANNOTATION_CLUSTER_PRETTY_NAME,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import ObjectMeta
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, Resource
from fairlead.api.timestamps import now
from fairlead.client import AlreadyExists, Client, Forbidden, NotFound
from fairlead.portal.identity.sessions import Person
from fairlead.provider.copies import CopyNamespaces
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

OK = condition("Ready", "True")
BAD = condition("Ready", "False", "BuildFailed", "it does not turn")
WAITS = condition("Ready", "False", "NamespacePending", "soon")
PLANTS = Resource("example.org", "v1", "plants", "Plant", namespaced=False)
WHOSE = CopyNamespaces.whose
LONG = "n" + "0123456789" * 25 + "xy"
TOOLS = "/bindings/ada-1/tools"


async def tells(there: House, person: Person, path: str, *texts: str) -> str:
    """Wait until a page has all these texts; returns its text."""

    async def has() -> bool:
        answer = await there.ask(person, path)
        return answer.status == 200 and all(one in read(answer).text for one in texts)

    await eventually(has)
    return (await shown(there, person, path)).text


async def lacks(there: House, person: Person, path: str, text: str) -> None:
    async def gone() -> bool:
        return text not in (await shown(there, person, path)).text

    await eventually(gone)


async def gone(there: House, person: Person, path: str) -> Answer:
    async def missing() -> bool:
        return (await there.ask(person, path)).status == 404

    await eventually(missing)
    return await there.ask(person, path)


async def ada(filled: Filled) -> str:
    """Ada's cluster with a binding; returns her namespace on the provider."""
    await filled.consumer("ada-1", ADA, "cluster of ada")
    await filled.export("ada-1")
    return await filled.namespace("ada-1", "shop")


async def test_a_binding_tells_its_objects_by_state(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.put(
        gadget(where, "good", OK), gadget(where, "bad", BAD), gadget(where, "slow", WAITS)
    )
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, "/bindings", "1 failed 1 waiting 1 healthy")
        assert "konnector v1.2.3" in text
        text = await tells(there, ADA, TOOLS, "good", "bad", "slow")
        assert "State healthy" in text
        assert "3 1 failed 1 waiting 1 healthy" in text
        assert "BuildFailed: it does not turn" in text
        # The worst first, and what helps in the words of the tables.
        assert text.index("bad") < text.index("slow") < text.index("good")
        assert "ask the team that runs its controller what it waits for" in text
        for query, there_, not_there in (
            ("state=failed", "bad", "slow"),
            ("q=SLOW", "slow", "bad"),
        ):
            found = (await shown(there, ADA, f"{TOOLS}?{query}")).text.split("Objects")[-1]
            assert there_ in found
            assert not_there not in found.split("Conditions")[0]
        assert "None of 3 objects matches" in (await shown(there, ADA, f"{TOOLS}?q=none")).text
        page = await shown(there, ADA, TOOLS)
        # Failing objects are counted beside the binding's state, with the way to them.
        assert f"{TOOLS}?state=failed" in page.addresses
        (path,) = [one for one in page.addresses if one.endswith("/bad")]
        text = (await shown(there, ADA, path)).text
        assert "It waits for the controller of its kind" in text
        assert "colour: red" in text
        assert "BuildFailed: it does not turn" in text
        body = (await admin.get(GADGETS, "bad", where)).to_dict()
        await admin.update(GADGETS, body | {"status": {"conditions": [OK]}})
        await admin.delete(GADGETS, "slow", where)
        text = await tells(there, ADA, "/bindings", "2 healthy")
        assert "waiting" not in text.split("Last heartbeat")[1]


async def test_a_heartbeat_becomes_late_without_a_change(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await ada(filled)
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, "/bindings", "cluster of ada", "konnector v1.2.3")
        await admin.merge_patch(
            CLUSTERBINDINGS,
            "cluster",
            "ada-1",
            patch={"status": {"lastHeartbeatTime": now(), "heartbeatInterval": "2s"}},
            subresource="status",
        )
        late = "more than twice the interval 2s ago"
        assert late in await tells(there, ADA, "/bindings", late)
        named = {"metadata": {"annotations": {ANNOTATION_CLUSTER_PRETTY_NAME: "shop of ada"}}}
        await admin.merge_patch(CLUSTERBINDINGS, "cluster", "ada-1", patch=named)
        await tells(there, ADA, "/bindings", "shop of ada", late)


async def test_a_list_is_filtered_by_its_query(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await ada(filled)
    await filled.consumer("ada-2", ADA, "second")
    await filled.export("ada-2", "parts", BAD)
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, "/bindings", "tools", "parts")
        for query, one, other in (
            ("state=failed", "parts", "tools"),
            ("cluster=second+(identity-ada-2)", "parts", "tools"),
            ("q=cluster+of", "tools", "parts"),
            ("state=ok", "tools", "parts"),
        ):
            page = await shown(there, ADA, f"/bindings?{query}")
            links = [at for at in page.addresses if at.startswith("/bindings/")]
            assert [at for at in links if one in at], query
            assert not [at for at in links if other in at], query
            assert ", 2 in all" in page.text
        page = await shown(there, ADA, "/bindings?kind=none.example.org")
        assert "None of 2 bindings matches" in page.text


async def test_a_template_says_where_it_is_bound_already(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await ada(filled)
    await filled.export("ada-1", "others", kinds=("plants",))
    body = template("shop")
    body["spec"]["resources"][0]["resource"] = "gadgets"
    async with house(plane, admin, provider=False) as there:
        await admin.create(APISERVICEEXPORTTEMPLATES, body)
        await there.allow("User:oidc:ada", "User:oidc:ben")
        for path in ("/templates/shop", "/bind/shop"):
            text = await tells(there, ADA, path, "bound it already: tools in cluster of ada")
            assert "others" not in text
            assert "already" not in (await shown(there, BEN, path)).text


async def test_two_people_do_not_see_each_others(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.consumer("ben-1", BEN, "cluster of ben")
    await filled.export("ben-1")
    bens = await filled.namespace("ben-1", "shop")
    await filled.put(gadget(where, "hers", OK), gadget(bens, "his", OK))
    hers = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    his = f"/objects/ben-1/gadgets.example.org/{bens}/his"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, hers, "colour: red")
        await tells(there, BEN, his, "colour: red")
        assert "cluster of ben" not in await tells(there, ADA, "/bindings", "cluster of ada")
        refused = [
            *((BEN, one) for one in (hers, TOOLS, f"/live{hers}", f"/live{TOOLS}")),
            *((ADA, one) for one in (his, "/bindings/ben-1/tools")),
            *((CEM, one) for one in (hers, his, TOOLS)),
            # By her own consumer, or by none, to what is his.
            (ADA, f"/objects/ada-1/gadgets.example.org/{bens}/his"),
            (ADA, f"/objects/default/gadgets.example.org/{bens}/his"),
            (ADA, "/objects/ada-1/secrets/ada-1/kubeconfig"),
            (ADA, "/objects/ada-1/gadgets.example.org/-/hers"),
        ]
        for person, path in refused:
            assert (await there.ask(person, path)).status == 404, path
        # In the same words as what is not there.
        absent = await there.ask(ADA, f"/objects/ada-1/gadgets.example.org/{where}/none")
        other = await there.ask(ADA, f"/objects/ben-1/gadgets.example.org/{bens}/his")
        words = read(absent).text.replace(f"{where}/none", f"{bens}/his")
        assert read(other).text == words


async def test_an_administrator_sees_what_rbac_lets_them(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.put(gadget(where, "hers", OK))
    path = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, TOOLS, "hers")
        assert "You have bound nothing yet" in (await shown(there, CEM, "/bindings")).text
        await filled.lets("oidc:cem", ("kube-bind.io", "apiserviceexports"))
        text = await tells(there, CEM, "/bindings", "cluster of ada", "tools", "0 or more")
        # Heartbeats and objects are rights of their own.
        assert "v1.2.3" not in text
        assert "You may not see all objects of" in (await shown(there, CEM, TOOLS)).text
        assert (await there.ask(CEM, path)).status == 404
        await filled.lets(
            "oidc:cem",
            ("example.org", "gadgets"),
            ("kube-bind.io", "clusterbindings"),
            name="more",
        )
        await tells(there, CEM, TOOLS, "hers", "konnector v1.2.3")
        assert "1 healthy" in (await shown(there, CEM, "/bindings")).text
        await tells(there, CEM, path, "colour: red")


async def test_a_right_that_is_taken_away_ends_page_and_stream(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.put(gadget(where, "hers", OK))
    path = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, path, "colour: red")
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, f"/live{path}") as stream:
            assert "colour: red" in (await stream.told())[1]
            await filled.forbid(where)
            while (told := await stream.told())[0] == "":
                pass
            assert told == ("over", "over")
        await gone(there, ADA, path)
        await tells(there, ADA, TOOLS, "You may not see all objects of")
        await tells(there, ADA, "/bindings", "0 or more")


async def test_a_kind_that_may_not_be_read_tells_what_helps(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds(rights=False)
    where = await ada(filled)
    await filled.put(gadget(where, "hers", OK))
    async with house(plane, admin, provider=False) as there:
        remedy = "fairlead manifests provider --export gadgets.example.org"
        for path in ("/bindings", TOOLS):
            await tells(there, ADA, path, "The server may not read gadgets.example.org", remedy)
        await filled.rights("gadgets.example.org")
        await tells(there, ADA, TOOLS, "hers")


async def test_kinds_are_followed_while_they_are_exported(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    async with house(plane, admin, provider=False) as there:
        where = await ada(filled)
        await tells(there, ADA, TOOLS, "its CustomResourceDefinition does not exist")
        await filled.kinds()
        await filled.put(gadget(where, "hers", OK))
        await tells(there, ADA, TOOLS, "hers")
        await admin.delete(APISERVICEEXPORTS, "tools", "ada-1")
        await gone(there, ADA, TOOLS)
        await gone(there, ADA, f"/objects/ada-1/gadgets.example.org/{where}/hers")
        await filled.export("ada-1")
        await tells(there, ADA, TOOLS, "hers")
        await admin.delete(CUSTOMRESOURCEDEFINITIONS, "gadgets.example.org")
        await tells(there, ADA, TOOLS, "its CustomResourceDefinition does not exist")


async def test_names_of_253_characters_have_pages(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await filled.consumer("ada-1", ADA)
    await filled.export("ada-1", LONG)
    where = await filled.namespace("ada-1", "s" * 50)
    await filled.put(gadget(where, LONG, OK))
    assert len(LONG) == 253
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, f"/bindings/ada-1/{LONG}", "1 healthy")
        for start in ("/bindings", f"/bindings/ada-1/{LONG}"):
            page = await shown(there, ADA, start)
            (path,) = {one for one in page.addresses if one.endswith(f"/{LONG}")} - {start}
            assert (await there.ask(ADA, path)).status == 200
            assert (await there.ask(ADA, f"{path}/none")).status == 404


async def test_markup_of_others_is_text(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await filled.consumer("ada-1", ADA, MARKUP)
    await filled.export("ada-1", "tools", condition("Ready", "False", "Odd", MARKUP))
    where = await filled.namespace("ada-1", "shop")
    bad = condition(MARKUP, "False", "NamespacePending", MARKUP) | {"lastTransitionTime": MARKUP}
    (made,) = await filled.put(gadget(where, "odd", bad, text=MARKUP, secret=MARKUP))
    await filled.event(made, MARKUP)
    await filled.lets("oidc:ada", ("", "events"))
    path = f"/objects/ada-1/gadgets.example.org/{where}/odd"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, path, "Refused")
        for page in ("/bindings", TOOLS, path, f"{TOOLS}?q=%3Cscript%3E&unbind=%3Cscript%3E"):
            assert MARKUP in (await shown(there, ADA, page)).text
        assert f"Secret {MARKUP}" in (await shown(there, ADA, path)).text


async def test_what_turns_other_text_is_seen_to_stand(plane: Sandbox, admin: Client) -> None:
    odd = "a\u202eb\u2066c\x1b[2J\x9b"
    filled = Filled(admin)
    await filled.kinds()
    await filled.consumer("ada-1", ADA, odd)
    await filled.export("ada-1", "tools", condition("Ready", "False", "Odd", odd))
    where = await filled.namespace("ada-1", "shop")
    bad = condition(odd, "False", odd, odd) | {"lastTransitionTime": odd}
    (made,) = await filled.put(gadget(where, "odd", bad, text=odd, secret=odd))
    await filled.event(made, odd)
    await filled.lets("oidc:ada", ("", "events"))
    path = f"/objects/ada-1/gadgets.example.org/{where}/odd"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, path, "Refused")
        for page in ("/bindings", TOOLS, path, "/topology", "/live/topology"):
            token, _ = await there.sessions.create(ADA, "browser")
            if page.startswith("/live"):
                async with followed(there, token, page) as stream:
                    text = (await stream.told())[1]
            else:
                text = (await there.ask(ADA, page)).text
            assert not set(odd) & set(text) - set("abc[2J"), page
        assert "a\ufffdb\ufffdc\ufffd[2J\ufffd" in (await shown(there, ADA, path)).text


async def test_events_need_a_right_of_their_own(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    (made,) = await filled.put(gadget(where, "hers", OK))
    await filled.event(made, "a webhook refuses it")
    path = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, path, f"you may not list events in namespace {where}")
        assert "a webhook refuses it" not in text
        await filled.lets("oidc:ada", ("", "events"))
        text = await tells(there, ADA, path, "a webhook refuses it")
        assert "Events are not shown" not in text


async def test_an_open_page_tells_what_turned_and_that_it_is_gone(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.put(gadget(where, "hers", WAITS))
    path = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, path, "NamespacePending")
        (stream_of,) = (await shown(there, ADA, path)).streams
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, stream_of) as stream:
            body = (await admin.get(GADGETS, "hers", where)).to_dict()
            body["status"] = {"conditions": [OK]}
            await admin.update(GADGETS, body)
            _, text = await stream.told()
            assert "state ok" in text
            assert "Ready is True" in text
            await admin.delete(GADGETS, "hers", where)
            _, text = await stream.told()
            assert "This object is gone" in text
        answer = await there.ask(ADA, path)
        assert answer.status == 404


async def test_an_example_of_a_new_object_can_be_copied(plane: Sandbox, admin: Client) -> None:
    filled = Filled(admin)
    definition = crd()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["size", "title"],
                "properties": {
                    "size": {"type": "integer", "minimum": 3},
                    "title": {"type": "string", "enum": [MARKUP, "b"]},
                },
            }
        },
    }
    await filled.kinds(definition)
    await ada(filled)
    path = f"{TOOLS}/new/gadgets.example.org"
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, path, "New Gadget", "kind: Gadget", "size: 3", MARKUP)
        assert "kubectl apply -f gadget.yaml" in text
        assert "with a kubeconfig of cluster of ada" in text
        assert path in (await shown(there, ADA, TOOLS)).addresses
        assert (await there.ask(BEN, path)).status == 404
        assert (await there.ask(ADA, path, "POST", data={"a": "b"})).status == 405
        for other in (f"{TOOLS}/new/none.example.org", "/bindings/ada-1/none/new/gadgets"):
            assert (await there.ask(ADA, other)).status == 404


async def test_unbinding_asks_for_the_name_and_tells_the_command(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    await ada(filled)
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, TOOLS, "Type the binding's name")
        assert "fairlead unbind" not in text
        text = (await shown(there, ADA, f"{TOOLS}?unbind=other")).text
        assert "other is not the name of this binding" in text
        assert "fairlead unbind" not in text
        text = (await shown(there, ADA, f"{TOOLS}?unbind=tools")).text
        assert "fairlead unbind tools --orphan" in text
        assert "kubectl" not in text


async def test_a_thousand_objects_are_paged_with_their_total(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    bodies = [gadget(where, f"g{one:04}", OK if one % 2 else BAD) for one in range(1000)]
    await asyncio.gather(*(filled.put(*bodies[one::20]) for one in range(20)))
    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, "/bindings", "500 failed 500 healthy", "1000")
        page = await shown(there, ADA, f"{TOOLS}?sort=name")
        assert "1 to 200 of 1000" in page.text
        (following,) = [one for one in page.addresses if "page=2" in one]
        page = await shown(there, ADA, following)
        assert "201 to 400 of 1000" in page.text
        assert "g0200" in page.text
        page = await shown(there, ADA, f"{TOOLS}?state=failed&page=3")
        assert "401 to 500 of 500 objects, 1000 in all" in page.text


async def plant(filled: Filled, consumer: str, person: Person) -> None:
    """Have a consumer with a cluster-scoped object of its own."""
    await filled.consumer(consumer, person)
    await filled.export(consumer, "garden", kinds=("plants",))
    body = {
        "apiVersion": "example.org/v1",
        "kind": "Plant",
        "metadata": {
            "name": f"{consumer}-rose",
            "annotations": {"kube-bind.io/cluster-namespace": consumer},
        },
        "status": {"conditions": [OK]},
    }
    await filled.put(body, resource=PLANTS)


async def test_cluster_scoped_objects_are_their_consumers_alone(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds(crd("plants", "Plant", "Cluster"))
    for name, person in (("ada-1", ADA), ("ben-1", BEN)):
        await plant(filled, name, person)
        # As the provider gives it: on the whole kind.
        await filled.lets_account(name, "gadgets-reader")
    async with house(plane, admin, provider=False) as there:
        text = await tells(there, ADA, "/bindings/ada-1/garden", "ada-1-rose")
        assert "ben-1-rose" not in text
        await tells(there, ADA, "/objects/ada-1/plants.example.org/-/ada-1-rose", "Plant")
        for consumer in ("ada-1", "ben-1"):
            path = f"/objects/{consumer}/plants.example.org/-/ben-1-rose"
            assert (await there.ask(ADA, path)).status == 404


async def test_cluster_scoped_objects_are_sorted_out_once_for_all_consumers(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled, number = Filled(admin), 12
    await filled.kinds(crd("plants", "Plant", "Cluster"))
    for name in (f"ada-{one}" for one in range(number)):
        await plant(filled, name, ADA)
    await filled.lets("oidc:ada", ("kube-bind.io", "apiserviceexports"), ("example.org", "plants"))
    asked = 0

    def whose(places: CopyNamespaces, resource: Resource, meta: ObjectMeta) -> str:
        nonlocal asked
        asked += 1
        return WHOSE(places, resource, meta)

    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, "/bindings", *["1 healthy"] * number)
        monkeypatch.setattr(CopyNamespaces, "whose", whose)
        for path in ("/bindings", "/topology"):
            asked = 0
            text = (await shown(there, ADA, path)).text
            assert "ada-0" in text
            assert asked <= 3 * number


async def test_a_cluster_made_anew_for_another_person_is_out_of_reach(
    plane: Sandbox, admin: Client
) -> None:
    filled = Filled(admin)
    await filled.kinds()
    where = await ada(filled)
    await filled.put(gadget(where, "hers", OK))
    path = f"/objects/ada-1/gadgets.example.org/{where}/hers"
    secret = condition("Ready", "False", "Broken", "words of ben")

    async def made() -> bool:
        try:
            await filled.consumer("ada-1", BEN, "cluster of ben")
        except (AlreadyExists, Forbidden, NotFound):
            return False
        return True

    async with house(plane, admin, provider=False) as there:
        await tells(there, ADA, TOOLS, "hers")
        token, _ = await there.sessions.create(ADA, "browser")
        async with (
            followed(there, token, f"/live{TOOLS}") as binding,
            followed(there, token, f"/live{path}") as object_,
        ):
            for stream in (binding, object_):
                assert "hers" in (await stream.told())[1]
            for one in (where, "ada-1"):
                await admin.delete(NAMESPACES, one)
            await eventually(made)
            await filled.export("ada-1", "tools", secret)
            await filled.namespace("ada-1", "shop")
            await filled.put(gadget(where, "hers", secret))
            await tells(there, BEN, path, "words of ben")
            for stream in (binding, object_):
                event, text = "", ""
                while event == "":
                    assert "ben" not in text
                    event, text = await stream.told()
                assert event == "over"
        for page in (TOOLS, path):
            assert (await there.ask(ADA, page)).status == 404
        for page in ("/bindings", "/topology"):
            assert "ben" not in (await shown(there, ADA, page)).text
