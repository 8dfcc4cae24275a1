"""The file of servers and tokens, shared with kube-bind's CLI.

It is JSON: ``{"apiVersion":"v1","kind":"Config","servers":{KEY:{...}},"current":KEY}``. Unknown
fields are kept. Source: ``cli/pkg/config`` of kube-bind.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.timestamps import format_time, moment, parse_time
from fairlead.portal.client.addresses import Address, FrontDoorError, parse_server, server_url


EARLY = timedelta(minutes=5)
"""Time before its end at which a token counts as expired."""
_UNSET = "0001-01-01T00:00:00Z"
"""Go's zero time, for a token without a known expiry."""


class ConfigFileError(FrontDoorError):
    """The file cannot be used; the message names it, and quotes none of its content."""


class StoredToken(NamedTuple):
    """A bearer token with its expiry, None if the server sent none."""

    text: str
    expires: datetime | None = None
    type: str = "Bearer"

    def __repr__(self) -> str:
        return f"Token(expires={self.expires!r})"

    def expired(self, now: datetime) -> bool:
        """Whether the token has expired or will within :data:`EARLY`."""
        return self.expires is not None and now + EARLY >= self.expires


class ConfiguredServer(NamedTuple):
    """A server of the file; ``token`` is None without a sign-in."""

    address: Address
    token: StoredToken | None = None
    username: str = ""
    certificate_authority: str = ""
    """Path of a file with the server's CA, "" for the system's."""


class Servers:
    """The servers and tokens in the file.

    Args:
        raw: the document, which is changed in place.
        where: the file's path, for messages.
    """

    def __init__(self, raw: JSON, where: str) -> None:
        self.raw = raw
        self._where = where
        self._servers = self._object(raw, "servers")

    def current(self) -> ConfiguredServer | None:
        """Return the default server, None without one."""
        key = self.raw.get("current") or ""
        if not isinstance(key, str):
            raise ConfigFileError(f"{self._where}: current is no text")
        return self._entry(key) if key in self._servers else None

    def find(self, address: Address) -> ConfiguredServer | None:
        """Return the entry of a server, which another CLI may have stored under another key."""
        key = self._key(address)
        return None if key is None else self._entry(key)

    def all(self) -> list[ConfiguredServer]:
        """Return all servers in the order of the file."""
        return [self._entry(key) for key in self._servers]

    def sign_in(self, entry: ConfiguredServer) -> None:
        """Store a server with its token, and make it the current one."""
        key = self._key(entry.address) or entry.address.key
        self._servers.setdefault(key, {})
        server_entry = self._object(self._servers, key)
        token = entry.token or StoredToken("")
        server_entry["url"] = entry.address.url
        server_entry["accessToken"], server_entry["tokenType"] = token.text, token.type
        # kube-bind's command reads the field into Go's time.Time, which an empty text would break.
        server_entry["expiresAt"] = format_time(token.expires) if token.expires else _UNSET
        others = {
            "cluster": entry.address.cluster,
            "username": entry.username,
            "certificateAuthority": entry.certificate_authority,
        }
        for name, value in others.items():
            server_entry.pop(name, None)
            if value:
                server_entry[name] = value
        self.raw["servers"] = self._servers
        self.raw["current"] = key

    def sign_out(self, address: Address) -> None:
        """Remove a server's token, and keep the server."""
        key = self._key(address)
        if key is not None:
            entry = self._object(self._servers, key)
            for name in ("accessToken", "tokenType", "username"):
                entry.pop(name, None)
            entry["expiresAt"] = _UNSET

    def _key(self, address: Address) -> str | None:
        if address.key in self._servers:
            return address.key
        return next((key for key in self._servers if self._address(key) == address), None)

    def _address(self, key: str) -> Address | None:
        fields = self._object(self._servers, key)
        url, cluster = self._text(fields, key, "url"), self._text(fields, key, "cluster")
        try:
            return Address(server_url(url), cluster) if url else parse_server(key, cluster)
        except ValueError:
            return None

    def _entry(self, key: str) -> ConfiguredServer:
        address = self._address(key)
        if address is None:
            raise ConfigFileError(
                f"{self._where}: servers[{key!r}] has no usable url: log in anew"
            )
        fields = self._object(self._servers, key)
        text = self._text(fields, key, "accessToken")
        token = None
        if text:
            type_ = self._text(fields, key, "tokenType") or "Bearer"
            token = StoredToken(text, self._expiry(fields, key), type_)
        return ConfiguredServer(
            address,
            token,
            self._text(fields, key, "username"),
            self._text(fields, key, "certificateAuthority"),
        )

    def _expiry(self, fields: JSON, key: str) -> datetime | None:
        text = self._text(fields, key, "expiresAt")
        if not text or text.startswith("0001-"):
            return None
        try:
            return parse_time(text)
        except (ValueError, OverflowError):
            raise ConfigFileError(
                f"{self._where}: servers[{key!r}].expiresAt is no time: log in anew"
            ) from None

    def _text(self, fields: JSON, key: str, name: str) -> str:
        value = fields.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConfigFileError(f"{self._where}: servers[{key!r}].{name} is no text")
        return value

    def _object(self, fields: JSON, name: str) -> JSON:
        value = fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise ConfigFileError(f"{self._where}: {name} is no object")
        return value


class ConfigFile:
    """The file on disk, which is read and replaced as a whole.

    Args:
        path: its path; by default ``~/.kube-bind/config``.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or Path(os.environ.get("HOME") or "/", ".kube-bind", "config")

    def read(self) -> Servers:
        """Read the file; a missing one counts as empty.

        Raises:
            ConfigFileError: the content is malformed.
            OSError: the file cannot be read.
        """
        try:
            with self.path.open("rb") as file:
                data = file.read()
        except FileNotFoundError:
            data = b""
        return Servers(self._decode(data), str(self.path))

    def change(self, how: Callable[[Servers], None]) -> None:
        """Change the file atomically, under a lock against other processes.

        Raises:
            ConfigFileError: the content is malformed; the file is not changed.
            OSError: the file cannot be written.
        """
        # The rename below would replace a symbolic link: write its target.
        target = self.path.resolve()
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file of its own: a lock on the config file would be lost with the rename.
        with _alone(target.with_name(target.name + ".lock")):
            servers = self.read()
            how(servers)
            text = msgspec.json.format(msgspec.json.encode(servers.raw), indent=2)
            _replace(target, text + b"\n")

    def _decode(self, data: bytes) -> JSON:
        fresh: JSON = {"apiVersion": "v1", "kind": "Config", "servers": {}, "current": ""}
        if not data.strip():
            return fresh
        try:
            value: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            raise ConfigFileError(
                f"{self.path} is no JSON: mend it, or remove it and log in anew"
            ) from None
        if not isinstance(value, dict) or value.get("kind", "Config") != "Config":
            raise ConfigFileError(f"{self.path} is no config file of kube-bind")
        return {**fresh, **value}


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, which the kernel releases if the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically with one that only its owner can read."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename: otherwise a crash may leave an empty file in place of all tokens.
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def expiry(seconds: object) -> datetime | None:
    """Return when a token with a lifetime in seconds expires; None without a usable lifetime."""
    try:
        life = timedelta(seconds=float(str(seconds)))
        return (moment() + life).astimezone(UTC) if life > timedelta() else None
    except (ValueError, OverflowError):
        return None
