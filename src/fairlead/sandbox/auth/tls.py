"""The listener's TLS: our certificate shown, client certificates asked for."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairlead.sandbox.auth.pki import Authority, Pair, write_secret
from fairlead.sandbox.objects.core import User


def server_context(authority: Authority, pair: Pair) -> ssl.SSLContext:
    """A context that verifies client certificates, where there are any, against the authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority.pem.decode())
    context.set_alpn_protocols(["http/1.1"])
    with tempfile.TemporaryDirectory(prefix="fairlead-") as folder:
        path = Path(folder) / "server.pem"
        write_secret(path, pair.certificate + pair.key)
        context.load_cert_chain(path)
    return context


def certificate_user(certificate: Mapping[str, Any]) -> User | None:
    """Who a verified client certificate names: CN is the user, each O a group."""
    names = [pair for part in certificate.get("subject", ()) for pair in part]
    user = next((value for key, value in names if key == "commonName"), "")
    groups = [value for key, value in names if key == "organizationName"]
    return User(user, (*groups, "system:authenticated")) if user else None
