"""The list of consumers, for administrators alone, and what it tells."""

from __future__ import annotations

import pytest
from tests.integration.portal.console.test_live import followed
from tests.integration.portal.console.test_pages import MARKUP, read, shown
from tests.integration.portal.handshake.conftest import (
    ADA,
    BEN,
    House,
    _quiet,
    admin,
    house,
    plane,
    template,
)
from tests.support.customers import customer, exported, housed
from tests.support.provider import WIDGETS, example
from tests.support.waiting import eventually

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
)
from fairlead.client import Client
from fairlead.portal import bounds
from fairlead.portal.manifests import CONSOLE_ADMIN
from fairlead.portal.options import DEFAULT_NAMESPACE, NAME
from fairlead_sandbox import Sandbox


__all__ = ["_quiet", "admin", "plane"]

RBAC = CLUSTERROLES.api_version


async def administer(admin: Client, user: str = "oidc:ada") -> None:
    """Let a user see all consumers, by the role that the manifests bring."""
    await _bind(admin, CONSOLE_ADMIN, {"kind": "User", "name": user})


async def let_count(admin: Client) -> None:
    """Let the server list the copies, which its manifests do not."""
    await admin.create(
        CLUSTERROLES,
        {
            "apiVersion": RBAC,
            "kind": "ClusterRole",
            "metadata": {"name": "read-widgets"},
            "rules": [
                {
                    "apiGroups": ["example.org"],
                    "resources": ["widgets"],
                    "verbs": ["get", "list", "watch"],
                }
            ],
        },
    )
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": DEFAULT_NAMESPACE}
    await _bind(admin, "read-widgets", account)


async def _bind(admin: Client, role: str, subject: JSON) -> None:
    if subject["kind"] == "User":
        subject = subject | {"apiGroup": "rbac.authorization.k8s.io"}
    await admin.create(
        CLUSTERROLEBINDINGS,
        {
            "apiVersion": RBAC,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [subject],
        },
    )


async def widget(admin: Client, name: str, namespace: str) -> None:
    await admin.create(
        WIDGETS,
        {
            "apiVersion": "example.org/v1",
            "kind": "Widget",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"colour": "red"},
        },
    )


async def told(there: House, path: str, *words: str) -> str:
    """The text of a page, once it has these words."""
    text = ""

    async def there_is() -> bool:
        nonlocal text
        text = (await shown(there, ADA, path)).text
        return all(word in text for word in words)

    try:
        await eventually(there_is)
    except TimeoutError:
        raise AssertionError(f"{words} are not all in: {text}") from None
    return text


async def test_only_administrators_see_them_and_the_tab(plane: Sandbox, admin: Client) -> None:
    await customer(admin, "kube-bind-shop", pretty="Shop")
    async with house(plane, admin, provider=False) as there:
        answer = await there.ask(ADA, "/consumers")
        assert answer.status == 404
        assert "There is no list of consumers for you" in read(answer).text
        assert "Consumers" not in read(answer).text.split("Sign out")[0]
        assert (await there.ask(ADA, "/live/consumers")).status == 404
        assert (await there.door.ask("/consumers")).status == 401
        await administer(admin)

        async def allowed() -> bool:
            return (await there.ask(ADA, "/consumers")).status == 200

        await eventually(allowed)
        assert "Shop" in (await shown(there, ADA, "/consumers")).text
        assert "/consumers" in (await shown(there, ADA, "/")).addresses
        assert "/consumers" not in (await shown(there, BEN, "/")).addresses
        assert (await there.ask(BEN, "/consumers")).status == 404


