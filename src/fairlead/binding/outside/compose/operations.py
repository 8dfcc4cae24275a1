"""What bindings do to services of Compose.

A service is one container, whatever a binding calls its containers. A Secret is mounted as one
Compose secret for each entry; a variable has its value, since Compose has no reference to one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Mapping

import msgspec

from fairlead.api.selectors import SelectorError
from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.api.servicebinding.wishes import DEFAULT_MODE_ANNOTATION
from fairlead.binding.contexts.base import BaseContext
from fairlead.binding.expressions.fixedpath import ProjectionError
from fairlead.binding.outside.compose.project import Project, Service
from fairlead.binding.reads import Failure, ReadError
from fairlead.binding.workloads.projection import InTheWayError, Owner


_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")
"""Keys of Secrets; they become names of files."""


class Put(msgspec.Struct):
    """What one binding has on one service; ``root`` is what it sets SERVICE_BINDING_ROOT to.

    ``directories`` are paths in the container with the content of each, ``volumes`` what the
    binding calls them.
    """

    owner: Owner
    root: str = ""
    environment: dict[str, str] = {}
    directories: dict[str, Mapping[str, bytes]] = {}
    volumes: dict[str, str] = {}


class ComposeService:
    """A service as a binding sees it; ``others`` is what other bindings have on it."""

    changed = True

    def __init__(self, service: Service, put: Put, others: list[Put], secret_path: str) -> None:
        self.service = service
        self.put = put
        self.others = others
        self.secret_path = secret_path

    def __str__(self) -> str:
        return f"Compose service {self.service.name}"


class ComposeOperations:
    """One binding on one service; ``content`` is that of its Secret."""

    def __init__(self, workload: ComposeService, content: Mapping[str, bytes]) -> None:
        self.workload = workload
        self.settled = False
        self._content = content

    def containers(self, names: Collection[str]) -> list[ComposeService]:
        """The service itself, whatever the names."""
        return [self.workload]

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Nothing yet: Compose mounts secrets without a volume.

        Raises:
            ProjectionError: files are to have a mode, which this cannot give them.
        """
        if mode is not None:
            raise ProjectionError(
                f"{self.workload} has no mode for files: remove the annotation "
                f"{DEFAULT_MODE_ANNOTATION} of the binding"
            )

    async def mount(self, container: ComposeService, volume: str, directory: str) -> None:
        """Have each entry of the Secret as a file in a directory below the binding root.

        Raises:
            ProjectionError: something else is there, or the root is not known.
        """
        path = posixpath.join(self._root(), directory)
        self._check_entries()
        for mount in container.service.mounts:
            if mount == path or mount.startswith(f"{path}/"):
                raise InTheWayError(
                    f"{container} mounts something at {mount} that is not this binding's: "
                    "move that mount, or give the binding another spec.name"
                )
        for other in container.others:
            if path in other.directories:
                raise InTheWayError(
                    f"{container} mounts something at {path} that is of {other.owner}, which "
                    "comes first: give one of the two bindings another spec.name"
                )
        container.put.directories[path] = self._content
        container.put.volumes[path] = volume

    async def variable(self, container: ComposeService, name: str, key: str, secret: str) -> None:
        """Have a variable with the value of an entry.

        Raises:
            ProjectionError: something else is there, or the value can be in no variable.
        """
        if not name or "=" in name or "\0" in name or name == ROOT_VARIABLE:
            raise ProjectionError(
                f"{container} cannot have a variable {name!r} for entry {key!r}: use another name"
            )
        if name in container.service.environment:
            raise InTheWayError(
                f"{container} has a variable {name} that is not this binding's: "
                "remove that variable, or use another name in spec.env"
            )
        for other in container.others:
            if name in other.environment:
                raise InTheWayError(
                    f"{container} has a variable {name} that is of {other.owner}, which comes "
                    "first: use another name in spec.env of one of the two"
                )
        container.put.environment[name] = self._value(key)

    async def whole(self, container: ComposeService, secret: str) -> None:
        """Have every entry as a variable; raises as :meth:`variable` does."""
        for key in self._content:
            await self.variable(container, key, key, secret)

    async def secret_name(self, path: str, secret: str) -> None:
        """Raises ProjectionError: Compose knows no Secret by its name."""
        raise ProjectionError(
            f"{self.workload} has no place for the name of a Secret: "
            "remove spec.application.bindingPath.secretPath"
        )

    def content(self, mark: str) -> None:
        """Nothing to do: services are made anew by whoever reads what is printed."""

    def settle(self) -> str:
        """Nothing is there from earlier: services are read without what was bound before."""
        self.settled = True
        return ""

    def take_away(self) -> None:
        """Have nothing of the binding on the service."""
        self.workload.put = Put(self.workload.put.owner)
        self.settled = True

    def _root(self) -> str:
        """The binding root, which is set where the service does not say it."""
        workload = self.workload
        if ROOT_VARIABLE not in workload.service.environment:
            workload.put.root = DEFAULT_ROOT
            return DEFAULT_ROOT
        root = workload.service.environment[ROOT_VARIABLE]
        if root is None or "$" in root or not root.startswith("/"):
            raise ProjectionError(
                f"{workload} takes {ROOT_VARIABLE} from elsewhere or has a relative path there, "
                "so where to mount the binding is unknown; give it an absolute path"
            )
        return f"/{posixpath.normpath(root).lstrip('/')}"

    def _check_entries(self) -> None:
        for key in self._content:
            if not _KEY.fullmatch(key):
                raise ProjectionError(f"entry {key!r} of the binding can be no name of a file")

    def _value(self, key: str) -> str:
        try:
            text = self._content[key].decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise ProjectionError(
                f"entry {key!r} of the binding is no text, so no variable can have it: bind files"
            )
        return text


