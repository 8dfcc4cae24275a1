"""An embedded PostgreSQL for the demo and the tests, which ends with this process.

The server listens on 127.0.0.1 alone, has no Unix socket, and asks every login for
scram-sha-256, the superuser's included. Its data is thrown away, so nothing is synced to disk.

The folder (mode 0700) belongs to the account that runs the server. A shell waits on a pipe of this
process: when the process ends, even by SIGKILL, the pipe closes, and the shell stops the server
and removes the folder.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from fairlead.demo.postgres.binaries import (
    EmbeddedPostgresError,
    find_install,
    give_away,
    reachable,
    unprivileged_account,
)


__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]

_POLL_SECONDS = 0.01
_START_TIMEOUT_SECONDS = 120.0
_STOP_TIMEOUT_SECONDS = 10.0
_PORT_ATTEMPTS = 5

# SIGQUIT is PostgreSQL's immediate shutdown, which waits for no session; what a crash would have
# to recover is thrown away with the folder.
_GUARD = """
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -QUIT "$pid" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.2
    done
    kill -KILL "$pid" 2>/dev/null
fi
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
"""

# The only line: initdb's own file also has lines for sockets, IPv6 and replication.
_HBA = "host all all 127.0.0.1/32 scram-sha-256\n"

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "password_encryption": "scram-sha-256",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "16MB",
    "max_connections": "100",
    "jit": "off",
    "logging_collector": "off",
    # The log is searched for English words below.
    "lc_messages": "C",
}


class EmbeddedPostgres:
    """A PostgreSQL server that lives as long as this context.

    Args:
        version: the major version, 18 or 16.
        install: another installation to run instead, a folder with bin in it.
        settings: configuration parameters, which override those of this module.

    Raises:
        EmbeddedPostgresError: on entering, if the server cannot be started.
    """

    host = "127.0.0.1"
    username = "postgres"

    def __init__(
        self,
        *,
        version: int = 18,
        install: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.port = 0
        self.password = secrets.token_urlsafe(24)
        self._settings = _SETTINGS | dict(settings or {})
        self._folder: Path | None = None
        self._given = install
        self._install: Path | None = None
        self._account = unprivileged_account()
        self._guard: subprocess.Popen[bytes] | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Self:
        """Initialise a fresh data folder and start the server."""
        try:
            self._prepare_folder()
            await self._initialise()
            await self.start_server()
        except BaseException:
            await self._remove()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the server and remove everything it wrote."""
        await self._remove()

    @property
    def pid(self) -> int:
        """Process id of the postmaster; 0 while it is stopped."""
        return self._postmaster.pid if self._postmaster else 0

    @property
    def folder(self) -> Path:
        """Folder of the data and the log.

        Raises:
            EmbeddedPostgresError: outside the context.
        """
        if self._folder is None:
            raise EmbeddedPostgresError("the embedded PostgreSQL has not been started")
        return self._folder

    def dsn(self, database: str = "postgres", username: str = "", password: str = "") -> str:
        """Return a connection URI, by default the superuser's."""
        user = quote(username or self.username, safe="")
        secret = quote(password if username else self.password, safe="")
        return f"postgresql://{user}:{secret}@{self.host}:{self.port}/{quote(database, safe='')}"

    def log(self, since: int = 0) -> str:
        """Return the server's log from a position in bytes, as :meth:`logged` has returned it."""
        with (self.folder / "log").open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    def logged(self) -> int:
        """Return the number of bytes that the server has logged so far."""
        return (self.folder / "log").stat().st_size

    async def start_server(self) -> None:
        """Start the server on its data folder, on the port it had before if it had one.

        Raises:
            EmbeddedPostgresError: the server did not start; the message ends with its last log
                line.
        """
        attempts = 1 if self.port else _PORT_ATTEMPTS
        for attempt in range(attempts):
            port = self.port or _free_port()
            self._launch(port)
            try:
                await asyncio.wait_for(self._ready(), _START_TIMEOUT_SECONDS)
            except (EmbeddedPostgresError, TimeoutError) as error:
                await self.stop_server()
                # Another process has taken the port between our look for a free one and the
                # server's start.
                if "could not bind" in self.log() and attempt + 1 < attempts:
                    continue
                reason = str(error) or f"not ready after {_START_TIMEOUT_SECONDS:.0f} s"
                raise EmbeddedPostgresError(f"PostgreSQL did not start: {reason}") from None
            self.port = port
            return

    async def stop_server(self) -> None:
        """Stop the server; sessions are cut, data stays until the context ends."""
        await self._stop(signal.SIGINT)

    async def _stop(self, how: signal.Signals) -> None:
        process, self._postmaster = self._postmaster, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(how)
            try:
                await asyncio.wait_for(_exited(process), _STOP_TIMEOUT_SECONDS)
            except TimeoutError:
                process.kill()
                await _exited(process)
        # The guard must not kill a number that by then belongs to another process.
        self._tell_guard("")

    def _prepare_folder(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fairlead-postgres-"))
        give_away(self._folder, self._account)
        install = self._given or find_install(self.version)
        self._install = reachable(install, self._account, self._folder)
        shell = shutil.which("sh") or "/bin/sh"
        # In a session of its own, for Ctrl-C at a terminal goes to our whole group: the guard has
        # to outlive us.
        self._guard = subprocess.Popen(
            [shell, "-c", _GUARD, "guard", str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    async def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.touch(mode=0o600)
        secret.write_text(self.password)
        give_away(secret, self._account)
        arguments = [
            *("-D", str(self.folder / "data"), "-U", self.username, "-E", "UTF8"),
            *("--locale=C", "--no-sync", "--no-instructions"),
            *("-A", "scram-sha-256", f"--pwfile={secret}"),
        ]
        process = self._spawn("initdb", arguments, "initdb.log")
        # The guard ends initdb too, if we die while it runs.
        self._tell_guard(str(process.pid))
        try:
            await _exited(process)
        except BaseException:
            process.kill()
            process.wait()
            raise
        secret.unlink()
        if process.returncode != 0:
            reason = _last_line(self.folder / "initdb.log")
            raise EmbeddedPostgresError(f"PostgreSQL's initdb failed: {reason}")
        (self.folder / "data" / "pg_hba.conf").write_text(_HBA)

    def _launch(self, port: int) -> None:
        arguments = ["-D", str(self.folder / "data"), "-p", str(port)]
        for name, value in self._settings.items():
            arguments += ["-c", f"{name}={value}"]
        self._postmaster = self._spawn("postgres", arguments, "log")
        self._tell_guard(str(self._postmaster.pid))

    async def _ready(self) -> None:
        """Wait until the postmaster's state, the eighth line of its pid file, is ready."""
        status = self.folder / "data" / "postmaster.pid"
        process = self._postmaster
        while process is not None:
            if process.poll() is not None:
                raise EmbeddedPostgresError(_last_line(self.folder / "log"))
            lines = status.read_text().splitlines() if status.exists() else []
            # The pid tells this server's file from one that a killed server has left.
            if len(lines) > 7 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _spawn(self, program: str, arguments: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        if self._install is None:
            raise EmbeddedPostgresError("the embedded PostgreSQL has not been started")
        account = self._account
        with (self.folder / log).open("ab") as output:
            try:
                return subprocess.Popen(
                    [str(self._install / "bin" / program), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    # Nothing of this process's environment: PGDATA and other variables change what
                    # the programs do.
                    env={"PATH": os.defpath, "LC_ALL": "C", "HOME": str(self.folder)},
                    user=account.pw_uid if account else None,
                    group=account.pw_gid if account else None,
                    # A change of the user leaves root's supplementary groups to the process.
                    extra_groups=[] if account else None,
                    # Ctrl-C at a terminal goes to our whole group, and the server ends when we
                    # tell it to.
                    start_new_session=True,
                )
            except OSError as error:
                raise EmbeddedPostgresError(
                    f"PostgreSQL's {program} cannot be run: {error.strerror}"
                ) from None

    def _tell_guard(self, pid: str) -> None:
        if self._guard is not None and self._guard.stdin is not None:
            self._guard.stdin.write(f"{pid}\n".encode())
            self._guard.stdin.flush()

    async def _remove(self) -> None:
        await self._stop(signal.SIGQUIT)
        if self._guard is not None:
            # When its input ends, the guard removes the folder; what it could not remove is tried
            # below.
            self._guard.communicate()
            self._guard = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _exited(process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:  # noqa: ASYNC110 - waiting in a thread could not be cancelled
        await asyncio.sleep(_POLL_SECONDS)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    worth = [line for line in lines if "FATAL" in line or "error" in line.lower()] or lines
    return worth[-1].strip() if worth else "it left no message"
