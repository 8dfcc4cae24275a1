"""Who may write: the replica that holds its program's Lease."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from tests.sim.network import Connection
from tests.sim.programs import Replica
from tests.sim.simulation import Simulation
from tests.sim.stores import one

from fairlead.api.resource import LEASES


_WRITE = re.compile(rb"(POST|PUT|PATCH|DELETE) (\S+) HTTP/1.1\r\n")
_FREE = (b"/leases", b"selfsubject", b"subjectaccessreviews", b"/token", b"dryRun=All")
"""In the paths of requests that anyone may send: they are about the Lease, or store nothing."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = ""


class _Lease(msgspec.Struct):
    spec: _Spec


def holder(replica: Replica) -> str:
    """Who holds the Lease of a replica's program, as the API server has it; "" is nobody."""
    program = replica.program
    lease = one(replica.home, LEASES, program.lease, program.namespace)
    return (lease.decode(_Lease).spec.holder_identity or "") if lease else ""


def leads(replica: Replica) -> bool:
    """Whether a replica holds it."""
    return holder(replica) == replica.identity


def check_writers(simulation: Simulation, replicas: Iterable[Replica]) -> None:
    """Look at each write when it is sent: nobody else may hold the Lease by then."""
    every = list(replicas)

    def sent(connection: Connection, end: Any, piece: bytes) -> None:
        found = _WRITE.match(piece)
        if found is None or any(text in found[2] for text in _FREE):
            return
        replica = next((known for known in every if known.process is end.process), None)
        if replica is None:
            return
        now = holder(replica)
        if now not in {"", replica.identity}:
            simulation.violated(
                f"{replica.identity} sends {found[0].decode().strip()} while {now} holds the Lease"
            )

    simulation.network.on_send.append(sent)
