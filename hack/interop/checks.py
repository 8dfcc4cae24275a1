"""What two sides that are bound have to do, one check after the other.

A copy is found by the annotation ``kube-bind.io/consumer-uid``, so that no check knows how names
are made from names.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from tests.support.waiting import condition

from fairlead.api.kubebind import (
    ANNOTATION_CONSUMER_UID,
    APISERVICEBINDINGS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, CUSTOMRESOURCEDEFINITIONS, SECRETS, Resource
from fairlead.client import Client, ClientError
from fairlead.client.lookups import find


NAME = "blue"
NAMESPACE = "shop"
"""Under isolation none the provider's has the same name, and no consumer can have ``default``."""
SECRET = "blue-origin"  # noqa: S105
CONFIGMAP = "for-the-factory"
_LABEL = "example.org/for-the-factory"
_PAUSE = 0.2


class CheckError(Exception):
    """What should have come did not, in time."""


class Pair(msgspec.Struct, kw_only=True):
    """One kind that is bound; ``here`` and ``there`` are the kind on consumer and provider."""

    consumer: Client
    provider: Client
    here: Resource
    there: Resource
    binding: str
    cluster_namespace: str
    timeout: float

    @property
    def namespace(self) -> str:
        """Of the consumer's object."""
        return NAMESPACE if self.here.namespaced else ""

    async def until(self, what: str, look: Callable[[], Awaitable[Any]]) -> Any:
        """What a look finds, once that is something.

        Raises:
            CheckError: it has found nothing in time.
        """
        try:
            async with asyncio.timeout(self.timeout):
                while not (found := await look()):  # noqa: ASYNC110
                    await asyncio.sleep(_PAUSE)
                return found
        except TimeoutError:
            raise CheckError(f"{what}: not within {self.timeout:g} s") from None

    async def original(self, until: Callable[[JSON], Any], what: str) -> JSON:
        """The consumer's object, once it is as wanted."""

        async def look() -> JSON | None:
            body = (await self.consumer.get(self.here, NAME, self.namespace)).to_dict()
            return body if until(body) else None

        found: JSON = await self.until(what, look)
        return found

    async def copy(self, until: Callable[[JSON], Any], what: str) -> Object:
        """The copy of the consumer's object, once it is as wanted."""
        uid = (await self.consumer.get(self.here, NAME, self.namespace)).meta.uid

        async def look() -> Object | None:
            for found in (await self.provider.list(self.there)).items:
                mine = found.meta.annotations.get(ANNOTATION_CONSUMER_UID) == uid
                if mine and not found.meta.deleting and until(found.to_dict()):
                    return found
            return None

        found: Object = await self.until(what, look)
        return found

    async def change(self, **patch: Any) -> None:
        """Merge into the consumer's object."""
        await self.consumer.merge_patch(self.here, NAME, self.namespace, patch)


async def bound(pair: Pair) -> None:
    """The binding is Ready, Connected and SchemaInSync."""

    async def look() -> bool:
        found = await find(pair.consumer, APISERVICEBINDINGS, pair.binding)
        body = found.to_dict() if found is not None else {}
        types = ("Ready", "Connected", "SchemaInSync")
        return all(condition(body, type_).get("status") == "True" for type_ in types)

    await pair.until(f"APIServiceBinding {pair.binding} Ready", look)


async def crd(pair: Pair) -> None:
    """The kind is there for the consumer."""
    name = pair.here.group_resource
    found = await pair.until(
        f"CRD {name}", lambda: find(pair.consumer, CUSTOMRESOURCEDEFINITIONS, name)
    )
    scope = found.to_dict()["spec"]["scope"]
    if scope != ("Namespaced" if pair.here.namespaced else "Cluster"):
        raise CheckError(f"CRD {name} is of scope {scope}")


async def heartbeat(pair: Pair) -> None:
    """The konnector says that it is alive, and its version."""

    async def look() -> bool:
        where = pair.cluster_namespace
        found = await pair.provider.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, where)
        status = found.to_dict().get("status") or {}
        return bool(status.get("lastHeartbeatTime") and status.get("konnectorVersion"))

    await pair.until("a heartbeat", look)


async def created(pair: Pair) -> None:
    """An object has its copy."""
    metadata = {"name": NAME} | ({"namespace": pair.namespace} if pair.namespace else {})
    spec = {"colour": "blue", "count": 3, "certificates": [{"name": SECRET}]}
    body = {"apiVersion": pair.here.api_version, "kind": pair.here.kind}
    await pair.consumer.create(pair.here, body | {"metadata": metadata, "spec": spec})
    await pair.copy(lambda copy: copy["spec"] == spec, "the copy")


async def changed(pair: Pair) -> None:
    """A changed spec reaches the copy."""
    await pair.change(spec={"colour": "red"})
    await pair.copy(lambda copy: copy["spec"]["colour"] == "red", "the changed copy")


async def labelled(pair: Pair) -> None:
    """A new label reaches the copy."""
    await pair.change(metadata={"labels": {"team": "shop"}})
    await pair.copy(lambda copy: "team" in copy["metadata"].get("labels", {}), "the label")


