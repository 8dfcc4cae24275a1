"""Commands against kubeconfigs that are none, and servers that are no API servers.

Each ends with one line and exit code 1, or 2 for wrong usage, and in time: no traceback, nothing
"unexpected", no question that nobody answers.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner
from tests.support.planes import LoopThread

from fairlead.api.kubebind import new_binding_response
from fairlead.api.meta import JSON
from fairlead.cli import main


BOUND_SECONDS = 60.0
"""Far more than any of it takes: only what would wait for ever is longer."""


def status(code: int, reason: str) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no"}
    return answer(json.dumps({**body, "reason": reason, "code": code}).encode(), code)


def answer(body: bytes, code: int = 200, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {code} x\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def listed(*items: Any) -> bytes:
    return json.dumps({"kind": "L", "apiVersion": "v1", "metadata": {}, "items": items}).encode()


OBJECT = json.dumps(
    {
        "kind": "K",
        "apiVersion": "v1",
        "metadata": {"name": "x", "uid": "u"},
        "spec": [],
        "status": {"conditions": 7},
    }
).encode()
ANSWERS: dict[str, bytes | None] = {
    "page": answer(b"<html>hello", kind="text/html"),
    "page-500": answer(b"<html>hello", 500, "text/html"),
    "empty": answer(b""),
    "204": answer(b"", 204),
    "302": answer(b"", 302),
    "text-404": answer(b"404 page not found\n", 404, "text/plain"),
    "empty-object": answer(b"{}"),
    "null": answer(b"null"),
    "number": answer(b"1"),
    "no-utf-8": answer(b"\xff\xfe\xfd"),
    "items-of-nothing": answer(listed({})),
    "items-that-are-none": answer(listed(1)),
    "items-of-another-shape": answer(listed({"metadata": {"name": "x"}, "spec": 1, "status": 2})),
    "object-of-another-shape": answer(OBJECT),
    "unauthorized": status(401, "Unauthorized"),
    "forbidden": status(403, "Forbidden"),
    "failing": status(500, "InternalError"),
    "no-http": b"\x00\x01\r\n\r\n",
    "half": answer(b"{" * 100)[:-50],
    "closing": b"",
    "deaf": None,
}
FILES = {
    "nothing": "",
    "binary": "\x01\x02",
    "list": "- 1\n",
    "another-shape": '{"clusters": 5}',
    "no-context": "clusters: []\n",
    "no-url": "ftp://x y",
    "no-authority": "{server: 'https://127.0.0.1:1', certificate-authority-data: eA==}",
    "refused": "http://127.0.0.1:1",
    "unknown-host": "http://no.such.host.invalid",
}
COMMANDS: dict[str, list[str]] = {
    "bind": ["bind", "-f", "INVITATION", "--timeout", "1s"],
    "bundle": ["bind", "-f", "INVITATION", "--bundle", "--timeout", "1s"],
    "unbind": ["unbind", "x", "--yes", "--timeout", "1s"],
    "unbind-asking": ["unbind", "x", "--timeout", "1s"],
    "accept": ["accept", "x", "--timeout", "1s"],
    "bindings": ["bindings", "--once"],
    "consumers": ["provider", "consumers"],
    "invite": ["provider", "invite", "x", "--template", "t", "-o", "OUT"],
    "invite-v2": [
        *("provider", "invite", "x", "--protocol", "v2"),
        *("--api", "widgets.example.org", "-o", "OUT"),
    ],
    "rotate": ["provider", "rotate", "x", "--timeout", "1s"],
    "revoke": ["provider", "revoke", "x", "--yes", "--timeout", "1s"],
    "konnector": ["konnector", "run"],
}
HARMLESS = {
    ("bindings", "items-of-nothing"),
    ("bindings", "items-of-another-shape"),
}
"""A cluster in which there is nothing, or nothing that can be read, is no error."""
PATIENT = {"bindings", "consumers", "invite", "invite-v2", "rotate", "revoke", "konnector"}
"""These have no timeout of their own for a server that takes connections and is silent, and
wait as long as the client does, which is tested there."""


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Addresses by what is answered there to whatever is asked."""
    thread = LoopThread()
    started: list[asyncio.Server] = []

    async def serve(said: bytes | None) -> str:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if said is None:
                await reader.read()
            else:
                await reader.read(1)
                writer.write(said)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        started.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def stop() -> None:
        for server in started:
            server.close()

    yield {name: thread.run(serve(said)) for name, said in ANSWERS.items()}
    thread.run(stop())
    thread.close()


