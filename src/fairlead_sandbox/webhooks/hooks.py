"""The configured webhooks, in the order in which they are asked."""

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
    """One webhook of a stored configuration, with its defaults set."""

    phase: Phase
    id: str
    """Identity of the webhook: its configuration, its index in it and its name."""
    spec: JSON
    namespaces: LabelSelector = field(default_factory=LabelSelector)
    objects: LabelSelector = field(default_factory=LabelSelector)

    @property
    def name(self) -> str:
        """Name of the webhook in refusals and failures."""
        return str(self.spec["name"])

    @property
    def fails_open(self) -> bool:
        """Whether a write goes on if the webhook cannot be called."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def has_side_effects(self) -> bool:
        """Whether the webhook must not be called for a dry run."""
        return self.spec.get("sideEffects") not in {"None", "NoneOnDryRun"}


class Hooks:
    """The webhooks of one control plane; each configuration is parsed once per change."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._hooks: dict[str, tuple[Record, Sequence[Hook]]] = {}

    @property
    def any(self) -> bool:
        """Whether a configuration exists."""
        return any(next(iter(self._records(name)), None) is not None for name in COLLECTIONS)

    def of(self, phase: Phase) -> list[Hook]:
        """Return the webhooks of a phase, sorted by configuration name, then by place in it."""
        collection = MUTATING if phase == "mutating" else VALIDATING
        records = sorted(self._records(collection), key=lambda record: record.key.name)
        return [hook for record in records for hook in self._read(phase, record)]

    def _records(self, collection: str) -> list[Record]:
        return list(self._store.collection(collection).list())

    def _read(self, phase: Phase, record: Record) -> Sequence[Hook]:
        place = f"{phase}/{record.key.name}"
        hook = self._hooks.get(place)
        # Each write of the configuration replaces its record.
        if hook is None or hook[0] is not record:
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
            hook = self._hooks[place] = (record, hooks)
        return hook[1]
