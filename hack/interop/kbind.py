"""The original's konnector of kbind v2 in place of ours, after ours, before ours and beside ours.

A copy is found by its name, which both sides share. Source of what has to hold: kbind v2.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from hack.interop import programs
from hack.interop.checks import NAME, NAMESPACE, CheckError, Outcome
from hack.interop.programs import OURS, running
from hack.interop.world import World
from tests.support.kbindworld import connection, exported_crd, exports, has, secret
from tests.support.realplane import free_ports

from fairlead.api import kbind
from fairlead.api.kbind import CLUSTERBINDINGS, CONNECTIONS
from fairlead.api.kbind.files import binding
from fairlead.api.kbind.names import ANNOTATION_CONSUMER_OBJECT_UID, FINALIZER_SYNCER
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS, Resource
from fairlead.client import ClientError
from fairlead.client.lookups import find, wait_for
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.runtime import install_crds


API = Resource("kbind.example.org", "v1", "widgets", "Widget")
CONNECTION = "acme"


class Sides:
    """A consumer and a provider, bound by one file, and the konnectors between them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._number = itertools.count()

    async def start(self) -> None:
        """Install the kinds of kbind v2, and apply the file."""
        world = self._world
        here = world.consumer
        await install_crds(here, kbind.crds())
        await install_crds(world.provider, [exported_crd(API.group)])
        await here.create(NAMESPACES, {"metadata": {"name": DEFAULT_NAMESPACE}})
        kubeconfig = world.file("provider.kubeconfig").read_bytes()
        await here.create(CONNECTIONS, connection(CONNECTION))
        await here.create(
            CLUSTERBINDINGS, binding("all", [API.group_resource], connection=CONNECTION)
        )
        await here.create(SECRETS, secret(CONNECTION, kubeconfig))

    def ours(self) -> AbstractAsyncContextManager[None]:
        """Return our konnector, at work while the context lasts."""
        command = [*OURS, "konnector", "run", "--protocols", "v2", "--leader-elect=false"]
        return self._at_work("ours", command)

    def original(self) -> AbstractAsyncContextManager[None]:
        """Return the original's konnector, at work while the context lasts."""
        metrics, health = free_ports(2)
        command = programs.original(
            "KONNECTOR_V2",
            *("--kubeconfig", str(self._world.file("consumer.kubeconfig"))),
            *("--metrics-bind-address", f"127.0.0.1:{metrics}"),
            *("--health-probe-bind-address", f"127.0.0.1:{health}"),
        )
        return self._at_work("original", command)

    def _at_work(self, name: str, command: Sequence[str]) -> AbstractAsyncContextManager[None]:
        world = self._world
        file = world.file("consumer.kubeconfig")
        return running(f"{name}-{next(self._number)}", command, file, world.folder)

    async def says(self, resource: Resource, name: str, condition: str, status: str) -> None:
        """Wait until a condition of an object in the consumer's cluster is so."""
        await self._seen("consumer", resource, name, "", has(condition, status))

    async def offers(self) -> None:
        """Wait until the Connection lists the API."""
        until = lambda body: API.group_resource in exports(body)  # noqa: E731
        await self._seen("consumer", CONNECTIONS, CONNECTION, "", until)

    async def create(self, **spec: Any) -> None:
        """Create the consumer's object."""
        body = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec}
        await self._world.consumer.create(API, {**_typed(), **body})

    async def patch(self, side: str, body: JSON, subresource: str = "") -> None:
        """Merge into the object on one side."""
        client = getattr(self._world, side)
        await client.merge_patch(API, NAME, NAMESPACE, body, subresource=subresource)

    async def spec(self, expected: Mapping[str, Any]) -> JSON:
        """Wait for the copy's spec."""
        until = lambda body: body.get("spec") == expected  # noqa: E731
        return await self._seen("provider", API, NAME, NAMESPACE, until)

    async def status(self, expected: Mapping[str, Any]) -> None:
        """Wait for the status of the consumer's object."""
        until = lambda body: body.get("status") == expected  # noqa: E731
        await self._seen("consumer", API, NAME, NAMESPACE, until)

    async def marked(self) -> None:
        """Check that the copy names the object, and that the object is held until it is gone."""
        here = await self._world.consumer.get(API, NAME, NAMESPACE)
        there = await self._world.provider.get(API, NAME, NAMESPACE)
        if there.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID) != here.meta.uid:
            raise CheckError("the copy does not name the object")
        if FINALIZER_SYNCER not in here.meta.finalizers:
            raise CheckError("the object may go before its copy")

    async def unbind(self) -> None:
        """Delete binding and Connection, and wait until they, the CRD and the copy are gone."""
        here, there = self._world.consumer, self._world.provider
        await here.delete(CLUSTERBINDINGS, "all")
        await here.delete(CONNECTIONS, CONNECTION)
        for client, resource, name, namespace in (
            (here, CLUSTERBINDINGS, "all", ""),
            (here, CONNECTIONS, CONNECTION, ""),
            (here, CUSTOMRESOURCEDEFINITIONS, API.group_resource, ""),
            (there, API, NAME, NAMESPACE),
        ):
            await wait_for(
                client,
                resource,
                name,
                namespace,
                until=lambda obj: "still exists" if obj is not None else "",
                timeout=self._world.setting.timeout,
            )
        if (left := await find(here, SECRETS, CONNECTION, DEFAULT_NAMESPACE)) is None:
            raise CheckError("the user's Secret is gone")
        if left.meta.finalizers:
            raise CheckError(f"the Secret has finalizers {left.meta.finalizers}")

    async def _seen(
        self,
        side: str,
        resource: Resource,
        name: str,
        namespace: str,
        until: Callable[[JSON], Any],
    ) -> JSON:
        obj = await wait_for(
            getattr(self._world, side),
            resource,
            name,
            namespace,
            until=lambda obj: "" if obj is not None and until(obj.to_dict()) else "is not so",
            timeout=self._world.setting.timeout,
        )
        return obj.to_dict() if obj is not None else {}


