"""Settings of TLS, for libpq and for the connection that reads the challenge.

https://www.postgresql.org/docs/current/libpq-ssl.html
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar, NamedTuple
from weakref import WeakValueDictionary, finalize

from fairlead.client.authorities import trust_only
from fairlead.postgres.database.connections.endpoint import Endpoint


_PROTOCOL = "postgresql"
"""ALPN name of PostgreSQL's protocol, since version 17."""


class TLSSettings(NamedTuple):
    """libpq's parameters of TLS, and the files that they name.

    A connection keeps the files as long as it lives: libpq reads them again for the connection
    that cancels a statement.
    """

    parameters: Mapping[str, Any]
    files: Sequence[CertificateFile]


class CertificateFile:
    """A file with a certificate or a key, until the last one who keeps it lets go.

    Args:
        name: the file's name, for a person who looks at the open files of this process.
        content: the PEM.
    """

    _open: ClassVar[WeakValueDictionary[tuple[str, str], CertificateFile]] = WeakValueDictionary()

    def __init__(self, name: str, content: str) -> None:
        stack = ExitStack()
        self.path = stack.enter_context(_file(name, content))
        finalize(self, stack.close)

    @classmethod
    def of(cls, name: str, content: str) -> CertificateFile:
        """Return the file with this content, one for all connections."""
        file = cls._open.get((name, content))
        if file is None:
            file = cls._open[name, content] = cls(name, content)
        return file


def settings_of(endpoint: Endpoint) -> TLSSettings:
    """Return libpq's parameters of TLS, with files for certificates, as libpq reads no others."""
    # Without sslcertmode libpq would send a certificate from the home directory of this process.
    settings: dict[str, Any] = {"sslmode": endpoint.ssl_mode, "sslcertmode": "disable"}
    files: dict[str, CertificateFile] = {}
    if endpoint.ca:
        files["sslrootcert"] = CertificateFile.of("ca.crt", endpoint.ca)
    elif endpoint.ssl_mode.startswith("verify-"):
        # Anyone gets a certificate for some name from the system's roots, so libpq requires that
        # the name is verified too.
        settings |= {"sslrootcert": "system", "sslmode": "verify-full"}
    if endpoint.certificate:
        files["sslcert"] = CertificateFile.of("tls.crt", endpoint.certificate)
        files["sslkey"] = CertificateFile.of("tls.key", endpoint.key)
        # A server that asks for neither password nor certificate lets anyone in, so a login by the
        # certificate alone is refused there.
        settings["sslcertmode"] = "allow" if endpoint.password else "require"
    paths = {parameter: file.path for parameter, file in files.items()}
    return TLSSettings(settings | paths, tuple(files.values()))


def unverified(endpoint: Endpoint) -> ssl.SSLContext:
    """Return the context of a connection that carries nothing secret.

    It verifies nothing and accepts all ciphers, so that it never fails where libpq would not. The
    lowest version is TLS 1.2, as in libpq.

    Raises:
        OSError: the certificate or its key is malformed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols([_PROTOCOL])
    if endpoint.certificate:
        with _file("tls.crt", endpoint.certificate) as own, _file("tls.key", endpoint.key) as key:
            # Without a password OpenSSL would ask for that of an encrypted key at the terminal.
            context.load_cert_chain(own, key, password="")
    return context


def verifying(endpoint: Endpoint) -> ssl.SSLContext:
    """Return the context of a connection that verifies the server as libpq does, and no more.

    It shows no client certificate: nothing follows the handshake.
    """
    if endpoint.ca:
        context = trust_only(endpoint.ca.encode())
        context.check_hostname = endpoint.ssl_mode == "verify-full"
    else:
        # As in settings_of: with the system's roots the name is verified in any mode.
        context = ssl.create_default_context()
    context.set_alpn_protocols([_PROTOCOL])
    return context


def is_pair(certificate: str, key: str) -> bool:
    """Whether a certificate and a key may belong together; malformed ones may."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        with _file("tls.crt", certificate) as own, _file("tls.key", key) as its_key:
            context.load_cert_chain(own, its_key, password="")
    except ssl.SSLError as error:
        return error.reason != "KEY_VALUES_MISMATCH"
    except OSError:
        return True
    return True


@contextmanager
def _file(name: str, content: str) -> Iterator[str]:
    """Yield a path to the content that only this process can read.

    The file is in memory if the system supports it: a container's disk may be read-only.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create(name), "w") as file:
            # libpq takes no key that others could read.
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("w", suffix=f"-{name}") as file_:
            file_.write(content)
            file_.flush()
            yield file_.name
