"""Sealing: encrypted and authenticated values that a browser carries for the server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import structlog
from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.client import AlreadyExists, ClientError, Conflict, NotFound
from fairlead.portal import bounds
from fairlead.portal.identity.secretstore import LABEL_KIND, SECRET_TYPE, read_entry
from fairlead.portal.identity.sessions import unavailable
from fairlead.portal.options import CookieKeys
from fairlead.runtime import Cluster, Delta


KEYS_SECRET = "fairlead-portal-keys"  # noqa: S105  a name
"""Name of the Secret with the keys, in the server's own namespace."""

_DATA = "keys"
"""Key of the Secret's data with the list of keys."""
_sealed = re.compile(r"[A-Za-z0-9_-]+").fullmatch
_log = structlog.get_logger(logger_name="fairlead.portal.keys")

T = TypeVar("T", bound=msgspec.Struct)


Keys = Callable[[], MultiFernet]
"""Function that returns the keys: the first one seals, and all of them open.

It raises a Refusal if there is no key yet.
"""


def flag_keys(keys: Sequence[CookieKeys]) -> Keys:
    """Return the keys of an operator's flags, the newest first.

    Raises:
        ValueError: no key was given.
    """
    fernet = MultiFernet([_derived(key) for key in keys])
    return lambda: fernet


def local_keys() -> Keys:
    """Return a new key in memory, for values that no other process has to open."""
    fernet = MultiFernet([Fernet(Fernet.generate_key())])
    return lambda: fernet


class _Key(msgspec.Struct, frozen=True):
    """A Fernet key; ``made`` is in seconds since 1970, by the clock of its maker."""

    key: str
    made: float


class SecretKeys:
    """Keys in a Secret, which any replica creates and renews.

    A new key opens for a while before it seals, since other replicas read it later; an old key
    opens for two more renewals. So no pending sign-in is lost.

    Needed rights: get, list, watch, create and update Secrets of the namespace. Run it as a task,
    beside the cluster.
    """

    name = "keys"

    def __init__(self, cluster: Cluster, namespace: str, *, days: float = bounds.KEY_DAYS) -> None:
        self._client = cluster.client
        self._namespace = namespace
        self._seconds = days * 86400
        self._keys: list[_Key] = []
        self._fault = ""
        self._informer = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={KEYS_SECRET}"
        )
        self._informer.subscribe(self._heard)

    def fernet(self) -> MultiFernet:
        """Return the Secret's keys; the first one seals, and all of them open."""
        if not self._keys:
            raise unavailable(f"there is no Secret {self._namespace}/{KEYS_SECRET} yet")
        now = time.time()
        spread = [key for key in self._keys if key.made <= now - bounds.KEY_SPREAD_SECONDS]
        # The very first key has no older one, so it seals at once.
        first = spread[0] if spread else self._keys[-1]
        ordered = [first, *(key for key in self._keys if key is not first)]
        return MultiFernet([Fernet(key.key) for key in ordered])

    def not_ready(self) -> str:
        """Return why nothing can be sealed; "" if it can."""
        if self._keys:
            return ""
        return self._fault or f"waiting for Secret {self._namespace}/{KEYS_SECRET}"

    async def run(self) -> None:
        """Make keys when they are due, until canceled."""
        await self._informer.synced()
        wait = 1.0
        while True:
            try:
                await self.renew()
                wait = bounds.KEY_LOOK_SECONDS
            except (ClientError, TimeoutError) as error:
                self._fault = str(error)
                if isinstance(error, NotFound) and error.concerns(self._namespace):
                    self._fault = (
                        f"namespace {self._namespace} does not exist: create it, or apply the "
                        "output of `fairlead manifests serve`"
                    )
                _log.warning("keys cannot be renewed", error=self._fault)
                wait = min(2 * wait, 60.0)
            await asyncio.sleep(wait)

    async def renew(self) -> bool:
        """Make the first key, or a new one if due; return True if this process made it.

        Raises:
            ClientError: the API server refused or is unavailable.
        """
        async with asyncio.timeout(bounds.CALL_SECONDS):
            try:
                secret = await self._client.get(SECRETS, KEYS_SECRET, self._namespace)
            except NotFound as error:
                if not error.concerns(KEYS_SECRET):
                    raise
                return await self._create()
            self._take(secret)
            if self._keys and self._keys[0].made > time.time() - self._seconds:
                return False
            return await self._replace(secret)

    async def _create(self) -> bool:
        """Create the Secret with a first key; return False if another replica was faster."""
        body: JSON = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SECRET_TYPE,
            "metadata": {
                "name": KEYS_SECRET,
                "namespace": self._namespace,
                "labels": {LABEL_KIND: "keys"},
            },
            "data": _encoded([_made()]),
        }
        try:
            self._take(await self._client.create(SECRETS, body, self._namespace))
        except AlreadyExists:
            self._take(await self._client.get(SECRETS, KEYS_SECRET, self._namespace))
            return False
        return True

    async def _replace(self, obj: Object) -> bool:
        """Put a new key first; return False if another replica was faster."""
        body = obj.to_dict()
        # The newest first; older ones go on to open what they have sealed.
        body["data"] = _encoded([_made(), *self._keys][: bounds.KEYS])
        # The update carries the resourceVersion that was read: another replica may be faster.
        with contextlib.suppress(Conflict):
            self._take(await self._client.update(SECRETS, body))
            _log.info("made a new key", secret=f"{self._namespace}/{KEYS_SECRET}")
            return True
        return False

    def _heard(self, delta: Delta) -> None:
        if delta.new is not None:
            self._take(delta.new)

    def _take(self, secret: Object) -> None:
        keys = _decoded(secret)
        if keys:
            self._keys = keys
        else:
            # A damaged Secret: keep the known keys, so that pending sign-ins still work.
            _log.warning("the keys cannot be read", secret=str(secret.key))


