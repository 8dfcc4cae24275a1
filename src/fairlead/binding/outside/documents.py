"""Manifests: YAML or JSON as people keep it in files, taken apart into objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from fairlead.api import unknownfields, yamltext
from fairlead.api.meta import JSON
from fairlead.api.servicebinding.spec import crds
from fairlead.binding.outside.memory import ObjectError, Objects, Place


_MAX_DEPTH = 100
_MAX_VALUES = 1_000_000
"""In one file: more than tens of thousands of objects have."""


class DocumentError(ValueError):
    """A file that cannot be read as manifests; the text names it and the place in it."""


class Document(NamedTuple):
    """One document or list item, and where it comes from."""

    origin: str
    body: JSON


def documents(origin: str, text: str) -> Iterator[Document]:
    """The objects in a file; lists are taken apart, empty documents left out.

    Raises:
        DocumentError: it is no YAML, or has something else than objects.
    """
    try:
        found = yamltext.load_all(text, aliases=True, max_depth=_MAX_DEPTH, max_nodes=_MAX_VALUES)
    except (yamltext.YAMLError, ValueError) as error:
        raise DocumentError(f"{origin}: it {yamltext.refusal(error)}") from None
    for number, value in enumerate(found, 1):
        place = origin if len(found) == 1 else f"{origin}, document {number}"
        yield from _objects(place, value)


def _objects(origin: str, value: Any) -> Iterator[Document]:
    if value is None:
        return
    if not isinstance(value, dict):
        raise DocumentError(f"{origin}: it is no object: an object has apiVersion and kind")
    items = value.get("items")
    if str(value.get("kind")).endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _objects(f"{origin}, items[{number}]", item)
    else:
        yield Document(origin, value)


class Documents(NamedTuple):
    """Objects, and where each that was given comes from."""

    objects: Objects
    origins: dict[Place, str]

    def called(self, place: Place) -> str:
        """What messages call the object at a place."""
        found = self.objects.get(place)
        name = f"{found.kind} {found.key}" if found else place.name
        return f"{self.origins[place]}: {name}" if place in self.origins else name


def collection(found: Iterable[Document], namespace: str) -> Documents:
    """The objects of documents; those without a namespace are in ``namespace``.

    Raises:
        DocumentError: one is no object, has a field that its kind does not know, or is there
            twice; the text names its file and field.
    """
    given = list(found)
    result = Documents(Objects(namespace=namespace), {})
    for document in given:
        with _named(document):
            result.objects.learn(document.body)
    for document in given:
        with _named(document):
            _check_fields(document.body)
            result.origins[result.objects.add(document.body)] = document.origin
    return result


def _check_fields(body: JSON) -> None:
    """Refuse what an API server would leave out of a binding or a mapping without a word.

    Raises:
        ObjectError: there is such a field.
    """
    schema = schemas().get((str(body.get("apiVersion")), str(body.get("kind"))))
    if schema is not None and (why := unknownfields.refusal(body, schema)):
        raise ObjectError(why)


@cache
def schemas() -> dict[tuple[str, str], JSON]:
    """The schemas of Service Binding's kinds, by apiVersion and kind."""
    return {
        (f"{spec['group']}/{version['name']}", spec["names"]["kind"]): version["schema"][
            "openAPIV3Schema"
        ]
        for spec in (crd["spec"] for crd in crds())
        for version in spec["versions"]
    }


@contextmanager
def _named(document: Document) -> Iterator[None]:
    """Say of an error which object of which file it is about."""
    try:
        yield
    except ObjectError as error:
        body = document.body
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        called = " ".join(str(one) for one in (body.get("kind"), name) if one)
        text = f"{document.origin}: {called or 'object'}: {error}"
        raise DocumentError(text) from None
