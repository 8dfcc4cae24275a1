"""Connections: their sockets and TLS contexts, and one clear line for each way they break."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp

from fairlead.api.addresses import is_loopback
from fairlead.client import limits
from fairlead.client.authorities import (
    AuthorityError,
    explain_refusal,
    refused_certificate,
    trust_only,
)
from fairlead.client.caution import AddressRefused
from fairlead.client.config import ClusterConfig
from fairlead.client.errors import CertificateRefused, ConfigError, ConnectionFailed


FAULTS = (aiohttp.ClientError, TimeoutError, OSError, UnicodeError)
"""Exceptions of a request without a complete answer; UnicodeError is a malformed host name."""


def failed(config: ClusterConfig, error: BaseException, issuer: str = "") -> ConnectionFailed:
    """Return the ConnectionFailed for one of :data:`FAULTS`: server, fault and remedy.

    ``issuer`` has issued the server's certificate, where that was refused; "" if it is unknown.
    """
    text = f"cannot reach {config.server}: " + _reason(error, config, issuer)
    is_refused = refused_certificate(error) is not None
    return (CertificateRefused if is_refused else ConnectionFailed)(text, config.server)


def _reason(error: BaseException, config: ClusterConfig, issuer: str) -> str:
    if refusal := refused_certificate(error):
        return explain_refusal(
            refusal,
            config.certificate_authority,
            issuer,
            authority="certificate-authority-data in the kubeconfig",
            name="its tls-server-name",
        )
    # Classes come before their bases: an error of TLS is a ClientConnectorError, which is an
    # OSError; a connection that takes too long is a TimeoutError.
    match error:
        case OSError(errno=errno.EMFILE | errno.ENFILE):
            return "this process may not open more files; raise its limit (ulimit -n)"
        case UnicodeError():
            return "its host name is malformed; check server in the kubeconfig"
        case aiohttp.ClientConnectorDNSError():
            return "its host name is unknown; check server in the kubeconfig"
        case aiohttp.ClientProxyConnectionError():
            return "its proxy does not answer; check proxy-url in the kubeconfig"
        case aiohttp.ClientHttpProxyError():
            return f"its proxy answered {error.status}; check proxy-url in the kubeconfig"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "TLS failed: is it an https server, and does it accept the client certificate?"
        case aiohttp.ConnectionTimeoutError():
            return (
                "it does not accept connections in time; check server in the kubeconfig, "
                "and the network"
            )
        case TimeoutError():
            return "it did not answer in time; is it overloaded or cut off?"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError() | BrokenPipeError():
            return "it closed the connection; is it restarting?"
        case aiohttp.ClientPayloadError():
            return "the connection broke in the middle of an answer; is it restarting?"
        case aiohttp.ClientResponseError():
            return "its answer is not HTTP; check server in the kubeconfig"
        case aiohttp.ClientConnectorError():
            return _socket(error.os_error, config.server)
        case _:
            return f"{type(error).__name__}; check server in the kubeconfig"


def _socket(error: OSError, server: str) -> str:
    host = urlsplit(server).hostname or ""
    if is_loopback(host) and "KUBERNETES_SERVICE_HOST" in os.environ:
        return (
            f"{host} is this Pod itself, and the kubeconfig needs an address that Pods reach: a"
            " provider gives one with --external-address"
        )
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is it running, and is server in the kubeconfig right?"
    if isinstance(error, socket.gaierror):
        return "its host name is unknown; check server in the kubeconfig"
    detail = (error.strerror or type(error).__name__).partition(" [")[0]
    return f"{detail}; check server in the kubeconfig"


class Socket(socket.socket):
    """Socket that never closes a file descriptor which it does not own any more.

    When a server resets a connection as it begins, uvloop closes the descriptor and does not tell
    the socket object. The number soon belongs to another socket, which would be closed with this
    object.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self._inode = os.fstat(self.fileno()).st_ino

    @property
    def open(self) -> bool:
        """Whether the descriptor is still this socket's own; inode numbers are not reused soon."""
        try:
            return os.fstat(self.fileno()).st_ino == self._inode
        except OSError:
            return False

    def __del__(self) -> None:
        # The finalizer of the base class closes the number, even if it is another socket's by now.
        if not self.open:
            self.detach()
        super().__del__()  # type: ignore[misc]


class Sockets:
    """Makes sockets for a connector, and closes sockets that outlive it.

    ``refused`` takes a numeric address and returns why no socket may connect to it, "" if one may.
    """

    def __init__(self, refused: Callable[[str], str] = lambda _address: "") -> None:
        self._refused = refused
        self._sockets: WeakKeyDictionary[Socket, None] = WeakKeyDictionary()

    def make(self, address: tuple[Any, ...]) -> Socket:
        """Make a socket whose kernel notices within a minute that the other end is gone.

        Raises:
            AddressRefused: connections to this address are not allowed.
        """
        family, kind, protocol, _, place = address
        if why := self._refused(str(place[0])):
            raise AddressRefused(errno.EACCES, why)
        sock = Socket(family, kind, protocol)
        # By default Linux asks an idle peer after two hours (tcp(7)). A watch is idle for minutes,
        # and a machine that lost its power ends no connection. Some systems lack these names.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        self._sockets[sock] = None
        return sock

    async def close(self) -> None:
        """Shut down every connection that is left.

        A connector forgets a TLS connection whose request was given up, while its transport waits
        up to 30 s for the peer's close_notify. A shutdown of both directions ends that wait.
        """
        for left in self._left():
            with contextlib.suppress(OSError):
                left.shutdown(socket.SHUT_RDWR)
        for _ in range(limits.SHUT_TURNS):
            if not self._left():
                return
            await asyncio.sleep(0)

    def _left(self) -> list[Socket]:
        return [sock for sock in self._sockets if sock.open]


def build_ssl_context(
    config: ClusterConfig, certificate: bytes = b"", key: bytes = b""
) -> ssl.SSLContext:
    """Make a context that trusts the cluster's authority and shows the client certificate.

    Args:
        config: the authority to trust, and the client certificate to show by default.
        certificate: PEM of a certificate to show instead, such as an exec plugin's.
        key: its private key, PEM.

    Raises:
        ConfigError: a certificate or key is unusable; nothing of a key is quoted.
    """
    context = _trust(config)
    certificate, key = (
        (certificate, key) if certificate else (config.client_certificate, config.client_key)
    )
    if certificate:
        _load_identity(context, certificate, key)
    return context


def _trust(config: ClusterConfig) -> ssl.SSLContext:
    if config.insecure_skip_tls_verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if not config.certificate_authority:
        # As in client-go: without an authority of its own, the system's authorities count.
        return ssl.create_default_context()
    # The system's authorities must not vouch for a cluster that names its own.
    try:
        return trust_only(config.certificate_authority)
    except AuthorityError as error:
        raise ConfigError(f"certificate-authority for {config.server} {error}") from None


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load certificate and key through files, since Python has no other way.

    Only this user can read the files, and they are deleted at once.
    """
    with tempfile.TemporaryDirectory(prefix="fairlead-") as name:
        paths = Path(name, "tls.crt"), Path(name, "tls.key")
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        try:
            # Without a password OpenSSL would ask the terminal for the one of an encrypted key.
            context.load_cert_chain(*paths, password=_no_password)
        except (ssl.SSLError, ValueError, OSError):
            raise ConfigError(
                "the client certificate and key are not a matching, unencrypted PEM pair"
            ) from None


def _no_password() -> str:
    raise ValueError("encrypted keys are not supported")
