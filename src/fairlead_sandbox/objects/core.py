"""The control plane without HTTP: what handlers and controllers work on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairlead.api.meta import JSON, Key
from fairlead_sandbox.resources.registry import ResourceRegistry
from fairlead_sandbox.resources.types import ResourceType
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectStore
from fairlead_sandbox.webhooks.conversation import Webhooks


Admission = Callable[["Operation"], None]


@dataclass(frozen=True)
class User:
    """The user of a request."""

    name: str = "system:anonymous"
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def info(self) -> JSON:
        """``authentication.k8s.io/v1`` UserInfo."""
        found: JSON = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        if self.extra:
            found["extra"] = {name: list(values) for name, values in self.extra.items()}
        return {name: value for name, value in found.items() if value}


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

    store: ObjectStore
    registry: ResourceRegistry
    admission: list[Admission] = field(default_factory=list)
    webhooks: Webhooks = field(init=False)

    def __post_init__(self) -> None:
        self.webhooks = Webhooks(self.store, self.registry)

    def admit(self, operation: Operation) -> None:
        """Run the checks of admission on a write.

        Raises:
            StatusError: the write is refused.
        """
        for check in self.admission:
            check(operation)

    def get(self, type_: ResourceType, key: Key) -> Record | None:
        """The current object, if there is one."""
        return self.store.collection(type_.collection).get(key)
