"""Older views of an API server: what one that is behind its peers lists to some processes.

Writes, and reads of one object, have what is newest, as they do where several API servers share
one etcd. Watches go on from where the list was, and are held back by whoever wants that.
"""

from __future__ import annotations

from collections.abc import Iterable

from tests.sim.network import origin

from fairlead.api.meta import Key
from fairlead_sandbox.requests.calls import Call
from fairlead_sandbox.requests.handlers import read
from fairlead_sandbox.storage.records import Record
from fairlead_sandbox.storage.store import ObjectStore


_behind: dict[int, dict[str, int]] = {}
_fresh = read._fresh


def behind(store: ObjectStore) -> dict[str, int]:
    """Versions as of which lists are answered, by the names of the processes that ask."""
    return _behind.setdefault(id(store), {})


def _viewed(call: Call, namespace: str) -> tuple[int, Key | None, Iterable[Record]]:
    store, process = call.core.store, origin.get()
    version = behind(store).get(process.name) if process is not None else None
    if version is None or version < store.compacted or call.query.get("resourceVersion"):
        return _fresh(call, namespace)
    found = store.state(call.type.collection, version)
    return version, None, [one for one in found if namespace in {"", one.key.namespace}]


def install() -> None:
    """Have every API server of this Python answer so."""
    read._fresh = _viewed
