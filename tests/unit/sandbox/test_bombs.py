"""Nothing may hang the sandbox: bombs of every kind go off beside a heartbeat.

A heartbeat request is answered within a second, whatever else is asked. The second is the
server's own: what the machine kept from it is taken off (see :mod:`tests.support.heartbeat`), so
that a busy machine fails no test. The examples are the same in every run; with BOMBS=100 a
hundred of each kind are made up anew.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support import bombs
from tests.support.bombs import Bomb
from tests.support.heartbeat import Heart, unscheduled

from fairlead_sandbox.requests.heavy import HEAVY


MANY = int(os.environ.get("BOMBS", "0"))
SECOND = 1.0
ATTEMPTS = 3
SERVER = """
import asyncio
from fairlead import process
from fairlead_sandbox import Sandbox
from fairlead_sandbox.requests import workers

workers.SECONDS = 5.0

async def main(stop):
    async with Sandbox(tls=False, rbac=False) as sandbox:
        print(sandbox.url, flush=True)
        await stop.wait()

process.run(main)
"""

pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(
        not Path("/proc/self/schedstat").exists(),
        reason="the kernel does not tell who had to wait",
    ),
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]
exploding = settings(
    max_examples=MANY or 8,
    derandomize=not MANY,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


class Plane:
    """A sandbox in a process of its own, with a heartbeat."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._stderr = log.open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        self.heart = Heart(self.url, self.process.pid)
        self.ask("POST", bombs.CRDS, json.dumps(bombs.crd()).encode())

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=120)
        try:
            connection.request(method, path, body, {"Content-Type": kind})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def drop(self, bomb: Bomb) -> tuple[int, bytes]:
        query = f"?{urlencode(bomb.query)}" if bomb.query else ""
        return self.ask(bomb.method, bomb.path + query, bomb.body, bomb.kind)

    def prepare(self, bomb: Bomb) -> None:
        for path, body in bomb.before:
            code, _ = self.ask("POST", path, json.dumps(body).encode())
            if path == bombs.CRDS and code == 201:
                self._await_kind(body["spec"]["names"]["plural"])

    def _await_kind(self, plural: str) -> None:
        path = bombs.WIDGETS.replace("widgets", plural)
        end = time.monotonic() + 60
        while self.ask("GET", path)[0] == 404 and time.monotonic() < end:
            time.sleep(0.01)

    def clean_up(self, bomb: Bomb) -> None:
        for path in dict.fromkeys([bomb.path, *(path for path, _ in bomb.before)]):
            if path == bombs.CRDS:
                names = [body["metadata"]["name"] for one, body in bomb.before if one == path]
                for name in names or ["bombs.bombs.example.org"]:
                    self.ask("DELETE", f"{path}/{name}")
            elif path in {bombs.CONFIGMAPS, bombs.DEPLOYMENTS, bombs.WIDGETS}:
                self.ask("PATCH", f"{path}/bomb", b'{"metadata":{"finalizers":null}}', MERGE)
                self.ask("DELETE", f"{path}/bomb")

    def await_workers(self) -> list[int]:
        """The worker processes, once there are some."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        end = time.monotonic() + 60
        while not (found := children.read_text().split()) and time.monotonic() < end:
            time.sleep(0.01)
        assert found
        return [int(pid) for pid in found]

    def seconds_to_end(self) -> float:
        """How long the process goes on after a SIGTERM, but for what the machine takes of it."""
        pid = self.process.pid
        start, before = time.perf_counter(), unscheduled(pid)
        kept = before
        self.process.send_signal(signal.SIGTERM)
        while self.process.poll() is None:
            with suppress(FileNotFoundError, ProcessLookupError):
                kept = unscheduled(pid)
            time.sleep(0.01)
        return time.perf_counter() - start - (kept - before)

    def errors(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.heart.__exit__()
        self.process.terminate()
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        finally:
            self._stderr.close()


MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with Plane(tmp_path_factory.mktemp("bombs") / "log") as made:
        yield made


def explode(plane: Plane, bomb: Bomb) -> None:
    """The bomb goes off, the heartbeat goes on, and the answer is one that a client can use."""
    waits: list[float] = []
    # Not all that a machine keeps from a process is told by its kernel: a virtual machine may
    # stand still. What the bomb itself causes, it causes each time.
    while not waits or (waits[-1] >= SECOND and len(waits) < ATTEMPTS):
        plane.heart.look()
        plane.prepare(bomb)
        code, body = plane.drop(bomb)
        plane.clean_up(bomb)
        longest, requests = plane.heart.look()
        assert requests >= 2
        waits.append(longest)
    assert waits[-1] < SECOND, f"heartbeats waited {waits} s for {bomb}"
    if code >= 400 and body.startswith(b"{"):
        assert json.loads(body).get("reason") != "InternalError", body[:500]
    assert len(body) <= 3 * bombs.MOST, f"{len(body)} bytes are the answer to {bomb}"
    assert "Traceback" not in plane.errors(), plane.errors()[-3000:]


@exploding
@given(bomb=bombs.wide_json)
def test_wide_objects(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.deep_json)
def test_deep_objects(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.json_patches)
def test_json_patches(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.strategic_patches)
def test_strategic_merge_patches(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.yaml_bodies)
def test_yaml(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.protobuf_bodies)
def test_protobuf(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.selectors)
def test_selectors(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.schemas)
def test_schemas(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.patterns)
def test_patterns(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.formats)
def test_formats(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.rules)
def test_rules(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.priced_rules)
def test_many_rules_within_the_estimate(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


@exploding
@given(bomb=bombs.alternatives)
def test_alternatives(plane: Plane, bomb: Bomb) -> None:
    explode(plane, bomb)


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: sandbox\r\nContent-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


YAML = b"kind: ConfigMap\napiVersion: v1\nx: [" + b"1," * 1_500_000 + b"1]"
FINALIZERS = bombs.configmap(metadata={"finalizers": [f"a/b{index}" for index in range(200_000)]})
WATCH = f"GET {bombs.CONFIGMAPS}?watch=1 HTTP/1.1\r\nHost: sandbox\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("data", "times"),
    [
        pytest.param(post(bombs.CONFIGMAPS, YAML, bombs.YAML), 4, id="YAML"),
        pytest.param(post(bombs.CONFIGMAPS, json.dumps(FINALIZERS).encode()), 4, id="wide"),
        pytest.param(b"GET /api HTTP/1.1\r\na: b\r\n", 20, id="headers without end"),
        pytest.param(post(bombs.CONFIGMAPS, b"{}" * 100)[:-1], 20, id="body without end"),
        pytest.param(WATCH, 20, id="watches"),
    ],
)
def test_a_signal_ends_the_process(tmp_path: Path, data: bytes, times: int) -> None:
    """Five seconds of its own are enough, whatever it is at; its workers end with it."""
    with Plane(tmp_path / "log") as plane, ExitStack() as stack:
        host, _, port = plane.url.removeprefix("http://").partition(":")
        for _ in range(times):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(data)
        # What was sent before is being worked on, or waits for its turn.
        assert plane.heart.look().longest < SECOND
        workers = plane.await_workers() if len(data) > HEAVY else []
        assert plane.seconds_to_end() < 5
        assert plane.process.returncode == 0
        for pid in workers:
            await_end(pid)


def await_end(pid: int) -> None:
    end = time.monotonic() + 60
    while is_running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
