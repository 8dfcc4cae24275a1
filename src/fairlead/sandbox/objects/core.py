"""The control plane without HTTP: what handlers and controllers work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairlead.api.meta import JSON, Key
from fairlead.sandbox.errors import StatusError
from fairlead.sandbox.requests.info import RequestInfo
from fairlead.sandbox.requests.negotiation import Accept
from fairlead.sandbox.resources.registry import Registry
from fairlead.sandbox.resources.types import ResourceType
from fairlead.sandbox.storage.records import Record
from fairlead.sandbox.storage.store import Store
from fairlead.sandbox.storage.wakeups import Wakeups


Admission = Callable[["Operation"], None]


@dataclass(frozen=True)
class User:
    """Who asks."""

    name: str = "system:anonymous"
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A write before it happens; ``old`` is None for a create, ``body`` for a delete."""

    verb: str
    type: ResourceType
    key: Key
    body: JSON | None
    old: Record | None
    subresource: str = ""
    user: User | None = None


@dataclass
class Core:
    """One control plane: its objects, its resources, and what may refuse a write."""

    store: Store
    registry: Registry
    admission: list[Admission] = field(default_factory=list)
    wakeups: Wakeups = field(default_factory=Wakeups)

    def admit(self, operation: Operation) -> None:
        """Ask everyone who may refuse.

        Raises:
            StatusError: the write is refused.
        """
        for check in self.admission:
            check(operation)

    def get(self, type_: ResourceType, key: Key) -> Record | None:
        """The current object, if there is one."""
        return self.store.collection(type_.collection).get(key)


@dataclass(frozen=True)
class Call:
    """One request to one resource, read but not yet answered."""

    core: Core
    type: ResourceType
    info: RequestInfo
    query: Mapping[str, str]
    accept: Accept
    body: bytes
    content_type: str
    user: User
    user_agent: str = ""

    @property
    def manager(self) -> str:
        """Who owns what the call writes: the field manager, else the program that asks."""
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    @property
    def key(self) -> Key:
        """The object asked for."""
        namespace = self.info.namespace if self.type.resource.namespaced else ""
        return Key(namespace, self.info.name)

    @property
    def dry_run(self) -> bool:
        """Whether the write must leave no trace."""
        return bool(self.query.get("dryRun"))


@dataclass(frozen=True)
class Answer:
    """A response that is sent in one piece."""

    body: bytes
    code: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """Texts for Warning headers."""


def error_answer(error: StatusError) -> Answer:
    """The answer that tells of an error."""
    return Answer(error.body(), error.code, headers=error.headers)
