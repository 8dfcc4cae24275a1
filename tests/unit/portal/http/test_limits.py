from __future__ import annotations

from collections.abc import Callable

import pytest

from fairlead.portal.http.bounds import Buckets, Limiter
from fairlead.portal.http.errors import Refusal
from fairlead.portal.options import Limits, Rate


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_and_then_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(Rate(2.0, 3), 10, clock)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("b") == 0
    clock.now += 0.5
    assert buckets.take("a") == 0
    assert buckets.take("a") == 0.5
    clock.now += 3600
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 0.5]


def test_a_rate_of_zero_is_no_limit() -> None:
    buckets = Buckets(Rate(0, 0), 10, Clock())
    assert not any(buckets.take("a") for _ in range(100))
    assert not len(buckets)


def test_memory_is_bounded_and_the_least_seen_is_forgotten() -> None:
    clock = Clock()
    buckets = Buckets(Rate(1.0, 1), 3, clock)
    assert not any(buckets.take(key) for key in "abc")
    assert buckets.take("a")
    assert not buckets.take("d")
    assert len(buckets) == 3
    assert buckets.take("a"), "it was seen after b"
    assert not buckets.take("b"), "it was forgotten"


def refused(call: Callable[..., None], *arguments: str) -> float:
    """The seconds to wait, 0 where it was let in."""
    try:
        call(*arguments)
    except Refusal as refusal:
        found = refusal
    else:
        return 0.0
    assert found.status == 429
    assert found.retry_after is not None
    return found.retry_after


def test_s17_sign_ins_have_a_bound_for_each_address_and_for_all() -> None:
    limits = Limits(sign_ins_per_address=Rate(1.0, 2), sign_ins=Rate(1.0, 3))
    limiter = Limiter(limits, Clock())
    path = "/api/authorize"
    assert not refused(limiter.address, "192.0.2.1", path)
    assert not refused(limiter.address, "192.0.2.1", path)
    assert refused(limiter.address, "192.0.2.1", path)
    assert not refused(limiter.address, "192.0.2.2", path)
    assert refused(limiter.address, "192.0.2.3", path), "many addresses are one load"
    assert not refused(limiter.address, "192.0.2.3", "/api/templates")


def test_s17_neighbours_in_ipv6_are_one() -> None:
    limiter = Limiter(Limits(per_address=Rate(1.0, 1)), Clock())
    assert not refused(limiter.address, "2001:db8::1", "/api/ping")
    assert refused(limiter.address, "2001:db8::2", "/api/ping")
    assert not refused(limiter.address, "2001:db8:0:1::1", "/api/ping")


@pytest.mark.parametrize("kind", ["request", "bind"])
def test_s17_people_have_bounds_of_their_own(kind: str) -> None:
    limits = Limits(per_person=Rate(1.0, 2), binds_per_person=Rate(1.0, 2), binds=Rate(1.0, 3))
    limiter = Limiter(limits, Clock())
    assert not refused(limiter.person, "issuer/ann", kind)
    assert not refused(limiter.person, "issuer/ann", kind)
    assert refused(limiter.person, "issuer/ann", kind)
    assert not refused(limiter.person, "issuer/bob", kind)
    assert bool(refused(limiter.person, "issuer/cid", kind)) is (kind == "bind")
