"""What a binding is said to wait for, by the conditions that are known on the provider's side."""

from __future__ import annotations

import pytest

from fairlead.api.kubebind.conditions import KubeBindCondition, false, true
from fairlead.api.meta import object_from_dict
from fairlead.portal.console.offers.following import FollowedStep, _bound, _steps


EXPORT = object_from_dict(
    {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExport",
        "metadata": {"name": "x", "namespace": "kube-bind-1"},
    }
)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], [("waiting", "No konnector has bound it yet.")], id="nothing"),
        pytest.param(
            [true("Ready")], [("waiting", "No konnector has bound it yet.")], id="ready-without-it"
        ),
        pytest.param([true("Connected"), true("Ready")], [("ok", "")], id="bound"),
        pytest.param(
            [
                false("Connected", "APIServiceBindingNotFound", "there is none"),
                false("Ready", "APIServiceBindingNotFound", "there is none"),
            ],
            [("waiting", "APIServiceBindingNotFound: there is none")],
            id="ready-repeats-another",
        ),
        pytest.param(
            [
                true("Connected"),
                KubeBindCondition("ConsumerInSync", "Unknown", reason="Unknown"),
                false("Ready", "Broken", "it broke"),
            ],
            [("unknown", "Unknown")],
            id="not-known",
        ),
        pytest.param(
            [true("Connected"), false("Ready", "Broken", "")], [("failed", "Broken")], id="ready"
        ),
    ],
)
def test_what_a_binding_waits_for(
    conditions: list[KubeBindCondition], expected: list[tuple[str, str]]
) -> None:
    assert [(one.state, one.about) for one in _bound(EXPORT, conditions)] == expected


def test_a_part_of_which_nothing_is_known_waits_and_says_what_helps() -> None:
    assert list(_steps("It", None, [])) == [
        FollowedStep("It", "waiting", "No konnector has reported yet.")
    ]
    (step,) = _steps("It", EXPORT, [false("Healthy", "FirstHeartbeatPending", "none yet")])
    assert step.state == "waiting"
    assert "kubectl -n kube-bind get pods" in step.helps


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        pytest.param("FirstHeartbeatPending", "kubectl -n kube-bind", id="the-readers-own"),
        pytest.param("SchemaNotFound", "ask the provider's team to", id="the-providers"),
        pytest.param(
            "Forbidden", "have the team of the cluster that refuses", id="the-providers-rights"
        ),
    ],
)
def test_advice_is_for_who_binds(reason: str, remedy: str) -> None:
    (step,) = _steps("It", EXPORT, [false("Healthy", reason, "why")])
    assert remedy in step.helps


def test_a_fact_is_no_step() -> None:
    (step,) = _steps("It", EXPORT, [true("Ready"), true("Tide")])
    assert step.state == "ok"
