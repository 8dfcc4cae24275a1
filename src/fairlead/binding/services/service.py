"""A backing service as the pipeline sees it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelector
from fairlead.binding import bounds
from fairlead.binding.reads import Lookup
from fairlead.binding.services.items import Source


class ServiceReference(msgspec.Struct, frozen=True):
    """A reference to a service; ``place`` is its field in the binding."""

    lookup: Lookup
    namespace: str
    name: str
    id: str = ""
    place: str = "spec.service"


class WorkloadReference(msgspec.Struct, frozen=True):
    """A reference to workloads: one by name, or all that a selector matches."""

    lookup: Lookup
    name: str = ""
    selector: JSON | None = None
    containers: tuple[str, ...] = ()
    containers_path: str = ""
    secret_path: str = ""

    def labels(self) -> LabelSelector:
        """Parse the selector.

        Raises:
            SelectorError: the selector is too long or invalid.
        """
        return label_selector(self.selector)


def label_selector(selector: JSON | None) -> LabelSelector:
    """Parse a selector of workloads.

    Raises:
        SelectorError: the selector is too long or invalid.
    """
    return LabelSelector.from_dict(selector, most=bounds.TERMS)


def lookup_of(api_version: str, kind: str) -> Lookup:
    """Return the lookup for an apiVersion and a kind."""
    group, _, version = api_version.rpartition("/")
    return Lookup(group, version, kind=kind)


def selector_dict(selector: Any) -> JSON | None:
    """Return a typed label selector as JSON, None without one."""
    if selector is None:
        return None
    result: JSON = json.loads(msgspec.json.encode(selector))
    return result


class Service:
    """A backing service; a handler adds its ``definitions``."""

    def __init__(
        self, original: Object, resource: Resource, identifier: str = "", body: JSON | None = None
    ) -> None:
        self.body = original.to_dict() if body is None else body
        self.meta = original.meta
        self.resource = resource
        self.id = identifier
        self.definitions: list[Any] = []

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.meta.namespace

    @property
    def name(self) -> str:
        """Its name."""
        return self.meta.name

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.body.get("kind") or self.resource.kind)

    @property
    def is_secret(self) -> bool:
        """Whether the service is itself a Secret."""
        # The specification treats only v1 Secrets so, and not another group's kind of this name.
        return self.resource.group == "" and self.kind == "Secret"

    @property
    def source(self) -> Source:
        """The service as naming strategies see it."""
        return Source(self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.meta.key}"
