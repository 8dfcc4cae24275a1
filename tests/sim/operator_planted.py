"""Faults that are planted into the PostgresAccess operator, to see whether a seed finds them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fairlead.postgres.controllers.access import publication
from fairlead.postgres.controllers.access.passes import Pass
from fairlead.postgres.controllers.access.reconcile import AccessStep
from fairlead.postgres.controllers.access.steps import Steps
from fairlead.postgres.controllers.servers import work
from fairlead.postgres.database.plans.snapshot import Claim


def secret_before_login() -> None:
    """Write the Secret of the next of two logins before the server lets that in."""
    original: Callable[[Steps, AccessStep, Pass], Awaitable[None]] = Steps._perform

    async def perform(self: Steps, step: AccessStep, current: Pass) -> None:
        if step is AccessStep.STAGE_LOGIN:
            current.learn(secret="staged")
        else:
            await original(self, step, current)

    _replace(Steps, "_perform", perform)


def cleanup_skipped() -> None:
    """Let objects go, and leave their roles as they are."""

    async def cleanup(*_given: object, **_options: object) -> bool:
        return True

    _replace(work, "cleanup", cleanup)


def any_claim_is_ours() -> None:
    """Take the role of any access for one's own."""
    _replace(Claim, "same_object", lambda _self, _other: True)


def strangers_adopted() -> None:
    """Take over roles that nobody has claimed, though nobody has allowed it."""
    _replace(Steps, "_adopts", lambda _self, _current: True)


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
