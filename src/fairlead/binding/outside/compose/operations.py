"""Operations of bindings on Compose services.

A service is a single container, so a binding's container names are ignored. A Secret is mounted as
one Compose secret per entry; a variable gets the value, since Compose has no references.
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
from fairlead.binding.outside.compose.project import Project, ProjectService
from fairlead.binding.reads import ReadError, ReadFailure
from fairlead.binding.workloads.projection import OTHER_NAME, InTheWayError, ProjectionOwner


_KEY = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z0-9]{1,253}")
"""Valid keys of Secrets, which become file names."""

_REFERENCE = re.compile(r"\$\(([^)]+)\)")
"""Reference to a variable, which Compose does not know: here it is expanded."""


class Put(msgspec.Struct):
    """The items of a binding on a service; ``root`` is its value of SERVICE_BINDING_ROOT.

    ``directories`` are paths in the container with their content, ``volumes`` their names in the
    binding.
    """

    owner: ProjectionOwner
    root: str = ""
    environment: dict[str, str] = {}
    directories: dict[str, Mapping[str, bytes]] = {}
    volumes: dict[str, str] = {}


class ComposeService:
    """A service for one binding; ``others`` are the items of other bindings."""

    # Compose files have no former items: each service differs from what was read.
    changed = True

    def __init__(
        self, service: ProjectService, put: Put, others: list[Put], secret_path: str
    ) -> None:
        self.service = service
        self.put = put
        self.others = others
        self.secret_path = secret_path

    def __str__(self) -> str:
        return f"Compose service {self.service.name}"


class ComposeOperations:
    """The operations of one binding on one service; ``content`` is its Secret's."""

    def __init__(self, workload: ComposeService, content: Mapping[str, bytes]) -> None:
        self.workload = workload
        self.settled = False
        self._content = content

    def containers(self, names: Collection[str]) -> list[ComposeService]:
        """Return the service itself; names are ignored."""
        return [self.workload]

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Add nothing: Compose mounts secrets without a volume.

        Raises:
            ProjectionError: the binding requests a mode of files, which is not supported.
        """
        if mode is not None:
            raise ProjectionError(
                f"{self.workload} has no mode for files: remove the annotation "
                f"{DEFAULT_MODE_ANNOTATION} of the binding"
            )

    async def mount(self, container: ComposeService, volume: str, directory: str) -> None:
        """Mount each entry of the Secret as a file in a directory below the binding root.

        Raises:
            ProjectionError: another mount has the path, or the binding root is unknown.
        """
        path = self.path(container, directory)
        self._check_entries()
        for mount in container.service.mounts:
            # A mount above the directory is fine: files are mounted within it.
            if mount == path or mount.startswith(f"{path}/"):
                raise InTheWayError(
                    f"{container} mounts something at {mount} that does not belong to this"
                    " binding: move that mount, or give the binding another spec.name"
                )
        for other in container.others:
            if path in other.directories:
                raise InTheWayError(
                    f"{container} mounts something at {path} that belongs to {other.owner}, which"
                    " comes first: give one of the two bindings another spec.name"
                )
        container.put.directories[path] = self._content
        container.put.volumes[path] = volume

    def path(self, container: ComposeService, directory: str) -> str:
        """Return the path of a directory below the binding root; raises ProjectionError."""
        return posixpath.join(self._root(), directory)

    async def variable(self, container: ComposeService, name: str, key: str, secret: str) -> None:
        """Add a variable with the value of an entry.

        Raises:
            ProjectionError: another variable has the name, or the value is not text.
        """
        self._check_variable(container, name, key)
        container.put.environment[name] = self._value(key)

    async def text(self, container: ComposeService, name: str, text: str) -> None:
        """Add a variable with a text, in which the binding's variables are expanded.

        Raises:
            ProjectionError: another variable has the name.
        """
        self._check_variable(container, name, "")
        environment = container.put.environment
        expanded = _REFERENCE.sub(
            lambda reference: environment.get(reference[1], reference[0]), text
        )
        environment[name] = expanded

    def _check_variable(self, container: ComposeService, name: str, key: str) -> None:
        if not name or "=" in name or "\0" in name or name == ROOT_VARIABLE:
            raise ProjectionError(
                f"{container} cannot have a variable {name!r} for entry {key!r}: use another name"
            )
        if name in container.service.environment:
            raise InTheWayError(
                f"{container} has a variable {name} that does not belong to this binding:"
                f" {OTHER_NAME}"
            )
        for other in container.others:
            if name in other.environment:
                raise InTheWayError(
                    f"{container} has a variable {name} that belongs to {other.owner}, which"
                    f" comes first: {OTHER_NAME}"
                )

    async def whole(self, container: ComposeService, secret: str) -> None:
        """Add every entry as a variable; raises as :meth:`variable` does."""
        for key in self._content:
            await self.variable(container, key, key, secret)

    async def secret_name(self, path: str, secret: str) -> None:
        """Raise ProjectionError: Compose has no references to Secrets."""
        raise ProjectionError(
            f"{self.workload} has no place for the name of a Secret: "
            "remove spec.application.bindingPath.secretPath"
        )

    def content(self, mark: str) -> None:
        """Do nothing: Compose itself recreates services whose configuration changed."""

    def settle(self) -> str:
        """Mark as settled: the project's files have no items of earlier runs."""
        self.settled = True
        return ""

    def take_away(self) -> str:
        """Remove all of the binding's items from the service."""
        self.workload.put = Put(self.workload.put.owner)
        self.settled = True
        return ""

    def _root(self) -> str:
        """Return the binding root, and set it if the service does not."""
        workload = self.workload
        if ROOT_VARIABLE not in workload.service.environment:
            workload.put.root = DEFAULT_ROOT
            return DEFAULT_ROOT
        root = workload.service.environment[ROOT_VARIABLE]
        # Compose replaces $NAME, and takes a variable without a value from the shell.
        if root is None or "$" in root or not root.startswith("/"):
            raise ProjectionError(
                f"{workload} takes {ROOT_VARIABLE} from elsewhere or has a relative path there,"
                " so it is unknown where to mount the binding; give it an absolute path"
            )
        return f"/{posixpath.normpath(root).lstrip('/')}"

    def _check_entries(self) -> None:
        for key in self._content:
            if not _KEY.fullmatch(key):
                raise ProjectionError(f"entry {key!r} of the binding cannot be the name of a file")

    def _value(self, key: str) -> str:
        try:
            text = self._content[key].decode()
        except UnicodeDecodeError:
            # Refused below, like a NUL, which no variable of a process can have.
            text = "\0"
        if "\0" in text:
            raise ProjectionError(
                f"entry {key!r} of the binding is not text, so it cannot be the value of a"
                " variable: bind files"
            )
        return text


