"""Adding one binding to one workload, and removing it, without changing others' items.

A :class:`Projection` replaces the binding's former items by the requested ones, and raises an
error on a conflict. :meth:`Projection.settle` removes items that were not requested again, and
records the rest. If two bindings want the same place, the one that was created first gets it: both
come to the same result without coordination.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.api.servicebinding.wishes import CLIENT_ANNOTATION
from fairlead.binding import bounds
from fairlead.binding.expressions.fixedpath import ProjectionError, read, write
from fairlead.binding.workloads.holdings import (
    Holding,
    Key,
    is_as_wanted,
    key_of,
    managers_of,
    name_of,
    naming,
    secret_of_source,
    secret_of_volume,
    with_added,
)
from fairlead.binding.workloads.records import (
    BindingRecord,
    BoundContainer,
    ContainerPath,
    content_key,
    write_record,
)
from fairlead.binding.workloads.reference import ReferenceProjection
from fairlead.binding.workloads.workload import (
    Container,
    ContainerTemplate,
    TooMuchEffortError,
    Workload,
)


MANAGER = "fairlead"
"""Beginning of the field managers of our programs."""


OTHER_NAME = (
    "remove that variable, or use another name in spec.env, "
    f"or by annotation {CLIENT_ANNOTATION}: url=NAME"
)
"""Remedy where the name of a variable is taken."""

_REFERENCE = re.compile(r"\$\(([^)]+)\)")
"""Reference to a variable in the text of another one."""

_LOOKS = 3
"""Number of passes over a list when an item is added, for the cost of the edit."""


class ProjectionOwner(msgspec.Struct, frozen=True):
    """A binding's identity in records; ``created`` is its creationTimestamp."""

    uid: str
    group: str
    namespace: str
    name: str
    created: str

    @property
    def rank(self) -> tuple[str, str, str]:
        """Sort key: of two bindings in a namespace the lower one has precedence in each pass."""
        return self.created, self.name, self.uid

    def __str__(self) -> str:
        return f"ServiceBinding {self.namespace}/{self.name} of {self.group}"


class InTheWayError(ProjectionError):
    """Another writer's item is in the place of the binding's."""


class FixedError(ProjectionError):
    """The workload's kind is immutable after creation."""


