"""Contents of the caches for objects that tenants write: little of each, however large it is.

An object may have more than a megabyte, and its labels, owners and finalizers take many times
that once they are decoded, so that a tenant could fill the memory of the operator. The cache keeps
``bounds.LARGE_BYTES`` of each object at most. One that takes more loses the metadata that no part
of the operator reads, and becomes a stub if it still takes more. A stub tells when its object
changes, and has what decisions about other objects need: server, roles, and whether it is ready.
A pass reads the whole object, and few such passes are under way at once. Of Secrets there is the
metadata that the operator reads.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from fairlead.api.conditions import get_condition
from fairlead.api.kbind.names import COPY_MARKS
from fairlead.api.meta import Object, ObjectMeta, OwnerReference
from fairlead.api.postgresaccess import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    END_SESSIONS_ANNOTATION,
    POSTGRESACCESSES,
    READY,
    ROTATE_ANNOTATION,
    PostgresAccess,
    PostgresAccessSpec,
)
from fairlead.api.postgresaccess.connection import Connection, LoginPolicy
from fairlead.api.postgresaccess.status import PostgresAccessStatus
from fairlead.client.bounds import cost
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.rotation import mark_of
from fairlead.runtime import strip_managed_fields
from fairlead.runtime.cache.store import NO_BODY


_NAME_LENGTH = 253
"""Length in characters of the longest name of an object."""
_READ = frozenset(
    {
        ABANDON_ANNOTATION,
        *COPY_MARKS,
        APPROVE_ANNOTATION,
        END_SESSIONS_ANNOTATION,
        ROTATE_ANNOTATION,
    }
)
"""Annotations of an access that the operator reads."""
_STUB = ""
"""Annotation of a stub, with a digest of the metadata that calls for a pass.

No API server stores an annotation without a name, so that no tenant can write one.
"""


def without_unread(access: Object) -> Object:
    """Return an access whole, but a large one without metadata that the operator does not read."""
    access = strip_managed_fields(access)
    if cost(access) <= bounds.LARGE_BYTES:
        return access
    meta = access.meta
    lean = msgspec.structs.replace(
        meta,
        labels={},
        owner_references=[],
        annotations={name: text for name, text in meta.annotations.items() if name in _READ},
    )
    try:
        parts = msgspec.json.decode(access.raw, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        # The pass over this object tells what is wrong with it.
        return msgspec.structs.replace(access, meta=lean)
    parts["metadata"] = msgspec.Raw(msgspec.json.encode(lean))
    return msgspec.structs.replace(access, meta=lean, raw=msgspec.json.encode(parts))


def cached(access: Object) -> Object:
    """Return what the cache keeps of an access: all of it, or a stub if it is large."""
    lean = without_unread(access)
    if cost(lean) <= bounds.LARGE_BYTES or is_stub(lean):
        return lean
    meta = lean.meta
    news = msgspec.json.encode((meta.annotations, meta.finalizers))
    meta_kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        annotations={_STUB: sha256(news).hexdigest()},
    )
    return msgspec.structs.replace(lean, meta=meta_kept, raw=_stub_body(lean))


def is_stub(access: Object) -> bool:
    """Whether an object of the cache is the stub of a large one."""
    return _STUB in access.meta.annotations


def secret_metadata(secret: Object) -> Object:
    """Return what the caches keep of a Secret: its identity, and how it belongs to an access."""
    meta = secret.meta
    meta_kept = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resource_version=meta.resource_version,
        annotations={ROTATE_ANNOTATION: mark_of(meta)} if mark_of(meta) else {},
        owner_references=[owner for owner in meta.owner_references if _is_access(owner)][
            : bounds.OWNERS
        ],
    )
    return msgspec.structs.replace(secret, meta=meta_kept, raw=NO_BODY)


def _is_access(owner: OwnerReference) -> bool:
    # Servers bound neither the number of owners nor the length of a uid.
    kind = (POSTGRESACCESSES.api_version, POSTGRESACCESSES.kind)
    is_short = len(owner.name) <= _NAME_LENGTH and len(owner.uid) <= _NAME_LENGTH
    return is_short and (owner.api_version, owner.kind) == kind


def _stub_body(access: Object) -> bytes:
    """Return the body of a stub; one of an unreadable access cannot be read, either."""
    whole = access.try_decode(PostgresAccess)
    if whole is None:
        return NO_BODY
    spec, status = whole.spec, whole.status
    policy, ready = spec.password_policy, get_condition(status.conditions, READY)
    return msgspec.json.encode(
        PostgresAccess(
            spec=PostgresAccessSpec(
                generated_secret=spec.generated_secret,
                username=spec.username,
                password_policy=LoginPolicy(rotation=policy.rotation) if policy else None,
                connection=Connection(server_ref=spec.connection.server_ref),
            ),
            status=PostgresAccessStatus(
                conditions=[msgspec.structs.replace(ready, message="")] if ready else [],
                observed_generation=status.observed_generation,
                # How many logins there are does not count, only whether there are any.
                logins=status.logins[:1],
                server=status.server,
                group=status.group,
            ),
        )
    )
