"""The parts of the konnector that the work on bindings takes."""

from __future__ import annotations

import msgspec

from fairlead.konnector.consumer import Consumer
from fairlead.konnector.reports import Reports
from fairlead.konnector.v2.providers import ConnectedProviders
from fairlead.runtime import EventRecorder, Informer


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Dependencies of bindings: both clusters, and what is told.

    ``reports`` has the faults of each API's objects, by the API's name.
    """

    consumer: Consumer
    providers: ConnectedProviders
    connections: Informer
    events: EventRecorder
    reports: Reports
