"""Whether an object and its copy are in sync, and since when they are not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from fairlead.api.kubebind import ANNOTATION_CONSUMER_UID
from fairlead.api.meta import Object
from fairlead.api.timestamps import parse_time


class _Parts(msgspec.Struct):
    spec: msgspec.Raw = msgspec.Raw()
    status: msgspec.Raw = msgspec.Raw()


class _Managed(msgspec.Struct):
    time: str = ""


class _Times(msgspec.Struct, rename="camel"):
    managed_fields: list[_Managed] = []


class _Managers(msgspec.Struct):
    metadata: _Times = msgspec.field(default_factory=_Times)


def waiting_side(consumer: Object, copy: Object | None, *, status: bool) -> Object | None:
    """The object whose last change has not reached the other side; None when both are in sync.

    Args:
        consumer: the original.
        copy: what the provider has in the place of its copy.
        status: whether the resource has a status that comes back.
    """
    if copy is None or consumer.meta.deleting:
        return consumer
    if copy.meta.annotations.get(ANNOTATION_CONSUMER_UID) != consumer.meta.uid:
        return consumer
    ours, theirs = consumer.decode(_Parts), copy.decode(_Parts)
    if not _same(ours.spec, theirs.spec) and not contains(_value(theirs.spec), _value(ours.spec)):
        return consumer
    # A status that says nothing is as good as none.
    if status and not _same(ours.status, theirs.status):
        there, here = _value(theirs.status) or None, _value(ours.status) or None
        if not (contains(there, here) and contains(here, there)):
            return copy
    return None


def contains(whole: Any, part: Any) -> bool:
    """Whether every member of ``part`` is in ``whole`` with an equal value.

    Members that only ``whole`` has do not matter, at any depth, nor does a member that is null;
    lists are as long as one another. Booleans are no numbers.
    """
    if part is None:
        return True
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            contains(whole.get(name), value) for name, value in part.items()
        )
    if isinstance(part, list):
        return (
            isinstance(whole, list)
            and len(whole) == len(part)
            and all(contains(one, other) for one, other in zip(whole, part, strict=True))
        )
    return bool(whole == part) and isinstance(whole, bool) == isinstance(part, bool)


def changed_at(obj: Object) -> datetime | None:
    """When an object was changed last, as far as it tells; None when it tells no time."""
    return max(_times(obj), default=None)


def _times(obj: Object) -> Iterator[datetime]:
    managed = obj.decode(_Managers).metadata.managed_fields
    told = [obj.meta.creation_timestamp, obj.meta.deletion_timestamp]
    for text in (*told, *(entry.time for entry in managed)):
        try:
            if text:
                yield parse_time(text)
        except ValueError:
            continue


def _same(one: msgspec.Raw, other: msgspec.Raw) -> bool:
    """Equal bytes prove it; different ones prove nothing."""
    return bytes(one) == bytes(other)


def _value(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw) if raw else None
