"""Whose Secrets a connection may name."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from tests.support.stale import StaleServer

from fairlead.api.meta import Object, object_from_dict
from fairlead.api.postgresaccess import PostgresAccess
from fairlead.api.postgresconnection import Connection
from fairlead.postgres.controllers.resolution import secret_endpoint
from fairlead.postgres.controllers.settings import Settings
from fairlead.postgres.controllers.sources import Sources
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions


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
            "connection": {"existingSecret": "login", **connection},
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
    endpoint = await Sources(SERVER.client, Settings(options)).endpoint(
        access(**named), enforce=True
    )
    assert endpoint.password == f"of-{whose}"


@pytest.mark.parametrize("enforce", [True, False], ids=["living", "deleting"])
async def test_anothers_secret_is_refused_unless_the_operator_allows_it(enforce: bool) -> None:
    sources = Sources(SERVER.client, Settings(PostgresOptions()))
    with pytest.raises(AccessError) as refused:
        await sources.endpoint(access(existingSecretNamespace="other"), enforce=enforce)
    assert refused.value.reason == "PolicyDenied"


async def test_the_database_that_is_written_out_wins_over_the_secrets() -> None:
    sources = Sources(SERVER.client, Settings(PostgresOptions()))
    endpoint = await sources.endpoint(access(database="orders"), enforce=True)
    assert endpoint.fallback == "orders"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("key", ["host", "username", "password"])
def test_values_that_end_in_a_line_break_are_refused(key: str, end: str) -> None:
    data = {"host": b"db", "username": b"admin", "password": b"secret"}
    data[key] += end.encode()
    with pytest.raises(AccessError, match=f"key {key} of Secret login ends in a line break"):
        secret_endpoint(Connection(), data, "login", "team")
