from __future__ import annotations

import pytest

from fairlead.api.meta import Key
from fairlead.konnector.controllers.connections.reconcile import (
    ConnectionMember,
    identify,
    reconcile,
)
from fairlead.konnector.policies.work import ConnectionSpec, SecretKey


A, B = (SecretKey(Key("kube-bind", name), "kubeconfig") for name in ("a", "b"))
ONE, TWO, BROKEN = b"one", b"two", b"broken"


def wanted(content: bytes, bindings: set[str], *sources: SecretKey) -> dict[str, ConnectionSpec]:
    return {identify(content): ConnectionSpec(content, frozenset(bindings), frozenset(sources))}


def planned(
    members: list[ConnectionMember],
    contents: dict[SecretKey, bytes],
    running: dict[str, ConnectionSpec] | None = None,
) -> dict[str, ConnectionSpec]:
    return reconcile(members, contents, running or {}, usable=lambda one: one != BROKEN)


X, Y = ConnectionMember("x", A), ConnectionMember("y", B)


@pytest.mark.parametrize(
    ("members", "contents", "running", "expected"),
    [
        pytest.param([], {A: ONE}, {}, {}, id="no-binding"),
        pytest.param([X], {A: ONE}, {}, wanted(ONE, {"x"}, A), id="first-binding"),
        pytest.param(
            [X, Y],
            {A: ONE, B: ONE},
            {},
            wanted(ONE, {"x", "y"}, A, B),
            id="equal-content-is-one-connection",
        ),
        pytest.param(
            [X, Y],
            {A: ONE, B: TWO},
            {},
            wanted(ONE, {"x"}, A) | wanted(TWO, {"y"}, B),
            id="two-providers",
        ),
        pytest.param(
            [X],
            {A: TWO},
            wanted(ONE, {"x"}, A),
            wanted(TWO, {"x"}, A),
            id="changed-content-reconnects",
        ),
        pytest.param([], {A: ONE}, wanted(ONE, {"x"}, A), {}, id="last-binding-gone"),
        pytest.param(
            [Y],
            {A: ONE, B: ONE},
            wanted(ONE, {"x", "y"}, A, B),
            wanted(ONE, {"y"}, B),
            id="one-of-two-bindings-gone",
        ),
        pytest.param([X], {}, {}, {}, id="secret-absent"),
        pytest.param([X], {A: BROKEN}, {}, {}, id="secret-broken"),
        pytest.param(
            [X],
            {},
            wanted(ONE, {"x"}, A),
            wanted(ONE, {"x"}, A),
            id="secret-deleted-keeps-the-connection",
        ),
        pytest.param(
            [X],
            {A: BROKEN},
            wanted(ONE, {"x"}, A),
            wanted(ONE, {"x"}, A),
            id="secret-broken-later-keeps-the-connection",
        ),
        pytest.param(
            [ConnectionMember("z", B)],
            {B: b""},
            wanted(ONE, {"x"}, A),
            {},
            id="a-newcomer-with-a-bad-secret-gets-nobody-elses",
        ),
        pytest.param(
            [ConnectionMember("", A)],
            {A: ONE},
            {},
            wanted(ONE, set(), A),
            id="labelled-secret-alone",
        ),
        pytest.param(
            [ConnectionMember("", A), X],
            {A: ONE},
            {},
            wanted(ONE, {"x"}, A),
            id="labelled-and-bound",
        ),
    ],
)
def test_connections(
    members: list[ConnectionMember],
    contents: dict[SecretKey, bytes],
    running: dict[str, ConnectionSpec],
    expected: dict[str, ConnectionSpec],
) -> None:
    assert planned(members, contents, running) == expected
