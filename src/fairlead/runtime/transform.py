"""What informers may do to objects before they keep them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from fairlead.api.meta import JSON, Object


Transform = Callable[[Object], Object]
"""Gives the object to keep; it must keep namespace, name, uid and resourceVersion."""

_MARK = b'"managedFields":'


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Envelope(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_envelope = msgspec.json.Decoder(_Envelope)


def strip_managed_fields(object_: Object) -> Object:
    """The object without ``metadata.managedFields``, which is often a third of its bytes."""
    raw = object_.raw
    start = raw.find(_MARK)
    if start < 0:
        return object_
    value = bytes(_envelope.decode(raw).metadata.managed_fields)
    if not value:
        return object_
    end = start + len(_MARK) + len(value)
    # Only where the name stands once, it is certain to be the metadata's.
    if not raw.startswith(value, start + len(_MARK)) or raw.find(_MARK, end) >= 0:
        return _strip_slowly(object_)
    if raw[end : end + 1] == b",":
        end += 1
    elif raw[start - 1 : start] == b",":
        start -= 1
    return msgspec.structs.replace(object_, raw=raw[:start] + raw[end:])


def _strip_slowly(object_: Object) -> Object:
    body: JSON = object_.to_dict()
    del body["metadata"]["managedFields"]
    return msgspec.structs.replace(object_, raw=msgspec.json.encode(body))
