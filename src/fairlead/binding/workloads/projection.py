"""Putting one binding onto one workload, and taking it away, without touching others' things.

A :class:`Projection` puts what handlers ask for in the place of what the binding had there, and
says in an error what is in the way. :meth:`Projection.settle` takes away what was not asked for
again, and notes the rest in the binding's record. Of two bindings that want the same place the
one that was created first has it, so that both know it without asking one another.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from fairlead.api.servicebinding.common import DEFAULT_ROOT, ROOT_VARIABLE
from fairlead.binding.expressions.fixedpath import ProjectionError, read, write
from fairlead.binding.workloads.holdings import Holding, Key, key_of, name_of, secret_of_volume
from fairlead.binding.workloads.records import (
    Bound,
    ContainerPath,
    Record,
    content_key,
    write_record,
)
from fairlead.binding.workloads.reference import ReferenceProjection
from fairlead.binding.workloads.workload import Container, ContainerTemplate, Workload


_LOOKS = 3
"""How often a list is gone through when something is put into it."""


class Owner(msgspec.Struct, frozen=True):
    """A binding, as its records name it; ``created`` is its creationTimestamp."""

    uid: str
    group: str
    namespace: str
    name: str
    created: str

    @property
    def rank(self) -> tuple[str, str, str]:
        """Of two in one namespace the lower one comes first, whoever looks at them."""
        return self.created, self.name, self.uid

    def __str__(self) -> str:
        return f"ServiceBinding {self.namespace}/{self.name} of {self.group}"


class InTheWayError(ProjectionError):
    """Something that is not the binding's is where the binding has to go."""


class FixedError(ProjectionError):
    """The workload is of a kind that servers let nobody change once it is there."""


