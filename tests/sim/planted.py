"""Faults that are planted into the product to see whether the simulation finds them.

Each replaces a function or two of it in this Python; no file is changed. A plan names the fault
in its option :data:`OPTION`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

import structlog
from tests.sim import binding_planted, kbindv2_planted, operator_planted

from fairlead.api.meta import Object, ObjectMeta
from fairlead.api.resource import Resource
from fairlead.client import Client
from fairlead.konnector.policies import bound, copies
from fairlead.konnector.policies.copies import copy_of, put_at
from fairlead.konnector.policies.steps import Create, Pair, Step
from fairlead.konnector.sync import objects
from fairlead.runtime.cache import informer
from fairlead.runtime.cache.expectations import Expectations
from fairlead.runtime.cache.reflector import Phase, PhaseEnd, Reflector
from fairlead.runtime.controller.queue import Band, WorkQueue


OPTION = "planted"
"""The option of a plan that names the fault to run it with."""


def plant(options: dict[str, str]) -> None:
    """Break the product as the options of a plan say; nothing happens without the option.

    Raises:
        KeyError: there is no fault of that name.
    """
    if name := options.get(OPTION):
        PLANTED[name].plant()


def _replace(owner: Any, made: Callable[..., Any]) -> None:
    """Put a function into the place of the one of its name."""
    setattr(owner, made.__name__, made)


def _whoever_owns_it() -> None:
    """Take any object that has a copy's name for the copy."""

    def belongs(provider: ObjectMeta, cluster_namespace: str) -> bool:
        return True

    _replace(bound, belongs)


def _no_fence() -> None:
    """Have a leader that has slept through its Lease write on."""

    def fence(client: Client, reason: Callable[[], str]) -> None:
        """Ask nobody."""

    _replace(Client, fence)


def _no_deletions() -> None:
    """Have a new list say nothing of what is gone."""

    def differences(known: object, listed: object) -> list[Object]:
        return []

    _replace(informer, differences)


def _resume_after_gone() -> None:
    """Go on from the newest version where history is gone, and take no list."""
    conclude, listing = Reflector._conclude, Reflector._list
    resuming: set[int] = set()

    def _conclude(one: Reflector, outcome: PhaseEnd, error: Exception | None) -> float:
        if one._phase is Phase.WATCH and outcome is PhaseEnd.EXPIRED:
            resuming.add(id(one))
        return conclude(one, outcome, error)

    async def _list(one: Reflector) -> PhaseEnd:
        if id(one) not in resuming:
            return await listing(one)
        scope = one._scope
        found = await one._source.list(scope.resource, scope.namespace, limit=1)
        resuming.discard(id(one))
        one._version = found.resource_version
        return PhaseEnd.LISTED

    _replace(Reflector, _conclude)
    _replace(Reflector, _list)


def _forgetful_queue() -> None:
    """Forget a key that is added while it is worked on."""
    known = WorkQueue.add

    def add(queue: WorkQueue[Any], key: Any, band: Band = Band.LIVE) -> None:
        if key not in queue._processing:
            known(queue, key, band)

    _replace(WorkQueue, add)


def _copy_first() -> None:
    """Make the copy before the finalizer that keeps its original."""

    def _create(policy: bound.BoundPolicy, consumer: Object, target: Any) -> Step:
        body = copy_of(consumer, policy.cluster_namespace)
        return Create("provider", put_at(body, target, policy.owner))

    _replace(bound.BoundPolicy, _create)


def _unasked() -> None:
    """Let an object go when the cache has no copy of it, without asking the provider."""
    release = bound.BoundPolicy._release

    def _release(policy: bound.BoundPolicy, pair: Pair, consumer: Object) -> Step:
        known = pair if pair.provider is not None else pair.without("provider")
        return release(policy, known, consumer)

    _replace(bound.BoundPolicy, _release)


def _echoes() -> None:
    """Take what is newer than our own write for its echo."""

    def echoes(known: Expectations, obj: Object) -> bool:
        written, _ = known.written.get(obj.key, (None, 0.0))
        if written is None or written.meta.uid != obj.meta.uid:
            return False
        if obj.meta.resource_version == written.meta.resource_version:
            known.forget(obj.key)
        return True

    _replace(Expectations, echoes)


def _orphans() -> None:
    """Delete the copy of an object that wants it to stay."""

    def is_orphan(consumer: ObjectMeta) -> bool:
        return False

    _replace(bound, is_orphan)
    _replace(objects, is_orphan)


def _annotates() -> None:
    """Change what a team wrote of its object."""
    known = copies.provider_annotations

    def provider_annotations(provider: ObjectMeta) -> dict[str, str]:
        return {**known(provider), "mine": "ours"}

    _replace(bound, provider_annotations)


def _talkative() -> None:
    """Say in the log what a Secret holds."""
    known = Client.create

    async def create(
        client: Client, resource: Resource, body: Any, *args: Any, **more: Any
    ) -> Any:
        if resource.kind == "Secret":
            texts = [base64.b64decode(value).decode() for value in body.get("data", {}).values()]
            structlog.get_logger().info("created", data=texts)
        return await known(client, resource, body, *args, **more)

    _replace(Client, create)


def _impatient() -> None:
    """Try again what has failed as often as can be."""

    def retry(queue: WorkQueue[Any], key: Any, policy: object = None) -> float:
        queue._failures[key] = queue._failures.get(key, 0) + 1
        queue.add_after(key, 0.1)
        return 0.1

    _replace(WorkQueue, retry)


class Planted(NamedTuple):
    """A fault, and the scenario that has to find it."""

    scenario: str
    plant: Callable[[], None]


_KUBEBIND: dict[str, Callable[[], None]] = {
    "whoever-owns-it": _whoever_owns_it,
    "no-fence": _no_fence,
    "no-deletions": _no_deletions,
    "resume-after-gone": _resume_after_gone,
    "forgetful-queue": _forgetful_queue,
    "copy-first": _copy_first,
    "unasked": _unasked,
    "echoes": _echoes,
    "orphans": _orphans,
    "annotates": _annotates,
    "talkative": _talkative,
    "impatient": _impatient,
}

PLANTED = {
    name: Planted(scenario, plant)
    for scenario, faults in (
        ("kubebind", _KUBEBIND),
        ("kbindv2", kbindv2_planted.FAULTS),
        ("operator", operator_planted.FAULTS),
        ("binding", binding_planted.FAULTS),
    )
    for name, plant in faults.items()
}
"""The faults by name."""
