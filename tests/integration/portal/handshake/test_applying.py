"""POST /api/apply-binding, where it is allowed, with clusters of consumers over real https."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import yaml
from aiohttp import web
from tests.integration.konnector.test_bind import names
from tests.integration.portal.console.test_binding import offered, unlimited
from tests.integration.portal.handshake.conftest import ADA, BEN, House, house
from tests.support.fakeserver import FakeServer, chunks, failure, hang, respond
from tests.support.konnector import Requests, konnector
from tests.support.pki import Authority
from tests.support.portal import Answer
from tests.support.realplane import RealPlane
from tests.support.waiting import SECONDS, eventually

from fairlead.api.addresses import refused_address
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    BINDABLERESOURCESREQUESTS,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
)
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account
from fairlead.konnector.manifests import LEASE
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.portal.console.offers.following import bundle
from fairlead.portal.handshake.applying import ApplyingPatience
from fairlead_sandbox import Sandbox


PATH = "/api/apply-binding"
TOKEN = "not-for-any-eyes"
WORDS = "words-of-another-server"


def refused(address: str) -> str:
    """Let tests have their clusters on this machine."""
    return "" if address in {"127.0.0.1", "::1"} else refused_address(address)


@asynccontextmanager
async def door(plane: Sandbox, admin: Client, **more: Any) -> AsyncIterator[House]:
    known: dict[str, Any] = {
        "apply_binding": True,
        "refused": refused,
        "limits": unlimited(),
    }
    async with house(plane, admin, **(known | more)) as there:
        await offered(there, admin)
        yield there


@pytest.fixture
async def here() -> AsyncIterator[Sandbox]:
    async with Sandbox(name="consumer", tls=True, rbac=True) as here:
        yield here


@pytest.fixture
async def client(here: Sandbox) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(here.kubeconfig())) as client:
        yield client


async def bound(there: House, person: Any = ADA, **more: Any) -> JSON:
    """What the original's page asks for first."""
    answer = await there.bind(person, identity="ui-identity", name="widgets", **more)
    assert answer.status == 200, answer.text
    return answer.json


async def apply(
    there: House, kubeconfig: bytes | str, person: Any = ADA, path: str = PATH, **more: Any
) -> Answer:
    content = kubeconfig.encode() if isinstance(kubeconfig, str) else kubeconfig
    body = {"consumerKubeconfig": base64.b64encode(content).decode(), "bindingName": "widgets"}
    return await there.ask(person, path, "POST", json=body | more)


