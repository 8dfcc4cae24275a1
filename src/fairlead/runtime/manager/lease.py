"""Leader election on a Lease (coordination.k8s.io/v1), as in client-go.

https://pkg.go.dev/k8s.io/client-go/tools/leaderelection. Clocks of different machines are never
compared: a Lease is free when it has not changed for its duration, by the clock of the candidate
that waits for it.
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import LEASES
from fairlead.api.timestamps import format_micro_time, moment
from fairlead.client import limits
from fairlead.client.errors import AlreadyExists, ClientError, Conflict, NotFound


if TYPE_CHECKING:
    from fairlead.client import Client


_log = structlog.get_logger(logger_name="fairlead.runtime.lease")


class LeadershipLost(Exception):  # noqa: N818
    """Another process may lead now; the work of a leader has been stopped."""


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """``coordination.k8s.io/v1`` LeaseSpec; times are RFC 3339 with microseconds."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int = 0


class _Lease(msgspec.Struct):
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


def default_identity() -> str:
    """Return this host's name with a random part, so that two processes of one host differ."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class _Moment(NamedTuple):
    """Time of the event loop, and ``time.monotonic()``, in seconds."""

    loop: float
    machine: float

    @classmethod
    def now(cls) -> _Moment:
        return cls(asyncio.get_running_loop().time(), time.monotonic())


class LeaderElection:
    """One candidate for a Lease. Durations are in seconds. Needs get, create and update on leases.

    Leadership ends ``renew_deadline`` after the last renewal, well before others may take the
    lease after ``lease_duration``.

    Raises:
        ValueError: the durations are not in the order retry < renew < lease.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str = "",
        *,
        # The defaults of client-go's components: kube-controller-manager, controller-runtime.
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
    ) -> None:
        if not 0 < retry_period < renew_deadline < lease_duration:
            raise ValueError(
                "leader election needs retry_period < renew_deadline < lease_duration, got "
                f"{retry_period:g}, {renew_deadline:g}, {lease_duration:g}"
            )
        self.name = name
        self.identity = identity or default_identity()
        self.is_leader = False
        self.error = ""
        self._client = client
        self._namespace = namespace
        self._duration = lease_duration
        self._deadline = renew_deadline
        self._retry = retry_period
        self._lease: Object | None = None
        self._has_asked = False
        self._last_spec = LeaseSpec()
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._stamp = 0.0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for leadership, then lead; the lease is released when that ends.

        Raises:
            LeadershipLost: the lease could not be kept; ``lead`` was cancelled and has ended.
        """
        try:
            await self._acquire()
            self.is_leader = True
            _log.info("leading", lease=self._title, identity=self.identity)
            lost = await self._lead(lead)
        finally:
            # By now all has ended that only a leader may do: the next one may begin.
            self.is_leader = False
            await self._release()
        if lost:
            raise LeadershipLost(f"lost the lease {self._title}: {lost}")

    def stale(self) -> str:
        """Return why this process must not write as the leader; "" if it may, or does not lead."""
        if not self.is_leader:
            return ""
        # The loop's time stands still within one turn, and a process may be frozen in the middle.
        slept = time.monotonic() - self._stamp
        age = max(slept, asyncio.get_running_loop().time() - self._renewed_at)
        return f"lease not renewed for {age:.0f} s" if age > self._duration else ""

    @property
    def _title(self) -> str:
        return f"{self._namespace}/{self.name}"

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> str:
        # A task takes a coroutine, and ``lead`` may give any awaitable.
        async def body() -> None:
            await lead()

        async with asyncio.TaskGroup() as group:
            leading = group.create_task(body(), name=f"leader of {self._title}")
            renewing = group.create_task(self._renew(), name=f"renewal of {self._title}")
            # The first end stops both: work without the Lease, or the Lease without work. The
            # group then waits until the work has ended.
            await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            leading.cancel()
            renewing.cancel()
        return renewing.result() if not renewing.cancelled() else ""

    async def _acquire(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._deadline):
                    if await self._attempt():
                        self._note("")
                        return
                self._note(f"{self._last_spec.holder_identity} holds the lease {self._title}")
            except (ClientError, TimeoutError) as error:
                self._note(f"cannot get the lease {self._title}: {str(error) or 'no answer'}")
            # Candidates that were started together must not ask together each time.
            await asyncio.sleep(self._retry * random.uniform(1.0, 1.2))  # noqa: S311

    def _note(self, text: str) -> None:
        if text and text != self.error:
            happening = "lease not renewed" if self.is_leader else "waiting for leadership"
            _log.info(happening, lease=self._title, reason=text)
        self.error = text

    async def _renew(self) -> str:
        """Renew the Lease until that fails; return the reason."""
        while True:
            await asyncio.sleep(self._retry)
            try:
                async with asyncio.timeout_at(self._renewed_at + self._deadline):
                    if not await self._insist():
                        return (
                            f"{self._last_spec.holder_identity or 'another process'} has taken it"
                        )
            except TimeoutError:
                reason = self.error or "no answer"
                return f"not renewed for {self._deadline:g} s: {reason}"

    async def _insist(self) -> bool:
        while True:
            try:
                return await self._attempt()
            except ClientError as error:
                self._note(str(error))
            await asyncio.sleep(self._retry)

    async def _attempt(self) -> bool:
        """Take or renew the Lease; return False if another process holds it."""
        if self.is_leader and self._lease is not None:
            try:
                # A renewal is one write on the known version; it fails after any other write.
                return await self._write(self._lease)
            except (Conflict, NotFound):
                # Another process has written the Lease: a look tells whether it is still ours.
                self._lease = None
        try:
            lease = await self._client.get(LEASES, self.name, self._namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        # By our own clock: renewTime is another machine's, and may be hours off.
        if self._held_by_another():
            return False
        try:
            return await self._write(lease)
        except (Conflict, NotFound):
            return False

    def _observe(self, lease: Object) -> None:
        spec = lease.decode(_Lease).spec
        # Any change of the spec is a renewal, and restarts the wait, by our own clock.
        if spec != self._last_spec or not self._seen_at:
            self._last_spec = spec
            self._seen_at = asyncio.get_running_loop().time()

    def _held_by_another(self) -> bool:
        if self._last_spec.holder_identity in {"", self.identity}:
            return False
        age = asyncio.get_running_loop().time() - self._seen_at
        # The holder has written its own duration into the Lease; a candidate waits for that one.
        return age < (self._last_spec.lease_duration_seconds or self._duration)

    async def _create(self) -> bool:
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": self._namespace, "name": self.name},
            "spec": msgspec.to_builtins(self._spec(LeaseSpec())),
        }
        begun = _Moment.now()
        self._has_asked = True
        try:
            self._keep(await self._client.create(LEASES, body, self._namespace), begun)
        except AlreadyExists:
            return False
        return True

    async def _write(self, lease: Object) -> bool:
        body: JSON = lease.to_dict()
        body["spec"] = msgspec.to_builtins(self._spec(lease.decode(_Lease).spec))
        # The body carries the resourceVersion: of two candidates that saw the Lease free, the
        # server refuses one with a Conflict.
        begun = _Moment.now()
        self._has_asked = True
        self._keep(await self._client.update(LEASES, body), begun)
        return True

    def _keep(self, lease: Object, begun: _Moment) -> None:
        self._lease = lease
        self._observe(lease)
        # Others may have seen the lease long before its answer came: their clock began then.
        self._renewed_at, self._stamp = begun
        if self.is_leader:
            self.error = ""

    def _spec(self, old: LeaseSpec) -> LeaseSpec:
        stamp = format_micro_time(moment())
        mine = old.holder_identity == self.identity
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, round(self._duration)),
            acquire_time=(old.acquire_time if mine else None) or stamp,
            renew_time=stamp,
            # The first holder of a new Lease takes it over from no other process.
            lease_transitions=old.lease_transitions + (not mine and bool(old.acquire_time)),
        )

    async def _release(self) -> None:
        """Give up the Lease if this process holds it, so that the next candidate need not wait."""
        if not self._has_asked:
            return
        lease, self._lease = self._lease, None
        try:
            async with asyncio.timeout(limits.RELEASE_SECONDS):
                while not await self._free(lease):
                    # A write that was cancelled on its way may have been carried out.
                    lease = await self._client.get(LEASES, self.name, self._namespace)
        except NotFound:
            return
        except (ClientError, TimeoutError) as error:
            reason = str(error) or "no answer"
            _log.info("lease not released", lease=self._title, reason=reason)

    async def _free(self, lease: Object | None) -> bool:
        """Free the Lease in this version; return False if it must be looked at first."""
        if lease is None:
            return False
        spec = lease.decode(_Lease).spec
        if spec.holder_identity != self.identity:
            return True
        body: JSON = lease.to_dict()
        # As client-go does: without a holder, and for one second, the Lease is free at once.
        free = msgspec.structs.replace(
            spec,
            holder_identity="",
            lease_duration_seconds=1,
            renew_time=format_micro_time(moment()),
        )
        body["spec"] = msgspec.to_builtins(free)
        try:
            await self._client.update(LEASES, body)
        except Conflict:
            return False
        return True
