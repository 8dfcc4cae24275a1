"""What ``unmanagedUsers: Drop`` may drop: nothing that anything speaks for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.pgserver import DROP_UNMANAGED as DROP

from fairlead.postgres.database.work.unmanaged import LoginFacts, unmanaged, why_kept
from fairlead.postgres.options import PostgresOptions


@pytest.mark.parametrize(
    ("name", "facts", "reason"),
    [
        pytest.param("stray", {}, "", id="nothing-speaks-for-it"),
        pytest.param("stray", {"login": False}, "is no login", id="group"),
        pytest.param("stray", {"ours": True}, "is the operator's own", id="ours"),
        pytest.param("stray", {"superuser": True}, "is a superuser", id="superuser"),
        pytest.param("stray", {"replication": True}, "may replicate", id="replication"),
        pytest.param("stray", {"createrole": True}, "may create roles", id="createrole"),
        pytest.param("stray", {"claimed": True}, "is claimed", id="another-installation"),
        pytest.param("stray", {"members": True}, "has members", id="members"),
        pytest.param("stray", {"owns": True}, "owns something", id="owner"),
        pytest.param(
            "stray", {"groups": ["x", "reporting"]}, "belongs to an excluded role", id="belonging"
        ),
        pytest.param("stray", {"groups": ["x"]}, "", id="belonging-elsewhere"),
        pytest.param("app", {}, "is asked for", id="wanted"),
        pytest.param("App", {}, "", id="case-counts"),
        pytest.param("reporting", {}, "is excluded", id="excluded"),
        pytest.param("backup_daily", {}, "is excluded", id="excluded-by-pattern"),
        pytest.param("pg_something", {}, "is reserved", id="postgresql-s"),
        pytest.param("rdsadmin", {}, "is reserved", id="amazon-s"),
        pytest.param("cloudsqlimportexport", {}, "is reserved", id="google-s"),
        pytest.param("azuresu", {}, "is reserved", id="microsoft-s"),
        pytest.param("streaming_replica", {}, "is reserved", id="cloudnativepg-s"),
    ],
)
def test_what_speaks_for_a_role(name: str, facts: dict[str, Any], reason: str) -> None:
    role = LoginFacts(name=name, **facts)
    found = why_kept(role, {"app"}, DROP)
    assert found.startswith(reason)
    assert bool(found) is bool(reason)
    assert unmanaged([role], {"app"}, DROP) == ([] if reason else [name])


@pytest.mark.parametrize("policy", ["Report", "Owned"])
def test_nothing_is_unmanaged_unless_that_is_asked_for(policy: Any) -> None:
    settings = PostgresOptions(unmanaged_users=policy)
    assert unmanaged([LoginFacts(name="stray")], (), settings) == []
