"""What administrators of both sides do in the world of kbind v2."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from random import Random

from tests.sim.kbindv2model import content_of, wishes
from tests.sim.kbindv2people import Teams
from tests.sim.kbindv2world import FORMER, GROUP, KINDS, OFFERS, RULES_BOTH, Platform
from tests.sim.stores import one
from tests.support.kbindbound import binding
from tests.support.kbindworld import connection, exported_crd, secret

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, lease_name
from fairlead.api.kbind.names import (
    CONSUMER_CLUSTER_UID,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    LEASE_NAMESPACE,
    LEASE_SECONDS,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, LEASES, SECRETS, Resource
from fairlead.api.timestamps import format_micro_time, moment
from fairlead.client import ClientError, NotFound
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE


_PLACES = (("all", ""), ("more", ""), ("own", "shop"), ("other", "store"))
"""The names and namespaces of bindings."""
_EXEC = b"""
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: id}}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
"""
"""A kubeconfig that runs a program."""
_SPOILT = b"nope"
"""The end of a token that is worth nothing."""


class Owners(Teams):
    """Operations of administrators."""

    # --- bindings

    def _wanted(self, dice: Random) -> JSON:
        name = dice.choice(list(OFFERS))
        offered = [kind.group_resource for kind in OFFERS[name]]
        apis = dice.choice((offered, offered, offered[:1], offered[1:], [*offered, FORMER]))
        return {
            "connectionRef": {"name": name},
            "apis": [{"name": api} for api in apis],
            "conflictPolicy": dice.choice(("Fail", "Fail", "Adopt")),
            "relatedResources": dice.choice((RULES_BOTH, RULES_BOTH[:1], RULES_BOTH[1:], [])),
        }

    async def bind(self, dice: Random) -> bool:
        """A binding comes."""
        name, namespace = dice.choice(_PLACES)
        kind = BINDINGS if namespace else CLUSTERBINDINGS
        spec = self._wanted(dice)
        if one(self.consumer, kind, name, namespace):
            return False
        await self.team.create(kind, {**binding(name, "", namespace=namespace), "spec": spec})
        return True

    async def rebind(self, dice: Random) -> bool:
        """A binding is about something else."""
        every = [wish for wish in wishes(self.consumer) if not wish.deleting]
        if not every:
            return False
        wish, spec = dice.choice(every), self._wanted(dice)
        field = dice.choice(("apis", "conflictPolicy", "relatedResources", "connectionRef"))
        patch = {"spec": {field: spec[field]}}
        made = await self.team.merge_patch(wish.kind, wish.key.name, wish.key.namespace, patch)
        return made.meta.resource_version != wish.obj.meta.resource_version

    async def unbind(self, dice: Random) -> bool:
        """A binding is deleted."""
        every = [wish for wish in wishes(self.consumer) if not wish.deleting]
        if not every:
            return False
        wish = dice.choice(every)
        await self.team.delete(wish.kind, *reversed(wish.key))
        return True

    # --- Connections and their Secrets

    async def connect(self, dice: Random) -> bool:
        """A Connection comes, with its Secret, in any order."""
        missing = [name for name in OFFERS if not one(self.consumer, CONNECTIONS, name)]
        if not missing:
            return False
        await self._connect(dice.choice(missing))
        return True

    async def _connect(self, name: str) -> None:
        await self.team.create(CONNECTIONS, connection(name, schema={"source": "CRD"}))
        if one(self.consumer, SECRETS, name, KONNECTOR_NAMESPACE) is None:
            body = secret(name, self.platforms[name].kubeconfig)
            await self.team.create(SECRETS, body)

    async def disconnect(self, dice: Random) -> bool:
        """A Connection is deleted, perhaps with its Secret."""
        name = dice.choice(list(OFFERS))
        found = one(self.consumer, CONNECTIONS, name)
        if found is None or found.meta.deleting:
            return False
        await self.team.delete(CONNECTIONS, name)
        if dice.random() < 0.5:
            await self.team.delete(SECRETS, name, KONNECTOR_NAMESPACE)
        return True

    async def disconnect_secret(self, dice: Random) -> bool:
        """A Secret is without a kubeconfig, for a while or for good."""
        return await self._credentials(dice, b"")

    async def rotate(self, dice: Random) -> bool:
        """A provider gives out another kubeconfig."""
        platform = dice.choice(list(self.platforms.values()))
        if not platform.plane.up:
            return False
        return await self._write(platform.name, await platform.invite())

    async def refuse(self, dice: Random) -> bool:
        """A Secret gets a kubeconfig that runs a program, for a while or for good."""
        return await self._credentials(dice, _EXEC)

    async def spoil(self, dice: Random) -> bool:
        """A Secret gets a kubeconfig that is worth nothing, for a while or for good."""
        name = dice.choice(list(OFFERS))
        good = self.platforms[name].kubeconfig
        return await self._credentials(dice, good.replace(_token(good)[-4:], _SPOILT), name)

    async def swap(self, dice: Random) -> bool:
        """A Secret gets the kubeconfig of another provider, for a while or for good."""
        name = dice.choice(list(OFFERS))
        other = next(known for known in OFFERS if known != name)
        return await self._credentials(dice, self.platforms[other].kubeconfig, name)

    async def _credentials(self, dice: Random, content: bytes, name: str = "") -> bool:
        name = name or dice.choice(list(OFFERS))
        if not await self._write(name, content):
            return False
        await asyncio.sleep(dice.choice((1.0, 20.0, 90.0)))
        if dice.random() < 0.8:
            await self._write(name, self.platforms[name].kubeconfig)
        return True

    async def _write(self, name: str, content: bytes) -> bool:
        found = one(self.consumer, SECRETS, name, KONNECTOR_NAMESPACE)
        if found is None or content_of(found) == content:
            return False
        data = {"data": {"kubeconfig": base64.b64encode(content).decode()}}
        await self.team.merge_patch(SECRETS, name, KONNECTOR_NAMESPACE, data)
        return True

    async def pull(self, dice: Random) -> bool:
        """A Connection makes and updates CRDs, or no longer."""
        name = dice.choice(list(OFFERS))
        if one(self.consumer, CONNECTIONS, name) is None:
            return False
        policy = dice.choice(("None", "Bound", "Bound", "All"))
        update = dice.choice(("Always", "Always", "Once"))
        patch = {"spec": {"schema": {"pullPolicy": policy, "updatePolicy": update}}}
        await self.team.merge_patch(CONNECTIONS, name, "", patch)
        return True

    async def autobind(self, dice: Random) -> bool:
        """A Connection binds all that is offered, or no longer."""
        name = dice.choice(list(OFFERS))
        found = one(self.consumer, CONNECTIONS, name)
        if found is None:
            return False
        patch = {"spec": {"autoBind": not found.to_dict()["spec"].get("autoBind", False)}}
        await self.team.merge_patch(CONNECTIONS, name, "", patch)
        return True

    # --- CRDs of the consumer

    async def drop_crd(self, dice: Random) -> bool:
        """Somebody deletes a CRD, and perhaps makes one of their own as soon as it is gone."""
        kind = dice.choice(list(KINDS.values()))
        api = kind.group_resource
        found = one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api)
        if found is not None:
            if found.meta.deleting:
                return False
            with contextlib.suppress(NotFound):
                await self.team.delete(CUSTOMRESOURCEDEFINITIONS, api)
            if dice.random() < 0.6:
                return True
        end = self.simulation.loop.time() + 20.0
        while one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api):
            if self.simulation.loop.time() > end:
                return True
            await asyncio.sleep(0.02)
        await self.team.create(CUSTOMRESOURCEDEFINITIONS, _own_crd(kind))
        return True

    async def unmark_crd(self, dice: Random) -> bool:
        """Somebody takes a CRD for their own: the konnector's label goes."""
        api = dice.choice(list(KINDS))
        if one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api) is None:
            return False
        patch = {"metadata": {"labels": {LABEL_MANAGED: None}}}
        with contextlib.suppress(NotFound):
            await self.team.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", patch)
        return True

    # --- CRDs of the providers

    def _offered(self, dice: Random) -> tuple[Platform, Resource]:
        platform = dice.choice(list(self.platforms.values()))
        return platform, dice.choice(OFFERS[platform.name])

    async def offer(self, dice: Random) -> bool:
        """A provider offers an API, or no longer; it has another schema, or another note."""
        platform, kind = self._offered(dice)
        found = one(platform.plane, CUSTOMRESOURCEDEFINITIONS, kind.group_resource)
        if found is None:
            await platform.admin.create(
                CUSTOMRESOURCEDEFINITIONS, exported_crd(GROUP, kind.plural)
            )
            return True
        label = found.meta.labels.get(LABEL_EXPORTED)
        self._numbers += 1
        metadata: JSON = {"annotations": {"kube-bind.io/note": str(self._numbers)}}
        if dice.random() < 0.6 or label is None:
            metadata["labels"] = {LABEL_EXPORTED: None if label else "true"}
        spec: JSON = {}
        if dice.random() < 0.5:
            spec = {"spec": {"names": {"shortNames": [f"s{self._numbers}"]}}}
        patch = {"metadata": metadata, **spec}
        await platform.admin.merge_patch(CUSTOMRESOURCEDEFINITIONS, kind.group_resource, "", patch)
        return True

    async def withdraw(self, dice: Random) -> bool:
        """A provider deletes a CRD with all that is of it, and perhaps has it again."""
        platform, kind = self._offered(dice)
        if one(platform.plane, CUSTOMRESOURCEDEFINITIONS, kind.group_resource) is None:
            return False
        await platform.admin.delete(CUSTOMRESOURCEDEFINITIONS, kind.group_resource)
        await asyncio.sleep(dice.choice((0.2, 5.0, 40.0)))
        if dice.random() < 0.8 and platform.plane.up:
            await platform.install(kind)
        return True

    # --- others

    async def rival(self, dice: Random) -> bool:
        """Another program's konnector is at work at a provider, for a while."""
        platform = dice.choice(list(self.platforms.values()))
        name, uid = lease_name(self.consumer_uid), self.consumer_uid
        self.say(f"another konnector works at {platform.name}")
        for _ in range(dice.choice((1, 3, 6))):
            time = format_micro_time(moment())
            spec = {"holderIdentity": uid, "leaseDurationSeconds": LEASE_SECONDS}
            body: JSON = {
                "metadata": {"annotations": {CONSUMER_CLUSTER_UID: uid}},
                "spec": {**spec, "renewTime": time},
            }
            try:
                await platform.admin.merge_patch(LEASES, name, LEASE_NAMESPACE, body)
            except NotFound:
                return False
            except ClientError:
                self.say("the other konnector cannot renew the Lease")
            await asyncio.sleep(30.0)
        return True

    async def rebuild(self, dice: Random) -> bool:
        """South is built anew at the same address, and its new kubeconfig is in the Secret."""
        plane = self.south.plane
        if not plane.up:
            return False
        self.say("south is built anew")
        await plane.kill()
        await asyncio.sleep(dice.uniform(0.1, 5.0))
        if plane.up:
            return False
        await plane.rebuild()
        await self.south.offer()
        await self._write("south", self.south.kubeconfig)
        return True


def _token(kubeconfig: bytes) -> bytes:
    return kubeconfig.split(b"token: ")[1].split(b"\n")[0].strip().strip(b'"')


def _own_crd(kind: Resource) -> JSON:
    """A CRD that a user has made for themselves."""
    return exported_crd(GROUP, kind.plural, exported=False)
