"""A workload as the pipeline sees it: its body, its containers, and whether it changed."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import Any

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.binding import fixedpath
from fairlead.binding.fixedpath import ProjectionError
from fairlead.binding.jsonpath import JSONPathError
from fairlead.binding.templates import ContainerTemplate, Template


class Container:
    """One container-like fragment of a workload's body; changes to it change the body."""

    def __init__(self, body: JSON, template: ContainerTemplate) -> None:
        self.body = body
        self._template = template

    @property
    def name(self) -> str:
        """Its name, "" when it has none."""
        path = self._template.name
        return str(fixedpath.read(self.body, path) or "") if path else ""

    def wanted(self, names: Collection[str]) -> bool:
        """Whether a filter of container names lets it through."""
        return not names or self._template.name is None or self.name in names

    def env(self, *, create: bool = True) -> list[Any]:
        """Its environment variables; raises ProjectionError when it cannot be made."""
        return self._list(self._template.env, create=create)

    def env_from(self, *, create: bool = True) -> list[Any]:
        """Its environment sources; raises ProjectionError when it cannot be made."""
        return self._list(self._template.env_from, create=create)

    def volume_mounts(self, *, create: bool = True) -> list[Any]:
        """Its volume mounts; raises ProjectionError when it cannot be made."""
        return self._list(self._template.volume_mounts, create=create)

    def _list(self, path: tuple[str, ...], *, create: bool) -> list[Any]:
        if not create:
            return fixedpath.read_list(self.body, path)
        try:
            return fixedpath.ensure_list(self.body, path)
        except ProjectionError as error:
            raise ProjectionError(f"container {self.name or '(unnamed)'}: {error}") from None


class Workload:
    """One workload and the copy of its body that handlers change."""

    def __init__(
        self,
        original: Object,
        resource: Resource,
        template: Template,
        *,
        matched: bool = True,
        secret_path: str = "",
    ) -> None:
        self.original = original
        self.resource = resource
        self.template = template
        self.matched = matched
        """False for one that the binding does not select any more."""
        self.secret_path = secret_path
        self.body = original.to_dict()
        self._before = copy.deepcopy(self.body)

    @property
    def changed(self) -> bool:
        """Whether handlers changed the body."""
        return self.body != self._before

    def containers(self, names: Collection[str] = ()) -> list[Container]:
        """The containers that the filter lets through.

        Raises:
            ProjectionError: there is none, or a path leads to something else.
        """
        found = [item for item in self._fragments() if item.wanted(names)]
        if not found:
            filtered = f" named {', '.join(sorted(names))}" if names else ""
            paths = ", ".join(container.expression for container in self.template.containers)
            text = f"no containers found in application resource {self}{filtered} at {paths}"
            raise ProjectionError(text)
        return found

    def bound_containers(self, names: Collection[str] = ()) -> list[Container]:
        """The containers to bind; there may be none where the Secret's name is what is wanted.

        Raises:
            ProjectionError: as :meth:`containers`.
        """
        try:
            return self.containers(names)
        except ProjectionError:
            if self.secret_path:
                return []
            raise

    def any_containers(self) -> list[Container]:
        """All containers there are, without any complaint."""
        try:
            return list(self._fragments())
        except ProjectionError:
            return []

    def _fragments(self) -> Iterator[Container]:
        for template in self.template.containers:
            try:
                results = template.path.find(self.body)
            except JSONPathError:
                continue
            for value in (value for values in results for value in values):
                for fragment in value if isinstance(value, list) else [value]:
                    if not isinstance(fragment, dict):
                        text = f"{template.expression} of {self} is not a container"
                        raise ProjectionError(text)
                    yield Container(fragment, template)

    def volumes(self, *, create: bool = True) -> list[Any]:
        """Its volumes; raises ProjectionError when it cannot be made."""
        path = self.template.volumes
        if create:
            return fixedpath.ensure_list(self.body, path)
        return fixedpath.read_list(self.body, path)

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.original.key}"
