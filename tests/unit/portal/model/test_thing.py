"""What the page of an object says first, and how its two sides are compared."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from fairlead.api.links import Chain, Link, LinkName, join
from fairlead.api.meta import JSON
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import Judgement, Remark
from fairlead.portal.model.thing import HIDDEN, PageAnswer, answer_of, differences_of


OK = Judgement("ok", since="2026-01-01T00:00:00Z")
FAILED = Judgement("failed", "Odd", "it is odd", "2026-01-01T00:00:00Z", remedy="even it")
SUBJECT = "ServiceBinding shop/db"


def link(name: LinkName, state: State, subject: str, reason: str = "") -> Link:
    return Link(
        name=name,
        object=subject,
        state=state,
        about="" if state == "ok" else f"{name} text",
        reason=reason,
        remedy="" if state == "ok" else f"mend the {name}",
        since="2026-01-02T00:00:00Z",
    )


def chain(*links: Link, works: bool = False) -> Chain:
    joined = join(SUBJECT, links)
    return Chain(
        subject=joined.subject,
        ready=joined.ready,
        links=joined.links,
        broken=joined.broken,
        reason=joined.reason,
        message=joined.message,
        next_step=joined.next_step,
        works=works,
    )


WELL = chain(link("binding", "ok", SUBJECT), link("service", "ok", "PostgresAccess shop/db"))
BROKEN = (
    link("binding", "failed", SUBJECT, "ServiceNotReady"),
    link("service", "failed", "PostgresAccess shop/db", "Odd"),
)


@pytest.mark.parametrize(
    ("verdict", "chains", "expected"),
    [
        pytest.param(OK, [], ("ok", "", "", ""), id="well-without-a-chain"),
        pytest.param(FAILED, [], ("failed", "", "it is odd", "even it"), id="failed-by-itself"),
        pytest.param(OK, [WELL], ("ok", "", "", ""), id="well-with-its-chain"),
        pytest.param(Judgement("unknown"), [WELL], ("ok", "", "", ""), id="the-chain-knows-more"),
        pytest.param(
            Judgement("unknown"),
            [chain(link("provider", "ok", SUBJECT))],
            ("unknown", "", "", ""),
            id="a-chain-of-itself-knows-no-more",
        ),
        pytest.param(
            OK,
            [chain(*BROKEN)],
            ("failed", "PostgresAccess shop/db", "service text", "mend the service"),
            id="the-break-decides",
        ),
        pytest.param(
            OK,
            [chain(link("binding", "failed", SUBJECT, "Odd"), link("service", "ok", "x"))],
            ("failed", "the controller of its kind", "binding text", "mend the binding"),
            id="broken-at-itself",
        ),
        pytest.param(
            OK,
            [chain(link("provider", "ok", SUBJECT), link("role", "waiting", "role shop", "Odd"))],
            ("waiting", "PostgreSQL role shop", "role text", "mend the role"),
            id="waits-for-its-role",
        ),
        pytest.param(
            OK,
            [chain(*BROKEN, works=True)],
            ("ok", "", "", "mend the service"),
            id="the-app-goes-on",
        ),
        pytest.param(
            OK,
            [chain(*BROKEN, works=True), chain(link("provider", "waiting", "X a/b", "Odd"))],
            ("waiting", "X a/b", "provider text", "mend the provider"),
            id="one-goes-on-and-another-does-not",
        ),
    ],
)
def test_what_a_page_says_first(
    verdict: Judgement, chains: list[Chain], expected: tuple[str, str, str, str]
) -> None:
    answer = answer_of(verdict, chains)
    assert (answer.state, answer.awaited, answer.message, answer.remedy) == expected


@pytest.mark.parametrize(
    ("verdict", "since", "expected"),
    [
        pytest.param(FAILED, "2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", id="of-the-break"),
        pytest.param(
            FAILED, "", FAILED.since, id="of-the-object-that-waits-for-what-is-not-there"
        ),
        pytest.param(OK, "", "", id="not-of-an-object-that-is-well"),
    ],
)
def test_since_when_it_is_broken(verdict: Judgement, since: str, expected: str) -> None:
    gone = replace(link("service", "failed", "PostgresAccess shop/db", "Odd"), since=since)
    assert answer_of(verdict, [chain(BROKEN[0], gone)]).since == expected


def test_a_remark_is_told_beside_a_verdict() -> None:
    verdict = Judgement("ok", remarks=(Remark("Available", "no Pod", "Gone"),))
    assert answer_of(verdict, []).remarks == ("Gone: no Pod",)
    broken: PageAnswer = answer_of(verdict, [chain(*BROKEN, works=True)])
    assert broken.remarks[1] == "changes do not arrive: PostgresAccess shop/db: service text"


@pytest.mark.parametrize(
    ("here", "provider", "expected"),
    [
        pytest.param({"spec": {"a": 1, "b": 2}}, {"spec": {"b": 2, "a": 1}}, [], id="the-order"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 1}, "status": {}}, [], id="no-status"),
        pytest.param({"spec": {"a": 1}}, {"spec": {"a": 2}}, ["-  a: 1", "+  a: 2"], id="a-value"),
        pytest.param(
            {"spec": {"password": "x"}}, {"spec": {"password": "y"}}, [], id="no-password"
        ),
    ],
)
def test_how_two_sides_differ(here: JSON, provider: JSON, expected: list[str]) -> None:
    lines = differences_of(here, provider)
    assert [one for one in lines[2:] if one[0] in "+-"] == expected
    assert not any(one[-1] == "x" for one in lines), HIDDEN
