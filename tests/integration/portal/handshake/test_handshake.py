"""What people see and bind, with the rights of the program's own manifests."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import yaml
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    CEM,
    ISSUER,
    collection,
    house,
    template,
)
from tests.support.portal import Answer
from tests.support.provider import example
from tests.support.waiting import SECONDS, gone, idle, when

from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_IDENTITY,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    COLLECTIONS,
    cluster_namespace,
    decode_binding_response,
)
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CLUSTERROLEBINDINGS, NAMESPACES, SECRETS
from fairlead.client import Client, Forbidden, parse_kubeconfig
from fairlead.client.transport import parse_warnings
from fairlead.portal.handshake.ownership import OwnedNamespace, Ownership
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.identity.sessions import Person
from fairlead.portal.options import DEFAULT_NAMESPACE
from fairlead.provider import identity
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.handover import hand_over
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await look():  # noqa: ASYNC110  another server's turn
            await asyncio.sleep(0.02)


def names(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [one["metadata"]["name"] for one in answer.json["items"]]


async def test_each_person_sees_what_they_may_bind(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        for name in ("ones", "twos", "threes"):
            await it.template(name)
        await admin.create(COLLECTIONS, collection("both", "ones", "twos"))
        await admin.create(COLLECTIONS, collection("rest", "threes"))
        await it.allow("Group:oidc:team-a", templates=("ones",))
        await it.allow("User:oidc:ben")

        async def seen() -> bool:
            return names(await it.ask(BEN, "/api/templates")) == ["ones", "threes", "twos"]

        await until(seen)
        assert names(await it.ask(ADA, "/api/templates")) == ["ones"]
        found = await it.ask(ADA, "/api/collections")
        assert names(found) == ["both"]
        assert found.json["items"][0]["spec"]["templates"] == [{"name": "ones"}]
        assert names(await it.ask(BEN, "/api/collections")) == ["both", "rest"]


async def test_who_signed_in_without_groups_is_told_with_every_answer_about_rights(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin) as there:
        await there.template()
        await there.allow("Group:oidc:team-c")
        many = Person(ISSUER, "many", groups_left_out=True)
        for path in ("/api/templates", "/api/collections"):
            listed = await there.ask(many, path)
            (warning,) = parse_warnings([listed.headers["Warning"]])
            assert names(listed) == []
            assert "the issuer named no groups" in warning
            assert "--oidc-groups-claim" in warning
            others = await there.ask(CEM, path)
            assert (names(others), others.headers.get("Warning")) == ([], None)
        refused = await there.bind(many)
        assert refused.status == 403
        assert "the issuer named no groups" in refused.json["details"]


async def test_a_list_has_nothing_of_its_owners(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")

        async def seen() -> bool:
            return bool(names(await it.ask(ADA, "/api/templates")))

        await until(seen)
        (item,) = (await it.ask(ADA, "/api/templates")).json["items"]
        assert item["metadata"]["annotations"] == {"kept": "yes"}
        assert "managedFields" not in item["metadata"]
        assert (item["kind"], item["apiVersion"]) == (
            "APIServiceExportTemplate",
            "kube-bind.io/v1alpha2",
        )


async def test_a_bind_gives_a_kubeconfig_and_leaves_no_trace_of_it(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("Group:oidc:team-a")
        answer = await it.bind(ADA, name="shop")
        assert answer.status == 200, answer.text
        response = decode_binding_response(answer.text.encode())
        assert [one.metadata.name for one in response.requests] == ["shop"]
        grant = response.authentication.oauth2_code_grant
        assert grant is not None
        assert grant.id == ADA.author
        async with Client(parse_kubeconfig(response.kubeconfig)) as consumer:
            await consumer.list(SECRETS, response.provider_namespace)
            with pytest.raises(Forbidden):
                await consumer.list(SECRETS, DEFAULT_NAMESPACE)
        assert not (await admin.list(BINDABLERESOURCESREQUESTS)).items
        left = [one.meta.name for one in (await admin.list(SECRETS, DEFAULT_NAMESPACE)).items]
        assert not [name for name in left if name.startswith("fairlead-bind")]
        again = await it.bind(ADA, name="shop")
        assert again.json["kubeconfig"] == answer.json["kubeconfig"]
        made = [one for one in (await admin.list(NAMESPACES)).items if _identity(one)]
        assert len(made) == 1


def _identity(namespace: object) -> str:
    return str(namespace.meta.annotations.get(ANNOTATION_IDENTITY, ""))  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", ["body", "query"])
async def test_s1_an_identity_belongs_to_whom_it_bound_first(
    plane: Sandbox, admin: Client, said: str
) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada", "User:oidc:ben")
        first = await it.bind(ADA, identity="cluster-1")
        assert first.status == 200, first.text
        if said == "body":
            refused = await it.bind(BEN, identity="cluster-1")
        else:
            path = "/api/bind?consumer_id=cluster-1"
            refused = await it.bind(BEN, identity="ui-identity", path=path)
        assert refused.status == 403
        stranger = await it.bind(CEM, identity="cluster-2")
        assert stranger.status == 403
        # It is not told whether the identity or the template is in the way.
        assert refused.json["message"] == stranger.json["message"]
        status = await it.ask(BEN, "/api/consumer-status?consumer_id=cluster-1")
        assert status.json == {"connected": False}
        mine = await it.ask(ADA, "/api/consumer-status?consumer_id=cluster-1")
        assert mine.json["namespace"] == first.json["providerNamespace"]


async def test_s1_who_was_slower_than_another_is_refused_in_the_same_words(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada", "User:oidc:ben")
        first = await it.bind(ADA)
        assert first.status == 200, first.text
        # A cache that has not heard of it yet.
        monkeypatch.setattr(
            Ownership, "of", lambda _self, person, _identity: OwnedNamespace(person.author)
        )
        refused = await it.bind(BEN)
        assert refused.status == 403, refused.text
        assert refused.json["message"] == (await it.bind(CEM)).json["message"]
        assert ADA.author not in refused.text
        assert first.json["providerNamespace"] not in refused.text


async def test_for_a_page_the_export_is_asked_for(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        terminal = await it.bind(ADA, identity="cluster-1")
        assert "bindingName" not in terminal.json
        assert not (await admin.list(APISERVICEEXPORTREQUESTS)).items
        # A server that has not heard of the consumer's rights yet.
        plane.faults.fail("create", "apiserviceexportrequests", code=403, times=2)
        answer = await it.bind(ADA, identity="ui-identity", name="shop")
        assert answer.status == 200, answer.text
        assert answer.json["bindingName"] == "shop"
        namespace = answer.json["providerNamespace"]
        (made,) = (await admin.list(APISERVICEEXPORTREQUESTS)).items
        assert made.meta.key == Key(namespace, "shop")
        assert made.to_dict()["spec"]["resources"] == template("widgets")["spec"]["resources"]
        assert (await it.ask(ADA, "/api/consumer-status")).json["namespace"] == namespace
        # The same again is the same; another of this name gets one of its own.
        again = await it.bind(ADA, identity="ui-identity", name="shop")
        assert again.json["bindingName"] == "shop"
        other = template("other")
        other["spec"] = {**other["spec"], "schemaUpdatePolicy": "Always"}
        await admin.create(APISERVICEEXPORTTEMPLATES, other)
        answer = await it.bind(ADA, "other", identity="ui-identity", name="shop")
        assert answer.status == 200, answer.text
        assert answer.json["bindingName"].startswith("shop-")
        again = await it.bind(ADA, "other", identity="ui-identity", name="shop")
        assert again.json["bindingName"] == answer.json["bindingName"]


async def test_a_request_whose_export_is_gone_is_not_taken_for_one(
    plane: Sandbox, admin: Client
) -> None:
    await install_crds(admin, [example("crd")])
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        namespace = (await it.bind(ADA, identity="ui-identity", name="shop")).json[
            "providerNamespace"
        ]

        async def exports() -> list[str]:
            status = await it.ask(ADA, "/api/consumer-status")
            return list(status.json.get("exports", []))

        async def exported() -> bool:
            return await exports() == ["shop"]

        await until(exported)
        await when(
            admin,
            APISERVICEEXPORTREQUESTS,
            "shop",
            namespace,
            until=lambda body: body.get("status", {}).get("phase") == "Succeeded",
        )
        await admin.delete(APISERVICEEXPORTS, "shop", namespace)
        await gone(admin, APISERVICEEXPORTS, "shop", namespace)
        answer = await it.bind(ADA, identity="ui-identity", name="shop")
        assert answer.json["bindingName"].startswith("shop-"), answer.text

        async def anew() -> bool:
            return await exports() == [answer.json["bindingName"]]

        await until(anew)


async def test_an_identity_of_a_group_is_each_members(plane: Sandbox, admin: Client) -> None:
    name = cluster_namespace("cluster-9", "kube-bind-")
    annotations = {ANNOTATION_IDENTITY: "cluster-9", ANNOTATION_AUTHOR: "group:oidc:team-a"}
    metadata = {"name": name, "annotations": annotations}
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada", "User:oidc:ben")
        answer = await it.bind(ADA, identity="cluster-9")
        assert answer.status == 200, answer.text
        assert answer.json["providerNamespace"] == name
        assert (await it.bind(BEN, identity="cluster-9")).status == 403


@pytest.mark.parametrize("to", [BEN.author, "group:oidc:team-b"])
async def test_a_consumer_is_handed_over(plane: Sandbox, admin: Client, to: str) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada", "User:oidc:ben")
        first = await it.bind(ADA)
        assert first.status == 200, first.text
        former = await hand_over(admin, await find_consumer(admin, "cluster-1"), to)
        assert former == ADA.author

        async def refused() -> bool:
            return (await it.bind(ADA)).status == 403

        await until(refused)
        answer = await it.bind(BEN)
        assert answer.status == 200, answer.text
        assert answer.json["providerNamespace"] == first.json["providerNamespace"]


@pytest.mark.parametrize("taken", [True, False])
async def test_namespaces_of_the_original_belong_to_a_bare_sub_where_that_is_said(
    plane: Sandbox, admin: Client, taken: bool
) -> None:
    name = cluster_namespace("cluster-9", "kube-bind-")
    annotations = {ANNOTATION_IDENTITY: "cluster-9", ANNOTATION_AUTHOR: "ada"}
    metadata = {"name": name, "annotations": annotations}
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    async with house(plane, admin, original_authors=taken) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        answer = await it.bind(ADA, identity="cluster-9")
        assert answer.status == (200 if taken else 403), answer.text


async def test_s10_another_cluster_is_refused(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        for path in ("/api/templates?cluster_id=other", "/api/consumer-status?cluster_id=other"):
            assert (await it.ask(ADA, path)).status == 403
        assert (await it.bind(ADA, path="/api/bind?cluster_id=other")).status == 403


async def test_s17_a_person_has_so_many_consumers_and_no_more(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, consumers_per_person=2) as it:
        await it.template()
        await it.allow("User:oidc:ada", "User:oidc:ben")
        for identity in ("one", "two"):
            assert (await it.bind(ADA, identity=identity)).status == 200

        async def full() -> bool:
            return (await it.bind(ADA, identity="three")).status == 403

        await until(full)
        assert (await it.bind(ADA, identity="two")).status == 200
        assert (await it.bind(BEN, identity="three")).status == 200


async def test_s17_binds_at_once_on_two_replicas_do_not_pass_the_quota(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No cache is fast enough, and who has counted takes time until it has made one.
    monkeypatch.setattr(Ownership, "count", lambda _self, _person: 0)
    create, inside = identity._create, 0

    async def slowly(*arguments: Any) -> Object:
        nonlocal inside
        inside += 1
        await idle(0.2, unless=lambda: inside > 1)
        made = await create(*arguments)
        inside -= 1
        return made

    monkeypatch.setattr(identity, "_create", slowly)
    async with (
        house(plane, admin, consumers_per_person=3) as one,
        house(plane, admin, consumers_per_person=3, provider=False) as other,
    ):
        await one.template()
        await one.allow("User:oidc:ada", "User:oidc:ben")
        binds = [
            door.bind(ADA, identity=f"cluster-{number}{place}")
            for number in range(4)
            for place, door in (("a", one), ("b", other))
        ]
        answers = await asyncio.gather(*binds)
        made = {a.json["providerNamespace"] for a in answers if a.status == 200}
        found = [one for one in (await admin.list(NAMESPACES)).items if _identity(one)]
        assert made == {one.meta.name for one in found}
        assert len(found) == 3
        said = {a.json["message"] for a in answers if a.status == 403}
        assert sum(a.status in {200, 403} for a in answers) == len(answers)
        (message,) = said
        assert message.startswith("you have 3 consumer clusters already")
        # What is there may be bound again, and another person's do not count.
        assert (await other.bind(ADA, identity=_identity(found[0]))).status == 200
        assert (await other.bind(BEN, identity="cluster-9")).status == 200


async def test_s17_consumers_of_the_original_count(plane: Sandbox, admin: Client) -> None:
    annotations = {ANNOTATION_IDENTITY: "cluster-o", ANNOTATION_AUTHOR: "ada"}
    metadata = {"name": "kube-bind-o", "annotations": annotations}
    await admin.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    async with house(plane, admin, consumers_per_person=2, original_authors=True) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ownership, "count", lambda _self, _person: 0)
            assert (await it.bind(ADA, identity="one")).status == 200
            assert (await it.bind(ADA, identity="two")).status == 403


async def test_s21_everything_is_checked_before_anything_is_made(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin) as it:
        await it.allow("User:oidc:ada")
        before = {one.meta.name for one in (await admin.list(NAMESPACES)).items}
        assert (await it.bind(ADA, template="nothing")).status == 404
        await it.template()
        for more in (
            {"template": ""},
            {"template": "No Name"},
            {"name": "No Name"},
            {"identity": ""},
            {"identity": " space "},
            {"identity": "x" * 600},
            {"identity": "a\nb"},
            {"path": "/api/bind?consumer_id=other"},
        ):
            answer = await it.bind(ADA, **more)
            assert answer.status == 400, (more, answer.text)
        assert {one.meta.name for one in (await admin.list(NAMESPACES)).items} == before
        assert not (await admin.list(BINDABLERESOURCESREQUESTS)).items


async def test_names_of_253_characters_are_bound_and_longer_ones_refused(
    plane: Sandbox, admin: Client
) -> None:
    long = "x" * 253
    async with house(plane, admin) as it:
        await it.template(long)
        await it.allow("User:oidc:ada", templates=(long,))
        answer = await it.bind(ADA, template=long, name="y" * 253)
        assert answer.status == 200, answer.text
        assert answer.json["requests"][0]["metadata"]["name"] == "y" * 253
        for more in ({"template": long + "x"}, {"template": long, "name": "y" * 254}):
            answer = await it.bind(ADA, **more)
            assert answer.status == 400, answer.text


async def test_s9_a_body_of_another_type_is_refused(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        answer = await it.ask(ADA, "/api/bind", "POST", data="{}")
        assert answer.status == 415


async def test_rights_that_are_taken_away_are_gone_in_seconds(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, believed=0.05) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        assert (await it.bind(ADA)).status == 200
        for one in (await admin.list(CLUSTERROLEBINDINGS)).items:
            if one.meta.name.startswith("bind-"):
                await admin.delete(CLUSTERROLEBINDINGS, one.meta.name)

        async def refused() -> bool:
            return (await it.bind(ADA)).status == 403

        await until(refused)
        assert names(await it.ask(ADA, "/api/templates")) == []


async def test_a_right_that_goes_while_a_bind_awaits_its_turn_is_gone(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights, before = {ADA}, 0
    asked: list[str] = []

    async def may(_reviews: AccessReviews, person: Person, template: str) -> bool:
        asked.append(template)
        return person in rights

    monkeypatch.setattr(AccessReviews, "may", may)

    async def declared() -> bool:
        return bool((await admin.list(BINDABLERESOURCESREQUESTS)).items)

    async def waits() -> bool:
        return len(asked) > before

    async with house(plane, admin, provider=False, seconds=30) as it, asyncio.TaskGroup() as group:
        await it.template()
        first = group.create_task(it.bind(ADA, identity="one"))
        await until(declared)
        before = len(asked)
        second = group.create_task(it.bind(ADA, identity="two"))
        await until(waits)
        rights.clear()
        (request,) = (await admin.list(BINDABLERESOURCESREQUESTS)).items
        failed = {**request.to_dict(), "status": {"phase": "Failed"}}
        await admin.update(BINDABLERESOURCESREQUESTS, failed, subresource="status")
        assert (await first).status == 409
        assert (await second).status == 403


async def test_a_provider_that_does_not_answer_is_told_and_nothing_stays(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin, provider=False, seconds=0.2) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        answer = await it.bind(ADA)
        assert answer.status == 503
        assert answer.headers["Retry-After"]
        assert not (await admin.list(BINDABLERESOURCESREQUESTS)).items


async def test_a_template_that_is_deleted_meanwhile_is_told(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        assert (await it.bind(ADA)).status == 200
        await admin.delete(APISERVICEEXPORTTEMPLATES, "widgets")
        assert (await it.bind(ADA)).status == 404


async def test_s22_a_bind_leaves_a_line_without_secrets(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        await it.template()
        await it.allow("User:oidc:ada")
        with structlog.testing.capture_logs() as lines:
            answer = await it.bind(ADA)
        assert answer.status == 200
        (line,) = [one for one in lines if one["event"] == "bind"]
        assert (line["who"], line["what"], line["result"]) == (ADA.author, "widgets", "done")
        kubeconfig = base64.b64decode(answer.json["kubeconfig"]).decode()
        token = kubeconfig.partition("token: ")[2].split()[0]
        assert token not in msgspec.json.encode(lines, enc_hook=str).decode()


async def test_what_takes_no_sign_in(plane: Sandbox, admin: Client) -> None:
    async with house(plane, admin) as it:
        found = msgspec.json.decode((await it.door.ask("/api/bindable-resources")).text)
        assert [one["Names"]["plural"] for one in found] == [
            "configmaps",
            "secrets",
            "serviceaccounts",
        ]
        answer = await it.door.ask("/api/konnector-manifests")
        assert answer.headers["Content-Disposition"] == "attachment; filename=konnector.yaml"
        assert "kind: Deployment" in answer.text


async def test_s13_the_konnector_gets_no_right_on_everything(
    plane: Sandbox, admin: Client
) -> None:
    async with house(plane, admin) as it:
        text = (await it.door.ask("/api/konnector-manifests")).text
        assert "'*'" not in text


async def test_s12_no_kubeconfig_is_taken_run_told_or_kept(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch",
        "args": [str(mark)],
        "interactiveMode": "Never",
    }
    user = {"exec": plugin, "token": "not-for-any-eyes"}
    kubeconfig = yaml.safe_dump(
        {
            **yaml.safe_load(plane.kubeconfig()),
            "users": [{"name": "sandbox", "user": user}],
        }
    )
    encoded = base64.b64encode(kubeconfig.encode()).decode()
    body = {"consumerKubeconfig": encoded, "bindingName": "shop"}
    async with house(plane, admin) as it:
        with structlog.testing.capture_logs() as lines:
            answer = await it.ask(ADA, "/api/apply-binding", "POST", json=body)
        assert answer.status == 403
        assert "fairlead bind" in answer.json["details"]
        stranger = await it.door.ask("/api/apply-binding", "POST", json=body)
        assert stranger.status == 401
        kept = [one.raw for one in (await admin.list(SECRETS)).items]
    assert not mark.exists()
    for text in (answer.text, msgspec.json.encode(lines, enc_hook=str).decode(), *map(str, kept)):
        assert "not-for-any-eyes" not in text
        assert encoded not in text
