"""Sessions, used states and one-time codes as Secrets of the server's own namespace."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec
import structlog

from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import format_micro_time, parse_time
from fairlead.client import AlreadyExists, Client, ClientError, Conflict, NotFound
from fairlead.portal import bounds
from fairlead.portal.identity.sessions import HeldSession, SessionStore, unavailable
from fairlead.runtime import Cluster, Delta


LABEL_KIND = "fairlead.dev/portal"
"""Label with the kind of a front door's Secret: session, used or code."""
LABEL_OWNER = "fairlead.dev/owner"
"""Label with the hash of the owner's author name."""
ANNOTATION_EXPIRES = "fairlead.dev/expires"
"""Annotation with the expiry, in RFC 3339."""
SECRET_TYPE = "fairlead.dev/portal"  # noqa: S105  a type
"""Type of these Secrets."""

_VALUE = "value"
"""Key of a Secret's data with the stored value."""
_log = structlog.get_logger(logger_name="fairlead.portal.secretstore")


def owner_label(owner: str) -> str:
    """Return the label's value for a person's author name."""
    # A label has at most 63 characters and no slash, and an author name is a URL.
    return hashlib.sha256(owner.encode()).hexdigest()[:40]


def labels_of(owner: str | None) -> str:
    """Return the label selector of the sessions and codes of a person, or of all."""
    labels = f"{LABEL_KIND} in (session,code)"
    return labels if owner is None else f"{labels},{LABEL_OWNER}={owner_label(owner)}"


class SecretStore(SessionStore):
    """A SessionStore in Secrets; replicas learn of removed sessions by a watch.

    Needed rights: get, list, watch, create and delete Secrets of the namespace. Run it as a task,
    beside the cluster.
    """

    name = "sessions"

    def __init__(
        self, cluster: Cluster, namespace: str, *, sweep_seconds: float = bounds.SWEEP_SECONDS
    ) -> None:
        super().__init__()
        self._client = cluster.client
        self._namespace = namespace
        self._sweep_seconds = sweep_seconds
        self._recent: OrderedDict[str, tuple[str, HeldSession]] = OrderedDict()
        self._unheard_of = 0
        # Metadata alone: the values of all sessions are not kept in memory.
        self._informer = cluster.informer(
            SECRETS, namespace=namespace, labels=LABEL_KIND, metadata_only=True
        )
        for label in (LABEL_KIND, LABEL_OWNER):
            self._informer.add_index(label, partial(_by_label, label))
        self._informer.subscribe(self._heard)

    def not_ready(self) -> str:
        """Return why the watch does not see deletions; "" if it does."""
        # A replica that does not see deletions would accept ended sessions from its cache.
        if not self._informer.has_synced:
            return self._informer.error or f"waiting for Secrets of {self._namespace}"
        return self._informer.error

    async def run(self) -> None:
        """Sweep expired Secrets at intervals, until canceled."""
        await self._informer.synced()
        while True:
            wait = self._sweep_seconds
            try:
                if await self.sweep() == bounds.SWEPT_AT_ONCE:
                    wait = min(wait, bounds.SWEEP_PAUSE_SECONDS)
            except (ClientError, TimeoutError) as error:
                _log.warning("expired sessions are left for later", error=str(error))
            await asyncio.sleep(wait)

    async def sweep(self) -> int:
        """Delete a batch of expired Secrets; return its size.

        Raises:
            ClientError: the API server refused or is unavailable.
            TimeoutError: the API server did not answer.
        """
        now = time.time()
        # Every replica sweeps; the uid keeps each from deleting a new Secret of the same name.
        over = [one for one in self._informer.list(self._namespace) if _over(one.meta, now)]
        for secret in over[: bounds.SWEPT_AT_ONCE]:
            with contextlib.suppress(NotFound, Conflict):
                async with asyncio.timeout(bounds.CALL_SECONDS):
                    await self._client.delete(
                        SECRETS, secret.meta.name, self._namespace, uid=secret.meta.uid
                    )
        return len(over[: bounds.SWEPT_AT_ONCE])

    async def put(self, name: str, value: bytes, *, kind: str, owner: str, expires: float) -> bool:
        """Create the Secret; return False if it exists, so that only one replica succeeds."""
        labels = {LABEL_KIND: kind} | ({LABEL_OWNER: owner_label(owner)} if owner else {})
        body: JSON = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SECRET_TYPE,
            # The API server refuses changes of the data from now on: sessions are only made and
            # deleted.
            "immutable": True,
            "metadata": {
                "name": _secret(kind, name),
                "namespace": self._namespace,
                "labels": labels,
                "annotations": {
                    ANNOTATION_EXPIRES: format_micro_time(datetime.fromtimestamp(expires, UTC))
                },
            },
            "data": {_VALUE: base64.b64encode(value).decode()},
        }
        async with self._calling():
            try:
                await self._client.create(SECRETS, body, self._namespace)
            except AlreadyExists:
                return False
        secret_name = _secret(kind, name)
        if kind == "session" and self._informer.get(self._namespace, secret_name) is None:
            self._recent[secret_name] = owner, HeldSession(name, expires)
            if len(self._recent) > bounds.OWN_SESSIONS:
                self._recent.popitem(last=False)
        return True

    async def get(self, name: str, *, kind: str) -> bytes | None:
        """Return the Secret's value, None if it is missing or expired."""
        secret = await self._read(name, kind)
        return None if secret is None else read_entry(secret)

    async def take(self, name: str, *, kind: str) -> bytes | None:
        """Read the Secret and delete it by uid; only the replica that deletes it returns it."""
        secret = await self._read(name, kind)
        if secret is None:
            return None
        async with self._calling():
            try:
                await self._client.delete(
                    SECRETS, secret.meta.name, self._namespace, uid=secret.meta.uid
                )
            except (NotFound, Conflict):
                # Another replica was faster: the Secret is gone, or another one has its name.
                return None
        return read_entry(secret)

    async def remove(self, name: str, *, kind: str) -> None:
        """Delete the Secret if it exists."""
        secret_name = _secret(kind, name)
        async with self._calling():
            try:
                await self._client.delete(SECRETS, secret_name, self._namespace)
            except NotFound as error:
                if not error.concerns(secret_name):
                    raise
        self._recent.pop(secret_name, None)

    async def held(self, owner: str) -> Sequence[HeldSession]:
        """Return the cached sessions of an owner, and own ones that the cache lacks yet."""
        now = time.time()
        entries = {
            secret.meta.name: HeldSession(_hash(secret.meta), _expires(secret.meta) or 0.0)
            for secret in self._informer.by_index(LABEL_OWNER, owner_label(owner))
            if secret.meta.labels.get(LABEL_KIND) == "session"
        }
        entries |= {name: entry for name, (whose, entry) in self._recent.items() if whose == owner}
        alive = (entry for entry in entries.values() if entry.expires > now)
        return sorted(alive, key=lambda entry: entry.expires)

    async def count(self) -> int:
        """Count the cached sessions, and own ones that the cache lacks yet."""
        now = time.time()
        cached = self._informer.by_index(LABEL_KIND, "session")
        return sum(not _over(one.meta, now) for one in cached) + len(self._recent)

    async def _read(self, name: str, kind: str) -> Object | None:
        """Read a Secret; reads of names that the cache lacks are limited."""
        secret_name = _secret(kind, name)
        if (
            secret_name in self._recent
            or self._informer.get(self._namespace, secret_name) is not None
        ):
            return await self._get(secret_name, kind)
        # Another replica may have just made it; or a client guesses tokens, which must neither
        # load the API server nor delay others.
        if self._unheard_of >= bounds.READS_AT_ONCE:
            raise unavailable(
                f"{bounds.READS_AT_ONCE} Secrets that the cache lacks are being read"
            )
        self._unheard_of += 1
        try:
            return await self._get(secret_name, kind)
        finally:
            self._unheard_of -= 1

    async def _get(self, name: str, kind: str) -> Object | None:
        """Return the Secret if it is of this kind and has not expired."""
        async with self._calling():
            try:
                secret = await self._client.get(SECRETS, name, self._namespace)
            except NotFound as error:
                # A 404 of a proxy is about another object, and must not end the session.
                if not error.concerns(name):
                    raise
                return None
        meta = secret.meta
        if meta.deleting or meta.labels.get(LABEL_KIND) != kind:
            return None
        expires = _expires(meta)
        return secret if expires is not None and expires > time.time() else None

    @contextlib.asynccontextmanager
    async def _calling(self) -> AsyncIterator[None]:
        """Raise a Refusal with status 503 if the API server fails: the client may retry."""
        try:
            async with asyncio.timeout(bounds.CALL_SECONDS):
                yield
        except TimeoutError:
            raise unavailable(
                f"no answer about Secrets within {bounds.CALL_SECONDS:g} s"
            ) from None
        except ClientError as error:
            raise unavailable(f"Secrets of {self._namespace}: {error}") from error

    def _heard(self, delta: Delta) -> None:
        meta = delta.object.meta
        self._recent.pop(meta.name, None)
        ended = delta.type == "DELETED" or meta.deleting
        if ended and meta.labels.get(LABEL_KIND) == "session":
            self.tell(_hash(meta))


