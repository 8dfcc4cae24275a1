"""A running load on both sides of a binding, and what must hold when it is over.

On the consumer objects come, change and go. On the provider an operator writes the status of
copies and adds a label, an option and a member of the spec of its own. Beside them lie objects
that are none of ours, in both clusters; their bytes are remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from tests.support.konnector import Link
from tests.support.provider import WIDGETS, example
from tests.support.waiting import SECONDS

from fairlead.api.kubebind.names import (
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
    FINALIZER_SYNCER,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SECRETS, Resource
from fairlead.client import Client, ClientError


OPERATOR = "operator.example.org"
"""The label, the option and the prefix of what the operator adds to copies."""
PROVIDERS_OWN = frozenset({"factory"})
"""Members of the spec that only the operator sets."""
NAMES = [f"w{number}" for number in range(10)]
SHOPS = ("shop", "store")
TAKEN, STRANGE = "taken", "strange"
"""Names that the provider itself and another consumer use where our copies would be."""


def richer_crd() -> JSON:
    """Widgets with members that can be removed, and with one for the provider."""
    crd = example("crd")
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    text = {"type": "string"}
    spec["properties"] |= {
        "note": text,
        "factory": text,
        "options": {"type": "object", "additionalProperties": text},
    }
    return crd


def thing(name: str, namespace: str, **spec: Any) -> JSON:
    """A widget that names no Secret."""
    return {
        "apiVersion": WIDGETS.api_version,
        "kind": WIDGETS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"colour": "blue", **spec},
    }


def additions(made: int) -> JSON:
    """What the operator adds to a copy."""
    return {
        "metadata": {"labels": {OPERATOR: "seen"}, "annotations": {f"{OPERATOR}/made": str(made)}},
        "spec": {"factory": "north", "options": {OPERATOR: "on"}},
    }


class Load:
    """What an app team and an operator do, as the dice say."""

    def __init__(self, consumer: Client, provider: Client, link: Link, *, seed: int) -> None:
        self.done = 0
        """Steps; each is a change on the consumer and a look at a copy on the provider."""
        self.asked: Counter[str] = Counter()
        """Requests of its own by side."""
        self.there: dict[str, str] = {}
        """The provider's namespaces by the consumer's."""
        self._consumer = consumer
        self._provider = provider
        self._link = link
        self._dice = random.Random(seed)
        self._foreign: list[tuple[Client, Resource, Object]] = []

    async def begin(self) -> None:
        """Have namespaces on both sides, and plant what is not ours."""
        for shop in SHOPS:
            await self._consumer.create(NAMESPACES, _namespace(shop))
            await self._consumer.create(WIDGETS, thing("first", shop))
            self.there[shop] = await self._link.provider_namespace(shop)
        await self._plant()
        for name in (TAKEN, STRANGE):
            await self._consumer.create(WIDGETS, thing(name, SHOPS[0]))

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Change things for as long as the block runs."""

        async def body() -> None:
            while True:
                await self.step()
                await asyncio.sleep(0.005)

        async with asyncio.TaskGroup() as group:
            task = group.create_task(body())
            yield
            task.cancel()

    async def progress(self, steps: int) -> None:
        """Wait until so many more steps are done."""
        wanted = self.done + steps
        async with asyncio.timeout(SECONDS):
            while self.done < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def step(self) -> None:
        """One change and one look; a server that refuses or is away is borne."""
        shop, name = self._dice.choice(SHOPS), self._dice.choice(NAMES)
        await self._try("consumer", self._change(name, shop))
        shop, name = self._dice.choice(SHOPS), self._dice.choice(NAMES)
        await self._try("provider", self._operate(name, self.there[shop]))
        self.done += 1

    async def _try(self, side: str, what: Awaitable[None]) -> None:
        self.asked[side] += 1
        with contextlib.suppress(ClientError):
            await what

    async def _change(self, name: str, shop: str) -> None:
        dice = self._dice
        patch: JSON
        match dice.randrange(10):
            case 0 | 1 | 2:
                body = thing(name, shop, count=dice.randrange(50), note=str(dice.random()))
                body["metadata"]["labels"] = {"mine": "1"}
                body["metadata"]["annotations"] = {"mine": "1"}
                await self._consumer.create(WIDGETS, body)
                return
            case 3:
                await self._consumer.delete(WIDGETS, name, shop)
                return
            case 4 | 5:
                patch = {"spec": {"count": dice.choice([None, 7, 9]), "colour": "red"}}
            case 6:
                patch = {"spec": {"note": dice.choice([None, "a", "b"])}}
            case 7:
                patch = {"spec": {"options": {dice.choice("ab"): dice.choice([None, "1", "2"])}}}
            case 8:
                patch = {"metadata": {"labels": {"mine": dice.choice([None, "1", "2"])}}}
            case _:
                patch = {"metadata": {"annotations": {"mine": dice.choice([None, "1", "2"])}}}
        await self._consumer.merge_patch(WIDGETS, name, shop, patch)

    async def _operate(self, name: str, namespace: str) -> None:
        found = await self._provider.get(WIDGETS, name, namespace)
        self.asked["provider"] += 1
        if self._dice.randrange(3) == 0:
            more = additions(self._dice.randrange(9))
            await self._provider.merge_patch(WIDGETS, name, namespace, more)
            return
        made = {"status": {"made": self._dice.randrange(99), "factory": found.meta.uid}}
        await self._provider.merge_patch(WIDGETS, name, namespace, made, subresource="status")

    async def _plant(self) -> None:
        there = self.there[SHOPS[0]]
        other = "kube-bind-other-shop"
        await self._provider.create(NAMESPACES, _namespace(other))
        theirs = thing(STRANGE, there)
        theirs["metadata"]["annotations"] = _marks("kube-bind-other", "shop", "uid-of-another")
        copy = thing(NAMES[0], other)
        copy["metadata"]["annotations"] = theirs["metadata"]["annotations"]
        for body in (thing(TAKEN, there), thing("native", there), theirs, copy):
            found = await self._provider.create(WIDGETS, body)
            self._foreign.append((self._provider, WIDGETS, found))
        for client, namespace in ((self._consumer, SHOPS[0]), (self._provider, there)):
            for resource in (SECRETS, CONFIGMAPS):
                body = {"apiVersion": "v1", "kind": resource.kind, "data": {"a": "Yg=="}}
                metadata = {"name": "nobodys", "namespace": namespace}
                found = await client.create(resource, {**body, "metadata": metadata})
                self._foreign.append((client, resource, found))

    async def check(self) -> None:
        """Wait until both sides are alike, and see that nothing else was touched."""
        left = ["not looked yet"]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SECONDS):
                while left := await self.differences():  # noqa: ASYNC110  two servers
                    await asyncio.sleep(0.05)
        assert left == []
        assert await self.touched() == []

    async def differences(self) -> list[str]:
        """What is not as it shall be."""
        self.asked.update(("consumer", "provider"))
        mine = (await self._consumer.list(WIDGETS)).items
        theirs = (await self._provider.list(WIDGETS)).items
        refused = {Key(SHOPS[0], name) for name in (TAKEN, STRANGE)}
        return differences(
            [one for one in mine if one.key not in refused],
            theirs,
            self.there,
            self._link.cluster_namespace,
        )

    async def touched(self) -> list[str]:
        """What of the objects that are not ours is not byte by byte as it was."""
        result = []
        for client, resource, known in self._foreign:
            try:
                found = await client.get(resource, *reversed(known.key))
            except ClientError as error:
                result.append(str(error))
                continue
            if found.raw != known.raw:
                result.append(f"{known.raw.decode()} has become {found.raw.decode()}")
        return result