def kubeconfig(cluster: str) -> str:
    return (
        f"clusters: [{{name: c, cluster: {cluster}}}]\n"
        "contexts: [{name: x, context: {cluster: c, namespace: ns}}]\ncurrent-context: x\n"
    )


def run(name: str, file: Path, invited: str) -> Any:
    """Run a command, with an invitation that has this kubeconfig."""
    request: JSON = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportRequest",
        "metadata": {"name": "x"},
        "spec": {"resources": [{"group": "example.org", "resource": "things"}]},
    }
    response = new_binding_response(
        kubeconfig=invited.encode(), requests=[request], provider_namespace="ns", identity="x"
    )
    invitation = file.with_name("invitation.json")
    invitation.write_text(json.dumps(response))
    words = {"INVITATION": str(invitation), "OUT": str(file.with_name("out"))}
    command = [words.get(word, word) for word in COMMANDS[name]]
    return CliRunner().invoke(main, [*command, "--kubeconfig", str(file)])


def check(result: Any, name: str, case: str) -> None:
    assert isinstance(result.exception, SystemExit | type(None)), result.exception
    errors = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert "Traceback" not in result.output
    assert "unexpected" not in result.output
    if (name, case) in HARMLESS:
        assert (result.exit_code, errors) == (0, [])
        return
    assert result.exit_code in {1, 2}, result.output
    assert len(errors) == 1, result.output
    assert len(errors[0]) > len("Error: no")


def rows(cases: Iterable[str]) -> list[ParameterSet]:
    """Each command with each case.

    ``make test`` has each command and each case once at least, the matrix the rest.
    """
    names, listed = list(COMMANDS), list(cases)
    pairs = max(len(names), len(listed))
    chosen = {(names[n % len(names)], listed[n % len(listed)]) for n in range(pairs)}
    return [
        pytest.param(
            name,
            case,
            id=f"{name}-{case}",
            marks=() if (name, case) in chosen else (pytest.mark.extended,),
        )
        for name, case in itertools.product(names, listed)
        if case != "deaf" or name not in PATIENT
    ]


@pytest.mark.parametrize(("name", "case"), rows(ANSWERS))
def test_a_server_that_is_none_is_told_in_one_line(
    servers: dict[str, str], tmp_path: Path, name: str, case: str
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(kubeconfig(f"{{server: '{servers[case]}'}}"))
    started = time.monotonic()
    check(run(name, file, file.read_text()), name, case)
    assert time.monotonic() - started < BOUND_SECONDS


@pytest.mark.parametrize(("name", "case"), rows(FILES))
def test_a_kubeconfig_that_leads_nowhere_is_told_in_one_line(
    tmp_path: Path, name: str, case: str
) -> None:
    text = FILES[case]
    if case.startswith(("no-u", "no-a", "refused", "unknown")):
        text = kubeconfig(text if text.startswith("{") else f"{{server: '{text}'}}")
    file = tmp_path / "kubeconfig"
    file.write_text(text)
    check(run(name, file, kubeconfig("{server: 'http://127.0.0.1:1'}")), name, case)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_kubeconfig_that_is_not_there_is_told_in_one_line(tmp_path: Path, name: str) -> None:
    check(run(name, tmp_path / "missing", "x"), name, "missing")
