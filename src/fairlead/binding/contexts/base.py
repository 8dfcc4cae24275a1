"""What all contexts share: reading, collecting, and settling the outcome."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import (
    APPLICATION_UPDATE_ERROR,
    APPLICATIONS_BOUND,
    COLLECTION_READY,
    ERROR,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    MAPPING_ANNOTATION,
    PROCESSING_ERROR,
    READY,
)
from fairlead.api.servicebinding.wishes import Wishes, read_wishes
from fairlead.binding.contexts.changes import Changes, SecretWrite
from fairlead.binding.contexts.entries import Entries
from fairlead.binding.contexts.outcome import Outcome
from fairlead.binding.contexts.protocol import Flow
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.contexts.superseded import Superseded, superseded
from fairlead.binding.contexts.workloads import Finder
from fairlead.binding.reads import FailureCode, Lookup, ReadError, Snapshot
from fairlead.binding.services.definitions import Definition
from fairlead.binding.services.evaluations import Evaluations
from fairlead.binding.services.items import (
    Item,
    SecretSource,
    digest,
    is_mistaken,
    merge,
    other_name,
    secret_name,
)
from fairlead.binding.services.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.workloads.operations import Operations, Workloads
from fairlead.binding.workloads.projection import Owner
from fairlead.binding.workloads.records import read_kinds
from fairlead.binding.workloads.takeover import Former
from fairlead.binding.workloads.workload import Workload


Decoded = TypeVar("Decoded")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class InvalidBinding(ValueError):  # noqa: N818 (a finding)
    """The binding contradicts itself; the text names the field and the remedy."""


class BaseContext:
    """One binding in one pass; subclasses say what their API has and how its status looks.

    ``workloads`` makes what finds the workloads, which are those of Kubernetes by default.
    """

    bind_as_files = True
    naming_strategy = "none"
    env_bindings: Sequence[tuple[str, str]] = ()
    mappings: Sequence[tuple[str, str]] = ()
    detect_owned = False

    def __init__(
        self, binding: Object, snapshot: Snapshot, *, workloads: FindWorkloads | None = None
    ) -> None:
        self.binding = binding
        self.meta = binding.meta
        self.flow = Flow()
        self.reader = Reader(snapshot, binding.meta)
        self.secret = ""
        self.content_mark = ""
        self.entries = Entries()
        self.changes = Changes()
        self.service_failure: FailureCode | None = None
        self.status_before: JSON = part(binding, "status")
        self._outcome = Outcome(self.status_before)
        self._find = workloads or of_kubernetes
        self._evaluations = Evaluations(snapshot.give_way)
        self._services: list[Service] | None = None
        self._projections: Sequence[Operations] | None = None
        self._leftovers: Sequence[Operations] | None = None
        self._refused: dict[int, str] = {}
        self._wanted = Changes()
        self._wishes = Wishes()
        if not self.meta.deleting:
            try:
                self._wishes = read_wishes(self.meta.annotations)
            except ValueError as error:
                raise InvalidBinding(str(error)) from None

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
    def bind_as_env(self) -> bool:
        """Where files are not wanted, or variables besides."""
        return not self.bind_as_files or self._wishes.environment

    @property
    def file_mode(self) -> int | None:
        """What the binding asks for with an annotation."""
        return self._wishes.mode

    def secret_type(self, content: Mapping[str, bytes]) -> str:
        """The type of a Secret with this content, "" for the default."""
        return ""

    @property
    def container_names(self) -> Sequence[str]:
        """The containers of the workload reference."""
        return self.workload_reference().containers

    @property
    def unbind_requested(self) -> bool:
        """Being deleted, or to be projected anew after its mapping changed."""
        return self.meta.deleting or MAPPING_ANNOTATION in self.meta.annotations

    async def open(self) -> None:
        """Have what the binding names read at once."""
        if not self.unbind_requested:
            await self.reader.look_ahead_at(self.service_references(), self.workload_reference())

    async def services(self) -> list[Service]:
        """The backing services, read once a pass."""
        if self._services is None:
            try:
                self._services = await self.reader.services(self.service_references())
            except ReadError as error:
                self.service_failure = error.failure.code
                raise
        return self._services

    @property
    def services_read(self) -> Sequence[Service]:
        """The backing services as far as the pass has read them."""
        return self._services or ()

    async def crd(self, service: Service) -> JSON | None:
        """The CRD of a service's kind."""
        return await self.reader.crd(service.resource)

    async def owned_resources(self, service: Service) -> list[JSON]:
        """What the service owns, when the binding asks for it."""
        return await self.reader.owned(service) if self.detect_owned else []

    async def read_secret(self, namespace: str, name: str) -> JSON:
        """A Secret."""
        return await self.reader.secret(namespace, name)

    async def read_config_map(self, namespace: str, name: str) -> JSON:
        """A ConfigMap."""
        return await self.reader.config_map(namespace, name)

    async def found(self, definition: Definition, service: Service) -> JSON | None:
        """What a definition finds, within the binding's budget."""
        return await self._evaluations.found(definition, service.body, self)

    async def give_way(self) -> None:
        """Let other passes work first, before what takes long."""
        await self.reader.snapshot.give_way()

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

    async def projections(self) -> list[Operations]:
        """The selected workloads that nothing was in the way on; read once a pass."""
        if self._projections is None:
            self._projections, denied = await self._find(self).selected()
            for projection, error in denied:
                self.refuse(projection, str(error))
                self.flow.transient = self.flow.transient or error.transient
            if denied and len(denied) == len(self._projections):
                raise denied[0][1]
        return [item for item in self._projections if id(item) not in self._refused]

    async def ineligible(self) -> str:
        """Why workloads of the kind that is referred to are none; "" where they may be."""
        return await self.reader.ineligible(self.workload_reference())

    async def leftovers(self) -> list[Operations]:
        """Workloads that this binding is projected onto and does not select any more."""
        if self._leftovers is None:
            self._leftovers = await self._find(self).leftovers()
        return list(self._leftovers)

    async def bound(self) -> list[Operations]:
        """All workloads that this binding is projected onto, selected or not."""
        if self._leftovers is None:
            self._leftovers = await self._find(self).bound()
        return list(self._leftovers)

    async def drop_superseded(self) -> None:
        """Have generated Secrets deleted that nothing reads any more."""
        changing = _of_kubernetes(_changed([*(self._leftovers or ()), *(self._projections or ())]))
        self._wanted.superseded, self._wanted.kept = await self._superseded(self.secret, changing)

    async def _superseded(self, current: str, changing: Iterable[Workload]) -> Superseded:
        kinds = dict.fromkeys([self.workload_reference().lookup, *(self.kinds or ())])
        return await superseded(self.reader, self.owner, kinds, current, changing)

    def refuse(self, projection: Operations, why: str) -> None:
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
        self.entries.add_source(source)

    def add_item(self, item: Item) -> None:
        """Add an entry."""
        self.entries.add_item(item)

    def items(self) -> list[Item]:
        """All entries, in the order in which later ones win."""
        return self.entries.items()

    async def template_data(self) -> Mapping[str, Any]:
        """Services by id, then items by the names they have so far."""
        data: dict[str, Any] = {item.id: item.body for item in await self.services() if item.id}
        for item in self.items():
            value = item.value
            data[item.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return data

    async def choose_secret(self) -> None:
        """Take the one Secret as it is, or an intermediate one named by its content.

        Raises:
            ValueError: an entry's name is none that a Secret can have, or there is too much.
        """
        direct = self.entries.direct(self.meta.namespace)
        if direct:
            self.secret = direct
            # The name of any other Secret changes with its content.
            self.content_mark = digest(merge(self.items())) if self._wishes.roll else ""
            return
        content = self.entries.content()
        if not content:
            return
        self.secret = await self._generated_name(content)
        owner = self.binding.owner_reference()
        self._wanted.secret = SecretWrite(
            namespace=self.meta.namespace,
            name=self.secret,
            content=content,
            owner=msgspec.structs.replace(owner, block_owner_deletion=None),
            type=self.secret_type(content),
        )

    async def _generated_name(self, content: Mapping[str, bytes]) -> str:
        """What changes with the content, so that a new one is rolled out."""
        name, other = (make(self.meta.name, content) for make in (secret_name, other_name))
        if self.former_secret == other:
            name = other
        there = await self.reader.own_secret(name)
        if there is not None and is_mistaken(there, content):
            name = other
            await self.reader.own_secret(name)
        return name

    def content(self) -> dict[str, bytes]:
        """What the Secret to project has, by the names of its entries."""
        return merge(self.items())

    def drop_mapping_annotation(self) -> bool:
        """Have the annotation removed when the pass persists."""
        self._wanted.annotation = MAPPING_ANNOTATION in self.meta.annotations
        return self._wanted.annotation

    def persist(self) -> None:
        """Hand over all that was decided; whoever runs the pipeline writes ``changes``."""
        self.changes = msgspec.structs.replace(
            self._wanted,
            leftovers=_changed(self._leftovers or ()),
            workloads=_changed(self._projections or ()),
        )

    def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition; those not set in a pass keep what they said before."""
        generation = self.meta.generation
        self._outcome.set(
            Condition(type_, status, reason, message, observed_generation=generation)
        )

    def get_condition(self, type_: str) -> Condition | None:
        """What this pass said under a type."""
        return self._outcome.get(type_)

    def conditions(self, now: str) -> list[JSON]:
        """The conditions after this pass, with reason and message even where they are empty."""
        return self._outcome.after(now)

    def close(self) -> None:
        """Set Ready: False with the error if there is one, else True unless it is deleted."""
        if self.flow.error:
            self.set_condition(READY, "False", PROCESSING_ERROR, self.flow.error)
        elif not self.meta.deleting:
            collected = self._outcome.get(COLLECTION_READY)
            # Which entries are hidden by others, and nothing else, is said there of what is True.
            hidden = collected.message if collected else ""
            self.set_condition(READY, "True", APPLICATIONS_BOUND, hidden)

    def workload_failed(self, message: str) -> None:
        """Say in Ready that a workload could not be written, and have the pass repeated."""
        text = f"{self.flow.error}; {message}" if self.flow.error else message
        self.set_condition(READY, "False", APPLICATION_UPDATE_ERROR, text)
        self.flow.retry_processing(text, transient=True)

    def injection_failed(self, message: str) -> None:
        """Say also in InjectionReady that a workload was not stored as it was to be."""
        self.workload_failed(message)
        self.set_condition(INJECTION_READY, "False", ERROR, self.flow.error)

    def secret_failed(self, message: str) -> None:
        """Say in Ready that the intermediate Secret could not be written; project nothing."""
        self.secret = ""
        self.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(INJECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(READY, "False", ERROR_PERSISTING_SECRET, message)
        self.flow.retry_processing(message, transient=True)

    async def withhold(self, held: Collection[Workload]) -> None:
        """Leave selected workloads as they are in this pass; what is taken away is.

        Where none is left to be written the Secret is not either, which nobody would read.
        """
        names = {id(workload) for workload in held}
        kept = [one for one in self.changes.workloads if id(one.workload) not in names]
        self.changes.workloads = kept
        if not kept:
            self.changes.secret = None
            self.secret = self.former_secret
            self.changes.withheld = not self.changes.leftovers
            # What has not been asked yet is not asked for this.
            self.reader.snapshot.finish()
            self.changes.superseded = (await self._superseded(self.secret, ())).free

    def changed_leftovers(self) -> list[Workload]:
        """The workloads of Kubernetes to write that have something taken away."""
        return _of_kubernetes(self.changes.leftovers)

    def changed_selected(self) -> list[Workload]:
        """The workloads of Kubernetes to write that are selected, and differ."""
        return _of_kubernetes(self.changes.workloads)

    def changed_operations(self) -> list[Operations]:
        """What was done to workloads that are to be written, of whatever place they are."""
        return [*self.changes.leftovers, *self.changes.workloads]

    def changed_workloads(self) -> list[Workload]:
        """The workloads of Kubernetes to write: all that were settled and differ.

        Those of another place are in :meth:`changed_operations` alone.
        """
        return self.changed_leftovers() + _of_kubernetes(self.changes.workloads)


FindWorkloads: TypeAlias = Callable[[BaseContext], Workloads]


def of_kubernetes(context: BaseContext) -> Finder:
    """Finds the workloads of a binding in Kubernetes."""
    former = Former(
        owner=context.owner,
        secret=context.former_secret,
        volume=context.volume_name,
        directory=context.binding_name,
        variables=list(context.env_bindings),
        env_from=context.bind_as_env,
    )
    reference = context.workload_reference()
    return Finder(context.reader, reference, former, context.kinds, context.secret)


def _changed(projections: Iterable[Operations]) -> list[Operations]:
    return [item for item in projections if item.settled and item.workload.changed]


def _of_kubernetes(changed: Iterable[Operations]) -> list[Workload]:
    return [item.workload for item in changed if isinstance(item.workload, Workload)]


def part(binding: Object, *path: str) -> JSON:
    """An object within a binding; an empty one where there is none."""
    value: Any = binding.to_dict()
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def decoded(binding: Object, type_: type[Decoded], nothing: JSON) -> Decoded:
    """A binding as its type; of one that is deleted and does not fit it, ``nothing`` is the spec.

    What was projected for it is on record, and it must not stay for ever.

    Raises:
        msgspec.ValidationError: it does not fit its type.
    """
    try:
        return binding.decode(type_)
    except msgspec.ValidationError:
        if not binding.meta.deleting:
            raise
    body = {**binding.to_dict(), "spec": nothing}
    body.pop("status", None)
    return msgspec.convert(body, type_)


def selector_dict(selector: Any) -> JSON | None:
    """A typed label selector as JSON, None when there is none."""
    if selector is None:
        return None
    result: JSON = json.loads(msgspec.json.encode(selector))
    return result
