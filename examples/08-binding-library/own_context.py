"""A context of one's own: services from a settings file, workloads that are processes.

The stages are those of the specification. ``SettingsContext`` has another source of services;
``Processes`` finds workloads that are no Kubernetes objects, and ``ProcessOperations`` is what can
be done to one. Run it with Fairlead installed: python examples/08-binding-library/own_context.py
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from fairlead.api.meta import object_from_dict
from fairlead.api.resource import SECRETS
from fairlead.binding import (
    BaseContext,
    Objects,
    ReadError,
    ReadFailure,
    Service,
    Snapshot,
    SpecBuilder,
    SpecContext,
)


SETTINGS = {"orders-db": {"type": "postgresql", "host": "db.example"}}
RUNNING: dict[str, Process] = {}


@dataclass(frozen=True)
class Process:
    """A process that is to be started, with its environment and its files."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


class ProcessTarget:
    """A process as a binding sees it: ``body`` is a copy, which alone is changed."""

    secret_path = ""

    def __init__(self, original: Process) -> None:
        self.original = original
        self.body = copy.deepcopy(original)

    @property
    def changed(self) -> bool:
        return self.body != self.original

    def __str__(self) -> str:
        return f"process {self.original.name}"


class ProcessOperations:
    """One binding on one process, which is its own and only container."""

    def __init__(self, workload: ProcessTarget, context: BaseContext) -> None:
        self.workload = workload
        self.settled = False
        self._content = context.content

    def containers(self, names: Collection[str]) -> list[Process]:
        return [self.workload.body]

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Nothing to do: files are written where they are mounted."""

    async def mount(self, container: Process, volume: str, directory: str) -> None:
        path = self.path(container, directory)
        for name, value in self._content().items():
            container.files[f"{path}/{name}"] = value

    async def variable(self, container: Process, name: str, key: str, secret: str) -> None:
        container.environment[name] = self._content()[key].decode()

    def path(self, container: Process, directory: str) -> str:
        root = container.environment.setdefault("SERVICE_BINDING_ROOT", "/run/bindings")
        return f"{root}/{directory}"

    async def text(self, container: Process, name: str, text: str) -> None:
        for other, value in container.environment.items():
            text = text.replace(f"$({other})", value)
        container.environment[name] = text

    async def whole(self, container: Process, secret: str) -> None:
        for key in self._content():
            await self.variable(container, key, key, secret)

    async def secret_name(self, path: str, secret: str) -> None:
        """Nothing to do: processes know no Secrets by name."""

    def content(self, mark: str) -> None:
        """Nothing to do: processes are started with what is there then."""

    def settle(self) -> str:
        self.settled = True
        return ""

    def take_away(self) -> str:
        self.workload.body.environment.clear()
        self.workload.body.files.clear()
        # Only what is settled is handed over to be written, here as in settle.
        self.settled = True
        return ""


class Processes:
    """Finds the process that a binding names."""

    def __init__(self, context: BaseContext) -> None:
        self._context = context

    async def selected(self) -> tuple[list[ProcessOperations], list[Any]]:
        name = self._context.workload_reference().name
        if name not in RUNNING:
            raise ReadError(ReadFailure("NotFound", f"no process is named {name}"))
        return [ProcessOperations(ProcessTarget(RUNNING[name]), self._context)], []

    async def leftovers(self) -> list[ProcessOperations]:
        return []

    async def bound(self) -> list[ProcessOperations]:
        return (await self.selected())[0]


class SettingsContext(SpecContext):
    """Reads services from settings; each of them is a Secret to the stages."""

    async def services(self) -> list[Service]:
        (reference,) = self.service_references()
        if reference.name not in SETTINGS:
            raise ReadError(ReadFailure("NotFound", f"no settings are named {reference.name}"))
        secret = await self.read_secret("", reference.name)
        return [Service(object_from_dict(secret), SECRETS)]

    async def read_secret(self, namespace: str, name: str) -> dict[str, Any]:
        data = {
            key: base64.b64encode(text.encode()).decode() for key, text in SETTINGS[name].items()
        }
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def provide(binding: Any, snapshot: Snapshot) -> SettingsContext:
    """The context provider: what the stages of a builder work on."""
    return SettingsContext(binding, snapshot, workloads=Processes)


BUILDER = SpecBuilder().without("unbind_leftovers", "drop_superseded").provided_by(provide)


def run(binding: dict[str, Any]) -> None:
    """One pass, and what it decided written: until then no process has changed."""
    context = BUILDER.process(object_from_dict(binding), Objects().answer)
    for operations in context.changed_operations():
        if isinstance(operations.workload, ProcessTarget):
            written = operations.workload.body
            RUNNING[written.name] = written
    state = "unbound" if context.meta.deleting else "bound"
    print(binding["spec"]["workload"]["name"], context.flow.error or state)


def binding(name: str, **metadata: Any) -> dict[str, Any]:
    """The binding of a process, with more of its metadata."""
    return {
        "apiVersion": "servicebinding.io/v1",
        "kind": "ServiceBinding",
        "metadata": {"name": "db", "namespace": "local", "uid": "1", **metadata},
        "spec": {
            "service": {"apiVersion": "settings/v1", "kind": "Settings", "name": "orders-db"},
            "workload": {"apiVersion": "processes/v1", "kind": "Process", "name": name},
        },
    }


def main() -> None:
    """Bind one process, and one that is not there; then unbind the first."""
    RUNNING["orders"] = Process("orders")
    run(binding("orders"))
    run(binding("missing"))
    print("files:", *sorted(RUNNING["orders"].files))
    run(binding("orders", deletionTimestamp="2026-01-01T00:00:00Z"))
    print("files:", *sorted(RUNNING["orders"].files))


if __name__ == "__main__":
    main()
