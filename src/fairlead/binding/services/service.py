"""A backing service as the pipeline sees it."""

from __future__ import annotations

from typing import Any

import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.selectors import LabelSelector
from fairlead.binding.reads import Lookup
from fairlead.binding.services.items import Source


MOST_TERMS = 100
"""Of the selector of workloads, and values of each: what changes is compared with all of them."""


class ServiceReference(msgspec.Struct, frozen=True):
    """Which object is a service; ``place`` is where the binding says so."""

    lookup: Lookup
    namespace: str
    name: str
    id: str = ""
    place: str = "spec.service"


class WorkloadReference(msgspec.Struct, frozen=True):
    """Which objects are workloads: one by name, or all that a selector matches."""

    lookup: Lookup
    name: str = ""
    selector: JSON | None = None
    containers: tuple[str, ...] = ()
    containers_path: str = ""
    secret_path: str = ""

    def labels(self) -> LabelSelector:
        """What the selector says.

        Raises:
            SelectorError: it is too long, or wrong.
        """
        return label_selector(self.selector)


def label_selector(selector: JSON | None) -> LabelSelector:
    """A selector of workloads.

    Raises:
        SelectorError: it is too long, or wrong.
    """
    return LabelSelector.from_dict(selector, most=MOST_TERMS)


class Service:
    """One backing service; ``definitions`` are added by the handler that finds them."""

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
        """Whether it is a Secret itself."""
        return self.resource.group == "" and self.kind == "Secret"

    @property
    def source(self) -> Source:
        """What naming strategies see of it."""
        return Source(self.kind, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.meta.key}"
