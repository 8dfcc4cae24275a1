"""The control plane without HTTP: the objects and checks that handlers and controllers use."""

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
        """The user as ``authentication.k8s.io/v1`` UserInfo."""
        info: JSON = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        if self.extra:
            info["extra"] = {name: list(values) for name, values in self.extra.items()}
        return {name: value for name, value in info.items() if value}


@dataclass(frozen=True)
class Operation:
    """A write that admission checks; ``old`` is None for a create, ``body`` for a delete."""

    verb: str
    type: ResourceType
    key: Key
    body: JSON | None
    old: Record | None
    subresource: str = ""
    user: User | None = None


@dataclass
class Core:
    """One control plane: its stored objects, its resources and its admission checks."""

    store: ObjectStore
    registry: ResourceRegistry
    admission: list[Admission] = field(default_factory=list)
    webhooks: Webhooks = field(init=False)

    def __post_init__(self) -> None:
        self.webhooks = Webhooks(self.store, self.registry)

    def admit(self, operation: Operation) -> None:
        """Run the admission checks on a write.

        Raises:
            StatusError: a check refuses the write.
        """
        for check in self.admission:
            check(operation)

    def get(self, type_: ResourceType, key: Key) -> Record | None:
        """Return the current object, None if there is none."""
        return self.store.collection(type_.collection).get(key)
