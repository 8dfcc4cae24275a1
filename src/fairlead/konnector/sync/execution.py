"""Carries out the steps of one object, and tells what is known after each."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.meta import Object, OwnerReference
from fairlead.client.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    NotServed,
)
from fairlead.client.lookups import find
from fairlead.konnector.policies.isolation import Strategy
from fairlead.konnector.policies.merge import owned_fields, wrote
from fairlead.konnector.policies.steps import (
    AskNamespace,
    ConfirmNamespace,
    Create,
    Delete,
    Outcome,
    Pair,
    PatchMetadata,
    Read,
    Replace,
    ReplaceStatus,
    Settle,
    Side,
    Step,
)
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.sync.collection import WatchedCollection
from fairlead.runtime import patch_metadata


class BothEnds(msgspec.Struct, frozen=True):
    """Both ends of one resource, and how the keys of one lead to those of the other.

    ``export`` owns the APIServiceNamespaces that are asked for.
    """

    consumer: WatchedCollection
    provider: WatchedCollection
    strategy: Strategy
    namespaces: ServiceNamespaces
    export: OwnerReference

    def at(self, side: Side) -> WatchedCollection:
        """The end on this side."""
        return self.consumer if side == "consumer" else self.provider


class Executor:
    """One write or question per step; what came of it goes into the pair.

    Writes name the uid and the resourceVersion of the object that was seen. ``outcome`` tells
    what came of a write. ``refused`` is what the consumer's server does not let us do, by the
    kind of step: the first refusal, until a step of that kind is allowed.
    """

    def __init__(self, ends: BothEnds, outcome: Callable[[Side, Pair], Outcome | None]) -> None:
        self.refused: dict[type[Step], Forbidden] = {}
        self._ends = ends
        self._outcome = outcome

    async def carry_out(self, step: Step, pair: Pair) -> Pair | None:
        """Do one step; None when there is nothing more to do until something happens.

        Raises:
            NotServed: the provider does not serve the kind, so this is about all objects of it.
            ClientError: a server refused or cannot be reached, or said 404 of something else
                than the object.
        """
        side = getattr(step, "side", "")
        ours = side == "consumer"
        try:
            after = await self._carry_out(step, pair)
        except Forbidden as error:
            if ours:
                self.refused.setdefault(type(step), error)
            raise
        except NotFound as error:
            if side == "provider" and error.unserved:
                raise NotServed(error.status) from error
            raise
        except MethodNotAllowed as error:
            # A server says so of a kind whose CRD is being deleted.
            if side == "provider":
                raise NotServed(error.status) from error
            raise
        if ours:
            self.refused.pop(type(step), None)
        return after

    async def _carry_out(self, step: Step, pair: Pair) -> Pair | None:
        match step:
            case AskNamespace():
                # What the provider assigns comes as an event of the APIServiceNamespace.
                await self._ends.namespaces.ask(pair.key.namespace, self._ends.export)
                return None
            case ConfirmNamespace():
                gone = await self._ends.namespaces.gone(pair.key.namespace)
                return pair.knowing(namespace_gone=True) if gone else None
            case Read():
                return await self._read(step.side, pair)
            case PatchMetadata():
                return await self._patch(step, pair)
            case Create():
                return await self._create(step, pair)
            case Replace():
                return await self._replace(step, pair)
            case ReplaceStatus():
                return await self._replace_status(step, pair)
            case Delete():
                return await self._delete(step, pair)
            case Settle():
                return self._settled(step.side, pair)
        raise TypeError(f"{step} is no step to carry out")

    async def _read(self, side: Side, pair: Pair) -> Pair | None:
        end, place = self._ends.at(side), pair.place(side)
        if place is None:
            return None
        try:
            found = await find(end.client, end.resource, place.name, place.namespace)
        except NotFound:
            # The kind is not served, which holds up all objects of it, or a proxy has answered:
            # no copy counts as gone for that.
            if side == "provider":
                raise
            # A CRD that is gone says nothing of its objects; its watch will bring us back.
            return None
        if found is None:
            end.expectations.forget(place)
            return pair.without(side)
        if side == "provider":
            body = found.to_dict()
            pair = pair.knowing(owned=owned_fields(body), wrote=wrote(body))
        if not end.seen(place):
            # It may be gone again before a watch tells of it, as what was just created may.
            end.expectations.wrote(found, created=True)
        return pair.having(side, found)

    async def _patch(self, step: PatchMetadata, pair: Pair) -> Pair | None:
        end, old = self._ends.at(step.side), pair.at(step.side)
        if old is None:
            return None
        try:
            written = await patch_metadata(end.client, end.resource, old, step.metadata)
        except NotFound:
            return None
        if old.meta.deleting and "finalizers" in step.metadata:
            # It is gone with this, or waits for other finalizers than ours.
            return None
        # It is expected to come back from the watch, and then causes no pass.
        end.expectations.wrote(written)
        return pair.having(step.side, written)

    async def _create(self, step: Create, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        namespace = step.body["metadata"].get("namespace", "")
        try:
            created = await end.client.create(end.resource, step.body, namespace)
        except AlreadyExists:
            # The cache is behind, or somebody was faster: what is there decides the next step.
            return await self._read(step.side, pair)
        if step.side == "provider":
            pair = pair.knowing(made=created.meta.uid)
        return self._wrote(step.side, pair, created, created=True)

    async def _replace(self, step: Replace, pair: Pair) -> Pair | None:
        end, place = self._ends.at(step.side), pair.place(step.side)
        try:
            written = await end.client.update(end.resource, step.body)
        except NotFound:
            if place is not None:
                end.expectations.forget(place)
            # The pair does not say that the server has told so: before an original is let go it
            # is asked for the copy itself.
            return pair.having(step.side, None)
        return self._wrote(step.side, pair, written)

    async def _replace_status(self, step: ReplaceStatus, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            written = await end.client.update(end.resource, step.body, subresource="status")
        except NotFound:
            return None
        return self._wrote(step.side, pair, written)

    async def _delete(self, step: Delete, pair: Pair) -> Pair | None:
        end = self._ends.at(step.side)
        try:
            await end.client.delete(end.resource, step.key.name, step.key.namespace, uid=step.uid)
        except NotFound as error:
            # A 404 of something else, such as the kind, does not say that this object is gone.
            if not error.about(step.key.name):
                raise
            end.expectations.forget(step.key)
            return pair.without(step.side)
        except Conflict:
            # The uid does not fit any more: another object has taken the name.
            return await self._read(step.side, pair)
        if not end.seen(step.key):
            # A watch that never told of the object will not tell that it is gone either.
            return await self._read(step.side, pair)
        # Finalizers may keep the object for a while; the watch tells when it is gone.
        return None

    def _wrote(self, side: Side, pair: Pair, written: Object, *, created: bool = False) -> Pair:
        # The cache is behind this write for a while: until it tells of the version, the answer
        # stands for the object, and the event that brings that version is known for an echo.
        end = self._ends.at(side)
        # What the watch has not told of yet, after a list that came late, may be gone again before
        # it does, as what was just created may.
        end.expectations.wrote(written, created=created or not end.seen(written.key))
        return self._settled(side, pair.having(side, written))

    def _settled(self, side: Side, pair: Pair) -> Pair:
        """Remember what came of a write, where that is not what was wanted."""
        outcomes = self._ends.at(side).outcomes
        found = self._outcome(side, pair)
        if found is None and side not in pair.outcomes:
            return pair
        known = {name: value for name, value in pair.outcomes.items() if name != side}
        if found is None:
            outcomes.pop(pair.key, None)
        else:
            outcomes[pair.key] = known[side] = found
        return pair.knowing(outcomes=known)
