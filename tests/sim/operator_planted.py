"""Faults that are planted into the PostgresAccess operator, to see whether a seed finds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from fairlead.postgres.controllers.access import publication
from fairlead.postgres.controllers.access.passes import Action
from fairlead.postgres.controllers.access.steps import PassUnderWay, Steps
from fairlead.postgres.controllers.rules import desired
from fairlead.postgres.controllers.servers import work
from fairlead.postgres.database.plans.snapshot import RoleClaim


def secret_before_login() -> None:
    """Write the Secret of the next of two logins before the server lets that in."""
    original: Callable[[Steps, PassUnderWay], Awaitable[PassUnderWay | None]] = Steps.take

    async def take(self: Steps, under_way: PassUnderWay) -> PassUnderWay | None:
        action, *left = under_way.left
        if action is not Action.STAGE_LOGIN:
            return await original(self, under_way)
        staged = replace(under_way.observed.credentials, left=Action.WRITE_SECRET, is_staged=True)
        observed = under_way.observed.with_login(staged)
        return under_way._replace(observed=observed, left=tuple(left))

    _replace(Steps, "take", take)


def cleanup_skipped() -> None:
    """Let objects go, and leave their roles as they are."""

    async def cleanup(*_given: object, **_options: object) -> bool:
        return True

    _replace(work, "cleanup", cleanup)


def any_claim_is_ours() -> None:
    """Take the role of any access for one's own."""
    _replace(RoleClaim, "same_object", lambda _self, _other: True)


def strangers_adopted() -> None:
    """Take over roles that nobody has claimed, though nobody has allowed it."""
    _replace(desired, "may_adopt", lambda _access, _settings: True)


def secrets_of_others() -> None:
    """Write into a Secret whose owner is somebody else."""
    _replace(publication, "check_ours", lambda *_given: None)


def _replace(owner: Any, name: str, made: Any) -> None:
    setattr(owner, name, made)


FAULTS: dict[str, Callable[[], None]] = {
    one.__name__.replace("_", "-"): one
    for one in (
        secret_before_login,
        cleanup_skipped,
        any_claim_is_ours,
        strangers_adopted,
        secrets_of_others,
    )
}
"""The faults by name."""
