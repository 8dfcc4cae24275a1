"""What aiohttp raises, said as :class:`ConnectionFailed` in one line with the remedy."""

from __future__ import annotations

import socket
import ssl
from types import TracebackType

import aiohttp

from fairlead.client.errors import ConnectionFailed


class mapped_errors:  # noqa: N801  used as the functions of contextlib are
    """Raises :class:`ConnectionFailed` for every way in which a request can break.

    A class, for it is around every request, and a generator costs three times as much.
    """

    __slots__ = ("_server",)

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, aiohttp.ClientError | TimeoutError | OSError | UnicodeError):
            raise ConnectionFailed(explain(self._server, error)) from error


def explain(server: str, error: BaseException) -> str:
    """One line: which server, what happened, what to do."""
    return f"cannot reach {server}: " + _reason(error)


def _reason(error: BaseException) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return _certificate(error.certificate_error)
        case UnicodeError():
            return "its host name is malformed; check server in the kubeconfig"
        case aiohttp.ClientConnectorDNSError():
            return "its host name is unknown; check server in the kubeconfig"
        case aiohttp.ClientProxyConnectionError():
            return "its proxy does not answer; check proxy-url in the kubeconfig"
        case aiohttp.ClientHttpProxyError():
            return f"its proxy answered {error.status}; check proxy-url in the kubeconfig"
        case aiohttp.ClientConnectorSSLError() | ssl.SSLError():
            return "TLS failed: is it an https server, and is the client certificate its own?"
        case aiohttp.ConnectionTimeoutError():
            return "it does not take connections in time; check server and the network between"
        case TimeoutError():
            return "it did not answer in time; is it overloaded or cut off?"
        case aiohttp.ServerDisconnectedError() | ConnectionResetError() | BrokenPipeError():
            return "it closed the connection; is it restarting?"
        case aiohttp.ClientPayloadError():
            return "the connection broke in the middle of an answer; is it restarting?"
        case aiohttp.ClientResponseError():
            return "its answer is no HTTP; check server in the kubeconfig"
        case aiohttp.ClientConnectorError():
            return _socket(error.os_error)
        case _:
            return f"{type(error).__name__}; check server in the kubeconfig"


def _certificate(error: BaseException) -> str:
    detail = getattr(error, "verify_message", "") or "it is not trusted"
    return (
        f"its certificate was refused: {detail};"
        " check certificate-authority-data and tls-server-name in the kubeconfig"
    )


def _socket(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is it running, and is server in the kubeconfig right?"
    if isinstance(error, socket.gaierror):
        return "its host name is unknown; check server in the kubeconfig"
    detail = (error.strerror or type(error).__name__).partition(" [")[0]
    return f"{detail}; check server in the kubeconfig"
