"""Manifests: objects in YAML or JSON files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from fairlead.api import unknownfields, yamltext
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.spec import crds
from fairlead.binding import bounds
from fairlead.binding.outside.memory import ObjectError, ObjectPlace, Objects


class DocumentError(ValueError):
    """A file with invalid manifests; the text names it and the place in it."""


class Document(NamedTuple):
    """A document or list item with its origin."""

    origin: str
    body: JSON


def documents(origin: str, text: str) -> Iterator[Document]:
    """Yield the objects in a file; lists are split, empty documents skipped.

    Raises:
        DocumentError: the file is not YAML, or has values that are not objects.
    """
    try:
        bodies = yamltext.load_all(
            text, aliases=True, max_depth=bounds.FILE_LEVELS, max_nodes=bounds.FILE_VALUES
        )
    except (yamltext.YAMLError, ValueError) as error:
        raise DocumentError(f"{origin}: it {yamltext.refusal(error)}") from None
    for number, value in enumerate(bodies, 1):
        place = origin if len(bodies) == 1 else f"{origin}, document {number}"
        yield from _objects(place, value)


def _objects(origin: str, value: Any) -> Iterator[Document]:
    if value is None:
        return
    if not isinstance(value, dict):
        raise DocumentError(f"{origin}: it is not an object: an object has apiVersion and kind")
    items = value.get("items")
    # By its form: not only a List, but also a PodList and its like have items.
    if str(value.get("kind")).endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _objects(f"{origin}, items[{number}]", item)
    else:
        yield Document(origin, value)


class Documents(NamedTuple):
    """Objects, with the origins of given ones."""

    objects: Objects
    origins: dict[ObjectPlace, str]

    def called(self, place: ObjectPlace) -> str:
        """Return the name of the object at a place for messages."""
        document = self.objects.get(place)
        name = f"{document.kind} {document.key}" if document else place.name
        return f"{self.origins[place]}: {name}" if place in self.origins else name


def collection(parsed: Iterable[Document], namespace: str) -> Documents:
    """Collect the objects of documents; ``namespace`` is for those without one.

    Raises:
        DocumentError: a document is not an object, has an unknown field, or repeats an object;
            the text names its file and field.
    """
    given = list(parsed)
    result = Documents(Objects(namespace=namespace), {})
    # All CRDs first: files may have them after the objects of their kinds.
    for document in given:
        with _named(document):
            result.objects.learn(document.body)
    for document in given:
        with _named(document):
            _check_fields(document.body)
            result.origins[result.objects.add(document.body)] = document.origin
    return result


def _check_fields(body: JSON) -> None:
    """Refuse unknown fields of a binding or a mapping, which an API server would drop silently.

    Raises:
        ObjectError: there is an unknown field.
    """
    schema = schemas().get((str(body.get("apiVersion")), str(body.get("kind"))))
    if schema is not None and (why := unknownfields.refusal(body, schema)):
        raise ObjectError(why)


@cache
def schemas() -> dict[tuple[str, str], JSON]:
    """Return the schemas of Service Binding's kinds, by apiVersion and kind."""
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): version["schema"][
            "openAPIV3Schema"
        ]
        for spec in (crd["spec"] for crd in crds())
        for version in spec["versions"]
    }


@contextmanager
def _named(document: Document) -> Iterator[None]:
    """Add file and object to the text of an ObjectError."""
    try:
        yield
    except ObjectError as error:
        body = document.body
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        called = " ".join(str(one) for one in (body.get("kind"), name) if one)
        text = f"{document.origin}: {called or 'object'}: {error}"
        raise DocumentError(text) from None
