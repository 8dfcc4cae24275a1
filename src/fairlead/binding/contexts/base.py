"""What all contexts share: reading, collecting, and settling the outcome."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus, set_condition
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.servicebinding.common import (
    APPLICATION_UPDATE_ERROR,
    APPLICATIONS_BOUND,
    COLLECTION_READY,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    MAPPING_ANNOTATION,
    PROCESSING_ERROR,
    READY,
)
from fairlead.binding.contexts.protocol import Flow
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.contexts.superseded import superseded
from fairlead.binding.contexts.workloads import Finder
from fairlead.binding.items import Item, SecretSource, merge, secret_name
from fairlead.binding.projection import Owner, Projection
from fairlead.binding.reads import FailureCode, Lookup, ReadError, Snapshot
from fairlead.binding.records import read_kinds
from fairlead.binding.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.takeover import Former
from fairlead.binding.workload import Workload


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
MOST_BYTES = 1024 * 1024
"""That the values of a Secret may have together (``MaxSecretSize`` of Kubernetes)."""

_ENTRY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


class InvalidBinding(ValueError):  # noqa: N818 (a finding)
    """The binding contradicts itself; the text names the field and the remedy."""


class SecretWrite(msgspec.Struct, frozen=True):
    """The intermediate Secret as it has to be."""

    namespace: str
    name: str
    content: dict[str, bytes]
    owner: OwnerReference


class BaseContext:
    """One binding in one pass; subclasses say what their API has and how its status looks."""

    bind_as_files = True
    naming_strategy = "none"
    env_bindings: Sequence[tuple[str, str]] = ()
    mappings: Sequence[tuple[str, str]] = ()
    overrides: Sequence[Item] = ()
    detect_owned = False

    def __init__(self, binding: Object, snapshot: Snapshot) -> None:
        self.binding = binding
        self.meta = binding.meta
        self.flow = Flow()
        self.reader = Reader(snapshot, binding.meta)
        self.secret = ""
        self.secret_write: SecretWrite | None = None
        self.dropped_annotation = False
        self.superseded: list[tuple[str, str]] = []
        self.service_failure: FailureCode | None = None
        self._conditions: dict[str, Condition] = {}
        self._services: list[Service] | None = None
        self._projections: list[Projection] | None = None
        self._leftovers: list[Projection] | None = None
        self._refused: dict[int, str] = {}
        self._withheld = False
        self._sources: list[SecretSource] = []
        self._added: list[Item] = []
        self.status_before: JSON = binding.to_dict().get("status") or {}

    def spec_name(self) -> str:
        """``spec.name``."""
        raise NotImplementedError

    def service_references(self) -> list[ServiceReference]:
        """The references to services."""
        raise NotImplementedError

    def workload_reference(self) -> WorkloadReference:
        """The reference to workloads."""
        raise NotImplementedError

    @property
    def former_secret(self) -> str:
        """The Secret in the status."""
        raise NotImplementedError

    def status(self, now: str) -> JSON:
        """The whole status after this pass."""
        raise NotImplementedError

    @property
    def binding_name(self) -> str:
        """``spec.name``, or the binding's own name."""
        return self.spec_name() or self.meta.name

    @property
    def volume_name(self) -> str:
        """The binding name where it is a legal volume name, else one derived from it."""
        name = self.binding_name
        if len(name) <= 63 and _LABEL.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        start = re.sub("[^-a-z0-9]", "-", name).strip("-")[:54].rstrip("-")
        return f"{start or 'binding'}-{digest}"

    @property
    def container_names(self) -> Sequence[str]:
        """The containers of the workload reference."""
        return self.workload_reference().containers

    @property
    def unbind_requested(self) -> bool:
        """Being deleted, or to be projected anew after its mapping changed."""
        return self.meta.deleting or MAPPING_ANNOTATION in self.meta.annotations

    def services(self) -> list[Service]:
        """The backing services, read once a pass."""
        if self._services is None:
            try:
                self._services = [self.reader.service(item) for item in self.service_references()]
            except ReadError as error:
                self.service_failure = error.failure.code
                raise
        return self._services

    def crd(self, service: Service) -> JSON | None:
        """The CRD of a service's kind."""
        return self.reader.crd(service.resource)

    def owned_resources(self, service: Service) -> list[JSON]:
        """What the service owns, when the binding asks for it."""
        return self.reader.owned(service) if self.detect_owned else []

    def read_secret(self, namespace: str, name: str) -> JSON:
        """A Secret."""
        return self.reader.secret(namespace, name)

    def read_config_map(self, namespace: str, name: str) -> JSON:
        """A ConfigMap."""
        return self.reader.config_map(namespace, name)

    @property
    def owner(self) -> Owner:
        """The binding as its records name it."""
        return Owner(
            uid=self.meta.uid,
            group=self.binding.api_version.partition("/")[0],
            namespace=self.meta.namespace,
            name=self.meta.name,
            created=self.meta.creation_timestamp or "",
        )

    def projections(self) -> list[Projection]:
        """The selected workloads that nothing was in the way on; read once a pass."""
        if self._projections is None:
            self._projections, denied = self._finder().selected()
            for projection, error in denied:
                self.refuse(projection, str(error))
                self.flow.transient = self.flow.transient or error.transient
            if denied and len(denied) == len(self._projections):
                raise denied[0][1]
        return [item for item in self._projections if id(item) not in self._refused]

    def leftovers(self) -> list[Projection]:
        """Workloads that this binding is projected onto and does not select any more."""
        if self._leftovers is None:
            self._leftovers = self._finder().leftovers()
        return self._leftovers

    def bound(self) -> list[Projection]:
        """All workloads that this binding is projected onto, selected or not."""
        if self._leftovers is None:
            self._leftovers = self._finder().bound()
        return self._leftovers

    def _finder(self) -> Finder:
        former = Former(
            owner=self.owner,
            secret=self.former_secret,
            volume=self.volume_name,
            directory=self.binding_name,
            variables=list(self.env_bindings),
            env_from=not self.bind_as_files,
        )
        return Finder(self.reader, self.workload_reference(), former, self.kinds, self.secret)

    def drop_superseded(self) -> None:
        """Have generated Secrets deleted that nothing reads any more."""
        kinds = dict.fromkeys([self.workload_reference().lookup, *(self.kinds or ())])
        self.superseded = superseded(self.reader, self.owner, kinds, self.secret)

    def refuse(self, projection: Projection, why: str) -> None:
        """Leave a workload as it is, and say why; the others are projected onto all the same."""
        self._refused[id(projection)] = why

    def doubt(self, why: str) -> None:
        """Say that something of former workloads may be left, and come again."""
        self._refused[0] = why
        self.flow.transient = True

    @property
    def refusals(self) -> list[str]:
        """Why workloads were left as they are."""
        return list(self._refused.values())

    @property
    def kinds(self) -> list[Lookup] | None:
        """The kinds that the binding is noted to be projected onto; None: from before notes."""
        return read_kinds(self.meta.annotations)

    def add_source(self, source: SecretSource) -> None:
        """Add the entries of an existing Secret."""
        self._sources.append(source)

    def add_item(self, item: Item) -> None:
        """Add an entry."""
        self._added.append(item)

    def items(self) -> list[Item]:
        """Entries of Secrets, then added ones, then what overrides them, if there is anything."""
        collected = [item for source in self._sources for item in source.items] + self._added
        # An override of nothing would make a binding that holds a type and no data.
        return [*collected, *self.overrides] if collected else []

    def template_data(self) -> Mapping[str, Any]:
        """Services by id, then items by the names they have so far."""
        data: dict[str, Any] = {item.id: item.body for item in self.services() if item.id}
        for item in self.items():
            value = item.value
            data[item.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return data

    def persist_secret(self) -> None:
        """Take the one Secret as it is, or write an intermediate one named by its content.

        Raises:
            ValueError: an entry's name is none that a Secret can have, or there is too much.
        """
        direct = self._direct()
        if direct:
            self.secret = direct
            return
        content = merge(self.items())
        if not content:
            return
        size = sum(map(len, content.values()))
        if size > MOST_BYTES:
            raise ValueError(
                f"the binding's entries have {size} bytes together, and a Secret holds "
                f"{MOST_BYTES}: bind fewer services at once, or entries with a mapping"
            )
        for name in content:
            if not _ENTRY.fullmatch(name):
                raise ValueError(
                    f"binding entry {name!r} is no valid key of a Secret: keys consist of "
                    "letters, digits, '-', '_' and '.'; rename it with a mapping or a "
                    "naming strategy"
                )
        self.secret = secret_name(self.meta.name, content)
        self.reader.watch_secret(self.meta.namespace, self.secret)
        self.secret_write = SecretWrite(
            namespace=self.meta.namespace,
            name=self.secret,
            content=content,
            owner=msgspec.structs.replace(
                self.binding.owner_reference(), block_owner_deletion=None
            ),
        )

    def _direct(self) -> str:
        """The name of the only Secret, if nothing was added, renamed or from elsewhere."""
        if len(self._sources) != 1 or self._added or self.overrides:
            return ""
        source = self._sources[0]
        # Pods can mount Secrets of their own namespace alone, under the names that they have
        # there.
        same = source.namespace == self.meta.namespace and not source.renamed
        return source.name if same else ""

    @property
    def has_sources(self) -> bool:
        """Whether any Secret or item was collected."""
        return bool(self._sources or self._added)

    def drop_mapping_annotation(self) -> bool:
        """Have the annotation removed at commit."""
        self.dropped_annotation = MAPPING_ANNOTATION in self.meta.annotations
        return self.dropped_annotation

    def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition; those not set in a pass keep what they said before."""
        self._conditions[type_] = Condition(
            type_, status, reason, message, observed_generation=self.meta.generation
        )

    def get_condition(self, type_: str) -> Condition | None:
        """What this pass said under a type."""
        return self._conditions.get(type_)

    def conditions_before(self) -> list[Condition]:
        """The conditions in the binding's status."""
        return msgspec.convert(self.status_before.get("conditions") or [], list[Condition])

    def conditions(self, now: str) -> list[JSON]:
        """The conditions after this pass, with reason and message even where they are empty."""
        merged = self.conditions_before()
        for condition in self._conditions.values():
            merged = set_condition(merged, condition, now=now)
        return [
            {"reason": "", "message": "", **msgspec.to_builtins(condition)} for condition in merged
        ]

    def close(self) -> None:
        """Set Ready: False with the error if there is one, else True unless it is deleted."""
        if self.flow.error:
            self.set_condition(READY, "False", PROCESSING_ERROR, self.flow.error)
        elif not self.meta.deleting:
            collected = self._conditions.get(COLLECTION_READY)
            # Which entries are hidden by others, and nothing else, is said there of what is True.
            hidden = collected.message if collected else ""
            self.set_condition(READY, "True", APPLICATIONS_BOUND, hidden)

    def workload_failed(self, message: str) -> None:
        """Say in Ready that a workload could not be written, and have the pass repeated."""
        text = f"{self.flow.error}; {message}" if self.flow.error else message
        self.set_condition(READY, "False", APPLICATION_UPDATE_ERROR, text)
        self.flow.retry_processing(text, transient=True)

    def secret_failed(self, message: str) -> None:
        """Say in Ready that the intermediate Secret could not be written; project nothing."""
        self.secret = ""
        self.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(INJECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(READY, "False", ERROR_PERSISTING_SECRET, message)
        self.flow.retry_processing(message, transient=True)

    def withhold(self) -> None:
        """Write no workload in this pass."""
        self._withheld = True

    def changed_leftovers(self) -> list[Workload]:
        """The workloads to write that have something taken away."""
        return [] if self._withheld else _changed(self._leftovers or ())

    def changed_workloads(self) -> list[Workload]:
        """The workloads to write: all that were settled and differ."""
        if self._withheld:
            return []
        return self.changed_leftovers() + _changed(self._projections or ())


def _changed(projections: Iterable[Projection]) -> list[Workload]:
    return [item.workload for item in projections if item.settled and item.workload.changed]


def part(binding: Object, *path: str) -> JSON:
    """An object within a binding; an empty one where there is none."""
    value: Any = binding.to_dict()
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def selector_dict(selector: Any) -> JSON | None:
    """A typed label selector as JSON, None when there is none."""
    if selector is None:
        return None
    result: JSON = json.loads(msgspec.json.encode(selector))
    return result


def invalid_status(binding: Object, message: str, now: str) -> JSON:
    """The status with Ready False; what else it says stays."""
    status: JSON = binding.to_dict().get("status") or {}
    try:
        before = msgspec.convert(status.get("conditions") or [], list[Condition])
    except msgspec.ValidationError:
        before = []
    merged = set_condition(before, Condition(READY, "False", PROCESSING_ERROR, message), now=now)
    conditions: list[Any] = [
        {"reason": "", "message": "", **msgspec.to_builtins(condition)} for condition in merged
    ]
    result = {**status, "conditions": conditions}
    if binding.api_version.startswith("servicebinding.io/"):
        result["observedGeneration"] = binding.meta.generation
    else:
        result.setdefault("secret", "")
    return result
