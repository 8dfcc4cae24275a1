"""The world of kube-bind: two consumers, one provider, two replicas of each program."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

import msgspec
from tests.sim import leases
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.programs import Program, Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held
from tests.support.load import richer_crd, thing
from tests.support.provider import WIDGETS, example

from fairlead.api.kubebind import (
    APISERVICENAMESPACES,
    BindingResponse,
    decode_binding_response,
)
from fairlead.api.kubebind.names import (
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CONFIGMAPS, LEASES, NAMESPACES, SECRETS, Resource
from fairlead.client import Client, NotFound
from fairlead.demo.identity import create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.options import Options
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.runtime import install_crds


SHOPS = ("shop", "store")
KIOSK = "kiosk"
"""A namespace that comes and goes."""
NAMES = ("w1", "w2", "w3")
LABEL = "example.org/for-the-factory"
PASSWORD = "hunter2"
"""What stands in every Secret, and nowhere else."""
REST = frozenset({LEASES.group_resource, CLUSTERBINDINGS.group_resource})
"""What is written at rest too."""


class Consumer:
    """One consumer's cluster and what it is called at the provider."""

    def __init__(self, simulation: Simulation, name: str, provider: Plane) -> None:
        self.name = name
        self.plane = Plane(simulation, name)
        self.provider = provider
        self.broken = False
        """Whether its credentials may be worth nothing."""
        self.unbound = False
        """Whether its export may be gone: what is deleted then does not wait for its copy."""
        program = Program(
            konnector_manifests.NAME,
            KONNECTOR_NAMESPACE,
            konnector_manifests.LEASE,
            partial(konnector_app.build, options=Options(install_crds=False, health_interval=3.0)),
        )
        self.replicas = [
            Replica(simulation, program, self.plane, f"konnector-{name}{number}")
            for number in (1, 2)
        ]
        self.admin: Client
        self.response: BindingResponse

    @property
    def namespace(self) -> str:
        """Its cluster namespace at the provider."""
        return self.response.provider_namespace

    @property
    def there(self) -> dict[str, str]:
        """The provider's namespaces by the consumer's, of those that have one and are no kiosk."""
        return {shop: name for shop, name in self.everywhere.items() if shop in SHOPS}

    @property
    def everywhere(self) -> dict[str, str]:
        """The provider's namespaces by the consumer's, of those that have one."""
        found = {
            one.meta.name: one.to_dict().get("status", {}).get("namespace")
            for one in held(self.provider, APISERVICENAMESPACES, self.namespace)
        }
        return {name: there for name, there in found.items() if there}

    def owns(self, namespace: str) -> bool:
        """Whether a namespace of the provider is this consumer's."""
        return namespace == self.namespace or namespace.startswith(f"{self.namespace}-")


class Place(NamedTuple):
    plane: str
    collection: str
    key: Key


