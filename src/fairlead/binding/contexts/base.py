"""The common part of all contexts: reading, collecting, and settling the outcome."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import msgspec

from fairlead.api.conditions import Condition, ConditionStatus
from fairlead.api.meta import JSON, Object
from fairlead.api.servicebinding.common import (
    APPLICATION_NOT_FOUND,
    APPLICATION_UPDATE_ERROR,
    APPLICATIONS_BOUND,
    COLLECTION_READY,
    ERROR,
    ERROR_PERSISTING_SECRET,
    INJECTION_READY,
    MAPPING_ANNOTATION,
    PODS_REFUSED,
    PROCESSING_ERROR,
    READY,
    ROLLOUT_FAILING,
    ROLLOUT_STUCK,
)
from fairlead.api.servicebinding.wishes import DatabaseClient, Wishes, read_wishes
from fairlead.binding import bounds
from fairlead.binding.contexts.outcome import BindingChanges, BindingSecret, conditions_after
from fairlead.binding.contexts.protocol import Flow, in_one
from fairlead.binding.contexts.reader import Reader
from fairlead.binding.contexts.superseded import Superseded, generated, superseded
from fairlead.binding.contexts.workloads import Finder
from fairlead.binding.reads import FailureCode, Lookup, ReadError, Snapshot
from fairlead.binding.services.clients import client_traces
from fairlead.binding.services.definitions import Definition
from fairlead.binding.services.evaluations import Evaluations
from fairlead.binding.services.items import (
    Entries,
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
from fairlead.binding.workloads.projection import ProjectionOwner
from fairlead.binding.workloads.records import kinds_to_note, read_kinds
from fairlead.binding.workloads.rollout import is_rolling, is_unobserved, rollout_failure
from fairlead.binding.workloads.takeover import Former
from fairlead.binding.workloads.workload import FIXED, Workload


Decoded = TypeVar("Decoded")


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class InvalidBinding(ValueError):  # noqa: N818 (a finding)
    """The binding's spec is contradictory; the text names the field and the remedy."""


class ServicesRefused(InvalidBinding):
    """The binding may not name one of its services; the text says why, and what helps.

    Its projection stays until its spec changes.
    """