class Plan:
    """What bindings have on the services of a project, by the uids of the bindings."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.puts: dict[str, dict[str, Put]] = {}

    def workloads(self, context: BaseContext) -> ComposeWorkloads:
        """Finds the services of a binding."""
        return ComposeWorkloads(self, context)

    def others(self, service: str, owner: Owner) -> list[Put]:
        """What bindings but this one have on a service."""
        return [
            puts[service]
            for uid, puts in self.puts.items()
            if uid != owner.uid and service in puts
        ]

    def write(self, context: BaseContext) -> bool:
        """Take over what a context persists; whether that is something else than before."""
        found = [item.workload for item in context.changes.workloads]
        puts = {one.service.name: one.put for one in found if isinstance(one, ComposeService)}
        before = self.puts.get(context.owner.uid, {})
        self.puts[context.owner.uid] = puts
        return puts != before


class ComposeWorkloads:
    """Finds the services that one binding names or selects; the kind of workload is not asked."""

    def __init__(self, plan: Plan, context: BaseContext) -> None:
        self._plan = plan
        self._context = context
        self._reference = context.workload_reference()

    async def selected(
        self,
    ) -> tuple[list[ComposeOperations], list[tuple[ComposeOperations, ReadError]]]:
        """The services; raises ReadError where none is there."""
        content = self._context.content()
        return [self._operations(service, content) for service in self._services()], []

    async def leftovers(self) -> list[ComposeOperations]:
        """None: Compose files are read without what was bound before."""
        return []

    async def bound(self) -> list[ComposeOperations]:
        """None, for the same reason."""
        return []

    def _services(self) -> list[Service]:
        services = self._plan.project.services
        reference = self._reference
        if reference.selector is None:
            if not reference.name:
                return []
            found = [one for name, one in services.items() if name == reference.name]
            wanted = f"is named {reference.name}"
        else:
            try:
                selector = reference.labels()
            except SelectorError as error:
                text = f"the workload's label selector is wrong: {error}"
                raise ReadError(Failure("Invalid", text)) from None
            found = [one for one in services.values() if selector.matches(one.labels)]
            wanted = "has the labels that the workload's selector asks for"
        if not found:
            there = ", ".join(sorted(services)) or "none"
            text = f"no Compose service {wanted}; there are: {there}"
            raise ReadError(Failure("NotFound", text))
        return found

    def _operations(self, service: Service, content: Mapping[str, bytes]) -> ComposeOperations:
        owner = self._context.owner
        others = self._plan.others(service.name, owner)
        workload = ComposeService(service, Put(owner), others, self._reference.secret_path)
        return ComposeOperations(workload, content)
