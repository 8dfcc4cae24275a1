"""Images of what other people's Pods run, made of Debian's programs on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from hack.nodes import images


POSTGRES = "docker.io/library/postgres:15"
_INSTALL = Path("/usr/lib/postgresql/15")
_SHARE = Path("/usr/share/postgresql/15")
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")
# The administrator's password and the certificate are mounted; the data is gone with the Pod.
_START = f"""#!/bin/sh
set -e
export PGDATA=/tmp/data PATH={_INSTALL}/bin:/bin
initdb -U postgres --pwfile=/config/password -A scram-sha-256 --locale=C -E UTF8 >/dev/null
echo "CREATE DATABASE shop" | postgres --single postgres >/dev/null
echo "CREATE TABLE orders (id int, item text)" | postgres --single shop >/dev/null
echo "hostssl all all all scram-sha-256" >$PGDATA/pg_hba.conf
cp /config/tls.crt /config/tls.key /tmp
chmod 600 /tmp/tls.key
exec postgres -c listen_addresses='*' -c unix_socket_directories= -c fsync=off \\
    -c ssl=on -c ssl_cert_file=/tmp/tls.crt -c ssl_key_file=/tmp/tls.key
"""


def missing() -> str:
    """Why there is no image of PostgreSQL; "" when there is one."""
    return "" if (_INSTALL / "bin" / "postgres").exists() else "PostgreSQL 15 is not installed"


def postgres(target: Path) -> None:
    """Write the archive of an image of Debian's PostgreSQL."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        programs = [_INSTALL / "bin" / name for name in ("postgres", "initdb")]
        modules = [_INSTALL / "lib" / name for name in ("plpgsql.so", "dict_snowball.so")]
        zone = Path("/usr/share/zoneinfo/UTC")
        for source in (*programs, *modules, zone, *_libraries([*programs, *modules])):
            _copy(source, root)
        shutil.copytree(_SHARE, root / _SHARE.relative_to("/"))
        (root / "bin").mkdir(exist_ok=True)
        shutil.copy(shutil.which("busybox") or "", root / "bin" / "busybox")
        for name in ("sh", "cp", "chmod"):
            (root / "bin" / name).symlink_to("busybox")
        (root / "etc").mkdir()
        (root / "etc" / "passwd").write_text("postgres:x:65532:65532::/:/bin/sh\n")
        (root / "start").write_text(_START)
        (root / "start").chmod(0o755)
        (root / "tmp").mkdir(mode=0o777)
        (root / "tmp").chmod(0o1777)
        run = {"Entrypoint": ["/start"], "User": "65532", "Labels": {"name": "postgres"}}
        images.write(root, run, "postgres", "15", target)


def _libraries(programs: Iterable[Path]) -> set[Path]:
    found = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True)
        found |= {Path(path) for path in _LIBRARY.findall(listed.stdout)}
    return found


def _copy(source: Path, root: Path) -> None:
    target = root / source.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
