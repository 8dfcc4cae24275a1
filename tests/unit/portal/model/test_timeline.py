"""What has happened to an object, and what of it is kept and shown."""

from __future__ import annotations

from typing import Any

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.reasons.verdict import verdict_of
from fairlead.portal import bounds
from fairlead.portal.console.sources.kinds import (
    History,
    kept_of,
)
from fairlead.portal.console.sources.provided import provider_chain
from fairlead.portal.model.thing import (
    PageAnswer,
    answer_of,
    keys_of,
    parts,
    text,
)
from fairlead.portal.model.timeline import timeline, writes_of
from fairlead.runtime import Delta


def made(*conditions: Any, **metadata: Any) -> Object:
    body: JSON = {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": "one", "namespace": "team", "uid": "u", **metadata},
        "status": {"conditions": list(conditions)},
    }
    return object_from_dict(body)


def told(type_: str, status: str, reason: str = "", at: str = "2026-01-01T00:00:00Z") -> JSON:
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": at}


WRITTEN = [
    {
        "manager": "konnector",
        "operation": "Apply",
        "time": "2026-01-01T00:00:01Z",
        "fieldsV1": {"f:spec": {}},
    },
    {
        "manager": "operator",
        "operation": "Update",
        "subresource": "status",
        "time": "2026-01-01T00:00:03Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {}},
    },
]


def event(at: str, reason: str, type_: str = "Warning") -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": reason.lower(), "namespace": "team"},
        "involvedObject": {"uid": "u"},
        "type": type_,
        "reason": reason,
        "message": "<b>it</b>",
        "source": {"component": "operator"},
        "lastTimestamp": at,
        "count": 3,
    }


def test_all_that_is_known_comes_newest_first() -> None:
    found = made(
        told("Ready", "False", "SyncFailed", at="2026-01-01T00:00:04Z"),
        creationTimestamp="2026-01-01T00:00:00Z",
        managedFields=WRITTEN,
    )
    events = [object_from_dict(event("2026-01-01T00:00:02Z", "Refused"))]
    entries = timeline(found, (), events)
    assert [(one.what, one.title, one.who) for one in entries] == [
        ("condition", "Ready is False", ""),
        ("write", "wrote its status", "operator"),
        ("Event", "Refused", "operator"),
        ("write", "applied it", "konnector"),
        ("object", "created", ""),
    ]
    assert [one.state for one in entries] == ["failed", None, "failed", None, None]
    assert entries[2].times == 3


def test_turns_are_remembered_and_told_once() -> None:
    history = History()
    old = made(told("Ready", "False", "NamespacePending", at="2026-01-01T00:00:00Z"))
    new = made(told("Ready", "True", at="2026-01-01T00:00:05Z"))
    history.heard(Delta("ADDED", None, old, True))
    assert history.of("u") == ()
    history.heard(Delta("MODIFIED", old, new))
    history.heard(Delta("MODIFIED", new, new))
    (turn,) = history.of("u")
    assert (turn.before, turn.status, turn.at) == ("False", "True", "2026-01-01T00:00:05Z")
    entries = timeline(new, history.of("u"))
    assert [one.title for one in entries] == ["Ready is True"]
    history.heard(Delta("DELETED", new, None))
    assert len(history) == 0


def test_the_memory_is_bounded() -> None:
    history = History()
    for number in range(bounds.TRANSITIONS + 5):
        old, new = (made(told("Ready", "False", f"R{one}")) for one in (number, number + 1))
        history.heard(Delta("MODIFIED", old, new))
    assert len(history.of("u")) == bounds.TRANSITIONS
    assert history.of("u")[0].reason == f"R{bounds.TRANSITIONS + 5}"
    for number in range(bounds.OBJECTS + 1):
        old, new = made(uid=f"u{number}"), made(told("Ready", "True"), uid=f"u{number}")
        history.heard(Delta("MODIFIED", old, new))
    assert len(history) == bounds.OBJECTS
    assert history.of("u") == history.of("u0") == ()


def test_what_is_kept_tells_writers_without_their_fields() -> None:
    body = made(managedFields=WRITTEN).to_dict()
    kept = kept_of(body)
    assert b"fieldsV1" not in kept.raw
    assert [(one.manager, one.operation, one.subresource) for one in writes_of(kept)] == [
        ("operator", "Update", "status"),
        ("konnector", "Apply", ""),
    ]


def test_of_a_large_object_metadata_and_conditions_are_kept() -> None:
    body = made(told("Ready", "False", "Odd")).to_dict() | {
        "spec": {"text": "x" * bounds.OBJECT_BYTES}
    }
    kept = kept_of(body)
    assert len(kept.raw) < 1000
    assert verdict_of(kept).reason == "Odd"
    huge = made(told("Ready", "False", "Odd") | {"message": "x" * bounds.OBJECT_BYTES})
    assert len(kept_of(huge.to_dict()).raw) < 1000


def test_no_page_shows_what_a_secret_holds() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "one", "annotations": {"last": "hunter2"}},
        "data": {"password": "aHVudGVyMg=="},
        "stringData": {"user": "hunter2"},
        "spec": {"password": "hunter2"},
    }
    assert parts(secret) == ()
    assert keys_of(secret) == ["password", "user"]


def test_parts_are_yaml_and_cut_where_they_are_long() -> None:
    body = {"kind": "Widget", "metadata": {}, "status": {"made": 1}, "spec": {"a": "<b>"}, "x": 1}
    assert parts(body) == (("spec", "a: <b>"), ("status", "made: 1"), ("x", "1"))
    told_ = text(["line"] * bounds.PART_CHARACTERS)
    assert len(told_) < bounds.PART_CHARACTERS + 50
    assert told_.endswith("# the rest is not shown")


def answered(obj: Object) -> PageAnswer:
    verdict = verdict_of(obj)
    return answer_of(verdict, [provider_chain(obj, verdict)])


def test_the_answer_names_what_an_object_waits_for() -> None:
    answer = answered(made(told("Ready", "False", "NamespacePending")))
    assert answer.state == "waiting"
    assert answer.awaited == "the controller of its kind"
    assert answer.since == "2026-01-01T00:00:00Z"
    assert answer.remedy == "ask the team that runs its controller what it waits for"
    assert answered(made(told("Ready", "True"))).awaited == ""
    assert answered(made()).state == "unknown"


def test_an_access_waits_for_its_role() -> None:
    body = {
        "apiVersion": "access.k8s.delta10.nl/v1",
        "kind": "PostgresAccess",
        "metadata": {"name": "db", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {
            "connection": {"serverRef": {"name": "main"}},
            "generatedSecret": "db",
            "username": "shop",
            "grants": [{"database": "shop", "privileges": ["CONNECT"]}],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [
                told("Ready", "False", "ServerUnreachable")
                | {"message": "no answer", "observedGeneration": 1}
            ],
        },
    }
    found = object_from_dict(body)
    answer = answered(found)
    assert (answer.awaited, answer.message) == ("PostgreSQL role shop", "no answer")
    assert answer.link == "role"
