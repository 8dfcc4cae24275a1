"""Service Binding: one cluster, two replicas, bindings of both APIs, all kinds of services.

There are no webhooks, which serve with TLS: who asks for a binding is noted by the driver, as the
webhook would do it.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from tests.sim import binding_world as world
from tests.sim import leases
from tests.sim.binding_checks import Watched, check_requests, left_on
from tests.sim.binding_model import (
    RECORD,
    Expected,
    Item,
    conditions,
    expected,
    records,
    same,
    split,
)
from tests.sim.binding_specs import Specs
from tests.sim.planes import Plane
from tests.sim.programs import Program, Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import held, one, watch_commits
from tests.support.binding import DATABASES

from fairlead.api.meta import Object
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, REPLICASETS, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import app
from fairlead.binding.manifests import NAME, manifests
from fairlead.binding.options import DEFAULT_NAMESPACE
from fairlead.demo.identity import create_all
from fairlead.runtime import install_crds


class Binding(Specs):
    """The scenario; app teams and owners of services do what they do in :class:`Specs`."""

    name = "binding"
    resources: ClassVar[tuple[str, ...]] = (  # type: ignore[misc]
        "servicebindings",
        "secrets",
        "deployments",
        "rigs",
        "databases",
        "clusterworkloadresourcemappings",
        "subjectaccessreviews",
    )

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        program = Program(NAME, DEFAULT_NAMESPACE, NAME, partial(app.build))
        self.replicas = [
            Replica(simulation, program, self.plane, f"binding-{number}") for number in (1, 2)
        ]
        self.watched = Watched(simulation, self.plane, self.written)
        watch_commits(simulation, *self.watched.checks)
        simulation.on_log.append(self.watched.logs_no_password)
        self._raw: dict[str, bytes] = {}

    async def begin(self) -> None:
        """Two teams with workloads and services, and some that are nobody's to write."""
        await self.plane.start()
        self.admin = self.plane.admin(field_manager="team")
        await app.install_crds(self.admin)
        await create_all(self.admin, manifests(image="fairlead"))
        await install_crds(self.admin, world.kinds())
        await create_all(self.admin, [*world.roles(), *world.rights(), *world.mappings()])
        for shop in world.SHOPS:
            await self._namespace(shop)
            await self._furnish(shop)
        leases.check_writers(self.simulation, self.replicas)
        self.requests = check_requests(self.simulation, self.replicas)
        for replica in self.replicas:
            await replica.authorize()
            replica.start()
        await self._plant()

    async def _namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.admin.create(NAMESPACES, body)

    async def _furnish(self, shop: str) -> None:
        for (_, name), resource in world.WORKLOADS.items():
            await self.admin.create(resource, world.workload(resource, name, shop))
        for name in (*world.SECRETS_OF_TEAMS, "db1-creds", "cache-creds"):
            await self.admin.create(SECRETS, world.secret(name, shop, 0))
        await self.serve(DATABASES, "db1", shop, "db1-creds")
        await self.serve(DATABASES, "db2", shop, "")
        await self.serve(world.CACHES, "cache", shop, "cache-creds")

    async def _plant(self) -> None:
        """A workload that a stranger has bound, and one that nobody has."""
        await self._namespace(world.VAULT)
        for name in (*world.SECRETS_OF_TEAMS, "db1-creds", "cache-creds"):
            await self.admin.create(SECRETS, world.secret(name, world.VAULT, 0))
        for name in (world.GUARDED, world.QUIET):
            body = world.workload(DEPLOYMENTS, name, world.VAULT)
            self._raw[name] = (await self.admin.create(DEPLOYMENTS, body)).raw
        notes = {"servicebinding.io/requester": f'{{"username":"{world.STRANGER}"}}'}
        for resource in world.BINDINGS:
            await self.admin.create(resource, world.strangers(resource, notes))

    def saved(self, plane: Plane) -> object:
        """Whose is what on workloads."""
        return self.watched.saved()

    def restored(self, plane: Plane, known: object) -> None:
        """Know that again as it was then."""
        assert isinstance(known, tuple)
        self.watched.restored(known)

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)

    # --- what holds at the end

    def differences(self) -> list[str]:
        """Which bindings and workloads are not as the model has them."""
        every = expected(self.plane)
        found = []
        refused: set[str] = set()
        for shop in world.SHOPS:
            for resource in world.KINDS:
                for workload in held(self.plane, resource, shop):
                    found += self._unlike(workload, every, refused)
        for made in every:
            found += self._misstated(made, refused)
        return found

    def _unlike(self, workload: Object, every: list[Expected], refused: set[str]) -> list[str]:
        """How a workload differs; bindings that are refused on it are added to ``refused``."""
        uid, key = workload.meta.uid, workload.meta.key
        hand, doubtful = self.watched.hand[uid], self.watched.doubtful[uid]
        there, _ = split(workload.to_dict())
        known = records(workload)
        taken = dict(hand)
        wanted: dict[Item, tuple[object, Expected]] = {}
        # Of what an earlier pass has put there, and this one cannot judge, nothing is said.
        unclear = False
        for made in every:
            mine = made.binding.meta.uid in known
            if uid not in {it.meta.uid for it in made.workloads}:
                if mine and made.binding.meta.namespace == workload.meta.namespace:
                    what = f"a record of {_name(made)}, which does not select it"
                    return [f"{workload.kind} {key} has {what}"]
                continue
            if made.why:
                unclear = unclear or mine
                continue
            items = made.items(workload)
            if unclear or any(
                item in taken and not self._as_by_hand(item, value, hand, made)
                for item, value in items.items()
            ):
                refused.add(made.binding.meta.uid)
                unclear = unclear or mine
                continue
            if any(item in doubtful for item in items):
                refused.add(made.binding.meta.uid)
                unclear = True
                continue
            taken |= items
            wanted |= {item: (value, made) for item, value in items.items()}
        found = []
        for item, (value, made) in wanted.items():
            mode = made.wish("default-mode") if item not in hand else ""
            if item in doubtful:
                continue
            if item not in there:
                found.append(f"{workload.kind} {key} lacks {tuple(item)} of {_name(made)}")
            elif not same(value, there[item], mode):
                found.append(
                    f"{workload.kind} {key} has {there[item]} as {tuple(item)}, and "
                    f"{_name(made)} wants {value}"
                )
        if not unclear:
            found += [
                f"{workload.kind} {key} has {tuple(item)}: {there[item]}, which nobody wants"
                for item in there
                if item not in wanted and item not in hand and item not in doubtful
            ]
        return found

    def _as_by_hand(
        self, item: Item, value: object, hand: dict[Item, object], made: Expected
    ) -> bool:
        """Whether somebody has put there just what a binding wants."""
        return item in hand and same(value, hand[item], made.wish("default-mode"))

    def _misstated(self, made: Expected, refused: set[str]) -> list[str]:
        """What is wrong with a binding's status, and with a Secret of its own."""
        name, binding = _name(made), made.binding
        if binding.meta.deleting:
            return [f"{name} is still there, with {binding.meta.finalizers}"]
        said = conditions(binding)
        ready = said.get("Ready")
        if ready is None:
            return [f"{name} has no Ready"]
        if made.why:
            if ready["status"] == "True":
                return [f"{name} is Ready, and {made.why}"]
            return [] if ready["reason"] and ready["message"] else [f"{name} does not say why"]
        if binding.meta.uid in refused:
            return []
        if ready["status"] != "True":
            return [f"{name} is not Ready: {ready['reason']} {ready['message']}"]
        status = binding.to_dict()["status"]
        if made.resource is SERVICEBINDINGS and (
            status.get("observedGeneration") != binding.meta.generation
        ):
            return [f"{name} says nothing about generation {binding.meta.generation}"]
        return self._wrong_secret(made)

    def _wrong_secret(self, made: Expected) -> list[str]:
        name, secret = _name(made), made.secret()
        if made.direct:
            status = made.binding.to_dict()["status"]
            said = status.get("secret") or (status.get("binding") or {}).get("name")
            return [] if said == made.direct else [f"{name} says {said}, not {made.direct}"]
        namespace = made.binding.meta.namespace
        found = one(self.plane, SECRETS, secret, namespace)
        if found is None:
            return [f"{name} names Secret {secret}, which is not there"]
        data = {key: value.decode() for key, value in made.content.items()}
        if found.to_dict().get("data") != world.encoded(data):
            return [f"Secret {secret} of {name} has {sorted(found.to_dict().get('data') or {})}"]
        if not found.meta.owned_by(made.binding.meta.uid):
            return [f"Secret {secret} does not belong to {name}"]
        return self._former(made, secret)

    def _former(self, made: Expected, current: str) -> list[str]:
        """Secrets of former content that nothing names any more."""
        namespace = made.binding.meta.namespace
        readers = [
            found.raw
            for resource in (*world.KINDS, REPLICASETS)
            for found in held(self.plane, resource, namespace)
        ]
        kinds = made.binding.meta.annotations.get("servicebinding.io/projected-kinds", "")
        # What of the others may still be read is in objects that a sandbox does not have.
        if any(kind.kind in kinds or kind.plural in kinds for kind in world.KINDS[1:]):
            return []
        return [
            f"Secret {found.meta.name} of {_name(made)} is left, and nothing names it"
            for found in held(self.plane, SECRETS, namespace)
            if found.meta.owned_by(made.binding.meta.uid)
            and found.meta.name != current
            # A record may name it where nothing else does.
            and not any(found.meta.name.encode() in raw for raw in readers)
        ]

    async def heal(self) -> None:
        """End all faults, and give every service what it is bound with."""
        await super().heal()
        await self.make_well()

    async def clean_up(self) -> None:
        """Delete all bindings."""
        for resource in world.BINDINGS:
            for binding in held(self.plane, resource):
                await self.deleted(resource, binding)

    def leftovers(self) -> list[str]:
        """Bindings, what they have on workloads, and their Secrets."""
        found = [
            f"{binding.kind} {binding.meta.key} is left, with {binding.meta.finalizers}"
            for resource in world.BINDINGS
            for binding in held(self.plane, resource)
        ]
        for resource in world.KINDS:
            for workload in held(self.plane, resource):
                what = f"{workload.kind} {workload.meta.key}"
                if left := left_on(workload, self.watched):
                    found.append(f"{what} has {left} left")
                if RECORD in workload.raw.decode():
                    found.append(f"{what} has a record left")
        found += [
            f"Secret {secret.meta.key} of a binding is left"
            for secret in held(self.plane, SECRETS)
            if any(owner.kind == "ServiceBinding" for owner in secret.meta.owner_references)
        ]
        return found

    def check_end(self) -> list[str]:
        """Whether what nobody may write is as it was."""
        found = []
        for name, raw in self._raw.items():
            workload = one(self.plane, DEPLOYMENTS, name, world.VAULT)
            if workload is None or workload.raw != raw:
                found.append(f"Deployment {name}, which is nobody's to write, is not as it was")
        return found


def _name(made: Expected) -> str:
    meta = made.binding.meta
    return f"{made.resource.group_resource} {meta.namespace}/{meta.name}"
