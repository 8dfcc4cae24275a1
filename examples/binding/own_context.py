"""A context of one's own: services from a settings file, workloads that are processes.

The stages are those of the specification. ``SettingsContext`` has another source of services;
``Processes`` finds workloads that are no Kubernetes objects, and ``ProcessOperations`` is what can
be done to one. Run it with Fairlead installed: python examples/binding/own_context.py
"""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from fairlead.api.meta import object_from_dict
from fairlead.api.resource import SECRETS
from fairlead.binding import (
    BaseContext,
    Failure,
    Objects,
    ReadError,
    Service,
    Snapshot,
    SpecBuilder,
    SpecContext,
)


SETTINGS = {"orders-db": {"type": "postgresql", "host": "db.example"}}
RUNNING: dict[str, Process] = {}


class Process:
    """A process that is to be started, with its environment and its files."""

    secret_path = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self.environment: dict[str, str] = {}
        self.files: dict[str, bytes] = {}

    @property
    def changed(self) -> bool:
        return bool(self.environment or self.files)

    def __str__(self) -> str:
        return f"process {self.name}"


class ProcessOperations:
    """One binding on one process, which is its own and only container."""

    def __init__(self, workload: Process, context: BaseContext) -> None:
        self.workload = workload
        self.settled = False
        self._content = context.content

    def containers(self, names: Collection[str]) -> list[Process]:
        return [self.workload]

    def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Nothing to do: files are written where they are mounted."""

    def mount(self, container: Process, volume: str, directory: str) -> None:
        root = container.environment.setdefault("SERVICE_BINDING_ROOT", "/run/bindings")
        for name, value in self._content().items():
            container.files[f"{root}/{directory}/{name}"] = value

    def variable(self, container: Process, name: str, key: str, secret: str) -> None:
        container.environment[name] = self._content()[key].decode()

    def whole(self, container: Process, secret: str) -> None:
        for key in self._content():
            self.variable(container, key, key, secret)

    def secret_name(self, path: str, secret: str) -> None:
        """Nothing to do: processes know no Secrets by name."""

    def content(self, mark: str) -> None:
        """Nothing to do: processes are started with what is there then."""

    def settle(self) -> str:
        self.settled = True
        return ""

    def take_away(self) -> None:
        self.workload.environment.clear()
        self.workload.files.clear()


class Processes:
    """Finds the process that a binding names."""

    def __init__(self, context: BaseContext) -> None:
        self._context = context

    def selected(self) -> tuple[list[ProcessOperations], list[Any]]:
        name = self._context.workload_reference().name
        if name not in RUNNING:
            raise ReadError(Failure("NotFound", f"no process is named {name}"))
        return [ProcessOperations(RUNNING[name], self._context)], []

    def leftovers(self) -> list[ProcessOperations]:
        return []

    def bound(self) -> list[ProcessOperations]:
        return self.selected()[0]


class SettingsContext(SpecContext):
    """Reads services from settings; each of them is a Secret to the stages."""

    def services(self) -> list[Service]:
        (reference,) = self.service_references()
        if reference.name not in SETTINGS:
            raise ReadError(Failure("NotFound", f"no settings are named {reference.name}"))
        return [Service(object_from_dict(self.read_secret("", reference.name)), SECRETS)]

    def read_secret(self, namespace: str, name: str) -> dict[str, Any]:
        data = {
            key: base64.b64encode(text.encode()).decode() for key, text in SETTINGS[name].items()
        }
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def provide(binding: Any, snapshot: Snapshot) -> SettingsContext:
    """The context provider: what the stages of a builder work on."""
    return SettingsContext(binding, snapshot, workloads=Processes)


BUILDER = SpecBuilder().without("unbind_leftovers", "drop_superseded").provided_by(provide)


def main() -> None:
    """Bind one process, and one that is not there."""
    RUNNING["orders"] = Process("orders")
    for name in ("orders", "nobody"):
        binding = {
            "apiVersion": "servicebinding.io/v1",
            "kind": "ServiceBinding",
            "metadata": {"name": "db", "namespace": "local", "uid": "1"},
            "spec": {
                "service": {"apiVersion": "settings/v1", "kind": "Settings", "name": "orders-db"},
                "workload": {"apiVersion": "processes/v1", "kind": "Process", "name": name},
            },
        }
        context = BUILDER.process(object_from_dict(binding), Objects().answer)
        print(name, context.flow.error or "bound")
    print(*sorted(RUNNING["orders"].files))


if __name__ == "__main__":
    main()
