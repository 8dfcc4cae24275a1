"""kube-bind: two consumers, one provider, two replicas of each program, and claimed objects."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any, ClassVar, NamedTuple

import msgspec
from tests.sim import leases
from tests.sim.faults import Breaking
from tests.sim.planes import Plane
from tests.sim.programs import Program, Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held, one, watch_commits
from tests.support.load import additions, differences, richer_crd, thing
from tests.support.provider import WIDGETS, example
from tests.support.waiting import condition

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    BindingResponse,
    decode_binding_response,
)
from fairlead.api.kubebind.names import (
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
    CLUSTERBINDINGS,
    FINALIZER_SYNCER,
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
NAMES = ("w1", "w2", "w3")
LABEL = "example.org/for-the-factory"
PASSWORD = "hunter2"
"""What stands in every Secret, and nowhere else."""
_WORDS = (None, "1", "2")
_REST = frozenset({LEASES.group_resource, CLUSTERBINDINGS.group_resource})
"""What is written at rest too."""


class Consumer:
    """One consumer's cluster and what it is called at the provider."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.plane = Plane(simulation, name)
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
        self.there: dict[str, str] = {}
        """The provider's namespaces by the consumer's."""

    @property
    def namespace(self) -> str:
        """Its cluster namespace at the provider."""
        return self.response.provider_namespace

    def owns(self, namespace: str) -> bool:
        """Whether a namespace of the provider is this consumer's."""
        return namespace == self.namespace or namespace.startswith(f"{self.namespace}-")


class _Place(NamedTuple):
    plane: str
    collection: str
    key: Key


