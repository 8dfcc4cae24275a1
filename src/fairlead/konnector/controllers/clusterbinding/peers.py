"""Whether other konnectors of Fairlead work with the same ClusterBinding.

The version in the status tells of a konnector of another version, and nothing of one of the same.
So each konnector has an entry in a condition of the ClusterBinding, its name and a time, and
renews the entry with its heartbeats. An entry that changes is of a running konnector, and one that
stays the same is of one that has stopped; clocks of different machines are never compared. A
konnector that sees a new name renews its entry at once, so that the new konnector soon learns of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from fairlead.api.kubebind.conditions import (
    ANOTHER_KONNECTOR,
    KONNECTORS,
    SEVERAL_KONNECTORS,
    KubeBindCondition,
    get_condition,
)
from fairlead.api.timestamps import format_time
from fairlead.konnector import bounds
from fairlead.konnector.options import HEARTBEAT_INTERVAL


INTERVAL = HEARTBEAT_INTERVAL
"""Time without a change after which an entry's konnector counts as stopped."""
BEAT = INTERVAL / 2


class Peer(msgspec.Struct, frozen=True):
    """Another konnector's entry: its time, since when it is known, and if it ever changed."""

    stamp: str
    since: datetime
    lives: bool = False


class Peers(msgspec.Struct, frozen=True):
    """Entries that one konnector has seen; ``beaten`` is when it renewed its entry."""

    beaten: datetime | None = None
    others: Mapping[str, Peer] = {}

    @property
    def living(self) -> list[str]:
        """Names of the other konnectors that are running."""
        return sorted(name for name, peer in self.others.items() if peer.lives)

    def due(self, now: datetime) -> float:
        """Return the seconds until this konnector's entry has to be renewed."""
        if self.beaten is None:
            return 0.0
        return max((self.beaten + BEAT - now).total_seconds(), 0.0)


def learned(peers: Peers, name: str, entries: Mapping[str, str], now: datetime) -> Peers:
    """Return the peers, with what one more look at all entries has shown."""
    others: dict[str, Peer] = {}
    news = False
    for peer_name, stamp in entries.items():
        if peer_name == name:
            continue
        peer = peers.others.get(peer_name)
        if peer is None:
            # A konnector that appears after our own entry is running for certain; one from before
            # may have ended.
            came = peers.beaten is not None
            news = news or came
            others[peer_name] = Peer(stamp, now, came)
        elif peer.stamp != stamp:
            others[peer_name] = Peer(stamp, now, lives=True)
        elif now - peer.since < INTERVAL:
            others[peer_name] = peer
        else:
            # It stays known while its entry exists, or it would pass for a newcomer.
            others[peer_name] = Peer(stamp, peer.since)
    fresh = peers.beaten is not None and now - peers.beaten < BEAT and not news
    return Peers(peers.beaten if fresh else now, others)


def entries(conditions: list[KubeBindCondition]) -> dict[str, str]:
    """Return the entries of a ClusterBinding: times by names."""
    condition = get_condition(conditions, KONNECTORS)
    words = (
        (text.split() for text in condition.message.split(", ")) if condition is not None else ()
    )
    return {pair[0]: pair[1] for pair in words if len(pair) == 2}


def condition(peers: Peers, name: str, now: datetime) -> KubeBindCondition:
    """Return the condition with the entries of this konnector and of all others that may run."""
    own = format_time(peers.beaten) if peers.beaten is not None else ""
    recent = [item for item in peers.others.items() if now - item[1].since < INTERVAL]
    newest = sorted(recent, key=lambda item: item[1].since, reverse=True)
    stamps = {one: peer.stamp for one, peer in newest[: bounds.PEERS - 1]} | {name: own}
    message = ", ".join(f"{one} {stamp}" for one, stamp in sorted(stamps.items()))
    return KubeBindCondition(KONNECTORS, "True", reason="Current", message=message)


def several(peers: Peers, name: str, namespace: str) -> KubeBindCondition | None:
    """Return the condition of every binding whose connection several konnectors use."""
    if not peers.living:
        return None
    # All konnectors write the same text, so that none rewrites another's.
    names = sorted([name, *peers.living])
    message = (
        f"{len(names)} konnectors work with the provider's ClusterBinding {namespace}/cluster: "
        f"{', '.join(names)}. Each writes the same objects: stop all but one of them. "
        "Konnectors of one cluster take turns with --leader-elect true and the same Lease "
        "(--lease-namespace, --lease-name); another cluster needs its own invitation"
    )
    return KubeBindCondition(ANOTHER_KONNECTOR, "True", reason=SEVERAL_KONNECTORS, message=message)