async def sign_out(
    client: Client, namespace: str, owner: str | None, *, dry_run: bool = False
) -> int:
    """End the sessions of a person's author name, or of all; return their number.

    Their one-time codes are deleted too. Replicas learn of it by their watch.

    Raises:
        ClientError: the API server refused or is unavailable; some sessions may have ended.
    """
    listed = await client.list(SECRETS, namespace, labels=labels_of(owner), metadata_only=True)
    if not dry_run:
        slots = asyncio.Semaphore(bounds.DELETIONS_AT_ONCE)

        async def end(name: str) -> None:
            async with slots:
                with contextlib.suppress(NotFound):
                    await client.delete(SECRETS, name, namespace)

        await asyncio.gather(*(end(one.meta.name) for one in listed.items))
    return sum(one.meta.labels.get(LABEL_KIND) == "session" for one in listed.items)


def _secret(kind: str, name: str) -> str:
    return f"fairlead-portal-{kind}-{name}"


def _hash(meta: ObjectMeta) -> str:
    return meta.name.rpartition("-")[2]


def _by_label(label: str, secret: Object) -> list[str]:
    value = secret.meta.labels.get(label)
    return [value] if value else []


def _expires(meta: ObjectMeta) -> float | None:
    """Return the expiry in seconds since 1970, None if it cannot be read."""
    try:
        return parse_time(meta.annotations.get(ANNOTATION_EXPIRES, "")).timestamp()
    except (ValueError, OverflowError):
        return None


def _over(meta: ObjectMeta, now: float) -> bool:
    """Whether the Secret has one of our names and is expired; others may use our label."""
    kind = meta.labels.get(LABEL_KIND, "")
    expires = _expires(meta)
    return meta.name.startswith(_secret(kind, "")) and expires is not None and expires <= now


class _Data(msgspec.Struct):
    data: dict[str, str] = {}


def read_entry(secret: Object, name: str = _VALUE) -> bytes | None:
    """Return an entry of a Secret's data, None if it cannot be read."""
    try:
        return base64.b64decode(secret.decode(_Data).data[name], validate=True)
    except (msgspec.ValidationError, KeyError, ValueError):
        return None
