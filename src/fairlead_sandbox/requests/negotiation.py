"""Form of an answer by the Accept header: the object, a Table, or metadata alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple

from fairlead_sandbox import errors


Form = Literal["object", "table", "metadata"]

_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
"""Forms by the ``as`` parameter of a media type."""
_JSON = {"application/json", "application/*", "*/*"}
"""Media types that JSON satisfies."""


class Accept(NamedTuple):
    """The chosen form; ``version`` is the version of meta.k8s.io for tables and metadata."""

    form: Form = "object"
    version: str = "v1"


class MediaRange(NamedTuple):
    """One entry of an Accept header."""

    type: str
    parameters: dict[str, str]


@lru_cache(maxsize=256)
def media_ranges(header: str) -> tuple[MediaRange, ...]:
    """Return the entries of an Accept header in their written order."""
    ranges: list[MediaRange] = []
    for entry in header.split(","):
        type_, *parameters = (part.strip() for part in entry.split(";"))
        if type_:
            pairs = (parameter.partition("=") for parameter in parameters)
            ranges.append(MediaRange(type_.lower(), {key: value for key, _, value in pairs}))
    return tuple(ranges) or (MediaRange("*/*", {}),)


@lru_cache(maxsize=256)
def negotiate(header: str) -> Accept:
    """Return the first form in an Accept header that the server can write.

    Raises:
        StatusError: 406, no entry can be written (protobuf alone, for example).
    """
    # kubectl get lists Table v1, Table v1beta1 and plain JSON in this order, and reads any of
    # them.
    for range_ in media_ranges(header):
        if range_.type not in _JSON:
            continue
        target = range_.parameters.get("as")
        if target is None:
            return Accept()
        version = range_.parameters.get("v", "")
        if (
            target in _FORMS
            and range_.parameters.get("g") == "meta.k8s.io"
            and version in {"v1", "v1beta1"}
        ):
            return Accept(_FORMS[target], version)
    raise errors.not_acceptable()
