"""What app teams, owners of services and careless tools do in the scenario ``binding``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import ClassVar

from tests.sim import binding_world as world
from tests.sim.binding_model import RECORD, split
from tests.sim.binding_services import Owners
from tests.sim.stores import held, one

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import DEPLOYMENTS, REPLICASETS, Resource


REVISIONS = 2
"""ReplicaSets that are kept of a Deployment."""

Change = Callable[[JSON], object]


class Teams(Owners):
    """Operations; each reads the store as it is, and writes through the API."""

    operations: ClassVar[dict[str, float]] = {
        "bind": 5.0,
        "bind_coreos": 5.0,
        "rebind": 3.0,
        "wish": 2.0,
        "unbind": 3.0,
        "recreate": 1.5,
        "rotate": 4.0,
        "secret_goes": 1.5,
        "secret_comes": 2.0,
        "name_secret": 3.0,
        "service_goes": 1.5,
        "service_comes": 1.5,
        "own_more": 1.5,
        "workload_goes": 1.5,
        "workload_comes": 3.0,
        "workload_again": 1.0,
        "change_workload": 3.0,
        "apply": 2.0,
        "strip": 2.0,
        "relabel": 2.0,
        "roll_out": 2.0,
        "by_hand": 1.0,
        "take_over": 1.0,
        "fill_in": 1.5,
        "lose_record": 0.5,
        "lose_generated": 1.0,
    }
    least: ClassVar[dict[str, float]] = {
        "bind": 0.3,
        "bind_coreos": 0.3,
        "rebind": 0.2,
        "wish": 0.2,
        "unbind": 0.3,
        "recreate": 0.2,
        "rotate": 0.4,
        "name_secret": 0.3,
        "workload_goes": 0.4,
        "workload_comes": 0.1,
        "workload_again": 0.3,
        "change_workload": 0.4,
        "apply": 0.3,
        "strip": 0.2,
        "relabel": 0.3,
        "roll_out": 0.3,
        "fill_in": 0.1,
        "lose_generated": 0.1,
    }

    # --- bindings

    async def bind(self, dice: Random) -> bool:
        """A new binding of servicebinding.io."""
        return await self._bind(world.BINDINGS[0], dice)

    async def bind_coreos(self, dice: Random) -> bool:
        """A new binding of binding.operators.coreos.com."""
        return await self._bind(world.BINDINGS[1], dice)

    async def _bind(self, resource: Resource, dice: Random) -> bool:
        shop = dice.choice(world.SHOPS)
        free = [
            name
            for name in world.NAMES[resource.group]
            if not one(self.plane, resource, name, shop)
        ]
        if not free:
            return False
        await self.admin.create(resource, world.binding(resource, dice.choice(free), shop, dice))
        return True

    def _choose_binding(self, dice: Random) -> tuple[Resource, Object] | None:
        found = [
            (resource, binding)
            for resource in world.BINDINGS
            for binding in held(self.plane, resource)
            if not binding.meta.deleting and binding.meta.name in world.NAMES[resource.group]
        ]
        return dice.choice(found) if found else None

    async def rebind(self, dice: Random) -> bool:
        """A binding asks for something else."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        resource, binding = chosen
        body = binding.to_dict()
        body["spec"] = world.spec(resource, binding.meta.name, dice)
        if resource is world.BINDINGS[0]:
            # The kind of its workload is for good.
            for field in ("apiVersion", "kind"):
                body["spec"]["workload"][field] = binding.to_dict()["spec"]["workload"][field]
            if body["spec"]["workload"]["kind"] != DEPLOYMENTS.kind:
                body["spec"]["workload"] = binding.to_dict()["spec"]["workload"]
        made = await self.admin.update(resource, body)
        return made.meta.generation != binding.meta.generation

    async def wish(self, dice: Random) -> bool:
        """What a binding asks for with annotations."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        resource, binding = chosen
        patch = {"metadata": {"annotations": world.wish(dice)}}
        made = await self.admin.merge_patch(
            resource, binding.meta.name, binding.meta.namespace, patch
        )
        return made.meta.resource_version != binding.meta.resource_version

    async def unbind(self, dice: Random) -> bool:
        """A binding is deleted."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        await self.admin.delete(chosen[0], *reversed(chosen[1].key))
        return True

    async def recreate(self, dice: Random) -> bool:
        """Another binding under the same name, as soon as it is free."""
        chosen = self._choose_binding(dice)
        if chosen is None:
            return False
        resource, binding = chosen
        await self.admin.delete(resource, *reversed(binding.key))
        if not await self._until_gone(resource, binding, dice):
            return False
        body = world.binding(resource, binding.meta.name, binding.meta.namespace, dice)
        await self.admin.create(resource, body)
        return True

    # --- workloads

    def _choose_workload(self, dice: Random) -> tuple[Resource, Object] | None:
        """One that a binding is on, most often."""
        found = [
            (resource, workload)
            for (_, name), resource in world.WORKLOADS.items()
            for shop in world.SHOPS
            if (workload := one(self.plane, resource, name, shop)) is not None
        ]
        bound = [it for it in found if RECORD in it[1].raw.decode()]
        if bound and dice.random() < 0.8:
            return dice.choice(bound)
        return dice.choice(found) if found else None

    async def _edit(self, dice: Random, change: Change) -> bool:
        chosen = self._choose_workload(dice)
        if chosen is None:
            return False
        resource, workload = chosen
        body = workload.to_dict()
        if change(body) is False:
            return False
        made = await self.admin.update(resource, body)
        return made.meta.resource_version != workload.meta.resource_version

    async def workload_goes(self, dice: Random) -> bool:
        """A workload is deleted."""
        chosen = self._choose_workload(dice)
        if chosen is None:
            return False
        await self.admin.delete(chosen[0], *reversed(chosen[1].key))
        return True

    async def workload_comes(self, dice: Random) -> bool:
        """A workload that was missing is there."""
        missing = [
            (resource, name, shop)
            for (_, name), resource in world.WORKLOADS.items()
            for shop in world.SHOPS
            if one(self.plane, resource, name, shop) is None
        ]
        if not missing:
            return False
        resource, name, shop = dice.choice(missing)
        await self.admin.create(resource, world.workload(resource, name, shop, self._number()))
        return True

    async def workload_again(self, dice: Random) -> bool:
        """Another workload under the same name."""
        chosen = self._choose_workload(dice)
        if chosen is None:
            return False
        resource, workload = chosen
        await self.admin.delete(resource, *reversed(workload.key))
        if not await self._until_gone(resource, workload, dice):
            return False
        name, shop = reversed(workload.key)
        await self.admin.create(resource, world.workload(resource, name, shop, self._number()))
        return True

    async def change_workload(self, dice: Random) -> bool:
        """The team changes what is its own: image, variables, volumes, labels of pods."""
        number = self._number()

        def change(body: JSON) -> None:
            pod, containers, volumes = world.pod_of(body)
            first = pod[containers][0]
            match dice.randrange(4):
                case 0:
                    first["image"] = f"app:{number}"
                case 1:
                    own = {"name": f"OWN_{number}", "value": "x"}
                    first["env"] = [own, *(first.get("env") or [])]
                case 2:
                    pod.setdefault(volumes, []).append({"name": f"own-{number}", "emptyDir": {}})
                    mount = {"name": f"own-{number}", "mountPath": f"/own/{number}"}
                    first.setdefault("volumeMounts", []).insert(0, mount)
                case 3:
                    body["metadata"].setdefault("annotations", {})["own"] = str(number)

        return await self._edit(dice, change)

    async def apply(self, dice: Random) -> bool:
        """A tool applies its manifest, which knows of no binding."""
        chosen = self._choose_workload(dice)
        if chosen is None:
            return False
        resource, workload = chosen
        name, shop = reversed(workload.key)
        body = world.workload(resource, name, shop, dice.choice((0, self._number())))
        body["metadata"]["labels"] = dict(workload.meta.labels)
        made = await self.admin.apply(resource, body, field_manager="sync")
        return made.meta.resource_version != workload.meta.resource_version

    async def strip(self, dice: Random) -> bool:
        """A tool writes a workload without what bindings have put there; records stay."""

        def change(body: JSON) -> bool:
            items, rest = split(body)
            return bool(items and rest)

        return await self._edit(dice, change)

    async def relabel(self, dice: Random) -> bool:
        """A workload comes into a selection, or leaves it."""

        def change(body: JSON) -> None:
            labels = body["metadata"].setdefault("labels", {})
            labels["tier"] = dice.choice(
                [tier for tier in ("front", "back", "none") if tier != labels.get("tier")]
            )

        return await self._edit(dice, change)

    async def roll_out(self, dice: Random) -> bool:
        """A Deployment is rolled out: its controller makes a ReplicaSet with the same template."""
        shop = dice.choice(world.SHOPS)
        found = held(self.plane, DEPLOYMENTS, shop)
        chosen = [it for it in found if it.meta.name in world.WEBS]
        if not chosen:
            return False
        deployment = dice.choice(chosen)
        body = deployment.to_dict()
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": deployment.meta.name,
            "uid": deployment.meta.uid,
            "controller": True,
        }
        metadata = {
            "name": f"{deployment.meta.name}-{self._number()}",
            "namespace": shop,
            "labels": body["metadata"].get("labels") or {},
            "annotations": body["metadata"].get("annotations") or {},
            "ownerReferences": [owner],
        }
        spec = {"selector": body["spec"]["selector"], "template": body["spec"]["template"]}
        made = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
        await self.admin.create(REPLICASETS, made)
        sets = [
            it
            for it in held(self.plane, REPLICASETS, shop)
            if it.meta.owned_by(deployment.meta.uid)
        ]
        sets.sort(key=lambda it: int(it.meta.resource_version))
        for old in sets[:-REVISIONS]:
            await self.deleted(REPLICASETS, old)
        return True

    # --- people

    async def by_hand(self, dice: Random) -> bool:
        """Somebody puts by hand what a binding would put there, onto what none is on."""
        name = dice.choice(("b1", "b2", "c1", "shared"))
        secret = dice.choice(("login", "token"))

        def change(body: JSON) -> bool:
            if RECORD in str(body["metadata"].get("annotations")):
                return False
            pod, containers, volumes = world.pod_of(body)
            first = pod[containers][0]
            if any(it["name"] == name for it in pod.get(volumes) or []):
                return False
            if dice.random() < 0.5:
                first.setdefault("env", []).append({"name": "B_PASSWORD", "value": "by hand"})
                return len([it for it in first["env"] if it["name"] == "B_PASSWORD"]) == 1
            pod.setdefault(volumes, []).append({"name": name, "secret": {"secretName": secret}})
            mount = {"name": name, "mountPath": f"/bindings/{name}"}
            first.setdefault("volumeMounts", []).append(mount)
            return True

        return await self._edit(dice, change)

    async def take_over(self, dice: Random) -> bool:
        """Somebody points a volume of a binding elsewhere."""

        def change(body: JSON) -> bool:
            pod, _, volumes = world.pod_of(body)
            ours = [it for it in pod.get(volumes) or [] if "secret" in it]
            if not ours:
                return False
            dice.choice(ours)["secret"]["secretName"] = "own-elsewhere"
            return True

        return await self._edit(dice, change)

    async def fill_in(self, dice: Random) -> bool:
        """A policy fills in what somebody's items do not say."""

        def change(body: JSON) -> bool:
            pod, containers, volumes = world.pod_of(body)
            references = [it["secret"] for it in pod.get(volumes) or [] if "secret" in it]
            mounts: list[JSON] = []
            for container in pod[containers]:
                mounts += container.get("volumeMounts") or []
                variables = [it for it in container.get("env") or [] if "valueFrom" in it]
                references += [it["valueFrom"]["secretKeyRef"] for it in variables]
            for reference in references:
                reference["optional"] = False
            for mount in mounts:
                mount["readOnly"] = True
            return bool(references or mounts)

        return await self._edit(dice, change)

    async def lose_record(self, dice: Random) -> bool:
        """Somebody takes the records of bindings off a workload."""

        def change(body: JSON) -> bool:
            notes = body["metadata"].get("annotations") or {}
            gone = [key for key in notes if key.startswith(RECORD)]
            for key in gone:
                del notes[key]
            return bool(gone)

        return await self._edit(dice, change)
