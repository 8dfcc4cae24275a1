"""``fairlead`` without the half second that Python takes to import it.

``python -m tests.support.forked SOCKET`` has all commands imported, and forks a process for each
call. The program that :func:`write_client` writes makes such a call: the process has the caller's
arguments, environment, folder and open files, and gets its signals.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import pkgutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import fairlead.cli
from fairlead.cli import main


_STREAMS = 3
_CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(4, "big")], [0, 1, 2])
server.sendall(call)
answers = server.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: os.kill(child, number))
os._exit(int(answers.readline()))
"""


def write_client(program: Path, address: Path) -> None:
    """Write the program that calls the server at a socket."""
    program.write_text(_CLIENT.format(python=sys.executable, socket=str(address)))
    program.chmod(0o755)


@asynccontextmanager
async def served(program: Path) -> AsyncIterator[None]:
    """Have a program ``fairlead`` while the block runs."""
    address = program.with_suffix(".socket")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(address)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"ready\n"
        write_client(program, address)
        yield
    finally:
        process.terminate()
        await process.wait()


def serve(address: str) -> None:
    """Answer calls until the process is ended."""
    for module in pkgutil.walk_packages(fairlead.cli.__path__, "fairlead.cli."):
        importlib.import_module(module.name)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    # The kernel buries those that watch over calls.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _watch(connection)
        connection.close()


def _watch(connection: socket.socket) -> None:
    """Run a call in a process of its own, and tell its id and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    head, streams, _, _ = socket.recv_fds(connection, 4, _STREAMS)
    rest = connection.makefile("rb").read(int.from_bytes(head, "big"))
    child = os.fork()
    if child == 0:
        connection.close()
        arguments, folder, environment = json.loads(rest)
        _call(arguments, folder, environment, streams)
    connection.sendall(f"{child}\n".encode())
    _, status = os.waitpid(child, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _call(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> None:
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        main(arguments, prog_name="fairlead")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(bool(end.code))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