def differences(
    mine: Iterable[Object], theirs: Iterable[Object], there: dict[str, str], owner: str
) -> list[str]:
    """Why the consumer's objects and their copies are not alike, and which copies are left over.

    ``there`` has the provider's namespaces by the consumer's, ``owner`` is the consumer's
    cluster namespace.
    """
    copies = {one.key: one for one in theirs}
    result = []
    uids = set()
    for one in mine:
        uids.add(one.meta.uid)
        copy = copies.get(Key(there.get(one.meta.namespace, ""), one.meta.name))
        result += [f"{one.key}: {text}" for text in unlike(one, copy, owner)]
    for copy in copies.values():
        uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_UID)
        ours = copy.meta.annotations.get(ANNOTATION_CLUSTER_NAMESPACE) == owner
        if ours and uid is not None and uid not in uids:
            result.append(f"{copy.key} over there is a copy of nothing")
    return result


def unlike(one: Object, copy: Object | None, owner: str) -> list[str]:
    """What of a copy does not follow from its object, and what of the object not from it."""
    if one.meta.deleting:
        return [f"is still being deleted, with finalizers {one.meta.finalizers}"]
    if copy is None:
        return ["has no copy"]
    marks = _marks(owner, one.meta.namespace, one.meta.uid)
    back = {
        ANNOTATION_PROVIDER_NAMESPACE: copy.meta.namespace,
        ANNOTATION_PROVIDER_UID: copy.meta.uid,
    }
    here, over = _shown(one), _shown(copy)
    told = {
        "marks of the copy": marks.items() <= copy.meta.annotations.items(),
        "marks of the object": back.items() <= one.meta.annotations.items(),
        "finalizer": one.meta.finalizers.count(FINALIZER_SYNCER) == 1,
        "spec": _follows(here["spec"], over["spec"], PROVIDERS_OWN),
        "labels": _follows(one.meta.labels, copy.meta.labels, ()),
        "annotations": _follows(_free(one.meta.annotations), _free(copy.meta.annotations), ()),
        "status": here.get("status") == over.get("status"),
    }
    return [f"{what}: {here} and {over}" for what, right in told.items() if not right]


def _shown(obj: Object) -> JSON:
    """An object without what only the server's bookkeeping needs."""
    body = obj.to_dict()
    body["metadata"].pop("managedFields", None)
    return body


def _follows(source: Any, target: Any, own: Iterable[str]) -> bool:
    """Whether the target is the source and, besides, only what the operator adds."""
    if not isinstance(source, dict) or not isinstance(target, dict):
        return bool(source == target)
    added = {name for name in target if name in own or name.startswith(OPERATOR)}
    return source.keys() <= target.keys() and all(
        _follows(source.get(name, {}), target[name], ()) for name in target.keys() - added
    )


def _free(annotations: dict[str, str]) -> dict[str, str]:
    return {
        name: value for name, value in annotations.items() if not name.startswith("kube-bind.io/")
    }


def _marks(owner: str, namespace: str, uid: str) -> dict[str, str]:
    return {
        ANNOTATION_CLUSTER_NAMESPACE: owner,
        ANNOTATION_CONSUMER_NAMESPACE: namespace,
        ANNOTATION_CONSUMER_UID: uid,
    }


def _namespace(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
