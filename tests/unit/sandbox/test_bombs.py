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
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support import bombs
from tests.support.bombs import Bomb
from tests.support.heartbeat import Heart


MANY = int(os.environ.get("BOMBS", "0"))
SECOND = 1.0
SERVER = """
import asyncio
from fairlead import process
from fairlead.sandbox import Sandbox
from fairlead.sandbox.requests import workers

workers.SECONDS = 5.0

async def main(stop):
    async with Sandbox(tls=False, rbac=False) as sandbox:
        print(sandbox.url, flush=True)
        await stop.wait()

process.run(main)
"""

pytestmark = [
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
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"), timeout=300)
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
            self.ask("POST", path, json.dumps(body).encode())
            if path == bombs.CRDS:
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

    def errors(self) -> str:
        return self._log.read_text()

    def stop(self) -> None:
        self.heart.__exit__()
        self.process.terminate()
        self.process.communicate(timeout=60)
        self._stderr.close()


MERGE = "application/merge-patch+json"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    made = Plane(tmp_path_factory.mktemp("bombs") / "log")
    yield made
    made.stop()


def explode(plane: Plane, bomb: Bomb) -> None:
    """The bomb goes off, the heartbeat goes on, and the answer is one that a client can use."""
    plane.heart.look()
    plane.prepare(bomb)
    code, body = plane.drop(bomb)
    plane.clean_up(bomb)
    longest, requests = plane.heart.look()
    assert requests >= 2
    assert longest < SECOND, f"a heartbeat waited {longest:.2f} s for {bomb}"
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
