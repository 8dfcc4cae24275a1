"""kbind v2: one consumer, two providers, both protocols in one konnector of two replicas."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from typing import Any, ClassVar

from tests.sim.appetite import Appetite
from tests.sim.kbindv2admins import Owners
from tests.sim.kbindv2model import content_of, is_made, is_marked, wishes
from tests.sim.kbindv2world import (
    FORMER,
    KINDS,
    OFFERS,
    PASSWORD,
    PATIENCE,
    SHOPS,
    is_konnector,
    is_people,
)
from tests.sim.network import Connection
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held, one, watch_commits
from tests.support.load import thing
from tests.support.provider import WIDGETS
from tests.support.waiting import condition

from fairlead.api.conditions import stored_conditions
from fairlead.api.kbind import CONNECTIONS
from fairlead.api.kbind.names import (
    ANNOTATION_CONFLICT,
    ANNOTATION_CONNECTION,
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_DELETION_POLICY,
    ANNOTATION_RELATED_BINDING,
    ANOTHER_KONNECTOR,
    CONSUMER_CLUSTER_UID,
    FINALIZER_CLEANUP,
    FINALIZER_SYNCER,
    KBIND_KINDS,
    LEASE_NAMESPACE,
)
from fairlead.api.kubebind.conditions import OBJECTS_REWRITTEN
from fairlead.api.kubebind.names import CLUSTERBINDINGS as FORMER_CLUSTERBINDINGS
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SERVICEACCOUNTS,
)
from fairlead.client import NotFound
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.v2.related.rules import Place, stored_places


CALM_SECONDS = 20.0
"""Simulated seconds after which everything that was made at the beginning is at rest."""
SOON_SECONDS = 5.0
"""Simulated seconds within which a change crosses while another provider is silent."""
LATE_SECONDS = 300.0
"""Simulated seconds for which what was so may still be acted on: watches are held back."""
RACE_SECONDS = 2.0
"""Simulated seconds between a look and the write that follows it, at the most."""
_PROTECTED = re.compile(
    rf"kube-(system|public|node-lease)|{LEASE_NAMESPACE}|{KONNECTOR_NAMESPACE}"
)
_REQUEST = re.compile(rb"GET (\S+) HTTP/1.1\r\n")
_OWN = {kind.group_resource for kind in KBIND_KINDS}
_REST = {LEASES.group_resource, FORMER_CLUSTERBINDINGS.group_resource}
"""What is written at rest: Leases, and the heartbeat of v1alpha2."""
_COPIED = {SECRETS.group_resource, CONFIGMAPS.group_resource}


class KbindV2(Owners):
    """The scenario; teams on both sides change everything that is theirs."""

    name = "kbindv2"
    alike: ClassVar[float] = 130.0
    operations: ClassVar[dict[str, float]] = {
        "create": 6.0,
        "change": 5.0,
        "annotate": 1.0,
        "orphan": 0.7,
        "delete": 3.0,
        "replace": 2.0,
        "former": 3.0,
        "settings": 2.0,
        "key": 2.0,
        "report": 4.0,
        "add": 1.5,
        "meddle": 1.0,
        "lose_mark": 0.5,
        "delete_copy": 1.0,
        "native": 1.5,
        "usurp": 0.5,
        "delete_native": 1.0,
        "bind": 3.0,
        "rebind": 3.0,
        "unbind": 1.5,
        "connect": 1.5,
        "disconnect": 0.5,
        "disconnect_secret": 0.3,
        "rotate": 1.0,
        "refuse": 0.5,
        "spoil": 0.5,
        "swap": 0.5,
        "pull": 0.7,
        "autobind": 0.7,
        "drop_crd": 0.7,
        "unmark_crd": 0.2,
        "offer": 1.5,
        "withdraw": 0.4,
    }
    faults: ClassVar[dict[str, float]] = {
        **{name: weight for name, weight in Owners.faults.items() if name != "restore"},
        "rival": 2.0,
        "rebuild": 0.7,
    }
    least: ClassVar[dict[str, float]] = {
        "create": 0.2,
        "change": 0.3,
        "delete": 0.25,
        "replace": 0.2,
        "former": 0.5,
        "settings": 0.4,
        "key": 0.3,
        "report": 0.25,
        "add": 0.1,
        "delete_copy": 0.25,
        "native": 0.25,
        "delete_native": 0.1,
        "bind": 0.2,
        "rebind": 0.2,
        "unbind": 0.25,
        "rotate": 0.4,
        "pull": 0.2,
        "autobind": 0.2,
        "drop_crd": 0.2,
        "offer": 0.4,
        "rival": 0.25,
        "rebuild": 0.25,
    }
    resources = ("gears", "bolts", "pumps", "secrets", "configmaps", "connections", "bindings")

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._adopted: dict[tuple[str, str], float] = {}
        """When a binding with Adopt has covered a kind and namespace at last."""
        self._bare: dict[tuple[str, str], float] = {}
        """When nothing has covered a kind and namespace at last, or another Connection has."""
        self._new: dict[str, float] = {}
        """When an object was made that is a provider's own, by uid."""
        self._unmarked: dict[str, float] = {}
        """When a copy has lost our marks, by its uid."""
        self._owners: dict[tuple[str, str], str] = {}
        self._usable: dict[str, float] = {}
        """When a Connection was ready at last."""
        self._held_since: dict[str, float] = {}
        """Since when a Connection says that another konnector is at work."""
        self._appetite = Appetite(simulation, self.replicas)
        self._differences: list[str] | None = None
        """Those since the last commit, None before they have been looked at."""
        self._must_go: list[str] = []
        self._asked: Counter[tuple[Any, ...]] = Counter()
        """Who has asked which server for which path since the last write."""
        watch_commits(
            simulation,
            self._count,
            self._notes_coverage,
            self._notes_connections,
            self._notes_copies,
            self._writes_at_home,
            self._writes_at_providers,
            self._goes_after_its_copy,
            self._notes_related,
            self._crosses_no_keys,
            self._has_one_owner,
            self._tells_no_password,
        )
        simulation.on_log.append(self._logs_no_password)
        simulation.network.on_send.append(self._notes_lists)

    @property
    def _now(self) -> float:
        return self.simulation.loop.time()

    async def begin(self) -> None:
        """Have everything at work, and note what it takes."""
        await super().begin()
        await asyncio.sleep(CALM_SECONDS)
        self._appetite.rest()
        self._bare.clear()
        if wrong := self.model.differences():
            raise AssertionError(f"the world begins wrong: {wrong[:3]}")

    # --- what is written and asked at rest

    def _count(self, commit: Commit) -> None:
        self._differences = None
        if commit.collection in _REST or _calmed(commit):
            return
        self._asked.clear()
        self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")

    def _notes_lists(self, connection: Connection, end: Any, piece: bytes) -> None:
        request = _REQUEST.match(piece)
        process = end.process
        if request is None or process is None or not process.name.startswith("konnector"):
            return
        path = request[1].decode()
        if "watch=true" in path or "limit=" not in path:
            return
        if self._is_unserved(connection, path) or self._is_refused(connection):
            return
        request_key = (process, connection.server.process, path)
        self._asked[request_key] += 1
        # Each cache is filled once, and compared with its server once an hour.
        if self._asked[request_key] > 2:
            self.written.append(f"{process.name} asked for {path}")

    def _is_unserved(self, connection: Connection, path: str) -> bool:
        """Whether a list is of a kind that its server has no more: it is asked for again."""
        plane = next(
            (known for known in self.planes if known.process is connection.server.process), None
        )
        return any(
            f"/{kind.group}/" in path
            and f"/{kind.plural}?" in path
            and plane is not None
            and one(plane, CUSTOMRESOURCEDEFINITIONS, api) is None
            for api, kind in KINDS.items()
        )

    def _is_refused(self, connection: Connection) -> bool:
        """Whether a provider refuses the token of a Connection: all is asked for again."""
        return any(
            (platform := self.model.platform(name)) is not None
            and platform.plane.process is connection.server.process
            and not self.model.is_valid(name)
            for name in OFFERS
        )

    async def heal(self) -> None:
        """Forget what was asked again because of a fault."""
        await super().heal()
        self._asked.clear()

    # --- what was so a moment ago

    def _notes_coverage(self, commit: Commit) -> None:
        """Note which kinds are adopted where, and which are covered by nothing."""
        watched = {*_OWN, CUSTOMRESOURCEDEFINITIONS.group_resource}
        if commit.plane is not self.consumer or commit.collection not in watched:
            return
        every = wishes(self.consumer)
        for api in KINDS:
            for shop in SHOPS:
                wish = self.model.decides(api, shop, every)
                owner = wish.connection if wish else ""
                place = (api, shop)
                if self._owners.get(place, "") != owner or not owner:
                    self._bare[place] = self._now
                self._owners[place] = owner
                if any(wish.adopts and api in wish.apis and wish.covers(shop) for wish in every):
                    self._adopted[place] = float("inf")
                elif self._adopted.get(place) == float("inf"):
                    self._adopted[place] = self._now

    def _notes_copies(self, commit: Commit) -> None:
        """Note what people make and unmark at a provider."""
        old, new = commit.old, commit.new
        if not is_people(commit) or commit.collection not in KINDS:
            return
        if old is None:
            self._new[new.meta.uid] = self._now
        elif is_marked(old) and not is_marked(new):
            self._unmarked[new.meta.uid] = self._now

    def _lately(self, times: dict[tuple[str, str], float], api: str, shop: str) -> bool:
        return times.get((api, shop), -LATE_SECONDS) >= self._now - LATE_SECONDS

    def _notes_connections(self, commit: Commit) -> None:
        if commit.plane is not self.consumer:
            return
        if commit.collection != CONNECTIONS.group_resource:
            return
        name = commit.key.name
        for found in (commit.old, commit.new):
            if found and condition(found.to_dict(), "Ready").get("status") == "True":
                self._usable[name] = self._now
        held_back = condition(commit.new.to_dict(), ANOTHER_KONNECTOR).get("status") == "True"
        if held_back:
            self._held_since.setdefault(name, self._now)
        else:
            self._held_since.pop(name, None)

    def _is_away(self, name: str) -> bool:
        """Whether a Connection has been of no use for as long as the konnector waits."""
        found = one(self.consumer, CONNECTIONS, name)
        if found is None:
            # Nothing else knows the way to it.
            return True
        if condition(found.to_dict(), "Ready").get("status") == "True":
            return False
        return self._usable.get(name, 0.0) < self._now - 0.8 * PATIENCE

    # --- what the konnector may write

    def _writes_at_home(self, commit: Commit) -> str | None:
        """In its own cluster it takes nothing away that it has not made."""
        if commit.plane is not self.consumer or not is_konnector(commit):
            return None
        collection, old, new = commit.collection, commit.old, commit.new
        title = f"{collection} {commit.key}"
        goes = new.meta.deleting and not (old and old.meta.deleting)
        if collection == CUSTOMRESOURCEDEFINITIONS.group_resource:
            return self._changes_crd(commit, goes=goes)
        if collection in _COPIED:
            if commit.key.namespace == KONNECTOR_NAMESPACE:
                same = old is None or content_of(old) == content_of(new)
                return None if same else f"{commit.by} has changed {title}"
            ours = old is None or ANNOTATION_RELATED_BINDING in old.meta.annotations
            if not ours or _PROTECTED.fullmatch(commit.key.namespace):
                return f"{commit.by} has written {title}, which is none of its copies"
        if collection in KINDS:
            crd = one(self.consumer, CUSTOMRESOURCEDEFINITIONS, collection)
            if crd is None or crd.meta.deleting:
                # The server takes the objects of a CRD away with it.
                return None
            if old is None or goes:
                return f"{commit.by} has made or deleted {title}, which is its team's"
            if old.meta.uid == new.meta.uid and _wanted(old) != _wanted(new):
                return f"{commit.by} has changed what the team wrote of {title}"
        if collection == NAMESPACES.group_resource and commit.change.type != "ADDED":
            return f"{commit.by} has changed namespace {commit.key}"
        return None

    def _changes_crd(self, commit: Commit, *, goes: bool) -> str | None:
        old, new, title = commit.old, commit.new, f"CustomResourceDefinition {commit.key}"
        if commit.key.name not in KINDS:
            return None
        if old is None:
            return None if is_made(new) else f"{commit.by} has made {title} without its marks"
        if is_made(old):
            return None
        if goes or old.to_dict()["spec"] != new.to_dict()["spec"]:
            return f"{commit.by} has changed or deleted {title}, which no konnector has made"
        return None

    def _writes_at_providers(self, commit: Commit) -> str | None:
        """At a provider it writes copies, namespaces and its Lease, and nothing else."""
        platform = self.platforms.get(commit.plane.name)
        if platform is None or not is_konnector(commit):
            return None
        collection, (namespace, name) = commit.collection, commit.key
        if (collection, name) == (SERVICEACCOUNTS.group_resource, "default"):
            # The server makes it in each namespace.
            return None
        title = f"{collection} {commit.key} of {platform.name}"
        old = commit.old
        if collection in KINDS:
            return self._writes_copy(commit, platform.name, title)
        if _PROTECTED.fullmatch(namespace):
            leases = (LEASES.group_resource, LEASE_NAMESPACE)
            if (collection, namespace) != leases and platform is self.south:
                return f"{commit.by} has written {title}, where nothing crosses"
            if collection in _COPIED:
                return f"{commit.by} has written {title}, where nothing crosses"
        if namespace.startswith(f"{self.former_namespace}"):
            return None
        taken = old is not None and ANNOTATION_RELATED_BINDING not in old.meta.annotations
        if collection in _COPIED and taken:
            return f"{commit.by} has written {title}, which is none of its copies"
        if collection == NAMESPACES.group_resource and commit.change.type != "ADDED":
            return f"{commit.by} has changed {title}"
        known = {*_COPIED, NAMESPACES.group_resource, LEASES.group_resource}
        if platform is self.south and collection not in known:
            return f"{commit.by} has written {title}, and nothing is installed there"
        return None

    def _writes_copy(self, commit: Commit, name: str, title: str) -> str | None:
        old, new, (shop, _) = commit.old, commit.new, commit.key
        since = self._held_since.get(name)
        if since is not None and since < self._now - 10.0:
            return f"{commit.by} writes {title} while another konnector is at work there"
        pinned = one(self.consumer, CONNECTIONS, name)
        uid = pinned.to_dict().get("status", {}).get("remoteClusterUID", "") if pinned else ""
        if uid not in {"", self.platforms[name].uid}:
            return f"{commit.by} writes {title}, and that cluster is another one"
        goes = commit.change.type == "DELETED" or (
            new.meta.deleting and not (old and old.meta.deleting)
        )
        if goes and old is not None:
            return self._deletes_copy(commit, old, title)
        adopted = self._lately(self._adopted, commit.collection, shop)
        if old is not None and not is_marked(old) and not adopted:
            if self._now - self._new.get(old.meta.uid, 0.0) < RACE_SECONDS:
                # An apply is no create: who makes an object in that moment is merged into.
                return None
            if self._now - self._unmarked.get(old.meta.uid, -LATE_SECONDS) < LATE_SECONDS:
                # A watch that is held back shows our marks still.
                return None
            return f"{commit.by} has taken {title}, which is the provider's"
        if old is not None and old.meta.annotations.get(CONSUMER_CLUSTER_UID) not in {
            None,
            self.consumer_uid,
        }:
            return f"{commit.by} has changed {title}, which is of another cluster"
        return self._follows_its_finalizer(commit, new, title) if old is None else None

    def _follows_its_finalizer(self, commit: Commit, copy: Object, title: str) -> str | None:
        uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID)
        for obj in held(self.consumer, KINDS[commit.collection]):
            if obj.meta.uid == uid and FINALIZER_SYNCER not in obj.meta.finalizers:
                return f"{commit.by} has made {title} before it holds its original"
        return None

    def _deletes_copy(self, commit: Commit, copy: Object, title: str) -> str | None:
        lost = self._now - self._unmarked.get(copy.meta.uid, -LATE_SECONDS)
        if copy.meta.annotations.get(CONSUMER_CLUSTER_UID) is None and lost < LATE_SECONDS:
            # A watch that is held back shows its marks still.
            return None
        if copy.meta.annotations.get(CONSUMER_CLUSTER_UID) != self.consumer_uid:
            return f"{commit.by} has deleted {title}, which is not ours"
        uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID)
        if self._lately(self._bare, commit.collection, commit.key.namespace):
            return None
        for obj in held(self.consumer, KINDS[commit.collection]):
            if obj.meta.uid == uid:
                stays = not obj.meta.deleting or _is_orphan(obj)
                return f"{commit.by} has deleted {title}, which stays" * stays or None
        return None

    def _goes_after_its_copy(self, commit: Commit) -> str | None:
        """An object is let go when its copy is gone."""
        old = commit.old
        if commit.plane is not self.consumer or commit.collection not in KINDS or old is None:
            return None
        gone = commit.change.type == "DELETED"
        if FINALIZER_SYNCER not in old.meta.finalizers:
            return None
        if not gone and FINALIZER_SYNCER in commit.new.meta.finalizers:
            return None
        for platform, copy in self.model.copies_of(old.meta.uid):
            if _is_orphan(old) or self._is_away(platform.name):
                self.model.left.add(old.meta.uid)
                continue
            return (
                f"{commit.by} has let {commit.collection} {commit.key} go while its copy "
                f"{copy.key} is at {platform.name}"
            )
        return None

    def _notes_related(self, commit: Commit) -> str | None:
        """A binding forgets a provider when its related copies there are gone."""
        if commit.plane is not self.consumer or commit.collection not in _OWN:
            return None
        if commit.old is None or not is_konnector(commit):
            return None
        now = frozenset[Place]()
        if commit.change.type != "DELETED":
            now = stored_places(commit.new)
        uid = commit.old.meta.uid
        for place in stored_places(commit.old) - now:
            if place.connection and self._is_away(place.connection):
                # Its Secret may have led to any of the clusters.
                self.model.stale.add(uid)
                continue
            platform = self.platforms.get(place.connection)
            kind = SECRETS if place.resource == "secrets" else CONFIGMAPS
            for copy in held(platform.plane, kind) if platform is not None else ():
                if copy.meta.annotations.get(ANNOTATION_RELATED_BINDING) == uid:
                    return (
                        f"{commit.by} has forgotten {place} of {commit.key} while {copy.key} is "
                        "there"
                    )
        return None

    # --- what crosses

    def _crosses_no_keys(self, commit: Commit) -> str | None:
        """The keys of one protocol do not cross by the other."""
        if not is_konnector(commit):
            return None
        new, old = commit.new, commit.old
        at_home, api = commit.plane is self.consumer, commit.collection
        if at_home and api != CUSTOMRESOURCEDEFINITIONS.group_resource:
            return None
        name = commit.key.name if at_home else api
        if name not in {*KINDS, FORMER} or commit.change.type == "DELETED":
            return None
        prefix = "core.kbind.io/" if name == FORMER else "kube-bind.io/"
        before = {*old.meta.labels, *old.meta.annotations} if old else set()
        for key in {*new.meta.labels, *new.meta.annotations} - before:
            if key.startswith(prefix):
                return f"{commit.by} has brought {key} to {api} {commit.key}"
        return None

    def _has_one_owner(self, commit: Commit) -> str | None:
        """A CRD has one owner over both protocols, and copies keep it."""
        if commit.collection != CUSTOMRESOURCEDEFINITIONS.group_resource:
            return None
        if commit.plane is not self.consumer or not is_konnector(commit) or commit.old is None:
            return None
        if commit.key.name == FORMER and ANNOTATION_CONNECTION in commit.new.meta.annotations:
            return f"{commit.by} has taken CRD {FORMER} of v1alpha2 for v2"
        before, now = (
            crd.meta.annotations.get(ANNOTATION_CONNECTION, "") for crd in (commit.old, commit.new)
        )
        if before in {"", now} or commit.change.type == "DELETED":
            return None
        for obj in held(self.consumer, KINDS[commit.key.name]):
            for platform, copy in self.model.copies_of(obj.meta.uid):
                ours = FINALIZER_SYNCER in obj.meta.finalizers
                if platform.name == before and ours and not self._is_away(before):
                    return (
                        f"{commit.by} has given {commit.key} to {now} while copy {copy.key} is "
                        f"at {before}"
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
        """Why it is not as it shall be."""
        if self._differences is None:
            self._differences = [*self.model.differences(), *self._unlike_former()]
        return self._differences

    def _unlike_former(self) -> list[str]:
        """The difference between the objects of v1alpha2 and their copies."""
        here = {
            Key(self.former_places.get(found.meta.namespace, ""), found.meta.name): found
            for found in held(self.consumer, WIDGETS)
        }
        there = {found.key: found for found in held(self.north.plane, WIDGETS)}
        specs = [
            {key: found.to_dict()["spec"] for key, found in known.items()}
            for known in (here, there)
        ]
        return [] if specs[0] == specs[1] else [f"v1alpha2: {specs[0]} went up as {specs[1]}"]

    async def clean_up(self) -> None:
        """See that a silent provider delays nothing, then delete everything, in any order."""
        await self._hears_one_while_the_other_is_silent()
        for name in OFFERS:
            await self._repair(name)
        self._must_go = self._ending()
        dice = self.simulation.dice("end")
        every = [
            *((wish.kind, wish.key) for wish in wishes(self.consumer)),
            *((CONNECTIONS, found.key) for found in held(self.consumer, CONNECTIONS)),
            *((SECRETS, Key(KONNECTOR_NAMESPACE, name)) for name in OFFERS),
        ]
        every += [(kind, found.key) for kind, found in self.objects(self.consumer)]
        every += [(WIDGETS, found.key) for found in held(self.consumer, WIDGETS)]
        dice.shuffle(every)
        for kind, key in every:
            if one(self.consumer, kind, key.name, key.namespace):
                with contextlib.suppress(NotFound):
                    await self.team.delete(kind, key.name, key.namespace)
        await self._await_the_patience()
        # What a Binding has brought stays, and so do the CRDs that are the users' own.
        for kind in KINDS.values():
            api = kind.group_resource
            if api not in self._must_go and one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api):
                # A konnector may take it away at the same moment.
                with contextlib.suppress(NotFound):
                    await self.team.delete(CUSTOMRESOURCEDEFINITIONS, api)
        for plane in self.planes:
            for resource in (SECRETS, CONFIGMAPS):
                for shop in SHOPS:
                    for found in held(plane, resource, shop):
                        if ANNOTATION_RELATED_BINDING not in found.meta.annotations:
                            await self.admin_of(plane).delete(resource, found.meta.name, shop)
        self._numbers += 1

    def _ending(self) -> list[str]:
        """The CRDs that go with their last ClusterBinding."""
        every = wishes(self.consumer)
        return [
            api
            for api in KINDS
            if (crd := one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api))
            and is_made(crd)
            and one(self.consumer, CONNECTIONS, crd.meta.annotations[ANNOTATION_CONNECTION])
            and self.model.policy(crd.meta.annotations[ANNOTATION_CONNECTION]) != "All"
            and any(
                api in wish.apis
                and not wish.key.namespace
                and not wish.deleting
                and wish.connection == crd.meta.annotations[ANNOTATION_CONNECTION]
                for wish in every
            )
        ]

    async def _repair(self, name: str) -> None:
        """Have the Secret right, as one would before the end."""
        if one(self.consumer, CONNECTIONS, name):
            await self._write(name, self.platforms[name].kubeconfig)

    async def _await_the_patience(self) -> None:
        """Wait as long as the konnector does for a provider that is another one now."""
        end = self._now + PATIENCE + 60.0
        while self._now < end:
            if not any(self._keeps_waiting(name) for name in OFFERS):
                return
            await asyncio.sleep(1.0)

    def _keeps_waiting(self, name: str) -> bool:
        """Whether copies at a provider cannot be taken away, so that the patience has to end."""
        if one(self.consumer, CONNECTIONS, name) is None:
            return any(
                FINALIZER_SYNCER in obj.meta.finalizers for _, obj in self.objects(self.consumer)
            )
        return any(self.model.is_stuck(kind.group_resource, name) for kind in OFFERS[name])

    async def _hears_one_while_the_other_is_silent(self) -> None:
        """While south is silent, north hears of a change by v1alpha2 at once."""
        network = self.simulation.network
        links = [
            network.weather.link(*way)
            for replica in self.konnectors
            for way in ((replica.name, "south"), ("south", replica.name))
        ]
        for link in links:
            link.silent = True
        shop = SHOPS[0]
        try:
            await asyncio.sleep(1.0)
            with_copy = {"note": "heard"}
            if one(self.consumer, WIDGETS, "w0", shop) is None:
                await self.team.create(WIDGETS, thing("w0", shop, **with_copy))
            else:
                await self.team.merge_patch(WIDGETS, "w0", shop, {"spec": with_copy})
            end = self._now + SOON_SECONDS
            while self._now < end:
                copy = one(self.north.plane, WIDGETS, "w0", self.former_places[shop])
                if copy and copy.to_dict()["spec"].get("note") == "heard":
                    return
                await asyncio.sleep(0.1)
            self.simulation.violated("a silent provider of v2 delays a binding of v1alpha2")
        finally:
            for link in links:
                link.silent = False
            network.changed()

    def leftovers(self) -> list[str]:
        """What is still there."""
        found = [
            f"{kind.kind} {left.key} is left, with {left.meta.finalizers}"
            for kind in KBIND_KINDS
            for left in held(self.consumer, kind)
        ]
        found += [
            f"Secret {left.key} has our finalizer still"
            for left in held(self.consumer, SECRETS)
            if FINALIZER_CLEANUP in left.meta.finalizers
        ]
        found += [
            f"{kind.kind} {left.key} is left, with {left.meta.finalizers}"
            for kind, left in self.objects(self.consumer)
        ]
        found += [
            f"CustomResourceDefinition {api} is left"
            for api in KINDS
            if one(self.consumer, CUSTOMRESOURCEDEFINITIONS, api)
        ]
        found += [
            f"{kind.kind} {left.key} is left in {plane.name}"
            for plane in self.planes
            for kind in (SECRETS, CONFIGMAPS)
            for left in held(plane, kind)
            if left.meta.annotations.get(ANNOTATION_RELATED_BINDING, "")
            not in {"", *self.model.stale}
        ]
        found += [
            f"copy {kind.kind} {copy.key} is left at {platform.name}"
            for platform in self.platforms.values()
            for kind, copy in self.objects(platform.plane)
            if copy.meta.annotations.get(CONSUMER_CLUSTER_UID)
            and copy.meta.annotations.get(ANNOTATION_CONSUMER_OBJECT_UID) not in self.model.left
        ]
        found += [f"widget {left.key} is left" for left in held(self.consumer, WIDGETS)]
        return found + [f"copy {left.key} is left" for left in held(self.north.plane, WIDGETS)]

    def check_end(self) -> list[str]:
        """Whether nobody holds more than at the beginning."""
        return self._appetite.grown()


def _is_orphan(obj: Object) -> bool:
    return obj.meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan"


def _wanted(obj: Object) -> JSON:
    """What of an object only its team may change."""
    notes = {
        key: value for key, value in obj.meta.annotations.items() if key != ANNOTATION_CONFLICT
    }
    return {"spec": obj.to_dict().get("spec"), "labels": obj.meta.labels, "annotations": notes}


def _calmed(commit: Commit) -> bool:
    """Whether a binding tells no more of writes that were undone: that lapses with time alone."""
    if commit.collection not in _OWN or commit.old is None:
        return False
    before, now = (
        {one.type: one for one in stored_conditions(found.to_dict())}
        for found in (commit.old, commit.new)
    )
    return before.pop(OBJECTS_REWRITTEN, None) is not None and before == now