class Projection:
    """One binding on one workload.

    ``former`` is the binding's record; ``secrets`` are the Secrets that it has projected so far.
    ``others`` are the records of other bindings on the workload, by owner; ``alive`` returns
    whether an owner still exists. ``variables`` are those of the binding's spec, by which the
    reference runtime's are recognized; None for an API that the runtime does not handle.
    """

    def __init__(
        self,
        workload: Workload,
        owner: ProjectionOwner,
        former: BindingRecord | None,
        *,
        secrets: Collection[str] = (),
        others: Mapping[ProjectionOwner, BindingRecord] | None = None,
        alive: Callable[[ProjectionOwner], Awaitable[bool]] | None = None,
        variables: Collection[tuple[str, str]] | None = None,
    ) -> None:
        self.workload = workload
        self.is_recorded = former is not None
        """Whether the workload has a known projection of the binding."""
        self.settled = False
        """Whether the workload is in its wanted state, and so may be written."""
        self._owner = owner
        self._secrets = {*secrets} - {""}
        self._asked_mode = former.mode if former else None
        effort = workload.effort
        self._mine = Holding(workload.body, former, secrets, effort) if former else None
        self._others = {
            other: Holding(workload.body, record, effort=effort)
            for other, record in (others or {}).items()
        }
        self._alive = alive
        self._kept_keys: set[Key] = set()
        self._rooted: list[Container] = []
        """Containers to which this pass gives SERVICE_BINDING_ROOT, or in which it keeps it."""
        self._places: dict[ContainerTemplate, ContainerPath] = {}
        self._next = BindingRecord(
            group=owner.group,
            name=owner.name,
            created=owner.created,
            workload=workload.original.meta.name,
            secret="",
        )
        # All that the runtime writes is named after the uid, which hardly any workload has.
        named = owner.uid and f"-{owner.uid}".encode() in workload.original.raw
        if variables is not None and named:
            reference = ReferenceProjection(
                workload, owner.uid, variables, self._is_others_variable
            )
            if reference.there:
                self.is_recorded = True
                # Removed at once, since the next requests use the same places.
                reference.remove()

    @property
    def is_whole(self) -> bool:
        """Whether the workload has a projection of the binding of which nothing was removed."""
        return self.is_recorded and not (self._mine and self._mine.lost())

    def containers(self, names: Collection[str]) -> list[Container]:
        """Return the containers to bind; raises ProjectionError if the workload has none."""
        return self.workload.containers(names)

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Add a volume of a Secret; without a mode an existing volume keeps its own.

        Raises:
            ProjectionError: another volume has the name.
        """
        if name in self.workload.claims:
            raise InTheWayError(
                f"{self.workload} has a volume {name} of .spec.volumeClaimTemplates, which Pods"
                " would mount instead of the binding: give the binding another spec.name"
            )
        volumes = self.workload.volumes()
        source: dict[str, Any] = {"secretName": secret}
        chosen = mode
        for there in volumes:
            if any(other.is_volume(there) for other in self._others.values()):
                # Another binding's mode must not be inherited.
                continue
            if mode is None and name_of(there) == name and secret_of_volume(there):
                # API servers add a mode by default.
                mode = there["secret"].get("defaultMode")
                # A mode that the binding requested earlier and no longer does is dropped.
                mode = None if mode == self._asked_mode else mode
        source |= {} if mode is None else {"defaultMode": mode}
        if self._mine:
            for there in filter(self._mine.is_volume, volumes):
                # A mode is decided above, and not kept as a field that others added.
                there["secret"].pop("defaultMode", None)
        path = self.workload.template.volumes
        ours = await self._put(
            volumes,
            "volume",
            {"name": name, "secret": source},
            same=lambda item: name_of(item) == name,
            is_held=lambda holding, item: holding.is_volume(item),
            what=lambda: (
                f"{self.workload} has a volume {name} at .{'.'.join(path)}",
                "rename that volume, or give the binding another spec.name",
            ),
        )
        self._next.volume, self._next.secret, self._next.mode = name, secret, chosen
        self._next.volumes = path if ours else ()

    async def mount(self, container: Container, volume: str, directory: str) -> None:
        """Mount a volume at a directory below the container's binding root.

        Raises:
            ProjectionError: another mount has the path, or the binding root is unknown.
        """
        path = self.path(container, directory)
        ours = await self._put(
            container.volume_mounts(),
            "mount",
            {"name": volume, "mountPath": path},
            # By the path, since API servers refuse two mounts of a container at one path.
            same=lambda item: item.get("mountPath") == path,
            is_held=lambda holding, item: holding.is_mount(container, item),
            what=lambda: (
                f"{container} of {self.workload} mounts something at {path}",
                "move that mount, or give the binding another spec.name",
            ),
        )
        if ours:
            bound = self._bound(container)
            bound.mount, bound.root = path, bound.root or self._is_rooted(container)

    async def variable(self, container: Container, name: str, key: str, secret: str) -> None:
        """Add a variable with the value of a Secret's entry.

        Raises:
            ProjectionError: another variable has the name.
        """
        value = {"valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        ours = await self._put_variable(container, name, value)
        self._next.secret = secret
        if ours and name not in self._bound(container).env:
            self._bound(container).env.append(name)

    async def text(self, container: Container, name: str, text: str) -> None:
        """Add a variable with a text, after all variables that it refers to by ``$(NAME)``.

        Raises:
            ProjectionError: another variable has the name.
        """
        if not await self._put_variable(container, name, {"value": text}):
            return
        self._bound(container).texts[name] = text
        env, names = container.env(), set(_REFERENCE.findall(text))
        self.workload.effort.spend(len(env))
        last = max((at for at, item in enumerate(env) if name_of(item) in names), default=-1)
        position = next(at for at, item in enumerate(env) if name_of(item) == name)
        if position < last:
            # Kubelets expand variables in order.
            env.insert(last, env.pop(position))

    async def _put_variable(self, container: Container, name: str, value: dict[str, Any]) -> bool:
        return await self._put(
            container.env(),
            "variable",
            {"name": name, **value},
            same=lambda item: name_of(item) == name,
            is_held=lambda holding, item: holding.is_variable(container, item),
            what=lambda: (
                f"{container} of {self.workload} has a variable {name}",
                OTHER_NAME,
            ),
        )

    def path(self, container: Container, directory: str) -> str:
        """Return the path of a directory below the container's binding root.

        Raises:
            ProjectionError: the binding root is unknown.
        """
        ours = self._is_root_ours(container)
        path = mount_path(container, directory, ours=ours)
        if ours:
            self._rooted.append(container)
        return path

    async def whole(self, container: Container, secret: str) -> None:
        """Add every entry of a Secret as a variable.

        Raises:
            ProjectionError: another binding projects the same Secret.
        """
        source = {"secretRef": {"name": secret}}
        former = self._mine
        ours = await self._put(
            container.env_from(),
            "source",
            source,
            same=lambda item: (
                secret_of_source(item) == secret
                or (former is not None and former.is_source(container, item))
            ),
            is_held=lambda holding, item: holding.is_source(container, item),
            what=lambda: (
                f"{container} of {self.workload} takes its variables from Secret {secret}",
                "remove one of the two bindings",
            ),
        )
        self._next.secret = secret
        if ours:
            self._bound(container).env_from = True

    async def secret_name(self, path: str, secret: str) -> None:
        """Write the Secret's name at a dotted path, over any value that is there.

        Raises:
            ProjectionError: another binding has the path, or a parent is not an object.
        """
        for other, holding in list(self._others.items()):
            if holding.record.secret_path == path:
                what = f"{self.workload} has the name of a Secret at .{path}"
                await self._contend(other, what, "give one of the two another secretPath")
        # A single value and not a list: the binding that requests the path owns it.
        write(self.workload.body, tuple(path.split(".")), secret)
        self._next.secret_path, self._next.secret = path, secret

    def content(self, mark: str) -> None:
        """Mark the pods' template, so that another mark causes a rollout.

        Raises:
            ProjectionError: the pods' annotations cannot be written.
        """
        path = self.workload.template.annotations
        write(self.workload.body, (*path, content_key(self._owner.uid)), mark)
        # Recorded, so that the mark is found after a change of the mapping.
        self._next.annotations = path

    def settle(self) -> str:
        """Remove items that were not requested again, and record the rest.

        Returns:
            A message on an immutable workload that keeps its state; else "".

        Raises:
            FixedError: the workload is immutable, and has no projection of the binding.
        """
        if self._mine:
            # At an unchanged path this pass has replaced the mark; that of a former path goes.
            if self._mine.record.annotations != self._next.annotations:
                self._unmark(self._owner, self._mine)
            self._mine.remove(self._kept_keys)
            self._remove_roots(self._mine)
        self._next.containers = [place for place in self._places.values() if place.bound]
        # Also without items of ours: a record that lists none shows that none was lost.
        noted = self._next.secret or self._next.annotations
        write_record(self.workload.body, self._owner.uid, self._next if noted else None)
        refusal = self._keep() if self.workload.stays else ""
        self.settled = True
        return refusal

    def _keep(self) -> str:
        if not self.is_recorded:
            owner = self.workload.original.meta.controller()
            raise FixedError(
                f"{self.workload} was created without this binding and cannot be changed any"
                " more, because Kubernetes changes neither Pods nor the Pods of Jobs after their"
                " creation: "
                + (
                    f"bind {owner.kind} {owner.name}, which created it, or the controller of that"
                    if owner
                    else "delete it and create it again, with the projector on for its kind "
                    "(fairlead manifests binding --project)"
                )
            )
        self.workload.restore()
        return f"{self.workload} keeps what it was created with"

    def take_away(self) -> str:
        """Remove all of the binding's items from the workload, and its record.

        Returns:
            A message on what stays in the places of items, or has a Secret of the binding without
            a record that says whose it is; else "".

        Raises:
            FixedError: the workload is immutable, and has not finished.
        """
        moved, roots = False, list[str]()
        if self._mine:
            moved = bool(self._mine.lost())
            self._unmark(self._owner, self._mine)
            self._mine.remove()
            roots = self._remove_roots(self._mine)
        left = ""
        if self.workload.stays:
            if not self.workload.finished:
                raise FixedError(
                    f"{self.workload} has this binding and cannot be changed any more: delete it, "
                    "or wait until it has finished"
                )
            # A finished Pod or Job may keep its items: without the record it is unbound.
            self.workload.restore()
        else:
            left = "; ".join(filter(None, [self._left(moved=moved), *roots]))
        write_record(self.workload.body, self._owner.uid, None)
        self.settled = True
        return left

    def _is_root_ours(self, container: Container) -> bool:
        """Whether a binding has added SERVICE_BINDING_ROOT to a container, or is about to.

        Without a record that says so, our programs alone have to have written it.
        """
        if not any(name_of(item) == ROOT_VARIABLE for item in container.env()):
            return True
        holdings = [*([self._mine] if self._mine else []), *self._others.values()]
        if any(holding.has_root(container) for holding in holdings):
            return True
        if self._is_rooted(container):
            return True
        managers = managers_of(self.workload.original.to_dict(), container, ROOT_VARIABLE)
        return bool(managers) and all(name.startswith(MANAGER) for name in managers)

    def _is_rooted(self, container: Container) -> bool:
        # By the body: a mapping may name a container twice, with other lists of mounts.
        return any(other.body is container.body for other in self._rooted)

    def _remove_roots(self, mine: Holding) -> list[str]:
        """Remove SERVICE_BINDING_ROOT where a binding has added it and nothing is mounted there.

        Return messages on those that another manager owns too.
        """
        left: list[str] = []
        for container in mine.containers():
            mounts = container.volume_mounts(create=False)
            # Also of other controllers' bindings.
            if not mine.has_root(container) or any(map(_is_below_root, mounts)):
                continue
            env = container.env(create=False)
            if not any(map(_is_root, env)):
                continue
            managers = managers_of(self.workload.original.to_dict(), container, ROOT_VARIABLE)
            others = sorted(name for name in managers if not name.startswith(MANAGER))
            if others:
                left.append(
                    f"{self.workload} keeps {ROOT_VARIABLE} in {container}, which"
                    f" {', '.join(others)} sets too: to set another value, use force once (helm"
                    " upgrade --force-conflicts)"
                )
            else:
                env[:] = [item for item in env if not _is_root(item)]
        return left

    def _left(self, *, moved: bool) -> str:
        """Return a message on what unbinding leaves on the workload; "" for nothing.

        With ``moved`` it includes what names a Secret of the binding elsewhere.
        """
        others = self._others.values()
        items: list[str] = []
        if self._mine:
            why = "which another writer has changed, or which the binding cannot give back"
            items = self._mine.replaced(others)
            if moved:
                record, containers = self._mine.record, self._mine.containers()
                secrets = self._secrets | {record.secret}
                items += naming(self.workload.body, record.volumes, containers, secrets, others)
        elif not self.is_recorded:
            why = "and no record says whether they are this binding's"
            path, containers = self.workload.template.volumes, self._present()
            items = naming(self.workload.body, path, containers, self._secrets, others)
        items = list(dict.fromkeys(items))
        if not items:
            return ""
        more = f" and {len(items) - bounds.NAMED} more" if len(items) > bounds.NAMED else ""
        return (
            f"{self.workload} keeps {', '.join(items[: bounds.NAMED])}{more}, {why}: remove what"
            " nothing needs any more"
        )

    def _present(self) -> list[Container]:
        try:
            return self.workload.containers()
        except TooMuchEffortError:
            raise
        # Another kind of object has the name now: there is nothing in containers.
        except ProjectionError:
            return []

    async def _put(
        self,
        items: list[Any],
        kind: str,
        body: dict[str, Any],
        *,
        same: Callable[[Any], bool],
        is_held: Callable[[Holding, Any], bool],
        what: Callable[[], tuple[str, str]],
    ) -> bool:
        """Add an item to a list; return False if another writer's equal item is there."""
        self.workload.effort.spend(_LOOKS * len(items) + 1)
        key = key_of(items, kind, body)
        if key in self._kept_keys:
            # Two paths of the mapping lead to one container.
            return False
        rivals = [item for item in items if same(item)]
        # By identity, since another writer may have added an equal item.
        mine = next((item for item in rivals if self._mine and is_held(self._mine, item)), None)
        # Ours may be of another Secret so far, and the wanted one in its place already.
        moved = mine is not None and key_of(items, kind, mine) != key
        if mine is None or moved:
            for item in rivals:
                for other in [
                    projection
                    for projection, holding in self._others.items()
                    if is_held(holding, item)
                ]:
                    await self._contend(other, *what())
            rivals = [item for item in items if same(item) and item is not mine]
            # Another writer added such an item: it is left, and not removed with the binding.
            if any(is_as_wanted(item, body) for item in rivals):
                return False
            if rivals:
                place, remedy = what()
                raise InTheWayError(f"{place} that does not belong to this binding: {remedy}")
        if mine is None:
            items.append(body)
        else:
            position = next(n for n, item in enumerate(items) if item is mine)
            items[position] = with_added(body, mine)
        self._kept_keys.add(key)
        return True

    async def _contend(self, other: ProjectionOwner, what: str, remedy: str) -> None:
        """Remove the other binding's items if it has to yield; else raise InTheWayError.

        The binding that was created first keeps the place. A deleted binding's record is a
        leftover and yields.
        """
        if self._owner.rank > other.rank and await self._is_alive(other):
            raise InTheWayError(
                f"{what} that belongs to {other}, which was created first: {remedy}"
            )
        # All of the other's items go, with its record: its next pass finds the place taken, and
        # says so.
        holding = self._others.pop(other)
        self._unmark(other, holding)
        holding.remove()
        write_record(self.workload.body, other.uid, None)

    async def _is_alive(self, other: ProjectionOwner) -> bool:
        return self._alive is None or await self._alive(other)

    def _unmark(self, owner: ProjectionOwner, holding: Holding) -> None:
        annotations = read(self.workload.body, holding.record.annotations)
        if isinstance(annotations, dict):
            annotations.pop(content_key(owner.uid), None)

    def _is_others_variable(self, container: Container, item: Any) -> bool:
        return any(one.is_variable(container, item) for one in self._others.values())

    def _bound(self, container: Container) -> BoundContainer:
        template = container.template
        place = self._places.get(template)
        if place is None:
            place = self._places[template] = ContainerPath(
                path=template.expression,
                name=template.name or (),
                env=template.env,
                volume_mounts=template.volume_mounts,
            )
        return place.bound.setdefault(container.key, BoundContainer())