class Projection:
    """One binding on one workload.

    ``former`` is the binding's record; ``secrets`` are the Secrets it has projected so far.
    ``others`` are the records of other bindings on the workload, by their owners; ``alive`` tells
    whether one of them is still there. ``variables`` are those
    of the binding's spec, by which the reference runtime's are known; None where it has none.
    """

    def __init__(
        self,
        workload: Workload,
        owner: Owner,
        former: Record | None,
        *,
        secrets: Collection[str] = (),
        others: Mapping[Owner, Record] | None = None,
        alive: Callable[[Owner], Awaitable[bool]] | None = None,
        variables: Collection[tuple[str, str]] | None = None,
    ) -> None:
        self.workload = workload
        self.known = former is not None
        """Whether anything is known to be there."""
        self.settled = False
        """Whether the workload is as it has to be, and so may be written."""
        self._owner = owner
        self._asked_mode = former.mode if former else None
        effort = workload.effort
        self._mine = Holding(workload.body, former, secrets, effort) if former else None
        self._others = {
            other: Holding(workload.body, record, effort=effort)
            for other, record in (others or {}).items()
        }
        self._alive = alive
        self._kept: set[Key] = set()
        self._places: dict[ContainerTemplate, ContainerPath] = {}
        self._next = Record(group=owner.group, name=owner.name, created=owner.created, secret="")
        reference = (
            ReferenceProjection(workload, owner.uid, variables, self._is_others_variable)
            if variables is not None and owner.uid
            else None
        )
        if reference and reference.there:
            self.known = True
            # At once, for what is asked for next goes into the same place.
            reference.remove()

    def containers(self, names: Collection[str]) -> list[Container]:
        """The containers to bind; raises ProjectionError when the workload has none at all."""
        return self.workload.containers(names)

    async def volume(self, name: str, secret: str, mode: int | None = None) -> None:
        """Have a volume of a Secret; without a mode that of a volume which is there stays.

        Raises:
            ProjectionError: something else is there.
        """
        if name in self.workload.claims:
            raise InTheWayError(
                f"{self.workload} has a volume {name} of .spec.volumeClaimTemplates, which pods "
                "would mount in its place: give the binding another spec.name"
            )
        volumes = self.workload.volumes()
        source: dict[str, Any] = {"secretName": secret}
        asked = mode
        for there in volumes:
            if any(other.is_volume(there) for other in self._others.values()):
                # What another binding has asked for goes with it.
                continue
            if mode is None and name_of(there) == name and secret_of_volume(there):
                # API servers add a mode by default.
                mode = there["secret"].get("defaultMode")
                # What was asked for and is so no more goes.
                mode = None if mode == self._asked_mode else mode
        source |= {} if mode is None else {"defaultMode": mode}
        path = self.workload.template.volumes
        ours = await self._put(
            volumes,
            "volume",
            {"name": name, "secret": source},
            same=lambda item: name_of(item) == name,
            held=lambda holding, item: holding.is_volume(item),
            what=(
                f"{self.workload} has a volume {name} at .{'.'.join(path)}",
                "rename that volume, or give the binding another spec.name",
            ),
        )
        self._next.volume, self._next.secret, self._next.mode = name, secret, asked
        self._next.volumes = path if ours else ()

    async def mount(self, container: Container, volume: str, directory: str) -> None:
        """Mount a volume at a directory below the container's binding root.

        Raises:
            ProjectionError: something else is there, or the root is not known.
        """
        path = mount_path(container, directory)
        ours = await self._put(
            container.volume_mounts(),
            "mount",
            {"name": volume, "mountPath": path},
            same=lambda item: item.get("mountPath") == path,
            held=lambda holding, item: holding.is_mount(container, item),
            what=(
                f"{container} of {self.workload} mounts something at {path}",
                "move that mount, or give the binding another spec.name",
            ),
        )
        if ours:
            self._bound(container).mount = path

    async def variable(self, container: Container, name: str, key: str, secret: str) -> None:
        """Have a variable with the value of an entry of a Secret.

        Raises:
            ProjectionError: something else is there.
        """
        ours = await self._put(
            container.env(),
            "variable",
            {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}},
            same=lambda item: name_of(item) == name,
            held=lambda holding, item: holding.is_variable(container, item),
            what=(
                f"{container} of {self.workload} has a variable {name}",
                "remove that variable, or use another name in spec.env",
            ),
        )
        self._next.secret = secret
        if ours and name not in self._bound(container).env:
            self._bound(container).env.append(name)

    async def whole(self, container: Container, secret: str) -> None:
        """Have every entry of a Secret as a variable.

        Raises:
            ProjectionError: it cannot be put there.
        """
        wanted = {"secretRef": {"name": secret}}
        former = self._mine
        ours = await self._put(
            container.env_from(),
            "source",
            wanted,
            same=lambda item: (
                item == wanted or (former is not None and former.is_source(container, item))
            ),
            held=lambda holding, item: holding.is_source(container, item),
            what=(
                f"{container} of {self.workload} takes its variables from Secret {secret}",
                "remove one of the two bindings",
            ),
        )
        self._next.secret = secret
        if ours:
            self._bound(container).env_from = True

    async def secret_name(self, path: str, secret: str) -> None:
        """Have the Secret's name at a dotted path; it was asked for there, whatever it replaces.

        Raises:
            ProjectionError: another binding has it, or the path leads through something else.
        """
        for other, holding in list(self._others.items()):
            if holding.record.secret_path == path:
                what = f"{self.workload} has the name of a Secret at .{path}"
                await self._contend(other, what, "give one of the two another secretPath")
        # No list of things that may be of others, but one value: whoever asked for it has it.
        write(self.workload.body, tuple(path.split(".")), secret)
        self._next.secret_path, self._next.secret = path, secret

    def content(self, mark: str) -> None:
        """Have the pods made anew whenever the mark is another one.

        Raises:
            ProjectionError: the pods' annotations cannot be written.
        """
        path = self.workload.template.annotations
        write(self.workload.body, (*path, content_key(self._owner.uid)), mark)
        self._next.annotations = path

    def settle(self) -> str:
        """Take away what was not asked for again, and note the rest.

        Returns:
            what is left as it was, since it cannot be changed any more; "" for nothing.

        Raises:
            FixedError: the workload cannot be changed, and the binding is not on it.
        """
        if self._mine:
            if self._mine.record.annotations != self._next.annotations:
                self._unmark(self._owner, self._mine)
            self._mine.remove(self._kept)
        self._next.containers = [place for place in self._places.values() if place.bound]
        noted = (
            self._next.containers
            or self._next.volumes
            or self._next.secret_path
            or self._next.annotations
        )
        write_record(self.workload.body, self._owner.uid, self._next if noted else None)
        kept = self._keep() if self.workload.stays else ""
        self.settled = True
        return kept

    def _keep(self) -> str:
        if not self.known:
            raise FixedError(
                f"{self.workload} was created without this binding and cannot be changed any "
                "more: delete it and create it again, with the projector on for its kind "
                "(fairlead manifests binding --project)"
            )
        self.workload.restore()
        return f"{self.workload} keeps what it was created with"

    def take_away(self) -> None:
        """Take away all that the binding has on the workload, and its record.

        Raises:
            FixedError: it cannot be changed any more, and has not finished.
        """
        if self._mine:
            self._unmark(self._owner, self._mine)
            self._mine.remove()
        if self.workload.stays:
            if not self.workload.finished:
                raise FixedError(
                    f"{self.workload} has this binding and cannot be changed any more: delete it, "
                    "or wait until it has finished"
                )
            # What runs no more may keep it; only the record says that it is bound.
            self.workload.restore()
        write_record(self.workload.body, self._owner.uid, None)
        self.settled = True

    async def _put(
        self,
        items: list[Any],
        kind: str,
        wanted: dict[str, Any],
        *,
        same: Callable[[Any], bool],
        held: Callable[[Holding, Any], bool],
        what: tuple[str, str],
    ) -> bool:
        """Have an item in a list; whether it is the binding's, or one that was there just so."""
        self.workload.effort.spend(_LOOKS * len(items) + 1)
        key = key_of(items, kind, wanted)
        if key in self._kept:
            # Two paths of the mapping lead to one container.
            return False
        rivals = [item for item in items if same(item)]
        # Identity and not equality: the same text may be there twice, once as another's.
        mine = next((item for item in rivals if self._mine and held(self._mine, item)), None)
        if mine is None:
            for item in rivals:
                for other in [one for one, holding in self._others.items() if held(holding, item)]:
                    await self._contend(other, *what)
            rivals = [item for item in items if same(item)]
            # Somebody has put it there just so: it is left, and not taken away with the binding.
            if wanted in rivals:
                return False
            if rivals:
                raise InTheWayError(f"{what[0]} that is not this binding's: {what[1]}")
            items.append(wanted)
        else:
            items[next(n for n, item in enumerate(items) if item is mine)] = wanted
        self._kept.add(key)
        return True

    async def _contend(self, other: Owner, what: str, remedy: str) -> None:
        """Make the other binding yield, or yield to it."""
        # Nobody can ask a binding that is gone to yield; its record is a leftover.
        if self._owner.rank > other.rank and await self._is_alive(other):
            raise InTheWayError(f"{what} that is of {other}, which was created first: {remedy}")
        holding = self._others.pop(other)
        self._unmark(other, holding)
        holding.remove()
        write_record(self.workload.body, other.uid, None)

    async def _is_alive(self, other: Owner) -> bool:
        return self._alive is None or await self._alive(other)

    def _unmark(self, owner: Owner, holding: Holding) -> None:
        found = read(self.workload.body, holding.record.annotations)
        if isinstance(found, dict):
            found.pop(content_key(owner.uid), None)

    def _is_others_variable(self, container: Container, item: Any) -> bool:
        return any(one.is_variable(container, item) for one in self._others.values())

    def _bound(self, container: Container) -> Bound:
        template = container.template
        place = self._places.get(template)
        if place is None:
            place = self._places[template] = ContainerPath(
                path=template.expression,
                name=template.name or (),
                env=template.env,
                volume_mounts=template.volume_mounts,
            )
        return place.bound.setdefault(container.key, Bound())


