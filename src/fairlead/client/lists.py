"""Lists, decoded so that an item costs its metadata and one copy."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import Object, decode_item
from fairlead.api.resource import Resource
from fairlead.client.errors import UnexpectedAnswer


class ListMeta(msgspec.Struct, rename="camel"):
    """``metav1.ListMeta``."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class ObjectList(msgspec.Struct):
    """All objects of a list, and the resourceVersion to watch from."""

    items: list[Object]
    resource_version: str = ""


class Page(msgspec.Struct):
    """One answer to a list request; ``continue_`` is "" on the last."""

    items: list[Object]
    resource_version: str
    continue_: str


class _RawList(msgspec.Struct, rename="camel"):
    items: list[msgspec.Raw] | None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


_list_decoder = msgspec.json.Decoder(_RawList)


def decode_page(body: bytes, resource: Resource) -> Page:
    """The objects in a list; their bytes are copies, for a slice would pin the whole page.

    Raises:
        UnexpectedAnswer: the body is no list of Kubernetes objects.
    """
    api_version, kind = resource.api_version, resource.kind
    try:
        content = _list_decoder.decode(body)
        items = [decode_item(raw, api_version, kind) for raw in content.items or ()]
    except msgspec.MsgspecError as error:
        raise UnexpectedAnswer(f"the list of {resource} cannot be read: {error}") from None
    return Page(items, content.metadata.resource_version, content.metadata.continue_)