class BaseContext:
    """One binding in one pass; subclasses define the fields and the status of their API.

    ``workloads`` returns the finder of workloads, by default of those in Kubernetes.
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
        self.status_before: JSON = part(binding, "status")
        self.secret = ""
        self.content_mark = ""
        self.changes = BindingChanges()
        self.service_failure: FailureCode | None = None
        self.reader = Reader(snapshot, binding.meta)
        self.entries = Entries()
        self._find = workloads or of_kubernetes
        self._services: list[Service] | None = None
        self._projections: Sequence[Operations] | None = None
        self._leftovers: Sequence[Operations] | None = None
        self._refused: dict[int, str] = {}
        self._said: dict[str, Condition] = {}
        self._is_rolled_out = False
        self._changes = BindingChanges()
        self._wishes = Wishes()
        try:
            self._wishes = read_wishes(self.meta.annotations)
        except ValueError as error:
            if not self.meta.deleting:
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
        """The name of the Secret in the status."""
        raise NotImplementedError

    def status(self, now: str) -> JSON:
        """Return the whole status after this pass."""
        raise NotImplementedError

    # What stays the same for a pass is computed once: handlers ask for it for each container.
    @cached_property
    def reference(self) -> WorkloadReference:
        """The reference to workloads, read once per pass."""
        return self.workload_reference()

    @cached_property
    def _references(self) -> list[ServiceReference]:
        return self.service_references()

    @cached_property
    def binding_name(self) -> str:
        """``spec.name``, or the binding's own name."""
        return self.spec_name() or self.meta.name

    @cached_property
    def volume_name(self) -> str:
        """The binding name if it is a valid volume name, else one derived from it."""
        name = self.binding_name
        if len(name) <= 63 and _LABEL.fullmatch(name):
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        start = re.sub("[^-a-z0-9]", "-", name).strip("-")[:54].rstrip("-")
        return f"{start or 'binding'}-{digest}"

    @cached_property
    def bind_as_env(self) -> bool:
        """Whether entries become variables: without files, or in addition to them."""
        return not self.bind_as_files or self._wishes.environment

    @cached_property
    def file_mode(self) -> int | None:
        """The mode of files in the binding's annotation, None without one."""
        return self._wishes.mode

    @cached_property
    def client(self) -> DatabaseClient | None:
        """The client library in the binding's annotation, None without one."""
        return self._wishes.client

    def secret_type(self, content: Mapping[str, bytes]) -> str:
        """Return the type of a Secret with this content, "" for the default."""
        return ""

    @cached_property
    def container_names(self) -> Sequence[str]:
        """The containers of the workload reference."""
        return self.reference.containers

    @cached_property
    def unbind_requested(self) -> bool:
        """Whether the binding is being deleted, or projected again after its mapping changed."""
        return self.meta.deleting or MAPPING_ANNOTATION in self.meta.annotations

    async def open(self) -> None:
        """Read what the binding names before the first stage, in up to three rounds."""
        # Unbinding goes by records and needs no service, which may be gone.
        if not self.unbind_requested:
            await self.reader.look_ahead(self._references, self.reference)

    async def services(self) -> list[Service]:
        """Return the backing services, read once per pass."""
        if self._services is None:
            try:
                self._services = await self.reader.services(self._references)
            except ReadError as error:
                self.service_failure = error.failure.code
                raise
        return self._services

    @property
    def services_read(self) -> Sequence[Service]:
        """The backing services that the pass has read."""
        return self._services or ()

    async def crd(self, service: Service) -> JSON | None:
        """Return the CRD of a service's kind."""
        return await self.reader.crd(service.resource)

    async def owned_resources(self, service: Service) -> list[JSON]:
        """Return the objects that a service owns, if the binding requests them."""
        return await self.reader.owned(service) if self.detect_owned else []

    async def read_secret(self, namespace: str, name: str) -> JSON:
        """Return a Secret."""
        return await self.reader.secret(namespace, name)

    async def read_config_map(self, namespace: str, name: str) -> JSON:
        """Return a ConfigMap."""
        return await self.reader.config_map(namespace, name)

    @cached_property
    def _evaluations(self) -> Evaluations:
        return Evaluations(self.give_way)

    async def evaluate(self, definition: Definition, service: Service) -> JSON | None:
        """Evaluate a definition within the binding's budget."""
        return await self._evaluations.evaluate(definition, service.body, self)

    async def give_way(self) -> None:
        """Let other passes work before a long computation: they share one event loop."""
        await self.reader.snapshot.give_way()

    @cached_property
    def owner(self) -> ProjectionOwner:
        """The binding's identity in its records."""
        return ProjectionOwner(
            uid=self.meta.uid,
            group=self.binding.api_version.partition("/")[0],
            namespace=self.meta.namespace,
            name=self.meta.name,
            created=self.meta.creation_timestamp or "",
        )

    @cached_property
    def _workloads(self) -> Workloads:
        return self._find(self)

    async def projections(self) -> list[Operations]:
        """Return the selected workloads that were not refused, read once per pass."""
        if self._projections is None:
            self._projections, denied = await self._workloads.selected()
            for projection, error in denied:
                self.refuse(projection, str(error))
                self.flow.transient = self.flow.transient or error.transient
            if denied and len(denied) == len(self._projections):
                raise denied[0][1]
        return [item for item in self._projections if id(item) not in self._refused]

    async def ineligible(self) -> str:
        """Return why the referenced kind may not be a workload; "" if it may."""
        return await self.reader.ineligible(self.reference)

    async def leftovers(self) -> list[Operations]:
        """Return the workloads with a projection of this binding that it no longer selects."""
        if self._leftovers is None:
            self._leftovers = await self._workloads.leftovers()
        return list(self._leftovers)

    async def bound(self) -> list[Operations]:
        """Return all workloads with a projection of this binding, selected or not."""
        if self._leftovers is None:
            self._leftovers = await self._workloads.bound()
        return list(self._leftovers)

    async def drop_secrets(self) -> None:
        """Choose all generated Secrets, also those that may be read; the caller deletes them."""
        secrets = await generated(self.reader, self.owner)
        self._changes.superseded = [(one.meta.name, one.meta.uid) for one in secrets]

    async def drop_superseded(self) -> None:
        """Choose generated Secrets that nothing reads any more; the caller deletes them."""
        changing = _of_kubernetes(_changed([*(self._leftovers or ()), *(self._projections or ())]))
        self._changes.superseded, self._changes.keeps_secrets = await self._superseded(
            self.secret, changing
        )

    async def _superseded(self, current: str, changing: Iterable[Workload]) -> Superseded:
        kinds = dict.fromkeys([self.reference.lookup, *(self.kinds or ())])
        return await superseded(self.reader, self.owner, kinds, current, changing)

    def refuse(self, projection: Operations, why: str) -> None:
        """Leave a workload unchanged for a reason; the others are still projected onto."""
        self._refused[id(projection)] = why

    def leave(self, projection: Operations, what: str) -> None:
        """Tell what unbinding leaves on a workload, which nothing can tell afterwards."""
        self._changes.left.append((projection, what))

    @property
    def left(self) -> list[str]:
        """The items that unbinding leaves on workloads, in words."""
        return [what for _, what in self._changes.left]

    def doubt(self, why: str) -> None:
        """Report that former workloads may have a projection; a pass follows after a delay."""
        # Other keys are the ids of workloads; 0 is the id of none, and stands for former ones.
        self._refused[0] = why
        self.flow.transient = True

    @property
    def refusals(self) -> list[str]:
        """The reasons why workloads were left unchanged."""
        return list(self._refused.values())

    @cached_property
    def kinds(self) -> list[Lookup] | None:
        """The kinds that the binding's annotation notes; None for a binding from before notes."""
        return read_kinds(self.meta.annotations)

    def kinds_to_note(self) -> str | None:
        """Return the annotation of workload kinds, if it has to change before projecting.

        The binding's own kind is added when its workloads could be read: nothing is projected onto
        others.
        """
        kind = self.reference.lookup if self.reader.kind_is_read else None
        return kinds_to_note(self.kinds, kind, projected=bool(self.former_secret))

    def add_source(self, source: SecretSource) -> None:
        """Add the entries of an existing Secret."""
        self.entries.add_source(source)

    def add_item(self, item: Item) -> None:
        """Add an entry."""
        self.entries.add_item(item)

    def items(self) -> list[Item]:
        """Return all entries; of equal names the last one wins."""
        return self.entries.items()

    async def template_data(self) -> Mapping[str, Any]:
        """Return the data of templates: services by id, then items by their present names."""
        data: dict[str, Any] = {item.id: item.body for item in await self.services() if item.id}
        for item in self.items():
            value = item.value
            data[item.name] = value.decode(errors="replace") if isinstance(value, bytes) else value
        return data

    async def choose_secret(self) -> None:
        """Choose the only Secret as it is, or an intermediate one named by its content.

        Raises:
            ValueError: an entry's name is not a valid key, or the content is too large.
        """
        direct = self.entries.direct(self.meta.namespace)
        if direct:
            self.secret = direct
            # A generated Secret's name changes with its content; this one's does not.
            self.content_mark = digest(merge(self.items())) if self._wishes.roll else ""
            return
        content = self.entries.content()
        if not content:
            return
        self.secret = await self._generated_name(content)
        owner = self.binding.owner_reference()
        self._changes.secret = BindingSecret(
            namespace=self.meta.namespace,
            name=self.secret,
            content=content,
            owner=msgspec.structs.replace(owner, block_owner_deletion=None),
            type=self.secret_type(content),
        )

    async def _generated_name(self, content: Mapping[str, bytes]) -> str:
        """Return a name that changes with the content, so that new content is rolled out."""
        name, other = (make(self.meta.name, content) for make in (secret_name, other_name))
        if self.former_secret == other:
            name = other
        there = await self.reader.own_secret(name)
        if there is not None and is_mistaken(there, content):
            name = other
            await self.reader.own_secret(name)
        return name

    def content(self) -> dict[str, bytes]:
        """Return the content of the Secret to project, by key."""
        return merge(self.items())

    def drop_mapping_annotation(self) -> bool:
        """Mark the annotation for removal; return whether the binding has it."""
        self._changes.annotation = MAPPING_ANNOTATION in self.meta.annotations
        return self._changes.annotation

    def persist(self) -> None:
        """Hand over all decisions in ``changes``, which the pipeline's caller writes."""
        self.changes = msgspec.structs.replace(
            self._changes,
            leftovers=_changed(self._leftovers or ()),
            workloads=_changed(self._projections or ()),
        )

    def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition; conditions that a pass does not set keep their state."""
        generation = self.meta.generation
        self._said[type_] = Condition(
            type_, status, reason, message, observed_generation=generation
        )

    def get_condition(self, type_: str) -> Condition | None:
        """Return the condition of a type that this pass set."""
        return self._said.get(type_)

    def conditions(self, now: str) -> list[JSON]:
        """Return the conditions after this pass, with reason and message even if empty."""
        after = conditions_after(self.status_before, self._said.values(), now)
        gone = {ROLLOUT_FAILING} if self._is_rolled_out else set()
        return [condition for condition in after if condition["type"] not in gone]

    def close(self) -> None:
        """Set Ready: False with the error if there is one, else True unless it is deleted.

        It is False, too, if a handler has stopped the pass without a word on what is projected.
        Also set RolloutFailing while workloads say that their rollout fails.
        """
        self._report_rollouts()
        if self.flow.error:
            self.set_condition(READY, "False", PROCESSING_ERROR, self.flow.error)
        elif self.meta.deleting:
            return
        elif self._is_stopped_early:
            text = f"{self.flow.stage} has stopped the pass before anything was projected"
            self.set_condition(INJECTION_READY, "False", ERROR, text)
            self.set_condition(READY, "False", PROCESSING_ERROR, text)
        else:
            collected = self._said.get(COLLECTION_READY)
            # CollectionReady True has a message only if entries hide others.
            hidden = collected.message if collected else ""
            self.set_condition(READY, "True", APPLICATIONS_BOUND, hidden)

    @property
    def _is_stopped_early(self) -> bool:
        """Whether a handler stopped the pass without a word on what is projected.

        A pass that only takes off what a former mapping had projected is followed by another.
        """
        unsaid = self.get_condition(INJECTION_READY) is None
        return self.flow.stop and unsaid and not self._changes.annotation

    def _report_rollouts(self) -> None:
        """Set RolloutFailing, or take it away when each workload has rolled out or is gone.

        It stays as it is while that is not known. It is no part of Ready: the binding has done its
        part, and an app that runs as before is no reason to take it for unbound.
        """
        if self._projections is None:
            condition = self._said.get(INJECTION_READY)
            is_gone = condition is not None and condition.reason == APPLICATION_NOT_FOUND
            self._is_rolled_out = is_gone and self.flow.waiting
            return
        bound, written = self._bound_workloads(), {id(one) for one in self.changed_selected()}
        failures = {
            str(workload): failure
            for workload in bound
            if id(workload) not in written and (failure := rollout_failure(workload.body))
        }
        if failures:
            texts = [f"{name}: {failure.text}" for name, failure in failures.items()]
            more = len(texts) - bounds.NAMED
            text = "; ".join(texts[: bounds.NAMED] + ([f"and {more} more"] if more > 0 else []))
            reasons = {failure.reason for failure in failures.values()}
            reason = PODS_REFUSED if PODS_REFUSED in reasons else ROLLOUT_STUCK
            self.set_condition(ROLLOUT_FAILING, "True", reason, text)
        else:
            unobserved = any(is_unobserved(one.body) for one in bound)
            self._is_rolled_out = not written and not unobserved

    def _bound_workloads(self) -> list[Workload]:
        """Return the selected workloads with a projection of the binding, whose rollout counts."""
        key = self.reader.record_key
        return [
            projection
            for projection in _of_kubernetes(self._projections or ())
            if (projection.resource.group, projection.resource.plural) not in FIXED
            and key in projection.original.meta.annotations
        ]

    def rolling(self) -> list[Workload]:
        """Return the workloads that this pass writes, or whose rollout may still fail."""
        if self.meta.deleting:
            return []
        written = {id(one): one for one in self.changed_selected()}
        rolling = {id(one): one for one in self._bound_workloads() if is_rolling(one.body)}
        return [*(written | rolling).values()]

    def workload_failed(self, *messages: str) -> None:
        """Report that a workload was not stored as wanted; a pass follows after a delay."""
        text = in_one([self.flow.error, *messages])
        self.set_condition(INJECTION_READY, "False", ERROR, text)
        self.set_condition(READY, "False", APPLICATION_UPDATE_ERROR, text)
        self.flow.retry_processing(text, transient=True)

    def secret_failed(self, message: str) -> None:
        """Report that the intermediate Secret could not be written, and project nothing."""
        self.secret = ""
        self.set_condition(COLLECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(INJECTION_READY, "False", ERROR_PERSISTING_SECRET, message)
        self.set_condition(READY, "False", ERROR_PERSISTING_SECRET, message)
        self.flow.retry_processing(message, transient=True)

    async def withhold(self, workloads: Collection[Workload]) -> None:
        """Leave selected workloads unchanged in this pass; projections are still removed.

        If no workload is left to write, the Secret is not written either: nothing would read it.
        """
        names = {id(workload) for workload in workloads}
        changes = [one for one in self.changes.workloads if id(one.workload) not in names]
        self.changes.workloads = changes
        if not changes:
            self.changes.secret = None
            self.secret = self.former_secret
            self.changes.withheld = not self.changes.leftovers
            # The look for superseded Secrets must not cause further reads.
            self.reader.snapshot.finish()
            self.changes.superseded = (await self._superseded(self.secret, ())).free

    def changed_leftovers(self) -> list[Workload]:
        """Return the workloads in Kubernetes to write whose projection was removed."""
        return _of_kubernetes(self.changes.leftovers)

    def changed_selected(self) -> list[Workload]:
        """Return the selected workloads in Kubernetes to write."""
        return _of_kubernetes(self.changes.workloads)

    def first_projections(self) -> list[Workload]:
        """Return the workloads in Kubernetes to write that get their first projection."""
        key = self.reader.record_key
        return [one for one in self.changed_selected() if key not in one.original.meta.annotations]

    def changed_operations(self) -> list[Operations]:
        """Return the operations on all workloads to write, in Kubernetes or elsewhere."""
        return [*self.changes.leftovers, *self.changes.workloads]

    def changed_workloads(self) -> list[Workload]:
        """Return the workloads in Kubernetes to write: those settled and changed.

        Workloads of another place are only in :meth:`changed_operations`.
        """
        return self.changed_leftovers() + _of_kubernetes(self.changes.workloads)


FindWorkloads: TypeAlias = Callable[[BaseContext], Workloads]


def of_kubernetes(context: BaseContext) -> Finder:
    """Return the finder of a binding's workloads in Kubernetes."""
    traces = client_traces(context.client, context.env_bindings, binding=context.binding_name)
    former = Former(
        owner=context.owner,
        directory=context.binding_name,
        secret=context.former_secret,
        volume=context.volume_name,
        variables=list(context.env_bindings),
        env_from=context.bind_as_env,
        of_client=traces.pairs,
        texts=traces.texts,
        reference=traces.reference,
    )
    return Finder(context.reader, context.reference, former, context.kinds, lambda: context.secret)


def _changed(projections: Iterable[Operations]) -> list[Operations]:
    return [item for item in projections if item.settled and item.workload.changed]


def _of_kubernetes(changed: Iterable[Operations]) -> list[Workload]:
    return [item.workload for item in changed if isinstance(item.workload, Workload)]


def part(binding: Object, *path: str) -> JSON:
    """Return an object within a binding; an empty one if it is missing."""
    value: Any = binding.to_dict()
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def decoded(binding: Object, type_: type[Decoded], nothing: JSON) -> Decoded:
    """Decode a binding without its status, which no spec depends on, however malformed it is.

    A malformed binding that is being deleted gets ``nothing`` as its spec: it can still be unbound
    by its records, and must not stay forever.

    Raises:
        msgspec.ValidationError: the binding does not fit its type.
    """
    body = binding.to_dict()
    body.pop("status", None)
    try:
        return msgspec.convert(body, type_)
    except msgspec.ValidationError:
        if not binding.meta.deleting:
            raise
    return msgspec.convert({**body, "spec": nothing}, type_)
