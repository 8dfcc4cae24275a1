"""Waits until the konnector has bound the written objects, and explains why it has not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APIServiceBinding,
    APIServiceBindingBundle,
    ExportRequestResponse,
    crd_name,
)
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    HEARTBEATING,
    INFORMERS_SYNCED,
    NAMES_TAKEN,
    READY,
    SCHEMA_IN_SYNC,
    SECRET_VALID,
    SYNCED,
    WITHOUT_STATUS,
    get_condition,
    is_true,
)
from fairlead.api.meta import Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, Resource
from fairlead.client import Client, ClusterConfig
from fairlead.client.lookups import WaitTimeout, find, wait_for
from fairlead.konnector.commands import presence
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.crds import established
from fairlead.konnector.options import DEFAULT_NAMESPACE


T = TypeVar("T")

PENDING = "Pending"
"""The reason of Ready before a konnector has looked (kube-bind's CLI writes the same)."""
PATIENCE_SECONDS = 3.0
"""Seconds after which a wait is explained: a running konnector starts at once."""
NOT_READY = "not ready: "
"""Beginning of an obstacle that a konnector has named."""
UNTOUCHED = "no konnector has picked it up"
"""Obstacle of an object before a konnector has named one."""
_CONDITIONS = (SECRET_VALID, INFORMERS_SYNCED, CONNECTED, SCHEMA_IN_SYNC, HEARTBEATING)

Look = Callable[[Object | None], str]
"""Returns the fault of an object, "" if there is none."""


class Deadline:
    """Moment of the running loop's clock at which the whole command must be done."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = asyncio.get_running_loop().time() + seconds

    def left(self) -> float:
        """Return the remaining seconds, always above 0, so that a last look is made."""
        return max(self._end - asyncio.get_running_loop().time(), 0.1)


_LAST_WORD_SECONDS = 1.0
"""Seconds beyond the timeout in which a wait inside may report the missing part."""


async def within(seconds: float, work: Awaitable[T], what: Callable[[], str]) -> T:
    """Await ``work``, which may hang on a silent server, and return its result.

    Raises:
        BindError: the time is up; ``what`` returns the interrupted work.
    """
    try:
        async with asyncio.timeout(seconds + _LAST_WORD_SECONDS):
            return await work
    except TimeoutError:
        raise BindError(f"{what()}: no answer within {seconds:g} s") from None


class WaitOptions(msgspec.Struct, frozen=True):
    """Options of waiting for a konnector.

    ``namespace`` is the konnector's own, and ``provider`` the provider's config with the
    consumer's credentials: the traces of an idle konnector are looked for in both.
    """

    client: Client
    deadline: Deadline
    progress: Progress
    namespace: str = DEFAULT_NAMESPACE
    provider: ClusterConfig | None = None

    async def binding(self, request: ExportRequestResponse) -> None:
        """Wait until a binding is Ready and its kinds are served.

        Raises:
            BindError: the time is up; the message names the missing part.
            ClientError: the server refused the look.
        """
        name = request.metadata.name
        await self._until(APISERVICEBINDINGS, name, _unready)
        for item in request.spec.resources:
            crd = crd_name(item.resource, item.group)
            await self.done(CUSTOMRESOURCEDEFINITIONS, crd, unestablished)
        self.progress(f"APIServiceBinding {name} is ready")
        binding = await find(self.client, APISERVICEBINDINGS, name)
        conditions = (
            binding.decode(APIServiceBinding).status.conditions if binding is not None else []
        )
        for condition in conditions:
            if condition.status == "True" and condition.type in {NAMES_TAKEN, WITHOUT_STATUS}:
                self.progress(condition.message)

    async def bundle(self, name: str) -> None:
        """Wait until a bundle has bound what its provider exports.

        Raises:
            BindError: the time is up; the message names the missing part.
            ClientError: the server refused the look.
        """
        await self._until(APISERVICEBINDINGBUNDLES, name, _unsynced)
        self.progress(f"APIServiceBindingBundle {name} is synced")

    async def _until(self, resource: Resource, name: str, obstacle_of: Look) -> None:
        """Wait for an object that a konnector works on; report early if no konnector does."""
        self.progress(f"waiting for {resource.kind} {name}")
        described = self.reporting(obstacle_of, NOT_READY)
        await self.begun(resource, name, described, UNTOUCHED)
        await self.done(resource, name, described, UNTOUCHED)

    def reporting(self, obstacle_of: Look, prefix: str = "") -> Look:
        """Return a look that also reports each new obstacle that begins with a prefix."""
        said = ""

        def described(obj: Object | None) -> str:
            nonlocal said
            missing = obstacle_of(obj)
            if missing and missing != said and missing.startswith(prefix):
                self.progress(missing)
                said = missing
            return missing

        return described

    async def begun(
        self, resource: Resource, name: str, obstacle_of: Look, idle: str, *, place: str = ""
    ) -> None:
        """Wait a while for a konnector to work on an object, and report why none does.

        ``idle`` is the obstacle before one does, and ``place`` the object's namespace.
        """

        def untouched(obj: Object | None) -> str:
            return idle if obstacle_of(obj) == idle else ""

        try:
            # Half at most, so that a short timeout leaves time for the wait that counts.
            seconds = min(PATIENCE_SECONDS, self.deadline.left() / 2)
            await wait_for(self.client, resource, name, place, until=untouched, timeout=seconds)
        except WaitTimeout:
            self.progress(f"{idle} yet: {await self._absence()}")

    async def done(
        self,
        resource: Resource,
        name: str,
        obstacle_of: Look,
        idle: str = UNTOUCHED,
        *,
        place: str = "",
    ) -> None:
        """Wait until an object has no obstacle; ``place`` is its namespace.

        Raises:
            BindError: the time is up; the message names the obstacle, and why no konnector works.
            ClientError: the server refused the look.
        """
        missing = ""

        def noted(obj: Object | None) -> str:
            nonlocal missing
            missing = obstacle_of(obj)
            return missing

        try:
            left = self.deadline.left()
            await wait_for(self.client, resource, name, place, until=noted, timeout=left)
        except WaitTimeout as error:
            why = f": {await self._absence()}" if missing == idle else ""
            waited = f"(waited {self.deadline.seconds:g} s)"
            title = f"{resource.kind} {Key(place, name)}"
            text = f"{title}: {missing} {waited}" if missing else str(error)
            raise BindError(text + why) from None

    async def _absence(self) -> str:
        return await presence.absence(self.client, self.namespace, self.provider)


def untouched(binding: Object) -> bool:
    """Whether no konnector has ever worked on a binding."""
    ready = get_condition(binding.decode(APIServiceBinding).status.conditions, READY)
    return ready is None or ready.reason == PENDING


def _unready(obj: Object | None) -> str:
    if obj is None:
        return "it does not exist"
    conditions = obj.decode(APIServiceBinding).status.conditions
    ready = get_condition(conditions, READY)
    if ready is None or untouched(obj):
        return UNTOUCHED
    if ready.status != "True":
        return f"{NOT_READY}{ready.reason}: {ready.message}"
    # Ready sums up the conditions that are there: one that is still to be set is waited for, too.
    missing = [type_ for type_ in _CONDITIONS if not is_true(conditions, type_)]
    return f"the konnector has not yet set {', '.join(missing)} to True" if missing else ""


def _unsynced(obj: Object | None) -> str:
    if obj is None:
        return "it does not exist"
    synced = get_condition(obj.decode(APIServiceBindingBundle).status.conditions, SYNCED)
    if synced is None:
        return UNTOUCHED
    return "" if synced.status == "True" else f"{NOT_READY}{synced.reason}: {synced.message}"


def unestablished(obj: Object | None) -> str:
    """Return what keeps a CRD from being established, "" if nothing does."""
    if obj is None:
        return "not created yet"
    return "" if established(obj) else "not established yet"
