"""Records: what a binding has put onto a workload, noted on the workload itself.

Each binding has an annotation of its own on every workload it is projected onto, written in the
same request as the projection, so that neither is ever there without the other. It says by which
paths the binding was projected, so that a mapping may change or go at any time, and which
volumes, mounts and variables are the binding's. What no record has is somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding.expressions.fixedpath import FixedPath
from fairlead.binding.reads import Lookup


RECORD_PREFIX = "projection.servicebinding.io/"
"""Of the annotations; the rest is the binding's uid."""


REFERENCE_PREFIX = "projector.servicebinding.io/mapping-"
"""Of the annotations of the reference runtime of servicebinding.io; the rest is the uid, too."""


CONTENT_PREFIX = "content.servicebinding.io/"
"""Of annotations on pods; the rest is the binding's uid."""


class Bound(msgspec.Struct, rename="camel", omit_defaults=True):
    """What is in one container: names of variables, where the volume is mounted, envFrom."""

    env: list[str] = []
    env_from: bool = False
    mount: str = ""

    def __bool__(self) -> bool:
        return bool(self.env or self.env_from or self.mount)


class ContainerPath(msgspec.Struct, rename="camel", omit_defaults=True):
    """One container path of the mapping, and what is in the containers that it leads to.

    ``bound`` has them by name, or by position (``#0``) where they have none.
    """

    path: str
    env: FixedPath
    volume_mounts: FixedPath
    name: FixedPath = ()
    bound: dict[str, Bound] = {}


class Record(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What one binding has put onto one workload.

    ``group`` and ``name`` are the binding's, ``created`` its creationTimestamp; ``volumes`` is
    the path of the volumes, ``volume`` the name of the binding's own, "" for none, ``mode`` the
    mode that was asked for. ``annotations`` is the path of those of the pods, where the mark of
    the Secret's content is.
    """

    group: str
    name: str
    created: str = ""
    secret: str
    secret_path: str = ""
    volumes: FixedPath = ()
    volume: str = ""
    mode: int | None = None
    annotations: FixedPath = ()
    containers: list[ContainerPath] = []


_decode = msgspec.json.Decoder(Record)


RECORDED_ANNOTATION = "servicebinding.io/recorded"
"""Of a generated Secret: whatever was projected with it has a record."""

KINDS_ANNOTATION = "servicebinding.io/projected-kinds"
"""Of a binding: JSON of the kinds of workloads that it is, or may still be, projected onto."""


_MOST_KINDS = 100
"""That are noted on a binding; each is asked for where it is unbound."""


def read_kinds(annotations: Mapping[str, str]) -> list[Lookup] | None:
    """The kinds noted on a binding; None where that was never done.

    Empty where the annotation cannot be read: that makes no binding one from before the notes.
    """
    if KINDS_ANNOTATION not in annotations:
        return None
    try:
        found = msgspec.json.decode(annotations[KINDS_ANNOTATION], type=list[Lookup])
    except (msgspec.DecodeError, RecursionError):
        return []
    found = list(dict.fromkeys(found))
    return found if len(found) <= _MOST_KINDS else []


def kinds_text(kinds: Sequence[Lookup]) -> str:
    """What :func:`read_kinds` reads."""
    return msgspec.json.encode(list(kinds)).decode()


def record_key(uid: str) -> str:
    """The annotation of the binding with this uid."""
    return f"{RECORD_PREFIX}{uid}"


def content_key(uid: str) -> str:
    """The annotation on pods that changes with the content, of the binding with this uid."""
    return f"{CONTENT_PREFIX}{uid}"


def reference_key(uid: str) -> str:
    """The annotation of the reference runtime for the binding with this uid."""
    return f"{REFERENCE_PREFIX}{uid}"


def marks(annotations: Mapping[str, str]) -> list[str]:
    """The keys that say of a workload whose binding is on it, ours or the reference runtime's."""
    return [key for key in annotations if key.startswith((RECORD_PREFIX, REFERENCE_PREFIX))]


def read_records(annotations: Mapping[str, str]) -> dict[str, Record]:
    """The records by uid of their bindings; without those that somebody has made unreadable."""
    found: dict[str, Record] = {}
    for key in annotations:
        if not key.startswith(RECORD_PREFIX):
            continue
        try:
            found[key.removeprefix(RECORD_PREFIX)] = _decode.decode(annotations[key])
        # An annotation may nest deeper than a decoder follows.
        except (msgspec.DecodeError, RecursionError):
            continue
    return found


def write_record(body: JSON, uid: str, record: Record | None) -> None:
    """Set, or with None remove, the record in the body of a workload."""
    metadata = body.setdefault("metadata", {})
    annotations = dict(metadata.get("annotations") or {})
    if record is None:
        annotations.pop(record_key(uid), None)
    else:
        annotations[record_key(uid)] = msgspec.json.encode(record).decode()
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