def _is_root(item: Any) -> bool:
    """Whether a variable is the binding root as bindings add it, or what is left of that."""
    return bool(
        name_of(item) == ROOT_VARIABLE
        and item.get("valueFrom") is None
        and item.get("value") in {None, "", DEFAULT_ROOT}
    )


def _is_below_root(mount: Any) -> bool:
    path = mount.get("mountPath") if isinstance(mount, dict) else None
    return isinstance(path, str) and path.startswith(f"{DEFAULT_ROOT}/")


def mount_path(container: Container, directory: str, *, ours: bool = False) -> str:
    """Return the path of a directory below the binding root; set SERVICE_BINDING_ROOT if missing.

    With ``ours`` the variable is a binding's, and its value is set again where it is missing: a
    manager that took it by force, and gave it back, leaves the name alone.

    Raises:
        ProjectionError: the root is unknown, since the variable has no literal value, or is not
            an absolute path.
    """
    env = container.env()
    # Programs see the last of several variables with one name.
    root = next((item for item in reversed(env) if item.get("name") == ROOT_VARIABLE), None)
    if root is None:
        # The specification's default; apps find bindings only by this variable.
        env.append({"name": ROOT_VARIABLE, "value": DEFAULT_ROOT})
        return f"{DEFAULT_ROOT}/{directory}"
    if ours and root.get("valueFrom") is None and not root.get("value"):
        root["value"] = DEFAULT_ROOT
    # Only the kubelet resolves valueFrom.
    if root.get("valueFrom") is not None:
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} with valueFrom, so it is unknown where to mount"
            " the binding; give the variable a literal value"
        )
    value = root.get("value")
    if not isinstance(value, str) or not value.startswith("/"):
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} to a value that is not an absolute path, so it is"
            " unknown where programs look for the binding; give it a literal value that begins"
            " with /"
        )
    # The kubelet expands $(NAME) in variables, but not in mount paths.
    if "$(" in value or "$$" in value:
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} with other variables, or with $$, so it is unknown"
            " where to mount the binding; give the variable a literal value"
        )
    path = posixpath.normpath(posixpath.join(value, directory))
    return f"/{path.lstrip('/')}"
