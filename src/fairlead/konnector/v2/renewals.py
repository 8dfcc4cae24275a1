"""Whether another konnector is at work at a provider, by the Lease of this cluster there.

Each konnector writes the same holder, so that the holder tells nothing. Fairlead notes in an
annotation which renewTime it wrote, and which of its processes did. A renewTime without such a
note is of another program. One of another process of ours, written after we wrote, is of a process
that is at work beside this one; from before, it is of one that has ended. Who finds another at
work stands back until the Lease has been the same for as long as it lasts, by the clock of this
process.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from fairlead.api.kbind.names import ANNOTATION_RENEWED_AT, LEASE_SECONDS
from fairlead.api.meta import Object


Holder = Literal["", "Ours", "Another", "Unwritten"]
"""Holder of the Lease: ``Unwritten`` if it cannot be read or written, "" while not known."""


class _Spec(msgspec.Struct, rename="camel", frozen=True):
    """Parts of a LeaseSpec of coordination.k8s.io/v1 that are read."""

    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class LeaseRenewal(msgspec.Struct, frozen=True):
    """The last renewal of a Lease: its time, its duration in seconds, and Fairlead's note."""

    time: str = ""
    duration: float = LEASE_SECONDS
    note: str = ""

    @classmethod
    def of(cls, lease: Object) -> LeaseRenewal:
        """Read the renewal of a Lease."""
        spec = lease.decode(_Lease).spec
        note = lease.meta.annotations.get(ANNOTATION_RENEWED_AT, "")
        return cls(spec.renew_time or "", float(spec.lease_duration_seconds or 0), note)

    @property
    def process(self) -> str:
        """The process of Fairlead that wrote it, "" if another program did."""
        time, _, process = self.note.partition(" ")
        return process if time == self.time else ""


def is_held(renewal: LeaseRenewal, instance: str, *, unchanged: float, has_written: bool) -> bool:
    """Whether another konnector is at work by its Lease.

    Args:
        renewal: the last renewal.
        instance: the name of this process.
        unchanged: since when the renewal is known to this process, in seconds.
        has_written: whether this process has written the Lease.
    """
    if not renewal.time or renewal.process == instance:
        return False
    if renewal.process and not has_written:
        # One konnector works at a time by leader election: this is the former one's.
        return False
    return unchanged < renewal.duration