class World(Breaking):
    """The API servers, the programs, and what is there at the beginning."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.provider = Plane(simulation, "provider")
        self.consumers = [Consumer(simulation, name, self.provider) for name in ("a", "b")]
        self.planes = [self.provider, *(consumer.plane for consumer in self.consumers)]
        program = Program(
            provider_manifests.NAME,
            PROVIDER_NAMESPACE,
            provider_manifests.NAME,
            provider_app.build,
        )
        self.providers = [
            Replica(simulation, program, self.provider, f"provider-{number}") for number in (1, 2)
        ]
        self.replicas = [
            *self.providers,
            *(replica for consumer in self.consumers for replica in consumer.replicas),
        ]
        self.admin: Client
        self.foreign: dict[Place, bytes] = {}
        """What is not ours, byte by byte."""
        self._numbers = 0

    # --- the beginning

    async def begin(self) -> None:
        """Two consumers with a binding each, and some objects that are none of ours."""
        await asyncio.gather(*(plane.start() for plane in self.planes))
        self.admin = self.provider.admin()
        for consumer in self.consumers:
            consumer.admin = consumer.plane.admin()
        await self._offer()
        for consumer in self.consumers:
            await self._install(consumer)
        leases.check_writers(self.simulation, self.replicas)
        for replica in self.replicas:
            await replica.authorize()
            replica.start()
        await asyncio.gather(*map(self._bind, self.consumers))
        await self._plant()

    async def _offer(self) -> None:
        claims = ("secrets", "configmaps")
        every = provider_manifests.manifests(
            image="fairlead", exports=["widgets.example.org"], claims=claims
        )
        await create_all(self.admin, every)
        await provider_app.install_crds(self.admin)
        await install_crds(self.admin, [richer_crd()])
        await create_all(self.admin, [example("template")])

    async def _install(self, consumer: Consumer) -> None:
        await konnector_app.install_crds(consumer.admin)
        await create_all(consumer.admin, konnector_manifests.manifests(image="fairlead"))

    async def _bind(self, consumer: Consumer) -> None:
        await self.bind(consumer)
        for shop in SHOPS:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop}}
            await consumer.admin.create(NAMESPACES, body)
            await consumer.admin.create(WIDGETS, thing("w0", shop, certificates=named("w0")))
        while len(consumer.there) < len(SHOPS):  # noqa: ASYNC110 - nobody else tells
            await asyncio.sleep(0.1)

    async def bind(self, consumer: Consumer) -> None:
        """Bind, or bind again, with an invitation that is new."""
        name = f"team-{consumer.name}"
        answer = await invite(
            self.admin, name=name, template="widgets", identity=name, binding_name="widgets"
        )
        consumer.response = decode_binding_response(msgspec.json.encode(answer))
        await bind(consumer.admin, consumer.response)
        consumer.broken = consumer.unbound = False

    async def _plant(self) -> None:
        """Objects that are none of ours, where ours could be."""
        for consumer in self.consumers:
            there = consumer.there["shop"]
            await self.admin.create(WIDGETS, thing("taken", there))
            await consumer.admin.create(WIDGETS, thing("taken", "shop"))
            for client, plane, namespace in (
                (consumer.admin, consumer.plane, "shop"),
                (self.admin, self.provider, there),
            ):
                for resource in (SECRETS, CONFIGMAPS):
                    body = {"apiVersion": "v1", "kind": resource.kind, "data": {"a": "Yg=="}}
                    metadata = {"name": "nobodys", "namespace": namespace}
                    made = await client.create(resource, {**body, "metadata": metadata})
                    self._remember(plane, resource, made)

    def _remember(self, plane: Plane, resource: Resource, made: Object) -> None:
        self.foreign[Place(plane.name, resource.group_resource, made.key)] = made.raw

    def saved(self, plane: Plane) -> object:
        """What of an API server is not ours."""
        return {place: raw for place, raw in self.foreign.items() if place.plane == plane.name}

    def restored(self, plane: Plane, known: object) -> None:
        """Know again what is not ours as it was then."""
        assert isinstance(known, dict)
        for place in [place for place in self.foreign if place.plane == plane.name]:
            del self.foreign[place]
        self.foreign.update(known)

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)


def named(name: str) -> list[JSON]:
    return [{"name": f"{name}-origin"}]


def is_driver(commit: Commit) -> bool:
    return commit.writer is not None and commit.writer.name == "driver"


def wanted(widget: Object) -> JSON:
    """What of a widget only its team may change."""
    free = {
        name: value
        for name, value in widget.meta.annotations.items()
        if not name.startswith("kube-bind.io/provider-")
    }
    return {
        "spec": widget.to_dict().get("spec"),
        "labels": widget.meta.labels,
        "annotations": free,
    }


def orphaned(copy: Object) -> bool:
    return copy.meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan" or (
        ANNOTATION_CONSUMER_UID not in copy.meta.annotations
    )


async def deleted(client: Client, resource: Resource, found: Object) -> None:
    try:
        await client.delete(resource, *reversed(found.key))
    except NotFound:
        return
