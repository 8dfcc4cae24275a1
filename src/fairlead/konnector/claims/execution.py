"""Carries out the steps of one claimed object, and tells what is known after each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from fairlead.api.kubebind import LABEL_OWNER
from fairlead.api.meta import JSON, Key, Object, OwnerReference
from fairlead.api.resource import Resource
from fairlead.client import AlreadyExists, Client, Conflict, Forbidden, NotFound
from fairlead.client.lookups import find
from fairlead.konnector.claims.steps import (
    Confirm,
    ConfirmNamespace,
    Create,
    Delete,
    Replace,
    SetOwner,
    Side,
    Sides,
)
from fairlead.konnector.policies.claimcopies import payload
from fairlead.konnector.policies.claims import copy_content
from fairlead.konnector.policies.steps import AskNamespace, Step
from fairlead.konnector.servicenamespaces import ServiceNamespaces
from fairlead.konnector.syncer.convergence import Convergence
from fairlead.runtime.expectations import Expectations


class Executor:
    """One write or question per step; what came of it goes into the sides.

    ``forbidden`` is told what the consumer's server refused, "" when it allowed something.
    ``ahead`` holds, for each side, what was written and is not in the cache yet.
    """

    def __init__(
        self,
        resource: Resource,
        clients: dict[Side, Client],
        namespaces: ServiceNamespaces,
        export: OwnerReference,
        *,
        forbidden: Callable[[str], None],
    ) -> None:
        self._resource = resource
        self._clients = clients
        self._namespaces = namespaces
        self._export = export
        self._forbidden = forbidden
        self.ahead: dict[Side, Expectations] = {
            "consumer": Expectations(),
            "provider": Expectations(),
        }
        self._written = Convergence()

    def compare(self, sides: Sides) -> Sides:
        """The sides with what is known of the copy being as it should be."""
        found = copy_content(sides)
        if found is None:
            return sides
        content, copy = found
        converged = self._written.converged(sides.key, content, payload(copy.to_dict()))
        return msgspec.structs.replace(sides, converged=converged)

    def forget(self, key: Key) -> None:
        """The object is gone on both sides."""
        self._written.forget(key)

    async def carry_out(self, step: Step, sides: Sides) -> Sides | None:
        """Do one step; None when there is nothing more to do until something happens.

        Raises:
            ClientError: a server refused or cannot be reached, or said 404 of something else
                than the object.
        """
        try:
            result = await self._carry_out(step, sides)
        except Forbidden as error:
            if getattr(step, "side", "") == "consumer":
                self._forbidden(error.message)
            raise
        if getattr(step, "side", "") == "consumer":
            self._forbidden("")
        return result

    async def _carry_out(self, step: Step, sides: Sides) -> Sides | None:
        match step:
            case AskNamespace():
                await self._namespaces.ask(sides.key.namespace, self._export)
                return None
            case SetOwner():
                return await self._set_owner(step, sides)
            case Create():
                return await self._create(step, sides)
            case Replace():
                return await self._replace(step, sides)
            case Delete():
                return await self._delete(step)
            case Confirm():
                return await self._confirm(step.side, sides)
            case ConfirmNamespace():
                gone = await self._namespaces.gone(sides.key.namespace)
                return msgspec.structs.replace(sides, namespace_gone=True) if gone else None
        raise TypeError(f"{step} is no step to carry out")

    async def _set_owner(self, step: SetOwner, sides: Sides) -> Sides | None:
        old = sides.consumer if step.side == "consumer" else sides.provider
        if old is None:
            return None
        metadata: JSON = {
            "uid": old.meta.uid,
            "resourceVersion": old.meta.resource_version,
            "labels": {LABEL_OWNER: step.owner},
        }
        try:
            written = await self._clients[step.side].merge_patch(
                self._resource, old.meta.name, old.meta.namespace, {"metadata": metadata}
            )
        except NotFound:
            return None
        self.ahead[step.side].wrote(written)
        return _with(sides, step.side, written)

    async def _create(self, step: Create, sides: Sides) -> Sides | None:
        namespace = step.body["metadata"]["namespace"]
        try:
            written = await self._clients[step.side].create(self._resource, step.body, namespace)
        except AlreadyExists:
            return await self._confirm(step.side, sides)
        self._written.applied(sides.key, payload(step.body), payload(written.to_dict()))
        self.ahead[step.side].wrote(written, created=True)
        return _with(sides, step.side, written)

    async def _replace(self, step: Replace, sides: Sides) -> Sides | None:
        try:
            written = await self._clients[step.side].update(self._resource, step.body)
        except NotFound:
            return None
        self._written.applied(sides.key, payload(step.body), payload(written.to_dict()))
        self.ahead[step.side].wrote(written)
        return _with(sides, step.side, written)

    async def _delete(self, step: Delete) -> Sides | None:
        try:
            await self._clients[step.side].delete(
                self._resource, step.key.name, step.key.namespace, uid=step.uid
            )
        except (NotFound, Conflict):
            return None
        return None

    async def _confirm(self, side: Side, sides: Sides) -> Sides | None:
        key = sides.key if side == "consumer" else sides.target
        if key is None:
            return None
        found = await find(self._clients[side], self._resource, key.name, key.namespace)
        if found is None:
            self.ahead[side].forget(key)
            gone: frozenset[Side] = sides.confirmed_gone | {side}
            return msgspec.structs.replace(_with(sides, side, None), confirmed_gone=gone)
        return _with(sides, side, found)


def _with(sides: Sides, side: Literal["consumer", "provider"], obj: Object | None) -> Sides:
    if side == "consumer":
        return msgspec.structs.replace(sides, consumer=obj)
    return msgspec.structs.replace(sides, provider=obj)
