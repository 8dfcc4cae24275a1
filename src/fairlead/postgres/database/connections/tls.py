"""Settings of TLS, for libpq and for the connection that reads the challenge.

https://www.postgresql.org/docs/current/libpq-ssl.html
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from fairlead.client.authorities import trust_only
from fairlead.postgres.database.connections.endpoint import Endpoint


_PROTOCOL = "postgresql"
"""ALPN name of PostgreSQL's protocol, since version 17."""


@contextmanager
def settings_of(endpoint: Endpoint) -> Iterator[dict[str, Any]]:
    """Yield libpq's parameters of TLS, with files for certificates, as libpq reads no others."""
    # Without sslcertmode libpq would send a certificate from the home directory of this process.
    settings: dict[str, Any] = {"sslmode": endpoint.ssl_mode, "sslcertmode": "disable"}
    with ExitStack() as stack:
        if endpoint.ca:
            settings["sslrootcert"] = stack.enter_context(_file("ca.crt", endpoint.ca))
        elif endpoint.ssl_mode.startswith("verify-"):
            # Anyone gets a certificate for some name from the system's roots, so libpq requires
            # that the name is verified too.
            settings |= {"sslrootcert": "system", "sslmode": "verify-full"}
        if endpoint.certificate:
            settings["sslcert"] = stack.enter_context(_file("tls.crt", endpoint.certificate))
            settings["sslkey"] = stack.enter_context(_file("tls.key", endpoint.key))
            # A server that asks for neither password nor certificate lets anyone in, so a login by
            # the certificate alone is refused there.
            settings["sslcertmode"] = "allow" if endpoint.password else "require"
        yield settings


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