def mount_path(container: Container, directory: str) -> str:
    """Where a directory of the binding root is; SERVICE_BINDING_ROOT is set when it is not.

    Raises:
        ProjectionError: the root is not known, since the variable takes it from elsewhere, or is
            no absolute path.
    """
    env = container.env()
    # Of several with one name the last one is what programs see.
    root = next((item for item in reversed(env) if item.get("name") == ROOT_VARIABLE), None)
    if root is None:
        # The specification's default; apps find their bindings by this variable alone.
        env.append({"name": ROOT_VARIABLE, "value": DEFAULT_ROOT})
        return f"{DEFAULT_ROOT}/{directory}"
    # Only the kubelet knows what it will be.
    if root.get("valueFrom") is not None:
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} with valueFrom, so "
            "where to mount the binding is unknown; give the variable a literal value"
        )
    value = root.get("value")
    if not isinstance(value, str) or not value.startswith("/"):
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} to what is no absolute path, so where programs "
            "look for the binding is unknown; give it a literal value that begins with /"
        )
    # The kubelet expands variables, and not the paths of mounts.
    if "$(" in value or "$$" in value:
        raise ProjectionError(
            f"{container} sets {ROOT_VARIABLE} with other variables, or with $$, so where to "
            "mount the binding is unknown; give the variable a literal value"
        )
    path = posixpath.normpath(posixpath.join(value, directory))
    return f"/{path.lstrip('/')}"