def written(server: str, *, cluster: JSON | None = None, user: JSON | None = None) -> str:
    """A kubeconfig of one cluster and one user."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": server} | (cluster or {})}],
            "users": [{"name": "it", "user": {"token": TOKEN} if user is None else user}],
        }
    )


class Elsewhere:
    """A server over https that is no API server, and the kubeconfig that leads to it."""

    def __init__(self, server: FakeServer, authority: Authority) -> None:
        self.server = server
        self.authority = authority

    @property
    def kubeconfig(self) -> str:
        data = base64.b64encode(self.authority.pem).decode()
        return written(self.server.url, cluster={"certificate-authority-data": data})


@asynccontextmanager
async def elsewhere(folder: Path) -> AsyncIterator[Elsewhere]:
    authority = Authority.create()
    pair = authority.issue("elsewhere")
    cert, key = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with FakeServer(tls=context) as server:
        yield Elsewhere(server, authority)


@contextmanager
def told_nothing(*secrets: str) -> Iterator[Callable[[str], None]]:
    """Nothing that is logged meanwhile has these in it, nor what is shown to the function."""

    def check(text: str) -> None:
        for one in secrets:
            assert one not in text

    with structlog.testing.capture_logs() as lines:
        yield check
    check(msgspec.json.encode(lines, enc_hook=str).decode())


async def untouched(there: House) -> None:
    """No credential was made for what was refused, and nothing is kept."""
    kept = [str(one.raw) for one in (await there.admin.list(SECRETS)).items]
    assert not [one for one in kept if TOKEN in one]
    assert not (await there.admin.list(BINDABLERESOURCESREQUESTS)).items


async def test_what_is_written_is_what_the_bundle_of_the_page_has_and_it_binds(
    plane: Sandbox, admin: Client, here: Sandbox, client: Client
) -> None:
    async with door(plane, admin) as there, konnector(client):
        response = await bound(there)
        kubeconfig = here.kubeconfig()
        with told_nothing(base64.b64encode(kubeconfig).decode(), response["kubeconfig"]) as check:
            answer = await apply(there, kubeconfig)
            check(answer.text)
        assert answer.status == 200, answer.text
        assert set(answer.json) == {"konnectorDeployed", "bundleCreated", "message"}
        assert (answer.json["konnectorDeployed"], answer.json["bundleCreated"]) == (False, True)
        for document in yaml.safe_load_all(bundle(response)):
            resource = await client.discovery.resource_for(
                document["apiVersion"], document["kind"]
            )
            meta = document["metadata"]
            found = (await client.get(resource, meta["name"], meta.get("namespace", ""))).to_dict()
            for part in ("spec", "rules", "type"):
                if part in document and document["kind"] != "Namespace":
                    assert found[part] == document[part]
            if document["kind"] == "Secret":
                given = [base64.b64decode(one["data"]["kubeconfig"]) for one in (found, document)]
                assert [parse_kubeconfig(one).namespace for one in given] == [
                    response["providerNamespace"]
                ] * 2

        async def ready() -> bool:
            return await names(client) == {"widgets"}

        await eventually(ready)
        # Once more changes nothing.
        before = (await client.list(SECRETS, "kube-bind")).items
        again = await apply(there, kubeconfig)
        assert again.status == 200, again.text
        after = (await client.list(SECRETS, "kube-bind")).items
        assert [one.meta.resource_version for one in before] == [
            one.meta.resource_version for one in after
        ]
        assert len((await client.list(APISERVICEBINDINGBUNDLES)).items) == 1


async def test_without_a_konnector_the_answer_says_what_is_left_to_do(
    plane: Sandbox, admin: Client, here: Sandbox, client: Client
) -> None:
    async with door(plane, admin) as there:
        await bound(there)
        answer = await apply(there, here.kubeconfig())
        assert answer.status == 200, answer.text
        assert "no konnector was found" in answer.json["message"]
        assert "/api/konnector-manifests" in answer.json["message"]
        await client.create(LEASES, {"metadata": {"name": LEASE}}, DEFAULT_NAMESPACE)
        answer = await apply(there, here.kubeconfig())
        assert "a konnector is installed" in answer.json["message"]


async def test_a_real_api_server_is_written_to_with_its_client_certificate(
    plane: Sandbox, admin: Client, real_programs: None
) -> None:
    async with (
        RealPlane() as real,
        door(plane, admin) as there,
        Client(parse_kubeconfig(real.admin_kubeconfig("default"))) as consumer,
        konnector(consumer),
    ):
        await bound(there)
        answer = await apply(there, real.admin_kubeconfig("default"))
        assert answer.status == 200, answer.text

        async def ready() -> bool:
            return await names(consumer) == {"widgets"}

        await eventually(ready)


async def test_s12_a_kubeconfig_with_more_than_credentials_runs_and_reaches_nothing(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "touch",
        "args": [str(mark)],
        "interactiveMode": "Never",
    }
    users: dict[str, JSON] = {
        "runs a command": {"exec": plugin},
        "tokenFile": {"tokenFile": "/etc/passwd"},
    }
    async with elsewhere(tmp_path) as there, FakeServer() as plain, door(plane, admin) as it:
        for problem, user in users.items():
            given = written(there.server.url, user={"token": TOKEN} | user)
            with told_nothing(TOKEN, base64.b64encode(given.encode()).decode()) as check:
                answer = await apply(it, given)
                check(answer.text)
            assert answer.status == 400, answer.text
            assert problem in answer.json["message"]
        answer = await apply(it, written(plain.url))
        assert answer.status == 400
        assert there.server.seen == plain.seen == []
        await untouched(it)
    assert not mark.exists()


async def test_what_cannot_be_used_is_told_by_its_field(plane: Sandbox, admin: Client) -> None:
    some = {"consumerKubeconfig": "bm8=", "bindingName": "widgets"}
    bodies: dict[str, JSON] = {
        "consumerKubeconfig cannot be used: it is missing": {"bindingName": "widgets"},
        "bindingName: it is missing": {"consumerKubeconfig": "bm8="},
        "bindingName: a": some | {"bindingName": "../../x"},
        "hostAliases": some | {"hostAliases": ["1.2.3.4:a"]},
    }
    async with house(plane, admin, apply_binding=True) as it:
        for problem, body in bodies.items():
            answer = await it.ask(ADA, PATH, "POST", json=body)
            assert answer.status == 400
            assert problem in answer.json["message"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "nowhere.invalid"])
async def test_s12_this_machine_is_refused_like_an_unknown_name_and_hears_nothing(
    host: str, plane: Sandbox, admin: Client, here: Sandbox
) -> None:
    asked = Requests(here)
    config = yaml.safe_load(here.kubeconfig())
    config["clusters"][0]["cluster"]["server"] = here.url.replace("127.0.0.1", host)
    async with door(plane, admin, refused=None) as it:
        await bound(it)
        answer = await apply(it, yaml.safe_dump(config))
        assert answer.status == 400, answer.text
        assert "this server may not connect to its server's address" in answer.json["message"]
        await untouched(it)
    assert asked.count() == 1


async def test_s12_the_certificate_has_to_be_of_the_ca(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    async with elsewhere(tmp_path) as there, door(plane, admin) as it:
        await bound(it)
        there.authority = Authority.create("another")
        with told_nothing(TOKEN):
            answer = await apply(it, there.kubeconfig)
        assert answer.status == 422, answer.text
        assert "certificate" in answer.json["message"]
        answer = await apply(it, written(there.server.url))
        assert answer.status == 422, answer.text
        assert there.server.seen == []
        await untouched(it)


NAMESPACE = "/api/v1/namespaces/kube-bind"


async def test_s12_no_redirect_is_followed(plane: Sandbox, admin: Client, tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there, FakeServer() as other, door(plane, admin) as it:
        await bound(it)
        there.server.on(NAMESPACE, respond({}, 302, Location=f"{other.url}/caught"))
        answer = await apply(it, there.kubeconfig)
        assert answer.status == 422, answer.text
        assert other.seen == []
        await untouched(it)


async def test_s12_no_word_of_the_cluster_is_repeated(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    refusals = [
        *((401, "Unauthorized", 422), (403, "Forbidden", 422), (404, "NotFound", 422)),
        *((500, "InternalError", 502), (418, WORDS, 422)),
    ]
    named = {"Warning": f'299 - "{WORDS}"', "Server": WORDS}
    answers = [failure(code, reason, WORDS, **named) for code, reason, _ in refusals]
    strange = [chunks(one) for one in (b"<html>" + WORDS.encode(), b"[" * 5000, b"{}", b"")]
    async with elsewhere(tmp_path) as there, door(plane, admin) as it:
        await bound(it)
        there.server.on(NAMESPACE, *answers, *strange)
        with told_nothing(WORDS, TOKEN) as check:
            for status in [*[one for *_, one in refusals], *[502] * len(strange)]:
                answer = await apply(it, there.kubeconfig)
                check(answer.text)
                assert answer.status == status, answer.text
        await untouched(it)


def dripping(until: asyncio.Event) -> Any:
    """An answer of which a byte arrives now and then: there is never silence."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            for _ in range(100):
                await response.write(b" ")
                with suppress(TimeoutError):
                    await asyncio.wait_for(until.wait(), 0.05)
        return response

    return answer


