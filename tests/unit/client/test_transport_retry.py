from __future__ import annotations

import pytest

from fairlead.client import RetryPolicy


POLICY = RetryPolicy(attempts=3, budget=10.0, base=0.5)


@pytest.mark.parametrize(
    ("method", "code", "retry_after", "least", "most"),
    [
        pytest.param("GET", 429, 2.0, 2.0, 2.0, id="429-as-told"),
        pytest.param("POST", 429, 2.0, 2.0, 2.0, id="429-was-not-processed"),
        pytest.param("PATCH", 429, None, 0.5, 0.75, id="429-untold"),
        pytest.param("GET", 503, 1.0, 1.0, 1.0, id="503-read"),
        pytest.param("PUT", 503, 1.0, 1.0, 1.0, id="503-idempotent-write"),
        pytest.param("DELETE", 503, 1.0, 1.0, 1.0, id="503-delete"),
    ],
)
def test_waits(
    method: str, code: int, retry_after: float | None, least: float, most: float
) -> None:
    wait = POLICY.wait(method, code, retry_after, 0, 0.0)
    assert wait is not None
    assert least <= wait <= most


@pytest.mark.parametrize(
    ("method", "code", "retry_after", "attempt", "waited"),
    [
        pytest.param("POST", 503, 1.0, 0, 0.0, id="503-create-may-have-happened"),
        pytest.param("PATCH", 503, 1.0, 0, 0.0, id="503-patch-may-have-happened"),
        pytest.param("GET", 503, None, 0, 0.0, id="503-without-a-time"),
        pytest.param("GET", 500, 1.0, 0, 0.0, id="500"),
        pytest.param("GET", 409, 1.0, 0, 0.0, id="409"),
        pytest.param("GET", 429, 1.0, 2, 0.0, id="attempts-used-up"),
        pytest.param("GET", 429, 11.0, 0, 0.0, id="longer-than-the-budget"),
        pytest.param("GET", 429, 6.0, 1, 6.0, id="budget-used-up"),
    ],
)
def test_is_final(
    method: str, code: int, retry_after: float | None, attempt: int, waited: float
) -> None:
    assert POLICY.wait(method, code, retry_after, attempt, waited) is None


def test_a_server_that_says_zero_makes_no_hot_loop() -> None:
    assert POLICY.wait("GET", 429, 0.0, 0, 0.0) == 0.0
    later = POLICY.wait("GET", 429, 0.0, 1, 0.0)
    assert later is not None
    assert later >= 1.0