class KubeBind(Breaking):
    """The scenario; app teams change widgets, a factory reports on their copies."""

    name = "kubebind"
    operations: ClassVar[dict[str, float]] = {
        "create": 5.0,
        "change": 5.0,
        "label": 2.0,
        "annotate": 2.0,
        "orphan": 0.5,
        "delete": 3.0,
        "replace": 2.0,
        "configmap": 2.0,
        "delete_configmap": 1.0,
        "report": 4.0,
        "add": 2.0,
        "meddle": 1.0,
        "lose_mark": 0.5,
        "delete_copy": 1.0,
        "certify": 2.0,
        "uncertify": 1.0,
        "native": 1.0,
        "delete_native": 1.0,
    }
    least: ClassVar[dict[str, float]] = {
        "create": 0.2,
        "change": 0.3,
        "delete": 0.3,
        "replace": 0.2,
        "report": 0.2,
        "add": 0.2,
        "meddle": 0.2,
        "delete_copy": 0.2,
        "certify": 0.2,
        "configmap": 0.3,
        "native": 0.1,
    }
    resources = ("widgets", "secrets", "configmaps", "apiservicenamespaces", "apiserviceexports")

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self.provider = Plane(simulation, "provider")
        self.consumers = [Consumer(simulation, name) for name in ("a", "b")]
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
        self.foreign: dict[_Place, bytes] = {}
        """What is not ours, byte by byte."""
        self._numbers = 0
        watch_commits(
            simulation,
            self._count,
            self._keeps_foreign,
            self._stays_in_its_namespaces,
            self._goes_after_its_copy,
            self._keeps_what_teams_wrote,
            self._tells_no_password,
        )
        simulation.on_log.append(self._logs_no_password)

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
        name = f"team-{consumer.name}"
        answer = await invite(
            self.admin, name=name, template="widgets", identity=name, binding_name="widgets"
        )
        consumer.response = decode_binding_response(msgspec.json.encode(answer))
        await bind(consumer.admin, consumer.response)
        for shop in SHOPS:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": shop}}
            await consumer.admin.create(NAMESPACES, body)
            await consumer.admin.create(WIDGETS, thing("w0", shop, certificates=_named("w0")))
        while len(consumer.there) < len(SHOPS):
            await asyncio.sleep(0.1)
            for found in held(self.provider, APISERVICENAMESPACES, consumer.namespace):
                namespace = found.to_dict().get("status", {}).get("namespace")
                if namespace and found.meta.name in SHOPS:
                    consumer.there[found.meta.name] = namespace

    async def _plant(self) -> None:
        """Objects that are none of ours, where ours could be."""
        for consumer in self.consumers:
            there = consumer.there["shop"]
            native = await self.admin.create(WIDGETS, thing("taken", there))
            self._remember(self.provider, WIDGETS, native)
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
        self.foreign[_Place(plane.name, resource.group_resource, made.key)] = made.raw

    # --- what app teams do

    def _choose(self, dice: Random, *, there: bool = True) -> tuple[Consumer, Object] | None:
        """A widget of some consumer; one that has a copy, where that is wanted."""
        consumer = dice.choice(self.consumers)
        found = [
            widget
            for widget in held(consumer.plane, WIDGETS)
            if not widget.meta.deleting and widget.meta.name != "taken"
        ]
        return (consumer, dice.choice(found)) if found else None

    async def create(self, dice: Random) -> bool:
        """A new widget that names a Secret."""
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        free = [name for name in NAMES if not one(consumer.plane, WIDGETS, name, shop)]
        if not free:
            return False
        name = dice.choice(free)
        body = thing(name, shop, count=dice.randrange(50), certificates=_named(name))
        if dice.random() < 0.5:
            body["metadata"]["labels"] = {"mine": "1"}
            body["metadata"]["annotations"] = {"mine": "1"}
        await consumer.admin.create(WIDGETS, body)
        return True

    async def change(self, dice: Random) -> bool:
        """Members of the spec come, change and go."""
        self._numbers += 1
        spec: JSON = {
            "count": dice.choice((None, 7, self._numbers % 100)),
            "note": dice.choice((None, "a", str(self._numbers))),
            "options": {"x": dice.choice(_WORDS)},
        }
        some = dice.sample(sorted(spec), k=dice.randint(1, 3))
        return await self._patch(dice, {"spec": {name: spec[name] for name in some}})

    async def label(self, dice: Random) -> bool:
        """A label comes, changes or goes."""
        return await self._patch(dice, {"metadata": {"labels": {"mine": dice.choice(_WORDS)}}})

    async def annotate(self, dice: Random) -> bool:
        """An annotation comes, changes or goes."""
        return await self._patch(
            dice, {"metadata": {"annotations": {"mine": dice.choice(_WORDS)}}}
        )

    async def orphan(self, dice: Random) -> bool:
        """The copy shall stay when the widget goes, or no longer."""
        policy = dice.choice(("Orphan", None))
        return await self._patch(
            dice, {"metadata": {"annotations": {ANNOTATION_DELETION_POLICY: policy}}}
        )

    async def _patch(self, dice: Random, patch: JSON) -> bool:
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        made = await consumer.admin.merge_patch(
            WIDGETS, widget.meta.name, widget.meta.namespace, patch
        )
        return made.meta.resource_version != widget.meta.resource_version

    async def delete(self, dice: Random) -> bool:
        """A widget is deleted."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        await consumer.admin.delete(WIDGETS, *reversed(widget.key))
        return True

    async def replace(self, dice: Random) -> bool:
        """Another object under the same name, as soon as it is free."""
        chosen = self._choose(dice)
        if chosen is None:
            return False
        consumer, widget = chosen
        await consumer.admin.delete(WIDGETS, *reversed(widget.key))
        end = self.simulation.loop.time() + 20.0
        while one(consumer.plane, WIDGETS, *reversed(widget.key)):
            if self.simulation.loop.time() > end:
                return False
            await asyncio.sleep(dice.uniform(0.001, 0.2))
        body = thing(widget.meta.name, widget.meta.namespace, note="again")
        await consumer.admin.create(WIDGETS, body)
        return True

    async def configmap(self, dice: Random) -> bool:
        """A ConfigMap for the factory: one that comes, or that says something else."""
        self._numbers += 1
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        data = {"number": str(self._numbers)}
        if one(consumer.plane, CONFIGMAPS, "settings", shop):
            await consumer.admin.merge_patch(CONFIGMAPS, "settings", shop, {"data": data})
            return True
        metadata = {"name": "settings", "namespace": shop, "labels": {LABEL: "true"}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        await consumer.admin.create(CONFIGMAPS, body)
        return True

    async def delete_configmap(self, dice: Random) -> bool:
        """It goes."""
        consumer, shop = dice.choice(self.consumers), dice.choice(SHOPS)
        if not one(consumer.plane, CONFIGMAPS, "settings", shop):
            return False
        await consumer.admin.delete(CONFIGMAPS, "settings", shop)
        return True

    # --- what the factory does

    def _copy(self, dice: Random) -> tuple[Consumer, Object] | None:
        consumer = dice.choice(self.consumers)
        found = [
            copy
            for namespace in consumer.there.values()
            for copy in held(self.provider, WIDGETS, namespace)
            if self._place(copy) not in self.foreign and not copy.meta.deleting
        ]
        return (consumer, dice.choice(found)) if found else None

    def _place(self, copy: Object) -> _Place:
        return _Place(self.provider.name, WIDGETS.group_resource, copy.key)

    async def _operate(self, dice: Random, patch: JSON, **more: Any) -> bool:
        chosen = self._copy(dice)
        if chosen is None:
            return False
        copy = chosen[1]
        name, namespace = copy.meta.name, copy.meta.namespace
        made = await self.admin.merge_patch(WIDGETS, name, namespace, patch, **more)
        return made.meta.resource_version != copy.meta.resource_version

    async def report(self, dice: Random) -> bool:
        """The status of a copy."""
        self._numbers += 1
        status = {"made": self._numbers, "factory": dice.choice(("north", "south"))}
        return await self._operate(dice, {"status": status}, subresource="status")

    async def add(self, dice: Random) -> bool:
        """What the factory notes on a copy for itself."""
        return await self._operate(dice, additions(dice.randrange(9)))

    async def meddle(self, dice: Random) -> bool:
        """Somebody at the provider changes what is the consumer's."""
        return await self._operate(dice, {"spec": {"colour": dice.choice(("green", "red"))}})

    async def lose_mark(self, dice: Random) -> bool:
        """An annotation goes by which a copy is known."""
        patch = {"metadata": {"annotations": {ANNOTATION_CONSUMER_UID: None}}}
        return await self._operate(dice, patch)

    async def delete_copy(self, dice: Random) -> bool:
        """A copy is deleted at the provider."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        await self.admin.delete(WIDGETS, *reversed(chosen[1].key))
        return True

    async def certify(self, dice: Random) -> bool:
        """A Secret that a copy names: it comes, or has another content."""
        chosen = self._copy(dice)
        if chosen is None:
            return False
        self._numbers += 1
        copy = chosen[1]
        name, namespace = f"{copy.meta.name}-origin", copy.meta.namespace
        data = {"stringData": {"key": f"{PASSWORD}-{self._numbers}"}}
        if one(self.provider, SECRETS, name, namespace):
            await self.admin.merge_patch(SECRETS, name, namespace, data)
            return True
        metadata = {"name": name, "namespace": namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **data}
        await self.admin.create(SECRETS, body)
        return True

    async def uncertify(self, dice: Random) -> bool:
        """It goes."""
        found = [
            secret
            for consumer in self.consumers
            for namespace in consumer.there.values()
            for secret in held(self.provider, SECRETS, namespace)
            if secret.meta.name.endswith("-origin")
        ]
        if not found:
            return False
        await self.admin.delete(SECRETS, *reversed(dice.choice(found).key))
        return True

    async def native(self, dice: Random) -> bool:
        """The provider makes an object of its own where a copy could be."""
        consumer = dice.choice(self.consumers)
        namespace = consumer.there[dice.choice(SHOPS)]
        free = [name for name in NAMES if not one(self.provider, WIDGETS, name, namespace)]
        if not free:
            return False
        made = await self.admin.create(WIDGETS, thing(dice.choice(free), namespace))
        self._remember(self.provider, WIDGETS, made)
        return True

    async def delete_native(self, dice: Random) -> bool:
        """One of them goes."""
        places = [
            place
            for place in self.foreign
            if place.collection == WIDGETS.group_resource and place.key.name in NAMES
        ]
        if not places:
            return False
        place = dice.choice(places)
        known = self.foreign.pop(place)
        try:
            await self.admin.delete(WIDGETS, *reversed(place.key))
        except NotFound:
            return False
        except BaseException:
            # Whether it is gone nobody knows; if it is there, it is still not ours.
            if one(self.provider, WIDGETS, *reversed(place.key)):
                self.foreign[place] = known
            raise
        return True

    def leads(self, replica: Replica) -> bool:
        """Whether a replica holds its Lease."""
        return leases.leads(replica)

    # --- what holds at every commit

    def _count(self, commit: Commit) -> None:
        if commit.collection not in _REST:
            self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")

    def _keeps_foreign(self, commit: Commit) -> str | None:
        known = self.foreign.get(_Place(commit.plane.name, commit.collection, commit.key))
        if known is None or known == commit.change.record.raw or _is_driver(commit):
            return None
        return (
            f"{commit.by} has changed {commit.collection} {commit.key} in {commit.plane.name}, "
            "which is none of ours"
        )

    def _stays_in_its_namespaces(self, commit: Commit) -> str | None:
        if commit.plane is not self.provider or commit.writer is None:
            return None
        for consumer in self.consumers:
            if commit.writer.name in {replica.name for replica in consumer.replicas}:
                if consumer.owns(commit.key.namespace):
                    return None
                return (
                    f"{commit.by} has written {commit.collection} {commit.key}, which is not in "
                    f"the namespaces of {consumer.name}"
                )
        return None

    def _goes_after_its_copy(self, commit: Commit) -> str | None:
        change = commit.change
        if change.type != "DELETED" or commit.collection != WIDGETS.group_resource:
            return None
        if commit.plane is self.provider:
            return None
        gone = commit.old
        if gone is None or FINALIZER_SYNCER not in gone.meta.finalizers:
            return None
        if gone.meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan":
            return None
        for copy in held(self.provider, WIDGETS):
            if copy.meta.annotations.get(ANNOTATION_CONSUMER_UID) == gone.meta.uid:
                return (
                    f"{commit.by} has let {commit.plane.name}'s widget {commit.key} go while its "
                    f"copy {copy.key} is there"
                )
        return None

    def _keeps_what_teams_wrote(self, commit: Commit) -> str | None:
        if commit.plane is self.provider or commit.collection != WIDGETS.group_resource:
            return None
        old = commit.old
        if commit.writer is None or _is_driver(commit) or old is None:
            return None
        new = commit.new
        if old.meta.uid == new.meta.uid and _wanted(old) != _wanted(new):
            return (
                f"{commit.by} has changed what the team wrote of {commit.plane.name}'s widget "
                f"{commit.key}"
            )
        return None

    def _tells_no_password(self, commit: Commit) -> str | None:
        if commit.collection == "secrets" or PASSWORD.encode() not in commit.change.record.raw:
            return None
        return f"{commit.by} has put a password into {commit.collection} {commit.key}"

    def _logs_no_password(self, text: str) -> None:
        if PASSWORD in text:
            self.simulation.violated(f"a password stands in a log: {text}")

    # --- what holds at the end

    def differences(self) -> list[str]:
        """Why both sides are not alike."""
        found = []
        for consumer in self.consumers:
            natives = {
                place.key for place in self.foreign if place.collection == WIDGETS.group_resource
            }
            mine = [
                widget
                for widget in held(consumer.plane, WIDGETS)
                if Key(consumer.there[widget.meta.namespace], widget.meta.name) not in natives
            ]
            theirs = [
                copy
                for copy in held(self.provider, WIDGETS)
                if consumer.owns(copy.meta.namespace) and copy.key not in natives
            ]
            found += [
                f"{consumer.name}: {text}"
                for text in differences(mine, theirs, consumer.there, consumer.namespace)
            ]
            found += self._unlike_claims(consumer, mine)
            found += [
                f"{consumer.name}: binding {binding.meta.name} is not Ready"
                for binding in held(consumer.plane, APISERVICEBINDINGS)
                if condition(binding.to_dict(), "Ready").get("status") != "True"
            ]
        return found

    def _unlike_claims(self, consumer: Consumer, mine: list[Object]) -> list[str]:
        found = []
        named = {
            (widget.meta.namespace, item["name"])
            for widget in mine
            for item in widget.to_dict()["spec"].get("certificates", ())
        }
        for shop, there in consumer.there.items():
            sent = {
                secret.meta.name: secret.to_dict().get("data")
                for secret in held(self.provider, SECRETS, there)
                if (shop, secret.meta.name) in named
            }
            came = {
                secret.meta.name: secret.to_dict().get("data")
                for secret in held(consumer.plane, SECRETS, shop)
                if secret.meta.name.endswith("-origin")
            }
            if sent != came:
                found.append(f"{consumer.name}: Secrets {sorted(sent)} came as {sorted(came)}")
            mine_map = one(consumer.plane, CONFIGMAPS, "settings", shop)
            theirs_map = one(self.provider, CONFIGMAPS, "settings", there)
            # It follows where something is bound.
            data = mine_map.to_dict().get("data") if mine_map else None
            copied = theirs_map.to_dict().get("data") if theirs_map else None
            if data != copied:
                found.append(f"{consumer.name}: ConfigMap {shop}/settings {data} is {copied}")
        return found

    async def clean_up(self) -> None:
        """Delete all widgets, and what the provider has of its own."""
        for consumer in self.consumers:
            for widget in held(consumer.plane, WIDGETS):
                await _deleted(consumer.admin, WIDGETS, widget)
            for shop in SHOPS:
                found = one(consumer.plane, CONFIGMAPS, "settings", shop)
                if found:
                    await _deleted(consumer.admin, CONFIGMAPS, found)
            for namespace in consumer.there.values():
                for secret in held(self.provider, SECRETS, namespace):
                    if secret.meta.name.endswith("-origin"):
                        await _deleted(self.admin, SECRETS, secret)

    def leftovers(self) -> list[str]:
        """Widgets, copies and claimed objects that are still there."""
        found = []
        for consumer in self.consumers:
            found += [
                f"{consumer.name}: widget {widget.key} is left, with {widget.meta.finalizers}"
                for widget in held(consumer.plane, WIDGETS)
            ]
            for resource in (SECRETS, CONFIGMAPS):
                found += [
                    f"{consumer.name}: {resource.kind} {claimed.key} is left"
                    for shop in SHOPS
                    for claimed in held(consumer.plane, resource, shop)
                    if claimed.meta.name in {"settings", *(f"{name}-origin" for name in NAMES)}
                ]
        found += [
            f"copy {copy.key} is left"
            for copy in held(self.provider, WIDGETS)
            if self._place(copy) not in self.foreign and not _orphaned(copy)
        ]
        return found

    def check_end(self) -> list[str]:
        """Whether what is not ours is there."""
        planes = {plane.name: plane for plane in self.planes}
        return [
            f"{place.collection} {place.key} of {place.plane}, which is none of ours, is not as "
            "it was"
            for place, known in self.foreign.items()
            if (record := planes[place.plane].store.collection(place.collection).get(place.key))
            is None
            or record.raw != known
        ]


def _named(name: str) -> list[JSON]:
    return [{"name": f"{name}-origin"}]


def _is_driver(commit: Commit) -> bool:
    return commit.writer is not None and commit.writer.name == "driver"


def _wanted(widget: Object) -> JSON:
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


def _orphaned(copy: Object) -> bool:
    return copy.meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan" or (
        ANNOTATION_CONSUMER_UID not in copy.meta.annotations
    )


async def _deleted(client: Client, resource: Resource, found: Object) -> None:
    try:
        await client.delete(resource, *reversed(found.key))
    except NotFound:
        return
