"""Which settings are in force: flags, the Controller that counts, and what it may say."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from fairlead.api.conditions import get_condition
from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess.connection import PasswordPolicy
from fairlead.api.postgresaccess.controller import (
    Accesses,
    ControllerSettings,
    ControllerStatus,
    OperatorController,
)
from fairlead.postgres import bounds
from fairlead.postgres.controllers.settings import ReadyVerdict, Settings, in_charge, judge
from fairlead.postgres.controllers.singleton import SyncTally, controller_status
from fairlead.postgres.errors import AccessError
from fairlead.postgres.options import PostgresOptions, SettingError, overlaid
from fairlead.runtime import Delta


FLAGS = PostgresOptions(
    namespace="operator",
    excluded_users=("flagged",),
    unmanaged_users="Report",
    synced_interval=60.0,
    existing_secret_namespace=True,
)


def controller(
    name: str = "settings",
    *,
    namespace: str = "operator",
    created: str = "2026-01-01T00:00:00Z",
    uid: str = "",
    **settings: Any,
) -> Object:
    return object_from_dict(
        {
            "apiVersion": "access.k8s.delta10.nl/v1",
            "kind": "Controller",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid or f"uid-{name}",
                "creationTimestamp": created,
            },
            "spec": {"settings": settings},
        }
    )


def settings(**fields: Any) -> ControllerSettings:
    return msgspec.convert(fields, ControllerSettings)


def postgres(**fields: Any) -> ControllerSettings:
    return settings(postgres=fields)


class Cache:
    """What an informer of Controllers says; its handlers hear what a test puts into it."""

    def __init__(self) -> None:
        self.found: dict[str, Object] = {}
        self.error = ""
        self._handlers: list[Any] = []

    @property
    def informer(self) -> Any:
        return cast("Any", self)

    def list(self, namespace: str = "") -> list[Object]:
        return [one for one in self.found.values() if namespace in {"", one.meta.namespace}]

    def subscribe(self, handler: Any) -> None:
        self._handlers.append(handler)

    def put(self, new: Object, *, initial: bool = False) -> Delta:
        old = self.found.get(new.meta.name)
        self.found[new.meta.name] = new
        return self._tell(Delta("MODIFIED" if old else "ADDED", old, new, initial))

    def remove(self, name: str) -> Delta:
        return self._tell(Delta("DELETED", self.found.pop(name), None))

    def _tell(self, delta: Delta) -> Delta:
        for handler in self._handlers:
            handler(delta)
        return delta


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        pytest.param(settings(), {}, id="nothing-said"),
        pytest.param(
            settings(existingSecretNamespace=False),
            {"existing_secret_namespace": False},
            id="takes-back-what-a-flag-allows",
        ),
        pytest.param(
            settings(allowedSecretNamespaces=[]),
            {"allowed_secret_namespaces": ()},
            id="an-empty-list-allows-none",
        ),
        pytest.param(
            postgres(excludedUsers=[" flagged ", "one", " ", "two"]),
            {"excluded_users": ("flagged", "one", "two")},
            id="excluded-by-either",
        ),
        pytest.param(
            postgres(excludedUserPatterns=["backup_*"]),
            {"excluded_user_patterns": ("backup_*",)},
            id="excluded-patterns",
        ),
        pytest.param(
            postgres(unmanagedUsers="Drop"), {"unmanaged_users": "Drop"}, id="unmanaged-users"
        ),
        pytest.param(postgres(allowAdoption=True), {"allow_adoption": True}, id="adoption"),
        pytest.param(
            postgres(allowedMemberOf=["readers"]),
            {"allowed_member_of": ("readers",)},
            id="member-of",
        ),
        pytest.param(
            postgres(syncedInterval="1m30s", pendingInterval="5s"),
            {"synced_interval": 90.0, "pending_interval": 5.0},
            id="intervals",
        ),
        pytest.param(
            postgres(maxConnectionsPerServer=9),
            {"max_connections_per_server": 9},
            id="connections",
        ),
        pytest.param(
            postgres(connections={"policy": "Listed", "hosts": ["*.svc", "10.0.0.0/8:5432"]}),
            {"connections": "Listed", "connection_hosts": ("*.svc", "10.0.0.0/8:5432")},
            id="own-connections",
        ),
        pytest.param(
            postgres(
                passwordDefaults={
                    "length": 64,
                    "alphabet": "hex",
                    "iterations": 8192,
                    "rotateEvery": "720h",
                }
            ),
            {
                "passwords": PasswordPolicy(
                    length=64, alphabet="hex", iterations=8192, rotate_every="720h"
                )
            },
            id="passwords",
        ),
        pytest.param(
            settings(rabbitmq={"excludedVhosts": ["/"]}, redis={"anything": 1}), {}, id="others"
        ),
    ],
)
def test_a_controller_lies_over_the_flags(given: ControllerSettings, changed: JSON) -> None:
    assert overlaid(FLAGS, given) == msgspec.structs.replace(FLAGS, **changed)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(postgres(syncedInterval="1h1h"), "", id="any-terms"),
        pytest.param(
            postgres(syncedInterval="9s"),
            "syncedInterval 9s is out of range; use at least 10s",
            id="too-often",
        ),
        pytest.param(
            postgres(pendingInterval="999999999h"), "pendingInterval .* out of range", id="never"
        ),
        pytest.param(
            postgres(passwordDefaults={"rotateEvery": "1s"}),
            "passwordDefaults.rotateEvery 1s is out of range; use at least 1m",
            id="a-password-a-second",
        ),
        pytest.param(
            postgres(connections={"hosts": ["10.0.0.1/8"]}),
            "connections.hosts: 10.0.0.1/8 is not a network",
            id="bits-of-hosts",
        ),
        pytest.param(
            postgres(connections={"hosts": ["db/24:5432"]}),
            "connections.hosts: db/24:5432 is not a network",
            id="a-name",
        ),
    ],
)
def test_settings_that_mean_nothing_are_named(given: ControllerSettings, message: str) -> None:
    if not message:
        overlaid(FLAGS, given)
        return
    with pytest.raises(SettingError, match=rf"spec.settings.postgres.{message}"):
        overlaid(FLAGS, given)


def test_the_settings_in_force_follow_the_oldest_controller() -> None:
    cache = Cache()
    found = Settings(FLAGS, cache.informer)
    assert found.current == FLAGS
    second = cache.put(
        controller("second", created="2026-02-01T00:00:00Z", postgres={"excludedUsers": ["b"]})
    )
    assert (found.current.excluded_users, found.turned(second)) == (("flagged", "b"), True)
    first = cache.put(controller("first", postgres={"excludedUsers": ["a"]}))
    assert (found.current.excluded_users, found.turned(first)) == (("flagged", "a"), True)
    idle = cache.put(
        controller("second", created="2026-02-01T00:00:00Z", postgres={"excludedUsers": ["c"]})
    )
    assert (found.current.excluded_users, found.turned(idle)) == (("flagged", "a"), False)
    elsewhere = cache.put(
        controller("old", namespace="team", created="2020-01-01T00:00:00Z", postgres={})
    )
    assert not found.turned(elsewhere)
    cache.remove("first")
    assert found.current.excluded_users == ("flagged", "c")
    cache.remove("second")
    assert found.current == FLAGS


def test_a_controller_that_cannot_be_used_stops_all_work_until_it_is_mended() -> None:
    cache = Cache()
    found = Settings(FLAGS, cache.informer)
    cache.put(controller(postgres={"pendingInterval": "20s", "excludedUsers": ["a"]}))
    broken = cache.put(controller(postgres={"pendingInterval": "1ns", "excludedUsers": ["a"]}))
    assert found.turned(broken)
    for _ in range(2):
        with pytest.raises(AccessError, match=r"operator/settings: .*pendingInterval") as told:
            _ = found.current
        assert told.value.reason == "ControllerInvalid"
    assert found.latest.pending_interval == 20.0
    cache.put(controller(postgres={"excludedUsers": "a"}))
    with pytest.raises(AccessError, match="excludedUsers"):
        _ = found.current
    cache.put(controller(postgres={}))
    assert found.current == FLAGS


def test_a_kind_that_is_not_served_for_a_while_excludes_nobody_less() -> None:
    cache = Cache()
    found = Settings(FLAGS, cache.informer)
    cache.put(controller(postgres={"excludedUsers": ["a"]}))
    cache.error = "the server does not serve this resource"
    cache.remove("settings")
    assert found.current.excluded_users == ("flagged", "a")
    cache.error = ""
    assert found.current == FLAGS


def test_what_is_there_at_the_start_is_no_change() -> None:
    cache = Cache()
    found = Settings(FLAGS, cache.informer)
    first = cache.put(controller(postgres={"excludedUsers": ["a"]}), initial=True)
    assert not found.turned(first)
    assert found.current.excluded_users == ("flagged", "a")


OLD = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("judged", "others", "reason", "message"),
    [
        pytest.param(controller(), [], "Ready", "are in force", id="alone"),
        pytest.param(
            controller(namespace="team"),
            [],
            "InvalidControllerNamespace",
            "operator's namespace operator",
            id="elsewhere",
        ),
        pytest.param(
            controller(),
            [controller("elder", created=OLD)],
            "MultipleControllersFound",
            "Controller elder, which is older",
            id="a-younger-one",
        ),
        pytest.param(
            controller(created=OLD), [controller("younger")], "Ready", "in force", id="the-elder"
        ),
        pytest.param(
            controller(uid="b"),
            [controller("twin", uid="a")],
            "MultipleControllersFound",
            "Controller twin",
            id="of-the-same-second",
        ),
        pytest.param(
            controller(postgres={"syncedInterval": "1s"}),
            [],
            "ControllerInvalid",
            "syncedInterval 1s is out of range",
            id="invalid",
        ),
        pytest.param(
            controller(postgres={"staleUserDeletionPolicy": "Restrict"}),
            [],
            "Ready",
            "ignores staleUserDeletionPolicy",
            id="the-original-s-own-field",
        ),
    ],
)
def test_a_controller_is_told_whether_it_counts(
    judged: Object, others: list[Object], reason: str, message: str
) -> None:
    verdict = judge(judged, others, FLAGS)
    assert verdict.reason == reason
    assert message in verdict.message


def test_no_controller_counts_where_there_is_none() -> None:
    assert in_charge([]) is None


def test_the_summary_is_the_one_s_that_counts_and_bounded() -> None:
    counts = {f"s{number:03}": Accesses(ready=1) for number in range(100)}
    counts["s099"] = Accesses(failing=2)
    counts[""] = Accesses(ready=5)
    status = controller_status(
        ControllerStatus(), ReadyVerdict("Ready", "in force"), 3, "2026-01-01T00:00:00Z", counts
    )
    assert status.accesses == Accesses(ready=104, failing=2)
    assert status.own_connections == Accesses(ready=5)
    assert len(status.servers) == bounds.SERVERS
    assert status.servers[-1].name == "s099"
    assert [one.name for one in status.servers] == sorted(one.name for one in status.servers)
    again = controller_status(
        status, ReadyVerdict("Ready", "in force"), 3, "2026-01-02T00:00:00Z", counts
    )
    assert again == status
    other = controller_status(
        status, ReadyVerdict("MultipleControllersFound", "no"), 3, "2026-01-02T00:00:00Z", counts
    )
    ready = get_condition(other.conditions, "Ready")
    assert ready is not None
    assert (ready.status, other.servers, other.accesses) == ("False", [], None)


def access(name: str, server: str, ready: str, version: str = "1") -> Object:
    connection = {"serverRef": {"name": server}} if server else {"host": "db"}
    return object_from_dict(
        {
            "metadata": {"name": name, "namespace": "team", "resourceVersion": version},
            "spec": {"connection": connection},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }
    )


def test_accesses_are_counted_as_they_come_change_and_go() -> None:
    changes: list[None] = []
    cache = Cache()
    tally = SyncTally(cache.informer, lambda: changes.append(None))
    cache.put(access("a", "main", "True"))
    cache.put(access("b", "main", "False"))
    cache.put(access("c", "", "True"))
    assert tally.counts() == {"main": Accesses(ready=1, failing=1), "": Accesses(ready=1)}
    told = len(changes)
    cache.put(access("a", "main", "True", "2"))
    assert len(changes) == told
    cache.put(access("b", "other", "True"))
    cache.remove("c")
    assert tally.counts() == {"main": Accesses(ready=1), "other": Accesses(ready=1)}
    assert len(changes) == told + 2


def test_the_original_s_fields_are_taken() -> None:
    body = {
        "metadata": {"name": "controller-sample"},
        "spec": {
            "settings": {
                "existingSecretNamespace": False,
                "postgres": {"excludedUsers": ["postgres"], "staleUserDeletionPolicy": "Restrict"},
                "rabbitmq": {
                    "staleUserDeletionPolicy": "Restrict",
                    "staleVhostDeletionPolicy": "Retain",
                },
                "redis": {"staleUserDeletionPolicy": "Restrict"},
            }
        },
    }
    found = msgspec.convert(body, OperatorController).spec.settings
    assert overlaid(PostgresOptions(), found).excluded_users == ("postgres",)