async def status(pair: Pair) -> None:
    """The copy's status reaches the object."""
    copy = await pair.copy(lambda _copy: True, "the copy")
    where = (copy.meta.name, copy.meta.namespace)
    patch = {"status": {"made": 3}}
    await pair.provider.merge_patch(pair.there, *where, patch, subresource="status")
    await pair.original(lambda body: (body.get("status") or {}).get("made") == 3, "the status")


async def repaired(pair: Pair) -> None:
    """What somebody changes in the copy's spec is changed back."""
    copy = await pair.copy(lambda _copy: True, "the copy")
    where = (copy.meta.name, copy.meta.namespace)
    await pair.provider.merge_patch(pair.there, *where, {"spec": {"colour": "green"}})
    await pair.copy(lambda copy: copy["spec"]["colour"] == "red", "the repaired copy")


async def made_again(pair: Pair) -> None:
    """A copy that somebody deletes is made again."""
    copy = await pair.copy(lambda _copy: True, "the copy")
    await pair.provider.delete(pair.there, copy.meta.name, copy.meta.namespace)
    await pair.copy(lambda body: body["metadata"]["uid"] != copy.meta.uid, "another copy")


async def secret_arrives(pair: Pair) -> None:
    """A Secret of the provider, which the object names, comes to the consumer, and its changes."""
    copy = await pair.copy(lambda _copy: True, "the copy")
    for value in ("one", "two"):
        data = {"key": base64.b64encode(value.encode()).decode()}
        body = {"metadata": {"name": SECRET}, "data": data}
        if value == "one":
            await pair.provider.create(SECRETS, body, copy.meta.namespace)
        else:
            await pair.provider.merge_patch(SECRETS, SECRET, copy.meta.namespace, {"data": data})

        async def look(data: JSON = data) -> bool:
            found = await find(pair.consumer, SECRETS, SECRET, pair.namespace)
            return found is not None and found.to_dict().get("data") == data

        await pair.until(f"the Secret's value {value}", look)


async def configmap_leaves(pair: Pair) -> None:
    """A ConfigMap of the consumer with the claim's label goes to the provider, and with it."""
    metadata = {"name": CONFIGMAP, "labels": {_LABEL: "true"}}
    await pair.consumer.create(CONFIGMAPS, {"metadata": metadata, "data": {"a": "1"}}, NAMESPACE)

    async def look() -> list[str]:
        found = (await pair.provider.list(CONFIGMAPS)).items
        return [
            one.meta.namespace
            for one in found
            if one.meta.name == CONFIGMAP and one.to_dict().get("data") == {"a": "1"}
        ]

    await pair.until("the ConfigMap's copy", look)
    await pair.consumer.delete(CONFIGMAPS, CONFIGMAP, NAMESPACE)

    async def away() -> bool:
        return not await look()

    await pair.until("the end of the ConfigMap's copy", away)


async def field_removed(pair: Pair) -> None:
    """A field that goes from the spec goes from the copy."""
    await pair.change(spec={"certificates": None})
    await pair.copy(lambda copy: "certificates" not in copy["spec"], "the copy without the field")


async def label_changed(pair: Pair) -> None:
    """A changed label reaches the copy."""
    await pair.change(metadata={"labels": {"team": "bank"}})
    await pair.copy(
        lambda copy: copy["metadata"].get("labels", {}).get("team") == "bank", "the changed label"
    )


async def deleted(pair: Pair) -> None:
    """An object and its copy go together."""
    copy = await pair.copy(lambda _copy: True, "the copy")
    await pair.consumer.delete(pair.here, NAME, pair.namespace)

    async def away() -> bool:
        here = await find(pair.consumer, pair.here, NAME, pair.namespace)
        there = await find(pair.provider, pair.there, copy.meta.name, copy.meta.namespace)
        return here is None and there is None

    await pair.until("the end of both", away)


async def unbound(pair: Pair) -> None:
    """A binding goes, and its CRD with it."""
    await pair.consumer.delete(APISERVICEBINDINGS, pair.binding)

    async def away() -> bool:
        name = pair.here.group_resource
        here = await find(pair.consumer, APISERVICEBINDINGS, pair.binding)
        return here is None and await find(pair.consumer, CUSTOMRESOURCEDEFINITIONS, name) is None

    await pair.until("the end of binding and CRD", away)


Check = Callable[[Pair], Awaitable[None]]

_CHECKS: tuple[Check, ...] = (
    *(bound, crd, heartbeat, created, changed, labelled, status, repaired, made_again),
    *(secret_arrives, configmap_leaves, field_removed, label_changed, deleted, unbound),
)
_CLAIMED = frozenset({secret_arrives, configmap_leaves})


class Outcome(msgspec.Struct, frozen=True):
    """How one check ended; ``problem`` is "" where all is well."""

    check: str
    problem: str


async def run(pair: Pair) -> list[Outcome]:
    """All checks that make sense for a kind, in an order in which one prepares the next."""
    outcomes = []
    for check in _CHECKS:
        # Without a namespace an object refers to none, and its claims have no place.
        if check in _CLAIMED and not pair.here.namespaced:
            continue
        try:
            await check(pair)
        except (CheckError, ClientError) as error:
            outcomes.append(Outcome(check.__name__, str(error)))
        else:
            outcomes.append(Outcome(check.__name__, ""))
    return outcomes
