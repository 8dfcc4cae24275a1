"""The seam: all that a handler may read, and all that it may decide and write.

Handlers speak to nothing else. Another kind of binding, or another place to bind in, is another
context; the handlers stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fairlead.api.conditions import ConditionStatus
from fairlead.api.meta import JSON
from fairlead.binding.services.definitions import Definition
from fairlead.binding.services.items import Item, SecretSource
from fairlead.binding.services.service import Service
from fairlead.binding.workloads.operations import Operations


class Flow(msgspec.Struct):
    """The state of one pass; the effects of its methods are those of the original's flow control.

    ``transient`` tells that no watched object will announce the end of the trouble, so that the
    pass has to be repeated after a while. ``waiting`` tells that something has not come yet, which
    is how every binding begins whose service is made at the same time. ``stage`` is the first in
    which there was an error, or that stopped the pass.
    """

    retry: bool = False
    stop: bool = False
    error: str = ""
    transient: bool = False
    waiting: bool = False
    stage: str = ""

    def retry_processing(self, error: str = "", *, transient: bool = False) -> None:
        """Stop now and come again, with or without an error."""
        self.retry = self.stop = True
        self.error = error
        self.transient = self.transient or transient

    def wait_for_change(self, lacking: str) -> None:
        """Stop now; the next pass begins when what is lacking comes, for it is watched."""
        self.retry_processing(lacking)
        self.waiting = True

    def fail(self, error: str) -> None:
        """Record an error; it takes :meth:`stop_processing` to stop."""
        self.error = error

    def stop_processing(self) -> None:
        """Run no further handler."""
        self.stop = True


class Context(Protocol):
    """One binding in one pass.

    Methods that read are coroutines, and raise ReadError where the answer is none. Handlers let
    PassEnded go through.
    """

    flow: Flow

    @property
    def binding_name(self) -> str:
        """The directory of the binding below the binding root."""

    @property
    def volume_name(self) -> str:
        """The name of the projected volume."""

    @property
    def former_secret(self) -> str:
        """The Secret that an earlier pass projected, "" when none did."""

    @property
    def secret(self) -> str:
        """The Secret to project, once :meth:`choose_secret` decided it."""

    @property
    def unbind_requested(self) -> bool:
        """Whether projections have to go, in this pass at least."""

    @property
    def bind_as_files(self) -> bool:
        """Whether entries are files."""

    @property
    def bind_as_env(self) -> bool:
        """All entries as environment variables, with files or without."""

    @property
    def file_mode(self) -> int | None:
        """The mode that files are to have, None for the default."""

    @property
    def content_mark(self) -> str:
        """What changes with the Secret's content, "" where pods need not be made anew for it."""

    @property
    def env_bindings(self) -> Sequence[tuple[str, str]]:
        """Single entries as environment variables: (variable, entry)."""

    @property
    def container_names(self) -> Sequence[str]:
        """The containers to bind; none means all."""

    @property
    def naming_strategy(self) -> str:
        """The naming strategy in force: a predefined one's name, or a template."""

    @property
    def mappings(self) -> Sequence[tuple[str, str]]:
        """Extra entries: (name, template)."""

    async def services(self) -> list[Service]:
        """The backing services."""

    async def crd(self, service: Service) -> JSON | None:
        """The CustomResourceDefinition of a service's kind, None when it has none."""

    async def owned_resources(self, service: Service) -> list[JSON]:
        """ConfigMaps, Secrets, Services and Routes that the service owns, if they are wanted."""

    async def read_secret(self, namespace: str, name: str) -> JSON:
        """A Secret."""

    async def read_config_map(self, namespace: str, name: str) -> JSON:
        """A ConfigMap."""

    async def found(self, definition: Definition, service: Service) -> JSON | None:
        """What a definition finds, None where it may and does find nothing.

        Raises CollectError, also where all definitions together go beyond the binding's budget,
        and ValueError where an entry of a Secret is none.
        """

    async def give_way(self) -> None:
        """Let other passes work first, before what takes long."""

    async def projections(self) -> list[Operations]:
        """The selected workloads but for the refused ones; MappingError: their mapping is broken.

        Raises ReadError also where none is there, and gives none where the binding selects none.
        """

    async def ineligible(self) -> str:
        """Why workloads of the kind that is referred to are none; "" where they may be."""

    async def leftovers(self) -> list[Operations]:
        """Workloads that are projected onto but not selected any more."""

    async def bound(self) -> list[Operations]:
        """All workloads that are projected onto, selected or not."""

    def refuse(self, projection: Operations, why: str) -> None:
        """Leave a workload as it is, and say why."""

    async def drop_superseded(self) -> None:
        """Have generated Secrets deleted that nothing reads any more."""

    def doubt(self, why: str) -> None:
        """Say that something of former workloads may be left, and come again."""

    @property
    def refusals(self) -> list[str]:
        """Why workloads were left as they are."""

    def add_source(self, source: SecretSource) -> None:
        """Add the entries of an existing Secret; TooManyEntries where it cannot be."""

    def add_item(self, item: Item) -> None:
        """Add an entry; TooManyEntries where it cannot be."""

    def items(self) -> list[Item]:
        """All entries, in the order in which later ones win."""

    async def choose_secret(self) -> None:
        """Decide which Secret is projected and what it contains; ValueError when it cannot be."""

    def drop_mapping_annotation(self) -> bool:
        """Have the annotation of the superseded mapping removed; whether there was one."""

    def persist(self) -> None:
        """Write what was decided: Secret, workloads, annotation, Secrets to delete.

        Contexts of a cluster collect it for whoever runs the pipeline and can wait for a server.
        """

    async def open(self) -> None:
        """Judge the binding; always the first call. InvalidBinding: it contradicts itself."""

    def set_condition(
        self, type_: str, status: ConditionStatus, reason: str, message: str = ""
    ) -> None:
        """Set a condition in this pass."""

    def close(self) -> None:
        """Settle the Ready condition; always the last call."""

    async def template_data(self) -> Mapping[str, Any]:
        """What templates of mappings see: services by id, then items by name."""