class ComposePlan:
    """The items of bindings on the services of a project, by the bindings' uids."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.puts: dict[str, dict[str, Put]] = {}

    def workloads(self, context: BaseContext) -> ComposeWorkloads:
        """Return the finder of a binding's services."""
        return ComposeWorkloads(self, context)

    def others(self, service: str, owner: ProjectionOwner) -> list[Put]:
        """Return the items of other bindings on a service."""
        return [
            puts[service]
            for uid, puts in self.puts.items()
            if uid != owner.uid and service in puts
        ]

    def write(self, context: BaseContext) -> bool:
        """Store the items that a context persists; return whether they changed."""
        workloads = [item.workload for item in context.changes.workloads]
        puts = {one.service.name: one.put for one in workloads if isinstance(one, ComposeService)}
        before = self.puts.get(context.owner.uid, {})
        self.puts[context.owner.uid] = puts
        return puts != before


class ComposeWorkloads:
    """Finds the services that a binding names or selects, regardless of the workload's kind."""

    def __init__(self, plan: ComposePlan, context: BaseContext) -> None:
        self._plan = plan
        self._context = context
        self._reference = context.workload_reference()

    async def selected(
        self,
    ) -> tuple[list[ComposeOperations], list[tuple[ComposeOperations, ReadError]]]:
        """Return the services; raises ReadError without any."""
        content = self._context.content()
        return [self._operations(service, content) for service in self._services()], []

    async def leftovers(self) -> list[ComposeOperations]:
        """Return none: the project's files have no items of earlier runs."""
        return []

    async def bound(self) -> list[ComposeOperations]:
        """Return none: the project's files have no items of earlier runs."""
        return []

    def _services(self) -> list[ProjectService]:
        services = self._plan.project.services
        reference = self._reference
        if reference.selector is None:
            if not reference.name:
                return []
            matching = [one for name, one in services.items() if name == reference.name]
            criterion = f"is named {reference.name}"
        else:
            try:
                selector = reference.labels()
            except SelectorError as error:
                text = f"the workload's label selector is wrong: {error}"
                raise ReadError(ReadFailure("Invalid", text)) from None
            matching = [one for one in services.values() if selector.matches(one.labels)]
            criterion = "has the labels that the workload's selector asks for"
        if not matching:
            there = ", ".join(sorted(services)) or "none"
            text = f"no Compose service {criterion}; there are: {there}"
            raise ReadError(ReadFailure("NotFound", text))
        return matching

    def _operations(
        self, service: ProjectService, content: Mapping[str, bytes]
    ) -> ComposeOperations:
        owner = self._context.owner
        others = self._plan.others(service.name, owner)
        workload = ComposeService(service, Put(owner), others, self._reference.secret_path)
        return ComposeOperations(workload, content)
