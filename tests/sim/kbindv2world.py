"""The world of kbind v2: a consumer, two providers, and a v1alpha2 binding beside them.

North and south have nothing installed for kbind v2. North offers an API of kube-bind's v1alpha2
too, by a program of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import msgspec
from tests.sim import leases
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.programs import TOKEN_SECONDS, Program, Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held, one
from tests.support.kbindbound import OBJECT_VERBS, binding
from tests.support.kbindworld import RULES, KbindProvider, connection, exported_crd, secret
from tests.support.load import richer_crd, thing
from tests.support.provider import WIDGETS, example

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, RelatedResource
from fairlead.api.kbind.names import IDENTITY_NAMESPACE, LEASE_NAMESPACE
from fairlead.api.kbind.rights import cluster_binding_roles
from fairlead.api.kubebind import (
    APISERVICENAMESPACES,
    BindingResponse,
    decode_binding_response,
)
from fairlead.api.manifests import rule
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SECRETS, SERVICEACCOUNTS, Resource
from fairlead.client import AlreadyExists, Client
from fairlead.demo.identity import create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.options import PROTOCOLS, Options
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.credentials import consumer_kubeconfig
from fairlead.provider.invitation import invite
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE
from fairlead.provider.options import InviteOptions
from fairlead.runtime import install_crds


GROUP = "kbind.example.org"
GEARS = Resource(GROUP, "v1", "gears", "Gear")
PUMPS = Resource(GROUP, "v1", "pumps", "Pump")
BOLTS = Resource(GROUP, "v1", "bolts", "Bolt")
KINDS = {kind.group_resource: kind for kind in (BOLTS, GEARS, PUMPS)}
"""The kinds that v2 binds, by the names of their APIs."""
OFFERS = {"north": (GEARS, PUMPS), "south": (BOLTS, GEARS)}
"""Both offer gears: one Connection at a time owns them."""
SHOPS = ("shop", "store")
NAMES = ("a", "b", "c")
FORMER = WIDGETS.group_resource
"""The API that is bound by v1alpha2."""
ACCOUNT = "team"
"""The account of the consumer at each provider."""
RELATED = "related.example.org/crosses"
"""The label of Secrets and ConfigMaps that cross."""
PASSWORD = "hunter2"
"""What stands in every Secret that crosses, and nowhere else."""
PATIENCE = 600.0
"""Seconds after which a provider that is away counts as gone."""
RULE = {"labelSelector": {"matchLabels": {RELATED: "true"}}}
RULES_BOTH = [
    {"resource": "secrets", "direction": "FromProvider", "selector": RULE},
    {"resource": "configmaps", "direction": "FromConsumer", "selector": RULE},
]


class Platform:
    """One provider: a cluster, and the kubeconfig that its team has given out."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.name = plane.name
        self.admin: Client
        self.kubeconfig = b""
        self.valid: set[bytes] = set()
        """All kubeconfigs that the cluster itself has given out, and not one before it."""

    @property
    def uid(self) -> str:
        """The uid by which the cluster is known."""
        found = one(self.plane, NAMESPACES, IDENTITY_NAMESPACE)
        return found.meta.uid if found else ""

    async def offer(self) -> None:
        """Install the CRDs, and give the consumer an account."""
        self.valid.clear()
        for kind in OFFERS[self.name]:
            await self.install(kind)
        team = KbindProvider(self.admin)
        rules = (
            *RULES,
            rule(GROUP, ["gears", "pumps", "bolts"], OBJECT_VERBS),
            rule("", ["secrets", "configmaps"], OBJECT_VERBS),
            rule("", ["namespaces"], ("create",)),
        )
        await team.kubeconfig(ACCOUNT, rules=rules)
        await self.invite()

    async def install(self, kind: Resource) -> None:
        """Install the CRD of a kind, and wait until it is served."""
        await install_crds(self.admin, [exported_crd(GROUP, kind.plural)])

    async def invite(self) -> bytes:
        """Give out another kubeconfig for the same account."""
        request: JSON = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "metadata": {},
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        }
        answer = await self.admin.create(
            SERVICEACCOUNTS, request, LEASE_NAMESPACE, name=ACCOUNT, subresource="token"
        )
        self.kubeconfig = consumer_kubeconfig(
            self.admin.config,
            InviteOptions(),
            namespace=LEASE_NAMESPACE,
            token=answer.to_dict()["status"]["token"],
            ca=b"",
        )
        self.valid.add(self.kubeconfig)
        return self.kubeconfig


