"""TLS as a kubeconfig wants it: one context per client, verified unless told otherwise."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from fairlead.client.config import ClusterConfig
from fairlead.client.errors import ConfigError


def build_ssl_context(
    config: ClusterConfig, certificate: bytes = b"", key: bytes = b""
) -> ssl.SSLContext:
    """A context that trusts the cluster's authority and shows the client certificate.

    Args:
        config: whom to trust, and the client certificate to show by default.
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
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Python 3.13 sets it for default contexts; the authorities of many clusters lack the
    # extensions that it asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    try:
        context.load_verify_locations(cadata=config.certificate_authority.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(
            f"certificate-authority for {config.server} holds no usable PEM certificate"
        ) from None
    return context


def _load_identity(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Through files that only we can read and that are gone at once: Python takes nothing else."""
    with tempfile.TemporaryDirectory(prefix="fairlead-") as name:
        paths = Path(name, "tls.crt"), Path(name, "tls.key")
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        try:
            # Without a password OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(*paths, password=_no_password)
        except (ssl.SSLError, ValueError, OSError):
            raise ConfigError(
                "the client certificate and key are no matching, unencrypted PEM pair"
            ) from None


def _no_password() -> str:
    raise ValueError("encrypted keys are not supported")
