"""Registry of the served resources: built-in ones and those of CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable

from fairlead_sandbox.resources.types import ResourceType


class ResourceRegistry:
    """Resources by group, version and plural."""

    def __init__(self, types: Iterable[ResourceType]) -> None:
        self._types: dict[tuple[str, str, str], ResourceType] = {}
        self._collections: dict[str, ResourceType] = {}
        self.generation = 0
        """Number of changes of the registry; caches compare it."""
        for type_ in types:
            self._types[_key(type_)] = type_
        self._index()

    def _index(self) -> None:
        # Reversed, so that of several versions the first one registered is found.
        self._collections = {type_.collection: type_ for type_ in reversed(self.all())}

    def get(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the resource, None if it is not served."""
        return self._types.get((group, version, plural))

    def all(self) -> list[ResourceType]:
        """Return every served resource in every version, in the order of registration."""
        return list(self._types.values())

    def by_collection(self, collection: str) -> ResourceType | None:
        """Return one served version of the resource that is stored in the collection."""
        return self._collections.get(collection)

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Return the resource of a kind, None if it is not served."""
        return next(
            (
                type_
                for type_ in self.all()
                if type_.resource.kind == kind and type_.resource.api_version == api_version
            ),
            None,
        )

    def replace(self, collection: str, types: Iterable[ResourceType]) -> None:
        """Serve these types in place of all that were served from the collection."""
        remaining = {
            key: type_ for key, type_ in self._types.items() if type_.collection != collection
        }
        self._types = remaining | {_key(type_): type_ for type_ in types}
        self._index()
        self.generation += 1


def _key(type_: ResourceType) -> tuple[str, str, str]:
    resource = type_.resource
    return resource.group, resource.version, resource.plural
