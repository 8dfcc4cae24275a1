"""The interface of handlers: everything that they may read, decide and write.

Handlers use nothing else. For another kind of binding, or another place to bind in, write another
context; the handlers need no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.api.conditions import ConditionStatus
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.wishes import DatabaseClient
from fairlead.binding.services.definitions import Definition
from fairlead.binding.services.items import Item, SecretSource
from fairlead.binding.services.service import Service
from fairlead.binding.workloads.operations import Operations


class Flow(msgspec.Struct):
    """The state of a pass; its methods act as the flow control of Service Binding Operator.

    Another pass comes by the watch of an object that this one read. ``transient`` says that no
    watch will show the end of the problem, so the controller makes one after a delay instead.
    ``retry`` is a statement for callers of the library, as golden records have it; the controller
    does not read it. ``waiting`` says that an object does not exist yet, which is normal
    for a binding that is created together with its service. ``stage`` is the first stage that
    had an error or stopped the pass.
    """

    retry: bool = False
    stop: bool = False
    error: str = ""
    transient: bool = False
    waiting: bool = False
    stage: str = ""

    def retry_processing(self, error: str = "", *, transient: bool = False) -> None:
        """Stop now, with or without an error; if ``transient``, a pass follows after a delay."""
        self.retry = self.stop = True
        self.error = error
        self.transient = self.transient or transient

    def wait_for_change(self, lacking: str) -> None:
        """Stop now; the missing object is watched, so its arrival starts the next pass."""
        self.retry_processing(lacking)
        self.waiting = True

    def fail(self, error: str) -> None:
        """Record an error, without stopping: see :meth:`stop_processing`."""
        self.error = error

    def stop_processing(self) -> None:
        """Run no further handler."""
        self.stop = True


class Context(Protocol):
    """One binding in one pass.

    Methods that read are coroutines, and raise ReadError if the read fails. Handlers must not
    catch PassEnded.
    """

    flow: Flow

    @property
    def binding_name(self) -> str:
        """Directory of the binding below the binding root."""

    @property
    def volume_name(self) -> str:
        """Name of the projected volume."""

    @property
    def former_secret(self) -> str:
        """The Secret that an earlier pass projected, "" without one."""

    @property
    def secret(self) -> str:
        """The Secret to project, after :meth:`choose_secret`."""

    @property
    def unbind_requested(self) -> bool:
        """Whether this pass has to remove projections."""

    @property
    def bind_as_files(self) -> bool:
        """Whether entries are files."""

    @property
    def bind_as_env(self) -> bool:
        """Whether all entries become environment variables, with files or without."""

    @property
    def file_mode(self) -> int | None:
        """The mode of files, None for the default."""

    @property
    def client(self) -> DatabaseClient | None:
        """The client library whose variables containers get, None without one."""

    @property
    def content_mark(self) -> str:
        """A mark of the Secret's content, "" if new content needs no rollout of pods."""

    @property
    def env_bindings(self) -> Sequence[tuple[str, str]]:
        """Pairs of variable and entry, for single environment variables."""

    @property
    def container_names(self) -> Sequence[str]:
        """Names of the containers to bind; empty for all."""

    @property
    def naming_strategy(self) -> str:
        """The naming strategy: a predefined name or a template."""

    @property
    def mappings(self) -> Sequence[tuple[str, str]]:
        """Pairs of name and template, for additional entries."""

    async def services(self) -> list[Service]:
        """Return the backing services."""

    async def crd(self, service: Service) -> JSON | None:
        """Return the CustomResourceDefinition of a service's kind, None without one."""

    async def owned_resources(self, service: Service) -> list[JSON]:
        """Return ConfigMaps, Secrets, Services and Routes that a service owns, if requested."""

    async def read_secret(self, namespace: str, name: str) -> JSON:
        """Return a Secret."""

    async def read_config_map(self, namespace: str, name: str) -> JSON:
        """Return a ConfigMap."""

    async def evaluate(self, definition: Definition, service: Service) -> JSON | None:
        """Evaluate a definition; return None if it is optional and finds nothing.

        Raises CollectError, also if all definitions together exceed the binding's budget, and
        ValueError for a malformed entry of a Secret.
        """

    async def give_way(self) -> None:
        """Let other passes work before a long computation: they share one event loop."""

    async def projections(self) -> list[Operations]:
        """Return the selected workloads without refused ones; raises MappingError.

        Raises ReadError also if a named workload does not exist; a selector may match none.
        """

    async def ineligible(self) -> str:
        """Return why the referenced kind may not be a workload; "" if it may."""

    async def leftovers(self) -> list[Operations]:
        """Return workloads with a projection that are no longer selected."""

    async def bound(self) -> list[Operations]:
        """Return all workloads with a projection, selected or not."""

    def refuse(self, projection: Operations, why: str) -> None:
        """Leave a workload unchanged for a reason."""

    async def drop_superseded(self) -> None:
        """Choose generated Secrets that nothing reads any more; the caller deletes them."""

    async def drop_secrets(self) -> None:
        """Choose all generated Secrets; the caller deletes them. Raises ReadError."""

    def leave(self, projection: Operations, what: str) -> None:
        """Tell what unbinding leaves on a workload, which nothing can tell afterwards."""

    @property
    def left(self) -> list[str]:
        """The items that unbinding leaves on workloads, in words."""

    def doubt(self, why: str) -> None:
        """Report that former workloads may have a projection; a pass follows after a delay."""

    @property
    def refusals(self) -> list[str]:
        """The reasons why workloads were left unchanged."""

    def add_source(self, source: SecretSource) -> None:
        """Add the entries of an existing Secret; raises TooManyEntries."""

    def add_item(self, item: Item) -> None:
        """Add an entry; raises TooManyEntries."""

    def items(self) -> list[Item]:
        """Return all entries; of equal names the last one wins."""

    async def choose_secret(self) -> None:
        """Decide which Secret is projected and its content; raises ValueError."""

    def drop_mapping_annotation(self) -> bool:
        """Mark the annotation of the superseded mapping for removal; return whether it exists."""

    def persist(self) -> None:
        """Hand over the decisions: Secret, workloads, annotation, Secrets to delete.

        Nothing is written here: the pipeline's caller does that, which can wait for a server.
        """

    async def open(self) -> None:
        """Validate the binding; always the first call. Raises InvalidBinding."""

    def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition in this pass."""

    def close(self) -> None:
        """Set the condition Ready; always the last call."""

    async def template_data(self) -> Mapping[str, Any]:
        """Return the data of mapping templates: services by id, then items by name."""


def in_one(texts: Iterable[str]) -> str:
    """Join messages into one that says each thing once; empty ones are left out.

    A message that another one contains is said already.
    """
    messages = [text for text in dict.fromkeys(texts) if text]
    return "; ".join(
        text for text in messages if not any(text != other and text in other for other in messages)
    )
