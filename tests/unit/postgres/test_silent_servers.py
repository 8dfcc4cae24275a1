"""What follows the answers of a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.postgres.controllers.access.passes import Action, Observed
from fairlead.postgres.controllers.access.steps import PassUnderWay, Steps
from fairlead.postgres.database.plans.snapshot import RoleClaim
from fairlead.postgres.database.work.sync import Check
from fairlead.postgres.errors import AccessError


@pytest.mark.parametrize(
    ("written", "exists", "former", "goes_on"),
    [
        pytest.param(True, True, "", True, id="cache-behind"),
        pytest.param(True, False, "", False, id="secret-gone"),
        pytest.param(False, True, "", False, id="secret-of-another-program"),
        pytest.param(True, True, "old", False, id="another-username"),
    ],
)
async def test_a_secret_that_the_cache_lacks_is_asked_for_where_the_server_is_silent(
    written: bool, exists: bool, former: str, goes_on: bool
) -> None:
    async def has_own(_: object) -> bool:
        return exists

    nothing: Any = None
    steps = Steps(
        nothing,
        nothing,
        nothing,
        cast("Any", SimpleNamespace(has_own=has_own)),
        nothing,
        wrote=nothing,
        look_at=nothing,
    )
    status = SimpleNamespace(secret=object() if written else None)
    desired: Any = SimpleNamespace(access=SimpleNamespace(status=status))
    job = Check(("app",), cast("RoleClaim", None), former=former)
    silent = AccessError("AuthenticationFailed", "refused")
    found = await steps.answered(
        PassUnderWay(desired, Observed(), (Action.CHECK_ROLE, Action.REPORT), job), silent
    )
    assert found is not None
    assert (found.observed.failure is None) is goes_on