async def _first(sides: Sides) -> None:
    """Bind, and have an object with two fields and a status on both sides."""
    await sides.says(CONNECTIONS, CONNECTION, "Ready", "True")
    await sides.offers()
    await sides.says(CLUSTERBINDINGS, "all", "Ready", "True")
    await sides.create(colour="blue", size=1)
    await sides.spec({"colour": "blue", "size": 1})
    await sides.patch("provider", {"status": {"made": 1}}, "status")
    await sides.status({"made": 1})
    await sides.marked()


async def _second(sides: Sides) -> None:
    """Go on with what another konnector has made: a field goes, another comes, a status too."""
    await sides.says(CLUSTERBINDINGS, "all", "Ready", "True")
    await sides.patch("consumer", {"spec": {"size": None, "shape": "round"}})
    copy = await sides.spec({"colour": "blue", "shape": "round"})
    await sides.patch("provider", {"status": {"made": 2}}, "status")
    await sides.status({"made": 2})
    await sides.marked()
    if "kbind-konnector" not in {one["manager"] for one in copy["metadata"]["managedFields"]}:
        raise CheckError("the copy has another field manager")


Step = tuple[str, Callable[[], Awaitable[None]]]


async def _outcomes(steps: Sequence[Step]) -> list[Outcome]:
    """Take steps until one fails, since each prepares the next."""
    outcomes: list[Outcome] = []
    for name, step in steps:
        try:
            await step()
        except (CheckError, ClientError, TimeoutError) as error:
            return [*outcomes, Outcome(name, f"{type(error).__name__}: {error}")]
        outcomes.append(Outcome(name, ""))
    return outcomes


async def _taken_over(world: World, *, first: str, second: str) -> list[Outcome]:
    """Exchange konnectors under a live object; the second one unbinds."""
    sides = Sides(world)
    await sides.start()
    konnectors = {"ours": sides.ours, "original": sides.original}
    async with konnectors[first]():
        outcomes = await _outcomes([(f"{first} binds", lambda: _first(sides))])
    async with konnectors[second]():
        return outcomes + await _outcomes(
            [
                (f"{second} goes on", lambda: _second(sides)),
                (f"{second} unbinds", sides.unbind),
            ]
        )


async def original_after_ours(world: World) -> list[Outcome]:
    """The original's konnector goes on with what ours has made."""
    return await _taken_over(world, first="ours", second="original")


async def ours_after_original(world: World) -> list[Outcome]:
    """Ours goes on with what the original's has made."""
    return await _taken_over(world, first="original", second="ours")


async def beside(world: World) -> list[Outcome]:
    """Ours stands back while the original's is at work, and says so."""
    sides = Sides(world)
    await sides.start()
    async with sides.original():
        outcomes = await _outcomes([("original binds", lambda: _first(sides))])
        async with sides.ours():
            told = lambda: sides.says(CONNECTIONS, CONNECTION, "AnotherKonnector", "True")  # noqa: E731
            return outcomes + await _outcomes([("ours stands back", told)])


def _typed() -> JSON:
    return {"apiVersion": API.api_version, "kind": API.kind}
