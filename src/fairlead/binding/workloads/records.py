"""Records: the items of a binding on a workload, in an annotation of the workload.

Each binding has its own annotation on every workload that it is projected onto, written in the
same request as the projection, so neither exists without the other. It contains the paths of the
projection, so a mapping may change or be deleted at any time, and the names of the binding's
volumes, mounts and variables. Items without a record belong to other writers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from fairlead.api.meta import JSON
from fairlead.binding import bounds
from fairlead.binding.expressions.fixedpath import FixedPath
from fairlead.binding.reads import Lookup


RECORD_PREFIX = "projection.servicebinding.io/"
"""Prefix of a record's annotation; the binding's uid follows."""


REFERENCE_PREFIX = "projector.servicebinding.io/mapping-"
"""Prefix of the annotations of servicebinding.io's reference runtime; the uid follows."""


CONTENT_PREFIX = "content.servicebinding.io/"
"""Prefix of the pods' content annotation; the binding's uid follows."""


class BoundContainer(msgspec.Struct, rename="camel", omit_defaults=True):
    """The items in a container: names of variables, the mount path, envFrom.

    ``env`` are variables of the Secret's entries, ``texts`` the others with their values.
    ``root`` says that SERVICE_BINDING_ROOT is of a binding, which all that mount there note.
    """

    env: list[str] = []
    env_from: bool = False
    mount: str = ""
    texts: dict[str, str] = {}
    root: bool = False

    def __bool__(self) -> bool:
        return bool(self.env or self.texts or self.env_from or self.mount or self.root)


class ContainerPath(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container path of the mapping, with the items in its containers.

    ``bound`` has the containers by name, or by position (``#0``) without a name.
    """

    path: str
    env: FixedPath
    volume_mounts: FixedPath
    name: FixedPath = ()
    bound: dict[str, BoundContainer] = {}


class BindingRecord(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """The items of a binding on a workload.

    ``group`` and ``name`` are the binding's, ``created`` its creationTimestamp; ``workload`` is
    the workload's name, "" in records from before it was noted; ``volumes`` is
    the path of the volumes, ``volume`` the name of the binding's volume, "" for none, ``mode``
    the requested mode. ``annotations`` is the path of the pods' annotations, with the mark of the
    Secret's content.
    """

    group: str
    name: str
    created: str = ""
    workload: str = ""
    secret: str
    secret_path: str = ""
    volumes: FixedPath = ()
    volume: str = ""
    mode: int | None = None
    annotations: FixedPath = ()
    containers: list[ContainerPath] = []


_decode = msgspec.json.Decoder(BindingRecord)


RECORDED_ANNOTATION = "servicebinding.io/recorded"
"""Annotation of a generated Secret all of whose projections have a record."""

KINDS_ANNOTATION = "servicebinding.io/projected-kinds"
"""Annotation of a binding with the kinds of workloads that may have a projection, as JSON."""


def read_kinds(annotations: Mapping[str, str]) -> list[Lookup] | None:
    """Return the kinds noted on a binding; None without the annotation.

    A malformed annotation counts as empty, so it does not look like a binding from before notes.
    """
    if KINDS_ANNOTATION not in annotations:
        return None
    try:
        lookups = msgspec.json.decode(annotations[KINDS_ANNOTATION], type=list[Lookup])
    except (msgspec.DecodeError, RecursionError):
        return []
    lookups = list(dict.fromkeys(lookups))
    # Any editor of the binding can write the annotation.
    return lookups if len(lookups) <= bounds.KINDS else []


def kinds_text(kinds: Sequence[Lookup]) -> str:
    """Return the annotation's text, which :func:`read_kinds` reads."""
    return msgspec.json.encode(list(kinds)).decode()


def kinds_to_note(
    lookups: list[Lookup] | None, kind: Lookup | None, *, projected: bool
) -> str | None:
    """Return the text of the kinds to note on a binding; None if nothing changes.

    A binding that was ``projected`` before there were notes gets them when all its projections
    have records.

    Args:
        lookups: the kinds that are noted; None without the annotation.
        kind: the kind of the binding's workloads; None if it cannot be read.
        projected: whether the status has a Secret.
    """
    # A note would promise that no other kind has a projection, which only records can show.
    if lookups is None and projected:
        return None
    kinds = list(dict.fromkeys([*(lookups or ()), *([kind] if kind else ())]))
    return None if kinds == lookups else kinds_text(kinds)


def record_key(uid: str) -> str:
    """Return the name of a record's annotation, by the binding's uid."""
    return f"{RECORD_PREFIX}{uid}"


def content_key(uid: str) -> str:
    """Return the name of the pods' content annotation, by the binding's uid."""
    return f"{CONTENT_PREFIX}{uid}"


def reference_key(uid: str) -> str:
    """Return the name of the reference runtime's annotation, by the binding's uid."""
    return f"{REFERENCE_PREFIX}{uid}"


def marks(annotations: Mapping[str, str]) -> list[str]:
    """Return the annotations of bindings on a workload, ours and the reference runtime's."""
    return [key for key in annotations if key.startswith((RECORD_PREFIX, REFERENCE_PREFIX))]


def read_records(annotations: Mapping[str, str]) -> dict[str, BindingRecord]:
    """Return the records by the uids of their bindings, without malformed ones."""
    records: dict[str, BindingRecord] = {}
    for key in annotations:
        if not key.startswith(RECORD_PREFIX):
            continue
        try:
            records[key.removeprefix(RECORD_PREFIX)] = _decode.decode(annotations[key])
        # An annotation may nest deeper than a decoder follows.
        except (msgspec.DecodeError, RecursionError):
            continue
    return records


def write_record(body: JSON, uid: str, record: BindingRecord | None) -> None:
    """Set, or with None remove, the record in the body of a workload."""
    metadata = body.setdefault("metadata", {})
    annotations = dict(metadata.get("annotations") or {})
    if record is None:
        annotations.pop(record_key(uid), None)
    else:
        annotations[record_key(uid)] = msgspec.json.encode(record).decode()
    # Empty annotations would make the body differ from the original, and cause a write of nothing.
    if annotations:
        metadata["annotations"] = annotations
    else:
        metadata.pop("annotations", None)
