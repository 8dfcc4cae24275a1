"""Whether another konnector is at work, by the Lease: one row for each edge."""

from __future__ import annotations

import pytest

from fairlead.konnector.v2.renewals import LeaseRenewal, is_held


TIME = "2026-11-30T12:00:00.000000Z"
OURS = LeaseRenewal(TIME, 60.0, f"{TIME} me")
PEER = LeaseRenewal(TIME, 60.0, f"{TIME} peer")
OTHER = LeaseRenewal(TIME, 60.0)
OVER_OURS = LeaseRenewal(TIME, 60.0, "2026-11-30T11:59:30.000000Z me")


@pytest.mark.parametrize(
    ("renewal", "unchanged", "has_written", "held"),
    [
        pytest.param(LeaseRenewal(), 0.0, False, False, id="never-renewed"),
        pytest.param(OURS, 0.0, True, False, id="ours"),
        pytest.param(OTHER, 0.0, False, True, id="original"),
        pytest.param(OTHER, 59.9, False, True, id="original-silent-for-a-while"),
        pytest.param(OTHER, 60.0, False, False, id="original-stopped"),
        pytest.param(OVER_OURS, 0.0, True, True, id="original-after-us"),
        pytest.param(PEER, 0.0, False, False, id="our-predecessor"),
        pytest.param(PEER, 0.0, True, True, id="our-successor"),
        pytest.param(PEER, 60.0, True, False, id="our-successor-stopped"),
    ],
)
def test_a_lease_is_held(
    renewal: LeaseRenewal, unchanged: float, has_written: bool, held: bool
) -> None:
    assert is_held(renewal, "me", unchanged=unchanged, has_written=has_written) is held
