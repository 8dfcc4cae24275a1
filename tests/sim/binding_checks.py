"""What holds of Service Binding at every commit, and whose is what on a workload."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict, deque
from typing import Any

import msgspec
from tests.sim.appetite import MOST, WINDOW
from tests.sim.binding_model import (
    RECORD,
    REQUESTER,
    Item,
    Items,
    named_secrets,
    split,
)
from tests.sim.binding_world import (
    BINDINGS,
    GUARDED,
    KINDS,
    PASSWORD,
    QUIET,
    STRANGER,
)
from tests.sim.network import Connection
from tests.sim.planes import Plane
from tests.sim.programs import Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import Commit, held, one

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import EVENTS, LEASES, REPLICASETS, SECRETS


WORKLOADS = {resource.group_resource: resource for resource in KINDS}
REST = frozenset({LEASES.group_resource, EVENTS.group_resource})
"""What is written at rest too."""
FRESH_SECONDS = 30.0
"""Seconds for which a write may still be on its way that was decided before something went."""

_GENERATED = re.compile(r"[a-z0-9]+-[0-9a-f]{8}")
_REQUEST = re.compile(rb"(GET|PUT|PATCH|DELETE) (/api\S+?)(?:\?\S*)? HTTP/1.1\r\n")
_OBJECT = re.compile(rb"/namespaces/[^/]+/([^/]+)/[^/]+")


class Watched:
    """Looks at each commit; ``hand`` is what people have put where bindings put things.

    ``doubtful`` are places of workloads of which nobody can tell whose they are, since somebody
    has taken the record away or pointed them elsewhere. Both go by the workload's uid. What is
    written is noted in ``written``, but for what is written at rest, too.
    """

    def __init__(self, simulation: Simulation, plane: Plane, written: list[str]) -> None:
        self.written = written
        self.hand: dict[str, Items] = defaultdict(dict)
        self.doubtful: dict[str, set[Item]] = defaultdict(set)
        self.by: Counter[str] = Counter()
        """Commits of the controllers, by collection."""
        self._simulation = simulation
        self._plane = plane
        self._gone: dict[tuple[str, str], float] = {}
        """When Secrets went that were there once."""
        self._copied: dict[str, float] = {}
        """When ReplicaSets and Deployments were last written by somebody else, by uid."""
        self.checks = (
            self._count,
            self._notes_people,
            self._keeps_foreign,
            self._keeps_secrets_of_others,
            self._names_what_is_there,
            self._keeps_what_is_read,
            self._projects_for_somebody,
            self._tells_no_password,
        )

    @property
    def _now(self) -> float:
        return self._simulation.loop.time()

    def saved(self) -> tuple[dict[str, Items], dict[str, set[Item]]]:
        """Whose is what at present, for a backup of the server."""
        return (
            {uid: dict(items) for uid, items in self.hand.items()},
            {uid: set(items) for uid, items in self.doubtful.items()},
        )

    def restored(self, saved: tuple[dict[str, Items], dict[str, set[Item]]]) -> None:
        """Know again whose was what then: what people did since then never happened."""
        hand, doubtful = saved
        self.hand.clear()
        self.doubtful.clear()
        self.hand.update({uid: dict(items) for uid, items in hand.items()})
        self.doubtful.update({uid: set(items) for uid, items in doubtful.items()})

    def logs_no_password(self, text: str) -> None:
        """Look at a line of a log."""
        if PASSWORD in text:
            self._simulation.violated(f"a password stands in a log: {text}")

    def _count(self, commit: Commit) -> None:
        if commit.collection not in REST:
            self.written.append(f"{commit.by} wrote {commit.collection} {commit.key}")
        if commit.collection == SECRETS.group_resource and commit.change.type == "DELETED":
            self._gone[commit.key.namespace, commit.key.name] = self._now

    # --- whose is what

    def _notes_people(self, commit: Commit) -> None:
        """Note what people put where bindings put things, and what they take from there."""
        known = commit.collection in WORKLOADS or commit.collection == REPLICASETS.group_resource
        if not known or not is_driver(commit):
            return
        new = commit.new
        uid = new.meta.uid
        self._copied[uid] = self._now
        if commit.collection not in WORKLOADS or commit.change.type == "DELETED":
            return
        items, _ = split(new.to_dict())
        old = commit.old
        before = split(old.to_dict())[0] if old else {}
        recorded = {*_records(new), *(_records(old) if old else ())}
        lost = old is not None and {*_records(old)} - {*_records(new)}
        for item in {**before, **items}:
            if items.get(item) == before.get(item):
                continue
            if _is_filled_in(before.get(item), items.get(item)):
                if item in self.hand[uid]:
                    self.hand[uid][item] = items[item]
                continue
            self.hand[uid].pop(item, None)
            if item not in items:
                continue
            # Whoever points a binding's volume elsewhere has taken it over.
            elsewhere = any(name.startswith("own") for name in named_secrets([items[item]]))
            if recorded and not elsewhere:
                self.doubtful[uid].add(item)
            else:
                self.hand[uid][item] = items[item]
                self.doubtful[uid].discard(item)
        taken_over = old is not None and any(
            item in items and items[item] != value and not _is_filled_in(value, items[item])
            for item, value in before.items()
        )
        if lost or taken_over:
            self.doubtful[uid] |= {item for item in items if item not in self.hand[uid]}

    def _keeps_foreign(self, commit: Commit) -> str | None:
        if commit.collection not in WORKLOADS or not is_ours(commit):
            return None
        old, new = commit.old, commit.new
        what = f"{commit.collection} {commit.key}"
        if commit.change.type == "DELETED" or old is None:
            return f"{commit.by} has {commit.change.type.lower()} {what}, which is its team's"
        if commit.key.name in {GUARDED, QUIET}:
            return f"{commit.by} has written {what}, which is nobody's to write"
        before, rest = split(old.to_dict())
        items, kept = split(new.to_dict())
        if rest != kept:
            return (
                f"{commit.by} has changed what the team wrote of {what}: "
                f"{json.dumps(rest)} is {json.dumps(kept)}"
            )
        for item, value in self.hand[new.meta.uid].items():
            if item in self.doubtful[new.meta.uid] or item not in before:
                continue
            if items.get(item) != value:
                return f"{commit.by} has changed {item} of {what}, which somebody put there"
        return None

    def _keeps_secrets_of_others(self, commit: Commit) -> str | None:
        if commit.collection != SECRETS.group_resource or not is_ours(commit):
            return None
        found = commit.old or commit.new
        if any(owner.kind == BINDINGS[0].kind for owner in found.meta.owner_references):
            return None
        return f"{commit.by} has written Secret {commit.key}, which is no binding's"

    # --- Secrets and workloads

    def _names_what_is_there(self, commit: Commit) -> str | None:
        if commit.collection not in WORKLOADS or not is_ours(commit):
            return None
        old = commit.old
        before = named_secrets(split(old.to_dict())[0].values()) if old else set()
        for name in sorted(named_secrets(split(commit.new.to_dict())[0].values()) - before):
            if not _GENERATED.fullmatch(name) or one(
                self._plane, SECRETS, name, commit.key.namespace
            ):
                continue
            gone = self._gone.get((commit.key.namespace, name))
            if gone is None or self._now - gone > FRESH_SECONDS:
                return (
                    f"{commit.by} has Secret {name} in {commit.collection} {commit.key}, and it "
                    "is not there"
                )
        return None

    def _keeps_what_is_read(self, commit: Commit) -> str | None:
        if commit.collection != SECRETS.group_resource or commit.change.type != "DELETED":
            return None
        # The server itself takes away what belonged to a binding that is gone.
        gone = commit.old or commit.new
        if not is_ours(commit) or not any(
            gone.meta.owned_by(binding.meta.uid) and not binding.meta.deleting
            for resource in BINDINGS
            for binding in held(self._plane, resource, commit.key.namespace)
        ):
            return None
        for resource in (*KINDS, REPLICASETS):
            for found in held(self._plane, resource, commit.key.namespace):
                written = self._copied.get(found.meta.uid, 0.0)
                if self._now - written < FRESH_SECONDS:
                    continue
                text = msgspec.json.encode(found.to_dict()["spec"]).decode()
                if f'"{commit.key.name}"' in text and not self._is_lost(found, commit.key.name):
                    return (
                        f"{commit.by} has deleted Secret {commit.key}, which {resource.kind} "
                        f"{found.meta.name} reads"
                    )
        return None

    def _is_lost(self, workload: Object, secret: str) -> bool:
        """Whether people took off the record by which a binding knows what reads a Secret.

        A ReplicaSet that was made meanwhile has none either.
        """
        if workload.kind == REPLICASETS.kind:
            return not _records(workload)
        items, _ = split(workload.to_dict())
        reading = {item for item, value in items.items() if secret in named_secrets([value])}
        return bool(reading) and reading <= self.doubtful[workload.meta.uid]

    def _projects_for_somebody(self, commit: Commit) -> str | None:
        if commit.collection not in WORKLOADS or not is_ours(commit):
            return None
        old = commit.old
        for uid in sorted({*_records(commit.new)} - {*(_records(old) if old else ())}):
            binding = next(
                (
                    found
                    for resource in BINDINGS
                    for found in held(self._plane, resource, commit.key.namespace)
                    if found.meta.uid == uid
                ),
                None,
            )
            what = f"{commit.collection} {commit.key}"
            if binding is None:
                return f"{commit.by} has bound {what} for a binding that is gone"
            if f'"{STRANGER}"' in binding.meta.annotations.get(REQUESTER, ""):
                return f"{commit.by} has bound {what} for somebody who may not write it"
        return None

    def _tells_no_password(self, commit: Commit) -> str | None:
        if commit.collection == "secrets" or PASSWORD.encode() not in commit.change.record.raw:
            return None
        return f"{commit.by} has put a password into {commit.collection} {commit.key}"


def _is_filled_in(before: Any, after: Any) -> bool:
    """Whether an item is as before but for what policies fill in, which changes no owner."""
    return before is not None and after is not None and _bare(before) == _bare(after)


def _bare(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    filled = {"optional", "readOnly"}
    return {name: _bare(value) for name, value in item.items() if name not in filled}


def is_driver(commit: Commit) -> bool:
    """Whether people have written it."""
    return commit.writer is not None and commit.writer.name == "driver"


def is_ours(commit: Commit) -> bool:
    """Whether a replica of the binding controllers has written it."""
    return commit.writer is not None and commit.writer.name.startswith("binding")


def _records(found: Object) -> list[str]:
    notes = found.meta.annotations
    return [key.removeprefix(RECORD) for key in notes if key.startswith(RECORD)]


def check_requests(simulation: Simulation, replicas: list[Replica]) -> Counter[str]:
    """Look at how often a replica asks about one object; the counter has all requests."""
    recent: dict[tuple[int, bytes], deque[float]] = defaultdict(deque)
    figures: Counter[str] = Counter()

    def sent(connection: Connection, end: Any, piece: bytes) -> None:
        found = _REQUEST.match(piece)
        if found is None or (place := _OBJECT.search(found[2])) is None:
            return
        replica = next((known for known in replicas if known.process is end.process), None)
        if replica is None or place[1] == b"leases":
            return
        figures[replica.name] += 1
        times = recent[id(end.process), found[2]]
        now = simulation.loop.time()
        times.append(now)
        while times[0] < now - WINDOW:
            times.popleft()
        if len(times) > MOST:
            simulation.violated(
                f"{replica.name} sends {len(times)} requests about {found[2].decode()} within "
                f"{WINDOW:.0f} s"
            )

    simulation.network.on_send.append(sent)
    return figures


def left_on(found: Object, watched: Watched) -> JSON:
    """What is on a workload that neither people nor its team have put there."""
    uid = found.meta.uid
    items, _ = split(found.to_dict())
    return {
        str(tuple(item)): value
        for item, value in items.items()
        if item not in watched.hand[uid] and item not in watched.doubtful[uid]
    }
