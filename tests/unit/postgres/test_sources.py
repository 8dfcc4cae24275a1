"""Whose Secrets a connection may name."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.support.stale import StaleServer

from fairlead.api.certificates import Authority
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.postgresaccess.connection import Connection
from fairlead.api.resource import Resource
from fairlead.api.status import Status, StatusDetails
from fairlead.client.errors import api_error
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.resolution import Certificates, secret_endpoint
from fairlead.postgres.controllers.servers.sources import EndpointSources
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import DEFAULT_NAMESPACE, PostgresOptions


def credentials(namespace: str) -> Object:
    plain = {"host": "db.example.org", "username": "admin", "password": f"of-{namespace}"}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
    metadata = {"name": "login", "namespace": namespace}
    return object_from_dict(
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    )


def access(**connection: Any) -> PostgresAccess:
    body = {
        "metadata": {"name": "app", "namespace": "team"},
        "spec": {
            "username": "app",
            "generatedSecret": "app-login",
            "connection": {
                name: value
                for name, value in {"existingSecret": "login", **connection}.items()
                if value is not None
            },
            "grants": [],
        },
    }
    return msgspec.convert(body, PostgresAccess)


SERVER = StaleServer({}, [credentials("team"), credentials("other")])


@pytest.mark.parametrize(
    ("named", "allowed", "whose"),
    [
        pytest.param({}, False, "team", id="its-own"),
        pytest.param({"existingSecretNamespace": "team"}, False, "team", id="its-own-by-name"),
        pytest.param({"existingSecretNamespace": "other"}, True, "other", id="allowed"),
    ],
)
async def test_existing_secrets(named: dict[str, str], allowed: bool, whose: str) -> None:
    options = PostgresOptions(existing_secret_namespace=allowed)
    endpoint = await EndpointSources(SERVER.client, Settings(options)).endpoint(
        access(**named), enforce=True
    )
    assert endpoint.password == f"of-{whose}"


@pytest.mark.parametrize("enforce", [True, False], ids=["living", "deleting"])
async def test_anothers_secret_is_refused_unless_the_operator_allows_it(enforce: bool) -> None:
    sources = EndpointSources(SERVER.client, Settings(PostgresOptions()))
    with pytest.raises(AccessError) as refused:
        await sources.endpoint(access(existingSecretNamespace="other"), enforce=enforce)
    assert refused.value.reason == "PolicyDenied"


async def test_the_database_that_is_written_out_wins_over_the_secrets() -> None:
    sources = EndpointSources(SERVER.client, Settings(PostgresOptions()))
    endpoint = await sources.endpoint(access(database="orders"), enforce=True)
    assert endpoint.fallback == "orders"


CA, OTHER_CA = (
    Authority.create(name, datetime.now(UTC)).pair.certificate.decode() for name in ("ca", "other")
)
PROFILE = {
    "kind": "PostgresServer",
    "metadata": {"name": "main", "uid": "u", "generation": 1},
    "spec": {
        "host": "db",
        "credentialsSecretRef": {"name": "admin"},
        "caSecretRef": {"name": "ca"},
        "allowedNamespaces": {"matchLabels": {"tier": "gold"}},
        "allowedDatabases": ["*"],
    },
}


def stored(name: str, version: str, **data: str) -> Object:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    metadata = {"name": name, "namespace": DEFAULT_NAMESPACE, "resourceVersion": version}
    return object_from_dict({"kind": "Secret", "metadata": metadata, "data": encoded})


def namespace(**labels: str) -> Object:
    return object_from_dict({"kind": "Namespace", "metadata": {"name": "team", "labels": labels}})


class World:
    """A cluster whose caches may be behind; ``asked`` are the names of what was asked for."""

    def __init__(self) -> None:
        self.live: dict[str, Object] = {}
        self.cached: dict[str, Object] = {}
        self.asked: list[str] = []
        for one in (
            object_from_dict(PROFILE),
            stored("admin", "1", username="admin", password="first"),
            stored("ca", "1", **{"ca.crt": CA}),
            namespace(tier="gold"),
        ):
            self.put(one)
        lookup = SimpleNamespace(get=lambda _, name: self.cached.get(name))
        watches = SimpleNamespace(
            servers=lookup,
            namespaces=lookup,
            credentials=lookup,
            named_secrets=SimpleNamespace(has_read=lambda *_: None),
        )
        self.sources = EndpointSources(
            cast("Any", self), Settings(PostgresOptions()), cast("Any", watches)
        )

    def put(self, found: Object, *, seen: bool = True) -> None:
        self.live[found.meta.name] = found
        if seen:
            self.cached[found.meta.name] = found

    async def get(self, _resource: Resource, name: str, _namespace: str = "") -> Object:
        self.asked.append(name)
        if name not in self.live:
            details = StatusDetails(name=name)
            raise api_error(Status("Failure", "not found", "NotFound", 404, details))
        return self.live[name]

    async def password(self) -> str:
        """The password that a pass would log in with."""
        self.asked.clear()
        body = access(existingSecret=None, serverRef={"name": "main"})
        return (await self.sources.endpoint(body, enforce=True)).password


async def test_a_server_at_rest_is_asked_for_once() -> None:
    world = World()
    assert await world.password() == "first"
    assert world.asked == ["admin", "ca"]
    for _ in range(3):
        assert await world.password() == "first"
        assert world.asked == []


async def test_what_has_changed_is_asked_for_again() -> None:
    world = World()
    await world.password()
    world.put(stored("admin", "2", username="admin", password="second"))
    assert await world.password() == "second"
    assert await world.password() == "second"
    assert world.asked == []
    world.put(stored("ca", "2", **{"ca.crt": OTHER_CA}))
    await world.password()
    assert world.asked == ["admin", "ca"]
    body: JSON = PROFILE | {"metadata": {"name": "main", "uid": "u", "generation": 2}}
    world.put(object_from_dict(body))
    await world.password()
    assert world.asked == ["admin", "ca"]


async def test_a_cache_that_is_behind_keeps_no_old_password() -> None:
    """The Secret was read in its new version before the watch has told of it."""
    world = World()
    world.put(stored("admin", "2", username="admin", password="second"), seen=False)
    assert await world.password() == "second"
    assert await world.password() == "second"
    assert "admin" in world.asked
    world.put(world.live["admin"])
    assert await world.password() == "second"
    assert world.asked == []


async def test_a_certificate_between_two_writes_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "CERTIFICATE_SECONDS", 0)
    now, day = datetime.now(UTC), timedelta(days=1)
    authority = Authority.create("clients", now)
    old, new = (authority.client(name, now=now, life=day) for name in ("old", "new"))

    def pair(certificate: bytes, key: bytes) -> Object:
        texts = {"tls.crt": certificate.decode(), "tls.key": key.decode()}
        return stored("pair", "1", **texts)

    class Writing(World):
        async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
            found = await super().get(resource, name, namespace)
            if name == "pair":
                self.live["pair"] = pair(*new)
            return found

    world = Writing()
    world.put(pair(new.certificate, old.key))
    body = access(
        existingSecret=None,
        host="db",
        username={"value": "app"},
        password={"value": "p"},
        clientCertificateSecretRef={"name": "pair"},
        sslMode="require",
    )
    endpoint = await world.sources.endpoint(body, enforce=True)
    assert (endpoint.certificate, endpoint.key) == tuple(one.decode() for one in new)


async def test_what_is_no_ca_is_named() -> None:
    world = World()
    world.put(stored("ca", "2", **{"ca.crt": base64.b64encode(CA.encode()).decode()}))
    with pytest.raises(AccessError) as refused:
        await world.password()
    assert refused.value.reason == "ConnectionInvalid"
    assert "ca.crt in Secret ca" in refused.value.message
    assert "is base64 of PEM: decode it once" in refused.value.message


async def test_what_the_caches_do_not_have_is_asked_for() -> None:
    world = World()
    world.cached.clear()
    assert await world.password() == "first"
    assert world.asked == ["main", "team", "admin", "ca"]


async def test_a_secret_that_is_gone_is_missed_at_once() -> None:
    world = World()
    await world.password()
    del world.live["admin"], world.cached["admin"]
    with pytest.raises(AccessError, match=f"Secret {DEFAULT_NAMESPACE}/admin of PostgresServer"):
        await world.password()


async def test_labels_are_those_of_now() -> None:
    world = World()
    await world.password()
    world.put(namespace(tier="bronze"))
    with pytest.raises(AccessError, match="allowedNamespaces does not select namespace team"):
        await world.password()


@pytest.mark.parametrize("enforce", [True, False], ids=["living", "deleting"])
@pytest.mark.parametrize(
    ("policy", "hosts", "told"),
    [
        pytest.param("Allowed", (), "discreet", id="allowed"),
        pytest.param("Allowed", ("*.example.org",), "whole", id="allowed-and-listed"),
        pytest.param("Listed", ("*.example.org",), "whole", id="listed"),
        pytest.param("Listed", ("*.other.org",), "refused", id="not-listed"),
        pytest.param("Forbidden", (), "refused", id="forbidden"),
    ],
)
async def test_own_connections(
    policy: Any, hosts: tuple[str, ...], told: str, enforce: bool
) -> None:
    settings = Settings(PostgresOptions(connections=policy, connection_hosts=hosts))
    sources = EndpointSources(SERVER.client, settings)
    if told == "refused":
        with pytest.raises(AccessError) as refused:
            await sources.endpoint(access(), enforce=enforce)
        assert (refused.value.reason, refused.value.verdict) == ("PolicyDenied", True)
        return
    endpoint = await sources.endpoint(access(), enforce=enforce)
    assert endpoint.discreet is (told == "discreet")
    assert endpoint.of_tenant


async def test_login_parts_may_be_in_another_namespace_s_secret_where_that_is_allowed() -> None:
    reference = {"secretRef": {"name": "login", "key": "password"}}
    written = access(
        existingSecret=None,
        existingSecretNamespace="other",
        host="db",
        username={"value": "admin"},
        password=reference,
    )
    options = PostgresOptions(existing_secret_namespace=True)
    endpoint = await EndpointSources(SERVER.client, Settings(options)).endpoint(
        written, enforce=True
    )
    assert endpoint.password == "of-other"


@pytest.mark.parametrize(
    ("stored_mode", "written_mode", "ca", "expected"),
    [
        pytest.param("", None, "", "require", id="neither"),
        pytest.param("", "verify-full", "", "verify-full", id="written"),
        pytest.param("verify-full", None, "", "verify-full", id="stored"),
        pytest.param("verify-full", "require", "", "verify-full", id="stored-is-stricter"),
        pytest.param("require", "verify-full", "", "verify-full", id="written-is-stricter"),
        pytest.param("disable", None, "", "disable", id="stored-alone"),
        pytest.param("", None, "PEM", "verify-full", id="a-ca-is-to-be-used"),
        pytest.param("disable", None, "PEM", "", id="a-ca-of-no-use"),
    ],
)
def test_the_stricter_tls_mode_counts(
    stored_mode: str, written_mode: Any, ca: str, expected: str
) -> None:
    data = {"host": b"db.a", "username": b"admin", "password": b"p"}
    if stored_mode:
        data["sslmode"] = stored_mode.encode()
    connection = Connection(ssl_mode=written_mode)
    if not expected:
        with pytest.raises(AccessError, match="does not use the certificates of caSecretRef"):
            secret_endpoint(connection, data, "login", "team", Certificates(ca))
        return
    found = secret_endpoint(connection, data, "login", "team", Certificates(ca))
    assert found.ssl_mode == expected


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("key", ["host", "username", "password"])
def test_values_that_end_in_a_line_break_are_refused(key: str, end: str) -> None:
    data = {"host": b"db", "username": b"admin", "password": b"secret"}
    data[key] += end.encode()
    with pytest.raises(AccessError, match=f"key {key} of Secret login ends with a line break"):
        secret_endpoint(Connection(), data, "login", "team")


class OwnWorld(World):
    """A namespace with the Secret of its own connections."""

    def __init__(self) -> None:
        super().__init__()
        self.given("first")

    def given(self, password: str) -> None:
        data = {"host": "db.example.org", "username": "admin", "password": password}
        self.put(stored("login", "1", **data), seen=False)

    def goes(self) -> None:
        metadata = {"name": "team", "deletionTimestamp": "2030-01-01T00:00:00Z"}
        self.put(object_from_dict({"kind": "Namespace", "metadata": metadata}))


def deleted(uid: str = "u", **connection: Any) -> PostgresAccess:
    found = access(**connection)
    found.metadata = msgspec.structs.replace(found.metadata, uid=uid)
    return found


@pytest.mark.parametrize("goes", [True, False], ids=["with-its-namespace", "withdrawn"])
async def test_lost_credentials_are_those_known_last(goes: bool) -> None:
    world = OwnWorld()
    found = await world.sources.endpoint(deleted(), enforce=True)
    world.sources.last.synced(deleted(), found)
    # The Secret was changed after that, and no work at the server has shown that it is right.
    world.given("wrong")
    await world.sources.endpoint(deleted(), enforce=True)
    del world.live["login"]
    if goes:
        world.goes()
    endpoint, lost, going = await world.sources.last_endpoint(deleted())
    assert (endpoint.password, going) == ("first", goes)
    assert lost is not None
    assert lost.reason == "ConnectionSecretMissing"
    world.sources.last.forget("team", "app")
    with pytest.raises(AccessError):
        await world.sources.last_endpoint(deleted())


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(deleted("another"), id="made-anew"),
        pytest.param(deleted(database="other"), id="another-connection"),
        pytest.param(deleted(existingSecret="other"), id="another-secret"),
    ],
)
async def test_credentials_known_last_are_one_objects_alone(other: PostgresAccess) -> None:
    world = OwnWorld()
    await world.sources.endpoint(deleted(), enforce=True)
    del world.live["login"]
    with pytest.raises(AccessError, match="does not exist; create it"):
        await world.sources.last_endpoint(other)


async def test_credentials_known_last_are_refused_by_the_settings_of_now() -> None:
    world = OwnWorld()
    await world.sources.endpoint(deleted(), enforce=True)
    del world.live["login"]
    world.sources._settings = Settings(PostgresOptions(connections="Listed"))
    with pytest.raises(AccessError) as refused:
        await world.sources.last_endpoint(deleted())
    assert refused.value.reason == "PolicyDenied"


async def test_abandon_is_the_remedy_where_no_credentials_can_come_back() -> None:
    world = OwnWorld()
    del world.live["login"]
    with pytest.raises(AccessError, match="does not exist; create it"):
        await world.sources.last_endpoint(deleted())
    world.goes()
    with pytest.raises(AccessError) as lost:
        await world.sources.last_endpoint(deleted())
    assert "is being deleted; drop role app by hand" in lost.value.message
    assert lost.value.message.endswith("access.k8s.delta10.nl/abandon=true")