class BothProtocols(Breaking):
    """The API servers, the programs, and what is there at the beginning."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.consumer = Plane(simulation, "consumer")
        self.platforms = {name: Platform(Plane(simulation, name)) for name in OFFERS}
        self.north, self.south = self.platforms["north"], self.platforms["south"]
        self.planes = [self.consumer, self.north.plane, self.south.plane]
        options = Options(
            protocols=PROTOCOLS,
            install_crds=False,
            health_interval=3.0,
            unbind_timeout=PATIENCE,
        )
        konnector = Program(
            konnector_manifests.NAME,
            KONNECTOR_NAMESPACE,
            konnector_manifests.LEASE,
            partial(konnector_app.build, options=options),
        )
        former = Program(
            provider_manifests.NAME,
            PROVIDER_NAMESPACE,
            provider_manifests.NAME,
            provider_app.build,
        )
        self.konnectors = [
            Replica(simulation, konnector, self.consumer, f"konnector-{number}")
            for number in (1, 2)
        ]
        self.replicas = [
            *self.konnectors,
            Replica(simulation, former, self.north.plane, "provider-1"),
        ]
        self.team: Client
        self.response: BindingResponse
        self._numbers = 0

    async def begin(self) -> None:
        """Two Connections, a ClusterBinding and a Binding, and one of v1alpha2."""
        await asyncio.gather(*(plane.start() for plane in self.planes))
        self.team = self.consumer.admin()
        for platform in self.platforms.values():
            platform.admin = platform.plane.admin()
            await platform.offer()
        await self._offer_former()
        await self._plant()
        await konnector_app.install_crds(self.team, PROTOCOLS)
        every = konnector_manifests.manifests(image="fairlead", protocols=PROTOCOLS)
        related = [msgspec.convert(known, RelatedResource) for known in _BOTH_WAYS]
        await create_all(self.team, [*every, *cluster_binding_roles("every", [*KINDS], related)])
        leases.check_writers(self.simulation, self.replicas)
        for replica in self.replicas:
            await replica.authorize()
            replica.start()
        for shop in SHOPS:
            await self.team.create(NAMESPACES, _namespace(shop))
        await self._bind_former()
        for name in OFFERS:
            await self.team.create(SECRETS, secret(name, self.platforms[name].kubeconfig))
            await self.team.create(CONNECTIONS, connection(name, schema={"source": "CRD"}))
        await self.team.create(
            CLUSTERBINDINGS,
            binding("all", "north", *(kind.group_resource for kind in OFFERS["north"])),
        )
        await self.team.create(
            BINDINGS, binding("own", "south", BOLTS.group_resource, namespace="shop")
        )

    async def _offer_former(self) -> None:
        admin = self.north.admin
        every = provider_manifests.manifests(
            image="fairlead", exports=[FORMER], claims=("secrets", "configmaps")
        )
        await create_all(admin, every)
        await provider_app.install_crds(admin)
        await install_crds(admin, [richer_crd()])
        await create_all(admin, [example("template")])

    async def _plant(self) -> None:
        """Objects that rules select, and that never cross."""
        for plane in self.planes:
            for namespace in ("kube-system", LEASE_NAMESPACE, KONNECTOR_NAMESPACE):
                with contextlib.suppress(AlreadyExists):
                    await self.admin_of(plane).create(NAMESPACES, _namespace(namespace))
                for kind in (SECRETS, CONFIGMAPS):
                    labels = {RELATED: "true"}
                    metadata = {
                        "name": f"of-{plane.name}",
                        "namespace": namespace,
                        "labels": labels,
                    }
                    body = {"apiVersion": "v1", "kind": kind.kind, "metadata": metadata}
                    await self.admin_of(plane).create(kind, body)

    async def _bind_former(self) -> None:
        answer = await invite(
            self.north.admin, name="v1", template="widgets", identity="v1", binding_name="widgets"
        )
        self.response = decode_binding_response(msgspec.json.encode(answer))
        await bind(self.team, self.response)
        for shop in SHOPS:
            await self.team.create(WIDGETS, thing("w0", shop))
        while len(self.former_places) < len(SHOPS):  # noqa: ASYNC110 - nobody else tells
            await asyncio.sleep(0.1)

    @property
    def former_places(self) -> dict[str, str]:
        """North's namespaces by the consumer's, for v1alpha2."""
        found = {
            known.meta.name: known.to_dict().get("status", {}).get("namespace")
            for known in held(self.north.plane, APISERVICENAMESPACES, self.former_namespace)
        }
        return {name: there for name, there in found.items() if there}

    @property
    def former_namespace(self) -> str:
        """The cluster namespace of the consumer at north, for v1alpha2."""
        return self.response.provider_namespace

    @property
    def consumer_uid(self) -> str:
        """The uid of the consumer's cluster."""
        found = one(self.consumer, NAMESPACES, IDENTITY_NAMESPACE)
        return found.meta.uid if found else ""

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)

    def admin_of(self, plane: Plane) -> Client:
        """The administrator of a cluster."""
        found = [known.admin for known in self.platforms.values() if known.plane is plane]
        return found[0] if found else self.team

    def objects(self, plane: Plane) -> list[tuple[Resource, Object]]:
        """All objects of the kinds that v2 binds."""
        return [(kind, found) for kind in KINDS.values() for found in held(plane, kind)]


def _namespace(name: str) -> JSON:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


_BOTH_WAYS = [
    {"resource": resource, "direction": direction}
    for resource in ("secrets", "configmaps")
    for direction in ("FromProvider", "FromConsumer")
]


def is_konnector(commit: Commit) -> bool:
    """Whether the konnector has asked for a change."""
    return commit.writer is not None and commit.writer.name.startswith("konnector")


def is_people(commit: Commit) -> bool:
    """Whether people have asked for a change."""
    return commit.writer is not None and commit.writer.name == "driver"
