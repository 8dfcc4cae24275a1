"""The address of a front door, with one of its clusters."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from fairlead.api.addresses import is_loopback


class FrontDoorError(Exception):
    """Base class of this package's errors."""


class Unreachable(FrontDoorError):  # noqa: N818  named after what happened
    """No complete answer came; the message names the server and the remedy."""


class StrangeAnswer(FrontDoorError):  # noqa: N818  named after what happened
    """The server answered, but not in the form of a front door."""


class Refused(FrontDoorError):  # noqa: N818  named after what happened
    """The server refused; ``code`` is that of its Error, "" without one."""

    def __init__(self, message: str, *, status: int, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class SignInNeeded(Refused):
    """The server demands a new sign-in."""

    def __init__(self, message: str) -> None:
        super().__init__(message, status=401, code="AUTHENTICATION_FAILED")


_ENDINGS = ("/api/exports", "/exports")
"""Path endings of the addresses in kube-bind's documentation, which are removed."""
_SCHEMES = ("http://", "https://")


class Address(msgspec.Struct, frozen=True):
    """A server's URL without a trailing slash, and its cluster, "" for its only one.

    ``key`` is its name in the config file.
    """

    url: str
    cluster: str = ""

    @property
    def key(self) -> str:
        """The entry's key, in the form of kube-bind's CLI."""
        return f"{self.cluster}@{self.url}" if self.cluster else self.url

    @property
    def origin(self) -> str:
        """Scheme and authority of the URL."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def exposed(self) -> bool:
        """Whether the connection is readable on the network: plain http beyond loopback."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        return parts.scheme == "http" and not (is_loopback(host) or host.endswith(".localhost"))


def server_url(text: str) -> str:
    """Normalize the URL of a server.

    Raises:
        ValueError: the text is not such a URL; the message gives an example.
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
        raise ValueError("the address has a blank or an invisible character")
    host = parts.hostname.lower()
    authority = f"[{host}]" if ":" in host else host
    if port is not None and port != {"http": 80, "https": 443}[parts.scheme]:
        authority += f":{port}"
    path = parts.path.rstrip("/")
    for ending in _ENDINGS:
        path = path.removesuffix(ending)
    return f"{parts.scheme}://{authority}{path.rstrip('/')}"


def parse_server(text: str, cluster: str = "") -> Address:
    """Parse a value of ``--server``: URL, ``cluster@url`` or ``url@cluster``.

    Args:
        text: the value.
        cluster: the value of ``--cluster``, "" without it.

    Raises:
        ValueError: the text has another form, or names another cluster than ``cluster``.
    """
    named, url = "", text.strip()
    # kube-bind's command stores cluster@url, and reads url@cluster from its flag: both are meant.
    if url.startswith(_SCHEMES):
        head, sign, tail = url.rpartition("@")
        # A dot or a slash after the last @ means that the part before it is a user.
        if sign and not set(tail) & set("./"):
            url, named = head, tail
    elif "@" in url:
        named, url = url.split("@", maxsplit=1)
    if named and cluster and named != cluster:
        raise ValueError(f"--server names cluster {named!r}, and --cluster {cluster!r}")
    return Address(server_url(url), cluster or named)
