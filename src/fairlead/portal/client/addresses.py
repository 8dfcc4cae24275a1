"""Where a front door is, and which of its clusters is meant."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec


_ENDINGS = ("/api/exports", "/exports")
"""Paths that addresses of kube-bind's documentation end with."""
_SCHEMES = ("http://", "https://")


class Address(msgspec.Struct, frozen=True):
    """The address of a server, without a slash at its end, and a cluster of it, "" for its only.

    ``key`` is its name in the config file.
    """

    url: str
    cluster: str = ""

    @property
    def key(self) -> str:
        """The name as the original's CLI writes it."""
        return f"{self.cluster}@{self.url}" if self.cluster else self.url

    @property
    def origin(self) -> str:
        """Scheme and authority."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def exposed(self) -> bool:
        """Whether what is said to it can be read on the way: no https, and not this machine."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and not _loopback(parts.hostname or "")


def server_url(text: str) -> str:
    """The address of a server in its one form.

    Raises:
        ValueError: it is no address of a server; says what one looks like.
    """
    shown = text.split("?", maxsplit=1)[0] if "@" not in text else "what was given"
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        raise ValueError(f"{shown!r} is not an address: its host or port is not valid") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{shown!r} has to be an address such as https://bind.example.org")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the address may have no user: sign in with `fairlead login URL`")
    if any(not char.isprintable() or char.isspace() for char in text.strip()):
        raise ValueError("the address has a blank or a sign that cannot be seen")
    host = parts.hostname.lower()
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        authority += f":{port}"
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    return f"{parts.scheme}://{authority}{path.rstrip('/')}"


def parse_server(text: str, cluster: str = "") -> Address:
    """A server as ``--server`` names it: URL, ``cluster@url`` or ``url@cluster``.

    Args:
        text: what was given.
        cluster: what ``--cluster`` says, "" for nothing.

    Raises:
        ValueError: it is none of these, or names another cluster than ``cluster`` is.
    """
    named, url = "", text.strip()
    if url.startswith(_SCHEMES):
        head, sign, tail = url.rpartition("@")
        # What has a dot or a slash behind the sign is a host, and what is before it a user.
        if sign and not set(tail) & set("./"):
            url, named = head, tail
    elif "@" in url:
        named, url = url.split("@", maxsplit=1)
    if named and cluster and named != cluster:
        raise ValueError(f"--server names cluster {named!r}, and --cluster {cluster!r}")
    return Address(server_url(url), cluster or named)


def _loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
