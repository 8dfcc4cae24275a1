"""kube-bind: two consumers, one provider, two replicas of each program, and claimed objects."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from tests.sim.appetite import Appetite
from tests.sim.kubebindadmins import Administered
from tests.sim.kubebindworld import (
    KIOSK,
    NAMES,
    PASSWORD,
    REST,
    SHOPS,
    Consumer,
    Place,
    deleted,
    is_driver,
    orphaned,
    wanted,
)
from tests.sim.planes import Plane
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held, one, watch_commits
from tests.support.load import differences
from tests.support.provider import WIDGETS
from tests.support.waiting import condition

from fairlead.api.conditions import stored_conditions
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    CLUSTERBINDINGS,
)
from fairlead.api.kubebind.conditions import OBJECTS_REWRITTEN
from fairlead.api.kubebind.names import (
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_DELETION_POLICY,
    FINALIZER_SYNCER,
)
from fairlead.api.meta import Key, Object
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    LEASES,
    NAMESPACES,
    SECRETS,
)
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE


CALM_SECONDS = 20.0
"""Simulated seconds after which everything that was made at the beginning is at rest."""

_ITS_OWN = frozenset(
    {
        "events",
        LEASES.group_resource,
        CUSTOMRESOURCEDEFINITIONS.group_resource,
        APISERVICEBINDINGS.group_resource,
    }
)
"""What a konnector writes in its own cluster for itself."""


class KubeBind(Administered):
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
        "usurp": 0.5,
        "kiosk": 1.5,
        "rotate": 0.5,
        "spoil_credentials": 0.5,
        "unexport": 0.3,
        "delete_native": 1.0,
    }
    least: ClassVar[dict[str, float]] = {
        "create": 0.5,
        "change": 0.5,
        "label": 0.2,
        "annotate": 0.3,
        "orphan": 0.2,
        "delete": 0.5,
        "replace": 0.4,
        "configmap": 0.6,
        "delete_configmap": 0.1,
        "report": 0.5,
        "add": 0.5,
        "meddle": 0.5,
        "lose_mark": 0.4,
        "delete_copy": 0.5,
        "certify": 0.5,
        "uncertify": 0.2,
        "native": 0.4,
        "delete_native": 0.1,
        "usurp": 0.3,
        "kiosk": 0.3,
        "rotate": 0.3,
        "spoil_credentials": 0.2,
        "unexport": 0.2,
        "torn": 0.2,
        "behind": 0.3,
        "gap": 0.5,
        "old_view": 0.4,
        "repeat": 0.2,
        "restore": 0.4,
        "starve": 0.2,
        "lost_answers": 0.15,
    }
    resources = ("widgets", "secrets", "configmaps", "apiservicenamespaces", "apiserviceexports")

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._staying: set[str] = set()
        """The uids of widgets that are being deleted and leave their copies behind."""
        self._bare: set[str] = set()
        """The uids of widgets that backups have from before they had our finalizer."""
        self._appetite = Appetite(simulation, self.replicas)
        watch_commits(
            simulation,
            self._count,
            self._goes_empty,
            self._keeps_foreign,
            self._stays_in_its_namespaces,
            self._touches_what_is_bound,
            self._goes_after_its_copy,
            self._comes_after_its_finalizer,
            self._notes_what_stays,
            self._goes_with_its_original,
            self._keeps_what_teams_wrote,
            self._tells_no_password,
        )
        simulation.on_log.append(self._logs_no_password)

    def saved(self, plane: Plane) -> object:
        """Know which widgets a backup would bring back without what keeps them."""
        for widget in held(plane, WIDGETS):
            if FINALIZER_SYNCER not in widget.meta.finalizers:
                self._bare.add(widget.meta.uid)
        return super().saved(plane)

    async def begin(self) -> None:
        """Have everything at work, and note what it takes."""
        await super().begin()
        await asyncio.sleep(CALM_SECONDS)
        self._appetite.rest()

    # --- what holds at every commit

    def _count(self, commit: Commit) -> None:
        going = (
            commit.collection == APISERVICENAMESPACES.group_resource and commit.new.meta.deleting
        )
        # Why one that goes is not gone is told again when another look has shown something else.
        # That a konnector is heard again is told with its next heartbeat.
        heard = commit.collection == "events" and commit.key.name.startswith("cluster.")
        if commit.collection in REST or going or heard or _calmed(commit):
            return
        self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")

    def _keeps_foreign(self, commit: Commit) -> str | None:
        place = Place(commit.plane.name, commit.collection, commit.key)
        known, raw = self.foreign.get(place), commit.change.record.raw
        if is_driver(commit):
            # What people make where copies could be is none of ours from now on.
            made = commit.plane is self.provider and commit.collection == WIDGETS.group_resource
            if commit.change.type == "DELETED":
                self.foreign.pop(place, None)
            elif known is not None or (made and commit.change.type == "ADDED"):
                self.foreign[place] = raw
            return None
        if known is None or known == raw:
            return None
        return (
            f"{commit.by} has changed {commit.collection} {commit.key} in {commit.plane.name}, "
            "which is none of ours"
        )

    def _goes_empty(self, commit: Commit) -> str | None:
        """A namespace goes after the copies in it; what else is there goes with it.

        One that a consumer uses stays, with what the provider has in it.
        """
        if commit.plane is not self.provider or commit.collection != NAMESPACES.group_resource:
            return None
        if not commit.new.meta.deleting or (commit.old and commit.old.meta.deleting):
            return None
        name = commit.new.meta.name
        for consumer in self.consumers:
            bound = held(self.provider, APISERVICEEXPORTS, consumer.namespace)
            used = name in {f"{consumer.namespace}-{shop}" for shop in SHOPS}
            if used and bound and not consumer.unbound:
                return f"{commit.by} deletes namespace {name}, which {consumer.name} uses"
        for place in [known for known in self.foreign if known.key.namespace == name]:
            if place.plane == self.provider.name:
                del self.foreign[place]
        for copy in held(self.provider, WIDGETS, name):
            if ANNOTATION_CONSUMER_UID in copy.meta.annotations:
                return f"{commit.by} deletes namespace {name} with copy {copy.meta.name} in it"
        return None

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

    def _touches_what_is_bound(self, commit: Commit) -> str | None:
        """In its own cluster a konnector writes what is bound or claimed, and its own objects."""
        writer, namespace, name = commit.writer, *commit.key
        if writer is None or commit.plane is self.provider or writer is commit.plane.process:
            return None
        if not writer.name.startswith("konnector") or commit.collection in _ITS_OWN:
            return None
        if commit.collection == NAMESPACES.group_resource and commit.new.meta.deleting:
            # The last that was in it is gone.
            return None
        claimed = name == "settings" or name.endswith("-origin")
        if commit.collection == WIDGETS.group_resource or namespace == KONNECTOR_NAMESPACE:
            return None
        if commit.collection in {"secrets", "configmaps"} and claimed:
            return None
        return f"{commit.by} has written {commit.collection} {commit.key}, which is not bound"

    def _goes_after_its_copy(self, commit: Commit) -> str | None:
        change = commit.change
        if change.type != "DELETED" or commit.collection != WIDGETS.group_resource:
            return None
        if commit.plane is self.provider:
            return None
        gone = commit.old
        if gone is None or any(
            known.unbound for known in self.consumers if known.plane is commit.plane
        ):
            return None
        if gone.meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan":
            return None
        if gone.meta.uid in self._bare and FINALIZER_SYNCER not in gone.meta.finalizers:
            # A team was faster than the konnector after its cluster was restored.
            return None
        for copy in held(self.provider, WIDGETS):
            if copy.meta.annotations.get(ANNOTATION_CONSUMER_UID) == gone.meta.uid:
                return (
                    f"{commit.by} has let {commit.plane.name}'s widget {commit.key} go while its "
                    f"copy {copy.key} is there"
                )
        return None

    def _comes_after_its_finalizer(self, commit: Commit) -> str | None:
        """Without the finalizer an object could go at any time, and its copy would stay."""
        if commit.plane is not self.provider or commit.collection != WIDGETS.group_resource:
            return None
        uid = commit.new.meta.annotations.get(ANNOTATION_CONSUMER_UID)
        if commit.change.type != "ADDED" or not uid:
            return None
        for consumer in self.consumers:
            for widget in held(consumer.plane, WIDGETS):
                if widget.meta.uid == uid and FINALIZER_SYNCER not in widget.meta.finalizers:
                    return f"{commit.by} has made copy {commit.key} before it holds its original"
        return None

    def _goes_with_its_original(self, commit: Commit) -> str | None:
        """A konnector deletes a copy only when its original goes and does not want it to stay."""
        writer, copy = commit.writer, commit.old
        if commit.plane is not self.provider or commit.collection != WIDGETS.group_resource:
            return None
        if copy is None or writer is None or not writer.name.startswith("konnector"):
            return None
        if commit.change.type != "DELETED" and commit.new.meta.deleting == copy.meta.deleting:
            return None
        uid = copy.meta.annotations.get(ANNOTATION_CONSUMER_UID)
        for consumer in self.consumers:
            for widget in held(consumer.plane, WIDGETS):
                if widget.meta.uid == uid:
                    stays = not widget.meta.deleting or widget.meta.uid in self._staying
                    return f"{commit.by} has deleted copy {copy.key}, which stays" * stays or None
        return None

    def _notes_what_stays(self, commit: Commit) -> None:
        """Remember whose copy shall stay since its deletion has begun."""
        if commit.plane is self.provider or commit.collection != WIDGETS.group_resource:
            return
        meta = commit.new.meta
        wanted = meta.annotations.get(ANNOTATION_DELETION_POLICY) == "Orphan"
        if wanted and meta.deleting and not (commit.old and commit.old.meta.deleting):
            self._staying.add(meta.uid)
        elif not wanted:
            self._staying.discard(meta.uid)

    def _keeps_what_teams_wrote(self, commit: Commit) -> str | None:
        if commit.plane is self.provider or commit.collection != WIDGETS.group_resource:
            return None
        old = commit.old
        if commit.writer is None or is_driver(commit) or old is None:
            return None
        new = commit.new
        if old.meta.uid == new.meta.uid and wanted(old) != wanted(new):
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
            there = consumer.everywhere
            natives = {
                place.key for place in self.foreign if place.collection == WIDGETS.group_resource
            }
            mine = [
                widget
                for widget in held(consumer.plane, WIDGETS)
                if Key(there.get(widget.meta.namespace, ""), widget.meta.name) not in natives
            ]
            theirs = [
                copy
                for copy in held(self.provider, WIDGETS)
                if consumer.owns(copy.meta.namespace) and copy.key not in natives
            ]
            found += [
                f"{consumer.name}: {text}"
                for text in differences(mine, theirs, there, consumer.namespace)
            ]
            found += self._unlike_claims(consumer)
            found += [
                f"{consumer.name}: binding {binding.meta.name} is not Ready"
                for binding in held(consumer.plane, APISERVICEBINDINGS)
                if condition(binding.to_dict(), "Ready").get("status") != "True"
            ]
            found += [
                f"{consumer.name}: the provider says that its konnector is not Ready"
                for cluster in held(self.provider, CLUSTERBINDINGS, consumer.namespace)
                if _unready(cluster)
            ]
        return found

    def _unlike_claims(self, consumer: Consumer) -> list[str]:
        found = []
        named = {
            (widget.meta.namespace, item["name"])
            # One that may not be synchronised names its Secrets all the same.
            for widget in held(consumer.plane, WIDGETS)
            for item in widget.to_dict()["spec"].get("certificates", ())
        }
        for shop, there in consumer.everywhere.items():
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
                await deleted(consumer.admin, WIDGETS, widget)
            if one(consumer.plane, NAMESPACES, KIOSK):
                await consumer.admin.delete(NAMESPACES, KIOSK)
            for shop in SHOPS:
                found = one(consumer.plane, CONFIGMAPS, "settings", shop)
                if found:
                    await deleted(consumer.admin, CONFIGMAPS, found)
            for namespace in consumer.there.values():
                for secret in held(self.provider, SECRETS, namespace):
                    if secret.meta.name.endswith("-origin"):
                        await deleted(self.admin, SECRETS, secret)

    def leftovers(self) -> list[str]:
        """Widgets, copies and claimed objects that are still there."""
        found = []
        for consumer in self.consumers:
            found += self._left_of_kiosk(consumer)
            found += [
                f"{consumer.name}: {going.kind} {going.meta.name} is going, and not gone"
                for going in held(self.provider, APISERVICENAMESPACES, consumer.namespace)
                if going.meta.deleting
                and not self._copies_in(consumer.everywhere.get(going.meta.name, "?"))
            ]
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
            if self._place(copy) not in self.foreign and not orphaned(copy)
        ]
        return found

    def _copies_in(self, namespace: str) -> list[Object]:
        """Copies that are left in a provider's namespace, and keep it."""
        found = held(self.provider, WIDGETS, namespace)
        return [copy for copy in found if self._place(copy) not in self.foreign]

    def _left_of_kiosk(self, consumer: Consumer) -> list[str]:
        """The namespace and what stands for it, unless a copy there was to stay."""
        there = consumer.everywhere.get(KIOSK, f"{consumer.namespace}-{KIOSK}")
        if self._copies_in(there):
            return []
        places = (
            (consumer.plane, NAMESPACES, KIOSK, ""),
            (self.provider, NAMESPACES, there, ""),
            (self.provider, APISERVICENAMESPACES, KIOSK, consumer.namespace),
        )
        return [
            f"{resource.kind} {name} is left in {plane.name}"
            for plane, resource, name, namespace in places
            if one(plane, resource, name, namespace)
        ]

    def check_end(self) -> list[str]:
        """Whether what is not ours is there, and nobody holds more than at the beginning."""
        planes = {plane.name: plane for plane in self.planes}
        # A namespace that a copy keeps, which was to stay, is watched on.
        kept = any(KIOSK in consumer.everywhere for consumer in self.consumers)
        return ([] if kept else self._appetite.grown()) + [
            f"{place.collection} {place.key} of {place.plane}, which is none of ours, is not as "
            "it was"
            for place, known in self.foreign.items()
            if (record := planes[place.plane].store.collection(place.collection).get(place.key))
            is None
            or record.raw != known
        ]


def _unready(cluster: Object) -> bool:
    """Whether a ClusterBinding is unready, but for a heartbeat of a clock that was wrong.

    That is good again with the next one.
    """
    ready = condition(cluster.to_dict(), "Ready")
    return ready.get("status") != "True" and ready.get("reason") != "HeartbeatTimeDrift"


def _calmed(commit: Commit) -> bool:
    """Whether a binding tells no more of writes that were undone: that lapses with time alone."""
    if commit.collection != APISERVICEBINDINGS.group_resource or commit.old is None:
        return False
    before, now = (
        {one.type: one for one in stored_conditions(found.to_dict())}
        for found in (commit.old, commit.new)
    )
    return before.pop(OBJECTS_REWRITTEN, None) is not None and before == now
