"""Faults planted into kbind v2: each function spoils the product in this Python for good.

``FAULTS`` has them by name; the scenario ``kbindv2`` has to find them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fairlead.api.kbind.names import FINALIZER_SYNCER
from fairlead.api.meta import Object
from fairlead.konnector.policies import mirror
from fairlead.konnector.policies.mirror import CopyOwnership, MirrorPolicy
from fairlead.konnector.policies.steps import Apply, Pair, PatchMetadata, Step
from fairlead.konnector.v2 import lease
from fairlead.konnector.v2.bindings import api, crds
from fairlead.konnector.v2.connection import reconcile
from fairlead.konnector.v2.connection.controller import ConnectionController
from fairlead.konnector.v2.related import copies, plan
from fairlead.konnector.v2.related.plan import CopyStep


def _put(owner: Any, name: str, made: Callable[..., Any]) -> None:
    """Put a function into the place of another one."""
    setattr(owner, name, made)


def takes_any_object() -> None:
    """Take any object that has a copy's place for the copy."""

    def ownership(*_: object) -> CopyOwnership:
        return CopyOwnership.OURS

    _put(MirrorPolicy, "ownership", ownership)


def copies_first() -> None:
    """Make the copy before the finalizer that keeps its original."""

    def create(policy: MirrorPolicy, pair: Pair, consumer: Object) -> Step:
        body = policy._body(consumer)
        return Apply("provider", body, force=False, namespace=policy._namespace(pair))

    _put(MirrorPolicy, "_create", create)


def awaits_no_copy() -> None:
    """Let an object go while its copy is there."""

    def release(_: MirrorPolicy, __: Pair, consumer: Object, **___: bool) -> Step:
        left = consumer.meta.without_finalizer(FINALIZER_SYNCER)
        return PatchMetadata("consumer", {"finalizers": left})

    _put(MirrorPolicy, "_release", release)


def deletes_what_stays() -> None:
    """Delete the copy of an object that wants it to stay."""

    def is_orphan(_: object) -> bool:
        return False

    _put(mirror, "is_orphan", is_orphan)


def replaces_any_crd() -> None:
    """Take a CRD that a user has made for the konnector's."""

    def is_made(_: Object) -> bool:
        return True

    _put(crds, "is_made", is_made)
    _put(api, "is_made", is_made)


def never_stands_back() -> None:
    """Go on while another konnector is at work."""

    def is_held(*_: object, **__: object) -> bool:
        return False

    _put(lease, "is_held", is_held)


def uses_any_cluster() -> None:
    """Write to another cluster than the one that was connected first."""

    def changed(*_: object) -> str:
        return ""

    _put(reconcile, "_changed_identity", changed)


def keeps_old_credentials() -> None:
    """Go on with the credentials that a Secret had at first."""
    connect = ConnectionController._connect

    async def first_alone(self: ConnectionController, connection: Any, fault: Any) -> None:
        if connection.metadata.name not in self._links:
            await connect(self, connection, fault)

    _put(ConnectionController, "_connect", first_alone)


def sends_protected() -> None:
    """Copy related objects of protected namespaces too."""

    def is_protected(*_: object) -> bool:
        return False

    _put(plan, "is_protected", is_protected)


def forgets_related() -> None:
    """Leave related copies behind whose originals are gone."""
    steps = plan.plan

    def without_deletions(*given: Any, **more: Any) -> list[CopyStep]:
        return [step for step in steps(*given, **more) if step.action != "delete"]

    _put(copies, "plan", without_deletions)


def crosses_all_keys() -> None:
    """Have the keys of v1alpha2 cross."""

    def crossing(keys: Mapping[str, str]) -> dict[str, str]:
        return dict(keys)

    _put(crds, "_crossing", crossing)


def lists_often() -> None:
    """List a kind again and again, at rest too."""
    follow = api.SyncedAPI._follow

    async def busily(self: api.SyncedAPI, summaries: Any) -> None:
        await follow(self, summaries)
        if self._resource is not None:
            await self._environment.consumer.client.list(self._resource, limit=1)

    _put(api.SyncedAPI, "_follow", busily)
    checks = api.SyncedAPI.check_watches

    def and_pokes(self: api.SyncedAPI) -> None:
        checks(self)
        self.poke()

    _put(api.SyncedAPI, "check_watches", and_pokes)


FAULTS: dict[str, Callable[[], None]] = {
    "v2-takes-any-object": takes_any_object,
    "v2-copies-first": copies_first,
    "v2-awaits-no-copy": awaits_no_copy,
    "v2-deletes-what-stays": deletes_what_stays,
    "v2-replaces-any-crd": replaces_any_crd,
    "v2-never-stands-back": never_stands_back,
    "v2-uses-any-cluster": uses_any_cluster,
    "v2-keeps-old-credentials": keeps_old_credentials,
    "v2-sends-protected": sends_protected,
    "v2-forgets-related": forgets_related,
    "v2-crosses-all-keys": crosses_all_keys,
    "v2-lists-often": lists_often,
}
"""The faults by name."""
