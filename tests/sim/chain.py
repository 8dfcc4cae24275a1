"""The whole chain: a provider's Secret gets into a workload of a consumer.

A provider offers accounts; what makes them there is played by the driver, which writes a Secret
and says in the status of the copy which one it is. kube-bind brings both back, and a binding puts
the Secret onto a Deployment. The operator of PostgreSQL, which does this in earnest, has a
scenario of its own.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import ClassVar

import msgspec
from tests.sim import binding_world as world
from tests.sim import leases
from tests.sim.binding_checks import Watched, check_requests, left_on
from tests.sim.binding_model import RECORD, conditions, split
from tests.sim.chain_world import ACCOUNTS, SHOP, account, binding, programs, secret_of, template
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.programs import Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import Check, Commit, held, one, watch_commits
from tests.support.binding import crd, encoded, role

from fairlead.api.kubebind import APISERVICENAMESPACES, BindingResponse, decode_binding_response
from fairlead.api.kubebind.names import APISERVICEBINDINGS, CLUSTERBINDINGS
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, SECRETS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import app as binding_app
from fairlead.binding import manifests as binding_manifests
from fairlead.client import Client, NotFound
from fairlead.demo.identity import create_all
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.commands.bind import bind
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.invitation import invite
from fairlead.runtime import install_crds


NAMES = ("a1", "a2", "a3")
"""Of accounts, of the bindings that name them, and of the Deployments that these name."""
GONE_SECONDS = 20.0
"""Seconds for which somebody waits for a name to be free."""


class Chain(Breaking):
    """The scenario; app teams ask for accounts and bind them, the provider makes them."""

    name = "chain"
    operations: ClassVar[dict[str, float]] = {
        "ask": 4.0,
        "give_up": 2.0,
        "ask_again": 1.0,
        "bind": 4.0,
        "unbind": 1.5,
        "make": 6.0,
        "rotate": 4.0,
        "rename": 2.0,
        "lose": 1.5,
        "deploy": 2.0,
        "undeploy": 1.0,
        "spoil": 1.0,
    }
    least: ClassVar[dict[str, float]] = {
        "ask": 0.2,
        "give_up": 0.3,
        "bind": 0.2,
        "make": 0.2,
        "rotate": 0.2,
        "rename": 0.1,
        "lose": 0.02,
    }
    resources = ("accounts", "secrets", "servicebindings", "deployments", "apiserviceexports")

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.provider, self.consumer = Plane(simulation, "provider"), Plane(simulation, "consumer")
        self.planes = [self.provider, self.consumer]
        self.replicas = [
            Replica(simulation, program, plane, f"{name}-{number}")
            for name, plane, program in programs(self.provider, self.consumer)
            for number in (1, 2)
        ]
        self.admin: Client
        self.team: Client
        self.response: BindingResponse
        self.there = ""
        """The provider's namespace of the shop."""
        self._numbers = 0
        self._making: asyncio.Task[None]
        self.watched = Watched(simulation, self.consumer, [])
        watch_commits(simulation, self._count, *map(self._at_the_consumer, self.watched.checks))
        simulation.on_log.append(self.watched.logs_no_password)

    def _at_the_consumer(self, check: Check) -> Check:
        def look(commit: Commit) -> str | None:
            return check(commit) if commit.plane is self.consumer else None

        return look

    def _count(self, commit: Commit) -> None:
        rest = {"leases.coordination.k8s.io", "events", CLUSTERBINDINGS.group_resource}
        if commit.collection not in rest:
            self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")

    # --- the beginning

    async def begin(self) -> None:
        """A provider with an offer, and a consumer that has bound it."""
        await asyncio.gather(*(plane.start() for plane in self.planes))
        self.admin, self.team = self.provider.admin(), self.consumer.admin()
        offered = provider_manifests.manifests(
            image="fairlead", exports=[ACCOUNTS.group_resource], claims=("secrets",)
        )
        await create_all(self.admin, offered)
        await provider_app.install_crds(self.admin)
        exported = crd(ACCOUNTS)
        exported["metadata"]["labels"] = {"kube-bind.io/exported": "true"}
        await install_crds(self.admin, [exported])
        await create_all(self.admin, [template()])
        await konnector_app.install_crds(self.team)
        await binding_app.install_crds(self.team)
        await create_all(self.team, konnector_manifests.manifests(image="fairlead"))
        await create_all(self.team, binding_manifests.manifests(image="fairlead"))
        await create_all(self.team, [role(ACCOUNTS)])
        leases.check_writers(self.simulation, self.replicas)
        self.requests = check_requests(self.simulation, self.replicas)
        for replica in self.replicas:
            await replica.authorize()
            replica.start()
        answer = await invite(
            self.admin, name="team", template="accounts", identity="team", binding_name="accounts"
        )
        self.response = decode_binding_response(msgspec.json.encode(answer))
        await bind(self.team, self.response)
        body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}}
        await self.team.create(NAMESPACES, body)
        await self.team.create(ACCOUNTS, account("a0"))
        while not self.there:
            await asyncio.sleep(0.1)
            for found in held(self.provider, APISERVICENAMESPACES):
                if found.meta.name == SHOP:
                    status = found.to_dict().get("status") or {}
                    self.there = status.get("namespace", "")
        for name in NAMES:
            await self.team.create(DEPLOYMENTS, world.workload(DEPLOYMENTS, name, SHOP))

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # --- the app team

    async def ask(self, dice: Random) -> bool:
        """An account is asked for."""
        free = [name for name in NAMES if not one(self.consumer, ACCOUNTS, name, SHOP)]
        if not free:
            return False
        await self.team.create(ACCOUNTS, account(dice.choice(free)))
        return True

    def _account(self, dice: Random) -> Object | None:
        found = [
            account
            for account in held(self.consumer, ACCOUNTS, SHOP)
            if account.meta.name in NAMES and not account.meta.deleting
        ]
        return dice.choice(found) if found else None

    async def give_up(self, dice: Random) -> bool:
        """An account is not wanted any more."""
        account = self._account(dice)
        if account is None:
            return False
        await self.team.delete(ACCOUNTS, account.meta.name, SHOP)
        return True

    async def ask_again(self, dice: Random) -> bool:
        """Another account under the same name."""
        there = self._account(dice)
        if there is None:
            return False
        name = there.meta.name
        await self.team.delete(ACCOUNTS, name, SHOP)
        end = self.simulation.loop.time() + GONE_SECONDS
        while one(self.consumer, ACCOUNTS, name, SHOP):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.01, 0.2))
        await self.team.create(ACCOUNTS, account(name))
        return True

    async def bind(self, dice: Random) -> bool:
        """An account is bound to the Deployment of its name, whether it is there or not."""
        free = [name for name in NAMES if not one(self.consumer, SERVICEBINDINGS, name, SHOP)]
        if not free:
            return False
        await self.team.create(SERVICEBINDINGS, binding(dice.choice(free), dice))
        return True

    async def unbind(self, dice: Random) -> bool:
        """A binding is deleted."""
        found = [it for it in held(self.consumer, SERVICEBINDINGS, SHOP) if not it.meta.deleting]
        if not found:
            return False
        await self.team.delete(SERVICEBINDINGS, dice.choice(found).meta.name, SHOP)
        return True

    async def deploy(self, dice: Random) -> bool:
        """A Deployment is there, or there in another version."""
        name = dice.choice(NAMES)
        body = world.workload(DEPLOYMENTS, name, SHOP, self._number())
        await self.team.apply(DEPLOYMENTS, body, field_manager="team")
        return True

    async def undeploy(self, dice: Random) -> bool:
        """A Deployment is deleted."""
        name = dice.choice(NAMES)
        if not one(self.consumer, DEPLOYMENTS, name, SHOP):
            return False
        await self.team.delete(DEPLOYMENTS, name, SHOP)
        return True

    async def spoil(self, dice: Random) -> bool:
        """Somebody changes a Secret that has come, or deletes it."""
        found = [
            secret
            for secret in held(self.consumer, SECRETS, SHOP)
            if secret.meta.name.startswith("made-")
        ]
        if not found:
            return False
        name = dice.choice(found).meta.name
        if dice.random() < 0.5:
            await self.team.delete(SECRETS, name, SHOP)
        else:
            data = encoded(host="elsewhere")
            await self.team.merge_patch(SECRETS, name, SHOP, {"data": data})
        return True

    # --- the provider

    def _copy(self, dice: Random, *, made: bool) -> Object | None:
        found = [
            copy
            for copy in held(self.provider, ACCOUNTS, self.there)
            if copy.meta.name in NAMES and not copy.meta.deleting and bool(secret_of(copy)) is made
        ]
        return dice.choice(found) if found else None

    async def make(self, dice: Random) -> bool:
        """An account is made: its Secret first, then its status, or the other way round."""
        copy = self._copy(dice, made=False)
        if copy is None:
            return False
        await self._make(copy, f"made-{copy.meta.name}", late=dice.random() < 0.3)
        return True

    async def _make(self, copy: Object, secret: str, *, late: bool = False) -> None:
        if late:
            await self._name(copy, secret)
            await asyncio.sleep(1.0)
        await self._put(secret)
        if not late:
            await self._name(copy, secret)

    async def _name(self, copy: Object, secret: str) -> None:
        status = {"status": {"binding": {"name": secret}}}
        await self.admin.merge_patch(
            ACCOUNTS, copy.meta.name, self.there, status, subresource="status"
        )

    async def _put(self, name: str) -> None:
        number = self._number()
        password = f"{world.PASSWORD}-{number}"
        data = encoded(type="postgresql", host=f"host{number}", password=password)
        if one(self.provider, SECRETS, name, self.there):
            await self.admin.merge_patch(SECRETS, name, self.there, {"data": data})
            return
        metadata = {"name": name, "namespace": self.there}
        body: JSON = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        await self.admin.create(SECRETS, body)

    async def rotate(self, dice: Random) -> bool:
        """The Secret of an account has another password."""
        copy = self._copy(dice, made=True)
        if copy is None:
            return False
        await self._put(secret_of(copy))
        return True

    async def rename(self, dice: Random) -> bool:
        """An account has another Secret, and the former one goes."""
        copy = self._copy(dice, made=True)
        if copy is None:
            return False
        former = secret_of(copy)
        await self._make(copy, f"made-{copy.meta.name}-{self._number()}")
        await asyncio.sleep(dice.choice((0.0, 5.0)))
        await self._drop(former)
        return True

    async def lose(self, dice: Random) -> bool:
        """The Secret of an account is gone, and made anew later."""
        copy = self._copy(dice, made=True)
        if copy is None:
            return False
        await self._drop(secret_of(copy))
        await asyncio.sleep(dice.choice((0.5, 10.0)))
        await self._put(secret_of(copy))
        return True

    async def _drop(self, name: str) -> None:
        try:
            await self.admin.delete(SECRETS, name, self.there)
        except NotFound:
            return

    # --- the end

    async def heal(self) -> None:
        """End all faults; the provider makes what is asked for, and drops what is not."""
        await super().heal()
        self._making = asyncio.create_task(self._keep_making())

    async def _keep_making(self) -> None:
        while True:
            await self._make_all()
            await asyncio.sleep(1.0)

    async def _make_all(self) -> None:
        for copy in held(self.provider, ACCOUNTS, self.there):
            secret = secret_of(copy) or f"made-{copy.meta.name}"
            if copy.meta.name in NAMES and not copy.meta.deleting:
                if not one(self.provider, SECRETS, secret, self.there):
                    await self._put(secret)
                if not secret_of(copy):
                    await self._name(copy, secret)

    def differences(self) -> list[str]:
        """Where the provider's data are not with the consumer's workloads."""
        found = [
            f"{bound.kind} {bound.meta.name} is not Ready"
            for bound in held(self.consumer, APISERVICEBINDINGS)
            if conditions(bound).get("Ready", {}).get("status") != "True"
        ]
        for name in NAMES:
            account = one(self.consumer, ACCOUNTS, name, SHOP)
            copy = one(self.provider, ACCOUNTS, name, self.there)
            if (account is None) != (copy is None):
                found.append(f"account {name} is on one side alone")
            elif copy is not None and account is not None:
                found += self._unlike(name, account, copy)
            binding = one(self.consumer, SERVICEBINDINGS, name, SHOP)
            if binding is not None:
                found += self._unbound(name, binding, copy)
        return found

    def _unlike(self, name: str, account: Object, copy: Object) -> list[str]:
        secret = secret_of(copy)
        if not secret:
            return [f"account {name} is not made"] if not copy.meta.deleting else []
        if secret_of(account) != secret:
            return [f"account {name} names {secret_of(account)}, and its copy {secret}"]
        return (
            []
            if self._data(self.consumer, SHOP, secret)
            == self._data(self.provider, self.there, secret)
            else [f"Secret {secret} is not what it is at the provider"]
        )

    def _data(self, plane: Plane, namespace: str, name: str) -> JSON | None:
        found = one(plane, SECRETS, name, namespace)
        data: JSON | None = found.to_dict().get("data") if found else None
        return data

    def _unbound(self, name: str, binding: Object, copy: Object | None) -> list[str]:
        ready = conditions(binding).get("Ready", {}).get("status")
        web = one(self.consumer, DEPLOYMENTS, name, SHOP)
        if copy is None or web is None:
            return [f"binding {name} is Ready for nothing"] if ready == "True" else []
        if ready != "True":
            said = conditions(binding).get("Ready")
            return [f"binding {name} is not Ready: {said}"]
        data = self._data(self.provider, self.there, secret_of(copy))
        return _lacks(web, binding, data or {}, self.consumer)

    async def clean_up(self) -> None:
        """Unbind everything, then give all accounts up; the provider drops their Secrets."""
        self._making.cancel()
        for resource in (SERVICEBINDINGS, ACCOUNTS):
            for found in held(self.consumer, resource, SHOP):
                if found.meta.name in NAMES:
                    await self.team.delete(resource, found.meta.name, SHOP)
        for secret in held(self.provider, SECRETS, self.there):
            if secret.meta.name.startswith("made-"):
                await self._drop(secret.meta.name)

    def leftovers(self) -> list[str]:
        """Accounts, copies, bindings and Secrets, and what workloads have of them."""
        found = [
            f"{plane.name}: {resource.kind} {it.key} is left, with {it.meta.finalizers}"
            for plane, resource in (
                (self.consumer, SERVICEBINDINGS),
                (self.consumer, ACCOUNTS),
                (self.provider, ACCOUNTS),
            )
            for it in held(plane, resource)
            if it.meta.name in NAMES
        ]
        found += [
            f"{plane.name}: Secret {it.key} is left"
            for plane in self.planes
            for it in held(plane, SECRETS)
            if it.meta.name.startswith(("made-", *(f"{name}-" for name in NAMES)))
            and it.meta.namespace in {SHOP, self.there}
        ]
        for web in held(self.consumer, DEPLOYMENTS, SHOP):
            if left := left_on(web, self.watched):
                found.append(f"Deployment {web.meta.name} has {left} left")
            if RECORD in web.raw.decode():
                found.append(f"Deployment {web.meta.name} has a record left")
        return found


def _lacks(web: Object, binding: Object, data: JSON, plane: Plane) -> list[str]:
    """What of the provider's data a Deployment has not."""
    items, _ = split(web.to_dict())
    volumes = [item for place, item in items.items() if place.kind == "volume"]
    name = binding.meta.name
    if len(volumes) != 1:
        return [f"Deployment {name} has {volumes}"]
    secret = one(plane, SECRETS, volumes[0]["secret"]["secretName"], SHOP)
    wanted = dict(data)
    if kind := binding.to_dict()["spec"].get("type"):
        wanted |= encoded(type=kind)
    there = secret.to_dict().get("data") if secret else None
    return [] if there == wanted else [f"Deployment {name} has not what the provider has made"]
