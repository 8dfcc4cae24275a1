"""The key that the chart is signed with, in files that are gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hack.releasing.checking import RefusedError


KEY = "FAIRLEAD_SIGNING_KEY"
"""The environment variable with the private key, in ASCII armor."""
PASSPHRASE = "FAIRLEAD_SIGNING_PASSPHRASE"  # noqa: S105  a variable's name
"""The environment variable with the key's passphrase, if it has one."""


class Key(NamedTuple):
    """A key as helm takes it."""

    name: str
    """The first user ID of the key."""
    fingerprint: str
    secret: Path
    """A keyring with the private key."""
    public: Path
    """A keyring with the public key."""
    passphrase: Path
    """A file, which is empty for a key without one."""


@contextmanager
def signing() -> Iterator[Key]:
    """Take the key of the environment, for as long as the block runs.

    Raises:
        RefusedError: there is no key, or it is none that gpg takes.
    """
    armored = os.environ.get(KEY, "")
    if not armored:
        raise RefusedError(
            f"there is no key to sign the chart with: set {KEY} to a private key in ASCII armor"
            f" and {PASSPHRASE} to its passphrase, or say --unsigned"
        )
    if not shutil.which("gpg"):
        raise RefusedError("gpg is not installed: apt-get install gnupg")
    # The path of gpg-agent's socket may not be long.
    with tempfile.TemporaryDirectory(prefix="fairlead-gpg-", dir="/tmp") as folder:
        gpg = _Gpg(Path(folder))
        try:
            yield gpg.key(armored)
        finally:
            gpg.end()


class _Gpg:
    def __init__(self, home: Path) -> None:
        self._home = home

    def key(self, armored: str) -> Key:
        passphrase = self._home / "passphrase"
        passphrase.write_text(os.environ.get(PASSPHRASE, ""))
        self._run("--import", text=armored.encode())
        listed = self._run("--with-colons", "--list-secret-keys").decode().splitlines()
        names = [line.split(":")[9] for line in listed if line.startswith("uid:")]
        prints = [line.split(":")[9] for line in listed if line.startswith("fpr:")]
        if not names:
            raise RefusedError(f"{KEY} holds no private key with a user ID")
        secret, public = self._home / "secret.gpg", self._home / "public.gpg"
        secret.write_bytes(
            self._run(
                *("--pinentry-mode", "loopback", "--passphrase-file", str(passphrase)),
                "--export-secret-keys",
            )
        )
        public.write_bytes(self._run("--export"))
        return Key(names[0], prints[0], secret, public, passphrase)

    def _run(self, *arguments: str, text: bytes = b"") -> bytes:
        done = subprocess.run(
            ["gpg", "--homedir", str(self._home), "--batch", "--quiet", *arguments],
            input=text,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise RefusedError(f"{KEY} or {PASSPHRASE}: {said[-1] if said else 'gpg failed'}")
        return done.stdout

    def end(self) -> None:
        command = ["gpgconf", "--homedir", str(self._home), "--kill", "gpg-agent"]
        subprocess.run(command, capture_output=True, check=False)
