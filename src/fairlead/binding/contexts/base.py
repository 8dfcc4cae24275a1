"""What all contexts share: reading, collecting, and settling the outcome."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus, get_condition, set_condition
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.servicebinding.common import (
    APPLICATION_UPDATE_ERROR,
    APPLICATIONS_BOUND,
    ERROR_PERSISTING_SECRET,
    MAPPING_ANNOTATION,
    PROCESSING_ERROR,
    READY,
)
from fairlead.binding.contexts.protocol import Flow
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.items import Item, SecretSource, merge, secret_name
from fairlead.binding.reads import FailureCode, ReadError, Snapshot
from fairlead.binding.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.workload import Traces, Workload


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
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
        self.service_failure: FailureCode | None = None
        self._conditions: dict[str, Condition] = {}
        self._services: list[Service] | None = None
        self._workloads: list[Workload] | None = None
        self._leftovers: list[Workload] | None = None
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
        return f"{re.sub('[^-a-z0-9]', '-', name).strip('-')[:54].rstrip('-')}-{digest}"

    @property
    def container_names(self) -> Sequence[str]:
        """The containers of the workload reference."""
        return self.workload_reference().containers

    @property
    def spec_changed(self) -> bool:
        """True unless the last pass ended Ready with the spec as it is now."""
        before = get_condition(self.conditions_before(), READY)
        return (
            before is None
            or before.status != "True"
            or before.observed_generation != self.meta.generation
        )

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

    def workloads(self) -> list[Workload]:
        """The selected workloads, read once a pass."""
        if self._workloads is None:
            self._workloads = self.reader.workloads(self.workload_reference())
        return self._workloads

    @property
    def traces(self) -> Traces:
        """How to tell what earlier passes projected."""
        secrets = frozenset({self.former_secret, self.secret} - {""})
        return Traces(self.meta.name, self.volume_name, secrets)

    def leftovers(self) -> list[Workload]:
        """Workloads with this binding's volume that it does not select any more."""
        reference = self.workload_reference()
        if not self.former_secret or not (reference.selector is not None or self.spec_changed):
            return []
        if self._leftovers is None:
            self._leftovers = self.reader.leftovers(reference, self.workloads(), self.traces)
        return self._leftovers

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
            ValueError: an entry's name is none that a Secret can have.
        """
        direct = self._direct()
        if direct:
            self.secret = direct
            return
        content = merge(self.items())
        if not content:
            return
        for name in content:
            if not _ENTRY.fullmatch(name):
                raise ValueError(
                    f"binding entry {name!r} is no valid key of a Secret: keys consist of "
                    "letters, digits, '-', '_' and '.'; rename it with a mapping or a "
                    "naming strategy"
                )
        self.secret = secret_name(self.meta.name, content)
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
            self.set_condition(READY, "True", APPLICATIONS_BOUND)

    def workload_failed(self, message: str) -> None:
        """Say in Ready that a workload could not be written, and have the pass repeated."""
        self.set_condition(READY, "False", APPLICATION_UPDATE_ERROR, message)
        self.flow.retry_processing(message, transient=True)

    def secret_failed(self, message: str) -> None:
        """Say in Ready that the intermediate Secret could not be written; project nothing."""
        self.secret = ""
        self.set_condition(READY, "False", ERROR_PERSISTING_SECRET, message)
        self.flow.retry_processing(message, transient=True)

    def changed_workloads(self) -> list[Workload]:
        """The workloads to write: all that changed, or none when anything failed."""
        if self.flow.error:
            return []
        known = [*(self._workloads or ()), *(self._leftovers or ())]
        return [workload for workload in known if workload.changed]


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