async def test_s12_a_cluster_without_an_answer_or_an_end_is_given_up(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    patience = ApplyingPatience(look=0.5, write=0.5)
    never = asyncio.Event()
    async with elsewhere(tmp_path) as there, door(plane, admin, patience=patience) as it:
        await bound(it)
        there.server.on(NAMESPACE, hang(never), dripping(never))
        for _ in range(2):
            answer = await apply(it, there.kubeconfig)
            assert answer.status == 504, answer.text
        await untouched(it)
        never.set()


async def test_s12_a_flood_is_given_up(plane: Sandbox, admin: Client, tmp_path: Path) -> None:
    async with elsewhere(tmp_path) as there, door(plane, admin) as it:
        await bound(it)
        there.server.on(NAMESPACE, chunks(*[b" " * (1 << 20)] * 40, b"{}"))
        with structlog.testing.capture_logs() as lines:
            answer = await apply(it, there.kubeconfig)
        assert answer.status == 502, answer.text
        assert "the limit for one answer" in str(lines)
        await untouched(it)


async def test_a_person_has_one_cluster_at_a_time(
    plane: Sandbox, admin: Client, tmp_path: Path
) -> None:
    never, asked = asyncio.Event(), asyncio.Event()
    async with elsewhere(tmp_path) as there, door(plane, admin) as it:
        await bound(it)
        there.server.on(NAMESPACE, hang(never, asked=asked))
        first = asyncio.create_task(apply(it, there.kubeconfig))
        async with asyncio.timeout(SECONDS):
            await asked.wait()
        second = await apply(it, there.kubeconfig)
        assert second.status == 429
        assert second.headers["Retry-After"]
        never.set()
        assert (await first).status in {422, 502}


async def test_credentials_with_too_few_rights_leave_nothing(
    plane: Sandbox, admin: Client, here: Sandbox, client: Client
) -> None:
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": "weak", "namespace": "default"}})
    weak = await as_service_account(client, "default", "weak")
    kubeconfig = written(
        weak.server,
        cluster={
            "certificate-authority-data": base64.b64encode(weak.certificate_authority).decode()
        },
        user={"token": weak.token},
    )
    async with door(plane, admin) as it:
        await bound(it)
        with told_nothing(weak.token) as check:
            answer = await apply(it, kubeconfig)
            check(answer.text)
        assert answer.status == 422, answer.text
        assert "too few rights" in answer.json["message"]
        await untouched(it)
    assert "kube-bind" not in {one.meta.name for one in (await client.list(NAMESPACES)).items}


async def test_what_is_refused_in_the_middle_is_taken_back(
    plane: Sandbox, admin: Client, here: Sandbox, client: Client
) -> None:
    original = here.faults.apply

    async def broken(info: Any) -> None:
        await original(info)
        if info.verb == "create" and info.resource == "apiservicebindingbundles":
            raise RuntimeError("the disk is full")

    async with door(plane, admin) as it:
        await bound(it)
        here.faults.apply = broken  # type: ignore[method-assign]
        answer = await apply(it, here.kubeconfig())
        assert answer.status == 502, answer.text
        assert not (await client.list(SECRETS, "kube-bind")).items
        roles = {one.meta.name for one in (await client.list(CLUSTERROLES)).items}
        assert not [name for name in roles if "widgets" in name]


async def test_s12_no_server_is_asked_that_the_cluster_names(
    plane: Sandbox, admin: Client, here: Sandbox, client: Client, tmp_path: Path
) -> None:
    """A kubeconfig that lies in the consumer's cluster is a stranger's, too."""
    async with door(plane, admin) as it, elsewhere(tmp_path) as there:
        response = decode_binding_response(msgspec.json.encode(await bound(it)))
        assert (await apply(it, here.kubeconfig())).status == 200
        (secret,) = (await client.list(SECRETS, "kube-bind")).items
        body = secret.to_dict()
        stored = there.kubeconfig.replace("cluster: it", "cluster: it\n    namespace: lured")
        body["data"] = {"kubeconfig": base64.b64encode(stored.encode()).decode()}
        await client.update(SECRETS, body)
        answer = await apply(it, here.kubeconfig())
        assert answer.status == 200, answer.text
        assert there.server.seen == []
        (secret,) = (await client.list(SECRETS, "kube-bind")).items
        kept = parse_kubeconfig(base64.b64decode(secret.to_dict()["data"]["kubeconfig"]))
        assert kept.namespace == response.provider_namespace


async def test_the_person_needs_the_rights_of_a_bind(
    plane: Sandbox, admin: Client, here: Sandbox
) -> None:
    asked = Requests(here)
    async with door(plane, admin, believed=0.0) as it:
        await bound(it)
        stranger = await it.door.ask(PATH, "POST", json={})
        assert stranger.status == 401
        theirs = await apply(it, here.kubeconfig(), BEN, f"{PATH}?consumer_id={ADA.author}")
        assert theirs.status == 403
        for one in (await admin.list(CLUSTERROLEBINDINGS)).items:
            if one.meta.name.startswith("bind-"):
                await admin.delete(CLUSTERROLEBINDINGS, one.meta.name)

        async def refused() -> bool:
            return (await apply(it, here.kubeconfig())).status == 403

        await eventually(refused)
        await untouched(it)
    assert asked.count("get", "list", "create") == 0


async def test_what_is_not_bound_is_not_found(
    plane: Sandbox, admin: Client, here: Sandbox
) -> None:
    asked = Requests(here)
    async with door(plane, admin, patience=ApplyingPatience(known=0.3)) as it:
        for bind_first in (False, True):
            if bind_first:
                await bound(it)
            answer = await apply(it, here.kubeconfig(), bindingName="another")
            assert answer.status == 404
        assert "POST /api/bind first" in answer.json["message"]
    assert asked.count("get", "list", "create") == 0


async def test_the_providers_own_cluster_is_refused(plane: Sandbox, admin: Client) -> None:
    async with door(plane, admin) as it:
        await bound(it)
        answer = await apply(it, plane.kubeconfig())
        assert answer.status == 409, answer.text
        assert "the provider's own" in answer.json["message"]
