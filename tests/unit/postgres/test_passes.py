"""What the pass that follows at once may take over from the one before."""

from __future__ import annotations

from dataclasses import replace as with_
from typing import Any

import msgspec
import pytest
from tests.support.pgserver import claim, grant, wanted

from fairlead.api.conditions import get_condition
from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.postgresaccess import SecretInfo
from fairlead.api.timestamps import moment
from fairlead.postgres.controllers.access.passes import Credentials, ServerOutcome, observed_of
from fairlead.postgres.controllers.access.status import outcome_of, report_of
from fairlead.postgres.controllers.rules.desired import ServerPlace, desired_of
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans.plan import Synced
from fairlead.postgres.database.plans.snapshot import ServerFacts
from fairlead.postgres.options import PostgresOptions


SERVER = ServerFacts(
    version=180000,
    version_text="18.0",
    system_identifier="1",
    admin="postgres",
    admin_oid=10,
    superuser=True,
    reads_verifiers=True,
)
ENDPOINT = Endpoint(
    host="db", port=5432, username="postgres", password="secret", ssl_mode="disable"
)
HERE = ServerPlace("PostgresServer main", ENDPOINT)
WANTED = wanted("app", grant("shop", "CONNECT"))
DONE = Synced(server=SERVER, applied=["CONNECT"], warnings=[], changed=True, created=True)
VERIFIED = ServerOutcome(HERE, WANTED, DONE)


def test_what_is_the_same_is_not_asked_again() -> None:
    assert VERIFIED.holds(HERE, msgspec.structs.replace(WANTED, ledger=frozenset({"CONNECT"})))
    assert not VERIFIED.synced.changed
    assert not VERIFIED.synced.created
    assert VERIFIED.synced.applied == DONE.applied


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"password": "another"}, id="password"),
        pytest.param({"grants": (grant("shop", "TEMPORARY"),)}, id="grants"),
        pytest.param({"claim": claim("other")}, id="claim"),
        pytest.param({"policy": "Additive"}, id="what was granted before counts"),
        pytest.param({"valid_until": "2030-01-01T00:00:00Z"}, id="end"),
    ],
)
def test_what_has_changed_is_asked(change: dict[str, Any]) -> None:
    assert not VERIFIED.holds(HERE, msgspec.structs.replace(WANTED, **change))


def test_another_server_is_asked() -> None:
    elsewhere = HERE._replace(endpoint=with_(ENDPOINT, host="other"))
    assert not VERIFIED.holds(elsewhere, WANTED)
    assert not VERIFIED.holds(HERE._replace(owner="PostgresServer other"), WANTED)
    additive = msgspec.structs.replace(WANTED, policy="Additive")
    assert not ServerOutcome(HERE, additive, DONE).holds(HERE, additive)


@pytest.mark.parametrize(
    ("secret", "said", "policy", "state"),
    [
        pytest.param("generated", "", "Authoritative", "Success", id="V:X-first-pass->Y"),
        pytest.param("generated", "Success", "Authoritative", "InProgress", id="V:X-no->Y2"),
        pytest.param("generated", "Error", "Authoritative", "InProgress", id="V:X-no->Y2-healed"),
        pytest.param("generated", "", "Additive", "InProgress", id="V:X-no->Y2-additive"),
        pytest.param("reused", "", "Additive", "Success", id="U:X-yes->Y"),
    ],
)
def test_a_new_password_is_in_progress_where_something_else_was_said(
    secret: str, said: str, policy: str, state: str
) -> None:
    body: dict[str, Any] = {
        "metadata": {"name": "app"},
        "spec": {
            "username": "app",
            "generatedSecret": "app",
            "connection": {"serverRef": {"name": "main"}},
            "grantsPolicy": policy,
        },
        "status": {"lastReconcileState": said} if said else {},
    }
    desired = desired_of(object_from_dict(body), PostgresOptions(), moment())
    found = (
        observed_of(desired)
        .with_login(Credentials(left=None, is_new=secret == "generated"))
        .brought(DONE, WANTED)
    )
    assert outcome_of(desired, found).state == state


@pytest.mark.parametrize(
    ("uris", "mode", "template", "warning"),
    [
        pytest.param("Plain", "verify-full", None, "jdbc-uri and uri, because", id="plain"),
        pytest.param("Plain", "require", {}, "connect without sslmode=require", id="require"),
        pytest.param("Plain", "prefer", None, "", id="a-mode-that-demands-nothing"),
        pytest.param("Plain", "verify-ca", {"uris": "Plain"}, "", id="plain-is-asked-for"),
        pytest.param("Verified", "verify-full", None, "", id="verified"),
        pytest.param("Plain", "verify-ca", {"includeDefaultKeys": False}, "", id="no-uris"),
        pytest.param(
            "Plain",
            "verify-ca",
            {"includeDefaultKeys": False, "data": {"DSN": "{{uri}}"}},
            "in DSN, because",
            id="a-template-s",
        ),
    ],
)
def test_plain_uris_are_a_warning_of_an_access_that_stays_ready(
    uris: Any, mode: str, template: JSON | None, warning: str
) -> None:
    spec: JSON = {
        "username": "app",
        "generatedSecret": "login",
        "connection": {"serverRef": {"name": "main"}},
        **({} if template is None else {"secretTemplate": template}),
    }
    found = object_from_dict({"metadata": {"name": "app", "generation": 2}, "spec": spec})
    desired = desired_of(found, PostgresOptions(), moment()).at(with_(ENDPOINT, ssl_mode=mode))
    credentials = Credentials(left=None, secret_uid="u", uris=uris)
    observed = observed_of(desired).with_login(credentials).brought(DONE, WANTED)
    status = report_of(desired, observed, now="2026-01-01T00:00:00Z").status
    ready = get_condition(status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"
    assert status.secret == SecretInfo(name="login", uid="u", uris=uris)
    assert len(status.warnings) == bool(warning)
    assert warning in "".join(status.warnings)
    assert all("Set spec.secretTemplate.uris to Verified" in text for text in status.warnings)
