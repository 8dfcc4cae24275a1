"""The sandbox's own certificate authority: its file, and the certificates that it signs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from fairlead.api.certificates import Authority, KeyPair
from fairlead.api.timestamps import moment


_LEAF_LIFE = timedelta(days=365)
"""Lifetime of the certificates of the server and of its clients."""
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""Host names in the listener's certificate; Pods reach the API server by those of its Service."""
_ADDRESSES = ("127.0.0.1", "::1")


def write_secret(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file that only its owner may read; readers see all of it or none.

    ``durable`` waits for the disk, so that a power failure cannot lose the file.
    """
    # In the same folder, because rename(2) does not cross file systems.
    temporary = path.with_suffix(".new")
    # A process that was killed in the middle may have left this file; O_EXCL would refuse it.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(descriptor)
    # rename(2) is atomic: readers see the old file or the whole new one.
    temporary.replace(path)
    if durable:
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_authority(folder: Path, name: str) -> Authority:
    """Return the authority kept in a folder; if there is none, create it and keep it there.

    Raises:
        ValueError: the kept file cannot be read.
        OSError: the folder cannot be used.
    """
    path = folder / "ca.pem"
    if path.exists():
        pem = path.read_bytes()
        return Authority.read(KeyPair(pem, pem))
    authority = Authority.create(name, moment())
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # One file for certificate and key: a crash cannot leave one without the other.
    write_secret(path, b"".join(authority.pair), durable=True)
    return authority


def server_pair(authority: Authority, host: str) -> KeyPair:
    """Issue a certificate for a listener on this host."""
    hosts = dict.fromkeys((*_SERVER_NAMES, *_ADDRESSES, host))
    return authority.server("kube-apiserver", hosts, now=moment(), life=_LEAF_LIFE)


def client_pair(authority: Authority, user: str, groups: Sequence[str] = ()) -> KeyPair:
    """Issue a client certificate for ``user`` as a member of ``groups``."""
    return authority.client(user, groups, now=moment(), life=_LEAF_LIFE)