async def test_a_page_that_is_open_ends_with_the_right(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await customer(admin, "kube-bind-shop", pretty="Shop")
    async with house(plane, admin, provider=False) as there:
        token, _ = await there.sessions.create(ADA, "browser")
        async with followed(there, token, "/live/consumers") as stream:
            assert "Shop" in (await stream.told())[1]
            await customer(admin, "kube-bind-other", pretty="Other")
            assert "Other" in (await stream.told())[1]
            await admin.delete(CLUSTERROLEBINDINGS, CONSOLE_ADMIN)
            assert await stream.told() == ("over", "over")


async def test_what_the_list_tells(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    author = f"{ADA.issuer}/{ADA.subject}"
    await customer(admin, "kube-bind-alive", pretty="Alive", author=author)
    await customer(admin, "kube-bind-late", heartbeat="2020-01-01T00:00:00Z", version="v9")
    await customer(admin, "kube-bind-new", heartbeat="", templates=())
    await customer(admin, "kube-bind-odd", pretty=MARKUP, version="<b>")
    await exported(admin, "kube-bind-late")
    await housed(admin, "kube-bind-late", "late-app")
    async with house(plane, admin, provider=False) as there:
        await there.template()
        text = await told(there, "/consumers", "4 consumers", "d ago 1 0 and not counted")
        assert "The server may not read widgets.example.org" in text
        assert f"{MARKUP} kube-bind-odd Copy its cluster namespace healthy" in text
        assert "<b> widgets" in text
        assert "HeartbeatTimeout" in text
        assert "id-of-kube-bind-new kube-bind-new" in text
        assert "namespace waiting FirstHeartbeatPending never 0 0" in text
        assert text.index("Alive") < text.index("kube-bind-late")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("", ["a", "b", "c"], id="all"),
        pytest.param("q=TEAM+two", ["b"], id="by-words"),
        pytest.param("q=none", [], id="by-words-that-nothing-has"),
        pytest.param("state=failed", ["c"], id="by-state"),
        pytest.param("sort=-name", ["c", "b", "a"], id="turned"),
        pytest.param("sort=heartbeat", ["c", "a", "b"], id="by-heartbeat"),
        pytest.param("sort=exports", ["b", "a", "c"], id="by-exports"),
        pytest.param("sort=none&page=99", ["a", "b", "c"], id="nonsense"),
    ],
)
async def test_filters_and_order_are_in_the_url(
    plane: Sandbox, admin: Client, query: str, names: list[str]
) -> None:
    await administer(admin)
    await admin.create(APISERVICEEXPORTTEMPLATES, template("widgets"))
    await customer(admin, "kb-a", identity="a", pretty="Team one")
    await customer(admin, "kb-b", identity="b", pretty="Team two")
    await customer(admin, "kb-c", identity="c", pretty="Zoo", heartbeat="2020-01-01T00:00:00Z")
    await exported(admin, "kb-b")
    async with house(plane, admin, provider=False) as there:
        await told(there, "/consumers", "3 consumers")
        page = await shown(there, ADA, f"/consumers?{query}")
        found = [one for one in page.addresses if one.startswith("/consumers/")]
        assert [one.removeprefix("/consumers/kb-") for one in found] == names


async def test_a_long_list_has_pages(
    plane: Sandbox, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "ROWS_OF_A_PAGE", 2)
    await administer(admin)
    for name in ("a", "b", "c", "d", "e"):
        await customer(admin, f"kb-{name}", identity=name)
    async with house(plane, admin, provider=False) as there:
        await told(there, "/consumers", "1 to 2 of 5 consumers")
        page = await shown(there, ADA, "/consumers?page=2&q=kb&state=ok")
        assert "3 to 4 of 5 consumers" in page.text
        assert "/consumers?state=ok&q=kb" in page.addresses
        assert "/consumers?state=ok&q=kb&page=3" in page.addresses
        assert "3 to 4" not in (await shown(there, ADA, "/consumers?page=3")).text
        for nonsense in ("0", "-1", "x", "9" * 100, "%D9%A3"):
            await shown(there, ADA, f"/consumers?page={nonsense}")


async def test_copies_are_counted_where_they_may_be_listed(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    await let_count(admin)
    await admin.create(CUSTOMRESOURCEDEFINITIONS, example("crd"))
    await customer(admin, "kb-a", identity="a")
    await exported(admin, "kb-a")
    for name in ("app-1", "app-2"):
        await housed(admin, "kb-a", name)
        await widget(admin, "one", name)
    async with house(plane, admin, provider=False) as there:
        await there.template()
        await told(
            there, "/consumers", "kb-a Copy its cluster namespace healthy", "ago 1 2 v1.2.3"
        )
        await widget(admin, "two", "app-1")
        await told(there, "/consumers", "ago 1 3 v1.2.3")
        await admin.delete(WIDGETS, "one", "app-2")
        await told(
            there, "/consumers", "kb-a Copy its cluster namespace healthy", "ago 1 2 v1.2.3"
        )


async def test_names_as_long_as_names_can_be(plane: Sandbox, admin: Client) -> None:
    await administer(admin)
    long = "x" * 253
    await customer(admin, "k" * 63, identity=long, pretty="")
    await exported(admin, "k" * 63, long)
    async with house(plane, admin, provider=False) as there:
        assert long in await told(there, "/consumers", "1 consumer")
    await admin.delete(NAMESPACES, "k" * 63)
