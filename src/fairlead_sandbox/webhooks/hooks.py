"""The webhooks that are configured, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from fairlead.api.meta import JSON
from fairlead.api.selectors import LabelSelector
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectStore


GROUP = "admissionregistration.k8s.io"
MUTATING = f"mutatingwebhookconfigurations.{GROUP}"
VALIDATING = f"validatingwebhookconfigurations.{GROUP}"
COLLECTIONS = (MUTATING, VALIDATING)

Phase = Literal["mutating", "validating"]


@dataclass(frozen=True)
class Hook:
    """One webhook of a configuration, as it is stored: completed and checked."""

    phase: Phase
    id: str
    """Tells it from every other one: its configuration, its place in it and its name."""
    spec: JSON
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    objects: LabelSelector = field(default_factory=LabelSelector)

    @property
    def name(self) -> str:
        """The name of the webhook in refusals and failures."""
        return str(self.spec["name"])

    @property
    def fails_open(self) -> bool:
        """Whether a write goes on when the webhook cannot be asked."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def has_side_effects(self) -> bool:
        """Whether it cannot be asked about a dry run."""
        return self.spec.get("sideEffects") not in {"None", "NoneOnDryRun"}


class Hooks:
    """The webhooks of one control plane; what a configuration says is read once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._known: dict[str, tuple[Record, Sequence[Hook]]] = {}

    @property
    def any(self) -> bool:
        """Whether there is a configuration at all."""
        return any(next(iter(self._records(name)), None) is not None for name in COLLECTIONS)

    def of(self, phase: Phase) -> list[Hook]:
        """The webhooks of a phase: configurations by name, then as they stand in them."""
        collection = MUTATING if phase == "mutating" else VALIDATING
        records = sorted(self._records(collection), key=lambda record: record.key.name)
        return [hook for record in records for hook in self._read(phase, record)]

    def _records(self, collection: str) -> list[Record]:
        return list(self._store.collection(collection).list())

    def _read(self, phase: Phase, record: Record) -> Sequence[Hook]:
        place = f"{phase}/{record.key.name}"
        known = self._known.get(place)
        # A change of the configuration makes a new record.
        if known is None or known[0] is not record:
            specs = record.to_dict().get("webhooks") or []
            hooks = [
                Hook(
                    phase,
                    f"{place}/{index}/{spec['name']}",
                    spec,
                    LabelSelector.from_dict(spec.get("namespaceSelector") or {}),
                    LabelSelector.from_dict(spec.get("objectSelector") or {}),
                )
                for index, spec in enumerate(specs)
            ]
            known = self._known[place] = (record, hooks)
        return known[1]