class Sealing:
    """Seals values, each for one purpose: a value cannot be opened for another purpose."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def seal(self, purpose: str, value: msgspec.Struct) -> str:
        """Return the sealed value as URL-safe text.

        Raises:
            Refusal: there is no key yet.
        """
        # Fernet encrypts (AES-CBC), authenticates (HMAC-SHA256), and notes the time of sealing.
        body = msgspec.msgpack.encode((purpose, value))
        # Without padding: Python's cookies would put a value with = into quotes.
        return self._keys().encrypt(body).decode().rstrip("=")

    def open(self, purpose: str, text: str, type_: type[T], *, seconds: float) -> T | None:
        """Return the value; None if it is not ours, for another purpose, or too old.

        Raises:
            Refusal: there is no key yet.
        """
        fernet = self._keys()
        if not _sealed(text):
            return None
        padded = text + "=" * (-len(text) % 4)
        try:
            body = fernet.decrypt_at_time(padded, int(seconds), int(time.time()))
            # The purpose is inside the sealed body: a form's token is no sign-in cookie, though
            # the same keys seal both.
            sealed_for, value = msgspec.msgpack.decode(body, type=tuple[str, msgspec.Raw])
            return msgspec.msgpack.decode(value, type=type_) if sealed_for == purpose else None
        except (InvalidToken, ValueError):
            return None


def _made() -> _Key:
    return _Key(Fernet.generate_key().decode(), time.time())


def _encoded(keys: Sequence[_Key]) -> dict[str, str]:
    return {_DATA: base64.b64encode(msgspec.json.encode(keys)).decode()}


def _decoded(secret: Object) -> list[_Key]:
    try:
        keys = msgspec.json.decode(read_entry(secret, _DATA) or b"", type=list[_Key])
        for key in keys:
            Fernet(key.key)
    except ValueError:
        return []
    return sorted(keys, key=lambda key: -key.made)


def _derived(key: CookieKeys) -> Fernet:
    derive = HKDF(SHA256(), length=32, salt=None, info=b"fairlead portal cookies")
    # The length prefix keeps two pairs of keys from having the same material.
    material = len(key.signing).to_bytes(1, "big") + key.signing + key.encryption
    return Fernet(base64.urlsafe_b64encode(derive.derive(material)))
