"""Reports on each binding whether its watches work."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from fairlead.api.kubebind import APIServiceBinding
from fairlead.api.kubebind.conditions import (
    CONFLICTS,
    COPIES_HELD,
    INFORMERS_SYNCED,
    OBJECTS_FAILING,
    OBJECTS_REWRITTEN,
    PERMISSION_CLAIM,
    KubeBindCondition,
    false,
    true,
)
from fairlead.api.meta import Undecodable
from fairlead.client import (
    AnswerTooLarge,
    CertificateRefused,
    ClientError,
    ConnectionFailed,
    Forbidden,
    Unauthorized,
)
from fairlead.client.errors import Bound
from fairlead.konnector.consumer import Provider


REFUSED = "ClaimRefused"
TOO_LARGE = "AnswerTooLarge"
TIMEOUT = "InformerSyncTimeout"
FORBIDDEN = "KonnectorForbidden"
DISTRUSTED = "CertificateRefused"
WRITES_REFUSED = "WritesRefused"
_RENEW = (
    "it does not accept the credentials any more (Unauthorized): ask its team for a new "
    "invitation, and give it to `fairlead bind`"
)
_FLAGS: dict[Bound, str] = {
    "answer": "--provider-answer-limit",
    "event": "--provider-event-limit",
    "objects": "--provider-objects-limit",
}
"""The konnector's flags that raise the bounds."""
_log = structlog.get_logger(logger_name="fairlead.konnector.health")


class HealthReporter:
    """Looks at the informers of one connection once a health interval, without a request.

    A fault must be seen several times before it is told: a watch that breaks is soon mended.
    """

    name = "health"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._faulty_checks: dict[str, int] = {}
        self._poke = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled."""
        self._provider.on_join(self._poke.set)
        while True:
            for binding in sorted(self._provider.bindings):
                try:
                    await self._report(binding)
                except (ClientError, Undecodable) as error:
                    # One status that cannot be written does not keep the other bindings from being
                    # looked at.
                    _log.warning("condition not written", binding=binding, error=str(error))
            await self._pause()

    async def _pause(self) -> None:
        """Wait until the next look, which comes early when the watches have begun to work."""
        self._poke.clear()
        news = self._poke.wait() if self._provider.has_synced else self._provider.synced()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._provider.consumer.options.health_interval):
                await news

    async def _report(self, binding: str) -> None:
        message = self._fault(binding)
        self._faulty_checks[binding] = self._faulty_checks.get(binding, 0) + 1 if message else 0
        condition = self._condition(binding, message)
        conditions = [condition] if condition is not None else []
        if refusal := self._refusal(binding):
            conditions.append(refusal)
        reports = self._provider.consumer.reports
        text = (
            reports.conflicts(binding),
            reports.failing(binding),
            reports.rewritten(binding),
        )
        conditions += [one for one in text if one is not None]
        hold = self._provider.hold(binding)
        # Until this cluster's own uid is known, every copy looks like another's.
        if hold.holding and hold.cluster:
            conditions.append(hold.condition(self._provider.waiting(binding)))
        types = {CONFLICTS, COPIES_HELD, OBJECTS_FAILING, OBJECTS_REWRITTEN}
        absent = types - {one.type for one in conditions}
        await self._provider.consumer.statuses.set(binding, *conditions, absent=absent)

    def _refusal(self, binding: str) -> KubeBindCondition | None:
        """Return the condition PermissionClaim, for bindings with claims only."""
        consumer = self._provider.consumer
        obj = consumer.bindings.get("", binding)
        parsed = obj.try_decode(APIServiceBinding) if obj is not None else None
        if parsed is None or not parsed.status.permission_claims:
            return None
        message = consumer.reports.refusals.message(binding)
        if message:
            return false(PERMISSION_CLAIM, REFUSED, message, severity="Warning")
        return true(PERMISSION_CLAIM)

    def _condition(self, binding: str, message: str) -> KubeBindCondition | None:
        """Return the condition of a binding; None while its state is unknown."""
        if message:
            patient = (
                self._faulty_checks[binding] < self._provider.consumer.options.health_patience
            )
            return None if patient else false(INFORMERS_SYNCED, self._why(binding), message)
        if blocked := self._provider.consumer.reports.blocked(binding):
            return false(INFORMERS_SYNCED, WRITES_REFUSED, blocked)
        return true(INFORMERS_SYNCED) if self._provider.has_synced else None

    def _why(self, binding: str) -> str:
        if self._excess(binding) is not None:
            return TOO_LARGE
        if isinstance(self._provider.cause(), CertificateRefused):
            return DISTRUSTED
        consumer = self._provider.consumer
        here = consumer.client.config.server
        lacks_right = any(
            isinstance(cause, Forbidden) and cause.lacks_right and cause.server == here
            for cause in consumer.reports.problems.causes(binding)
        )
        # A provider that does not answer comes first: no right here mends that.
        return FORBIDDEN if lacks_right and self._provider.cause() is None else TIMEOUT

    def _excess(self, binding: str) -> AnswerTooLarge | None:
        """Return the error about an answer of the provider that is too large; None without one."""
        causes = (
            self._provider.cause(),
            *self._provider.consumer.reports.problems.causes(binding),
        )
        excesses = (one for one in causes if isinstance(one, AnswerTooLarge))
        return next(excesses, self._provider.client.intake.noted)

    def _fault(self, binding: str) -> str:
        """Return the fault of the connection with the flag that helps, if there is one."""
        message, excess = self._reason(binding), self._excess(binding)
        if excess is None:
            return message
        if str(excess) not in message:
            message = "; ".join(part for part in (message, str(excess)) if part)
        return (
            f"{message}; if the provider needs more, raise {_FLAGS[excess.bound]} of the konnector"
        )

    def _reason(self, binding: str) -> str:
        """Return the fault of the connection once: each of its watches fails for one reason."""
        cause, own = self._provider.cause(), ""
        match cause:
            case None:
                return self._provider.problem(binding)
            case Unauthorized():
                own = _RENEW + cause.clock_hint
            case ConnectionFailed():
                own = str(cause)
            case _:
                own = self._provider.error()
        message = self._provider.problem(binding, said=cause)
        return "; ".join(
            part for part in (f"the provider cannot be watched: {own}", message) if part
        )
