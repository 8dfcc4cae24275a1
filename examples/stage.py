"""The stage of an example: clusters on this machine, Fairlead's programs, and applied files.

A story gets a stage, asks it for clusters, starts programs of Fairlead, applies its manifests and
looks at the result. Each step is printed as the command that does the same. At the end, and on
Ctrl-C, all programs are stopped and all files are removed; with --keep everything runs until
Ctrl-C. The exit code is 0 only if the story has come to its end.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import yaml

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS, Resource
from fairlead.client import Client, ClientError, NotServed, load_config
from fairlead.client.lookups import Until, wait_for


PATIENCE_SECONDS = 120.0
"""Upper limit of each wait; a wait takes about a second, and longer on a busy machine."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as a shell has it."""

STOP_SECONDS = 30.0
"""Time that a program has to end after Ctrl-C, before it is killed."""

KEEP = "--keep"
"""The option that leaves everything running after the story."""

Story = Callable[["Stage"], Awaitable[None]]


class StageError(Exception):
    """A step of a story has failed; the text is one line about it."""


class Cluster:
    """One cluster of the stage, with the administrator's client."""

    def __init__(self, name: str, stage: Stage, client: Client) -> None:
        self.name = name
        self.client = client
        self._stage = stage

    @property
    def kubeconfig(self) -> str:
        """The name of the kubeconfig file in the stage's folder."""
        return f"{self.name}.kubeconfig"

    async def apply(self, file: str, *, manager: str = "", without: str = "") -> None:
        """Apply a file of the example; leave out the objects of the kind ``without``."""
        self._stage.command(f"kubectl --kubeconfig {self.kubeconfig} apply -f {file}")
        text = (self._stage.folder / file).read_text()
        for body in yaml.safe_load_all(text):
            if body and body["kind"] != without:
                await self._apply(body, manager)

    async def create(self, body: JSON) -> None:
        """Apply an object that is in no file."""
        await self._apply(body, "")

    async def _apply(self, body: JSON, manager: str) -> None:
        resource = await self._resource(body["apiVersion"], body["kind"])
        await self.client.apply(resource, body, field_manager=manager or "example")

    async def _resource(self, api_version: str, kind: str) -> Resource:
        """Wait until the server serves a kind: a program installs its CRDs as it starts."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    return await self.client.discovery.resource_for(api_version, kind)
                except NotServed:
                    await asyncio.sleep(0.1)

    async def wait(
        self, resource: Resource, name: str, until: Until, namespace: str = "shop"
    ) -> JSON:
        """Wait until an object is as wanted; return it as it is then.

        Raises:
            StageError: it is not so in time.
        """
        place = namespace if resource.namespaced else ""
        try:
            found = await wait_for(
                self.client, resource, name, place, until=until, timeout=PATIENCE_SECONDS
            )
        except ClientError as error:
            raise StageError(str(error)) from error
        return found.to_dict() if found else {}

    async def ready(self, resource: Resource, name: str, namespace: str = "shop") -> None:
        """Wait until the condition Ready of an object is True."""
        place = f"-n {namespace} " if resource.namespaced else ""
        self._stage.command(
            f"kubectl --kubeconfig {self.kubeconfig} {place}wait --for=condition=Ready "
            f"{resource.kind.lower()}/{name}"
        )
        await self.wait(resource, name, condition("Ready"), namespace)

    async def delete(self, resource: Resource, name: str, namespace: str = "shop") -> None:
        """Delete an object."""
        place = f"-n {namespace} " if resource.namespaced else ""
        self._stage.command(
            f"kubectl --kubeconfig {self.kubeconfig} {place}delete {resource.kind.lower()}/{name}"
        )
        await self.client.delete(resource, name, namespace if resource.namespaced else "")

    async def first(self, resource: Resource) -> JSON:
        """Wait until there is an object of a kind in any namespace; return it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if items := (await self.client.list(resource)).items:
                    return items[0].to_dict()
                await asyncio.sleep(0.1)

    async def secret(self, name: str, namespace: str = "shop") -> dict[str, str]:
        """Wait until a Secret exists; return its entries."""
        body = await self.wait(SECRETS, name, exists, namespace)
        return decoded(body)


class Stage:
    """A folder of the machine with clusters, programs and an example's files.

    Args:
        example: the folder of the example, whose files are copied to the stage.
        folder: the stage's folder.
        stack: stops the programs.
    """

    def __init__(self, example: Path, folder: Path, stack: contextlib.AsyncExitStack) -> None:
        self.folder = folder
        self._stack = stack
        for file in example.glob("*.yaml"):
            shutil.copy(file, folder)

    def command(self, text: str) -> None:
        """Print a command that does what happens now."""
        print(f"$ {text}", flush=True)

    def saw(self, text: str) -> None:
        """Print a result."""
        print(f"  ✔ {text}", flush=True)

    def expect(self, holds: object, otherwise: str) -> None:
        """Go on if a result is as wanted.

        Raises:
            StageError: it is not; ``otherwise`` is the text.
        """
        if not holds:
            raise StageError(otherwise)

    async def sandbox(self, *names: str, postgres: bool = False) -> list[Cluster]:
        """Start an API server for each name, and a PostgreSQL for the first."""
        words = ["sandbox", "up", "--dir", "."]
        for name in names:
            words += ["--cluster", name]
        await self.start(*words, *(["--postgres"] if postgres else []))
        clusters = []
        for name in names:
            config = load_config(str(self.folder / f"{name}.kubeconfig"))
            client = await self._stack.enter_async_context(Client(config))
            clusters.append(Cluster(name, self, client))
        return clusters

    async def start(self, *words: str) -> None:
        """Start a program of Fairlead, and wait until it says that it runs.

        Raises:
            StageError: it ends instead.
        """
        self.command(f"fairlead {shlex.join(words)} &")
        log = self.folder / f"{words[0]}-{len(list(self.folder.glob('*.log')))}.log"
        with log.open("wb") as output:
            process = await self._process(*words, output=output.fileno())
        self._stack.push_async_callback(_stop, process)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(_runs(line) for line in log.read_text().splitlines()):
                if process.returncode is not None:
                    last = log.read_text().strip().rpartition("\n")[2]
                    raise StageError(f"fairlead {words[0]} has ended: {last}")
                await asyncio.sleep(0.05)

    async def run(self, *words: str) -> str:
        """Run a command of Fairlead to its end; return its output.

        Raises:
            StageError: its exit code is not 0.
        """
        self.command(f"fairlead {shlex.join(words)}")
        process = await self._process(*words, output=asyncio.subprocess.PIPE)
        self._stack.push_async_callback(_stop, process)
        out, _ = await process.communicate()
        if process.returncode:
            raise StageError(f"fairlead {words[0]}: {out.decode().strip()}")
        return out.decode()

    async def install(self, cluster: Cluster, *words: str) -> None:
        """Apply a program's manifests without its Deployment, for there is no node to run it."""
        self.command(f"fairlead manifests {shlex.join(words)} | kubectl apply -f -")
        process = await self._process("manifests", *words, output=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        self.expect(process.returncode == 0, f"fairlead manifests: {out.decode().strip()}")
        for body in yaml.safe_load_all(out):
            if body["kind"] != "Deployment":
                await cluster.create(body)

    async def _process(self, *words: str, output: int) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairlead", *words),
            cwd=self.folder,
            env={name: text for name, text in os.environ.items() if name != "KUBECONFIG"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C reaches the story alone, which stops its programs in order.
            start_new_session=True,
        )


def condition(kind: str, status: str = "True") -> Until:
    """Return a check that a condition of an object has a status."""

    def check(found: Object | None) -> str:
        if found is None:
            return "does not exist"
        conditions = (found.to_dict().get("status") or {}).get("conditions") or []
        for one in conditions:
            if one["type"] == kind:
                seen = f"{one.get('reason', '')}: {one.get('message', '')}"
                return "" if one["status"] == status else f"{kind} is {one['status']}, {seen}"
        return f"has no condition {kind}"

    return check


def exists(found: Object | None) -> str:
    """Check that an object exists."""
    return "" if found else "does not exist"


def absent(found: Object | None) -> str:
    """Check that an object does not exist."""
    return "still exists" if found else ""


def field(*path: str, value: object) -> Until:
    """Return a check that a field of an object has a value."""

    def check(found: Object | None) -> str:
        inner: Any = found.to_dict() if found else {}
        for name in path:
            inner = (inner or {}).get(name)
        return "" if inner == value else f"{'.'.join(path)} is {inner!r}"

    return check


def decoded(secret: JSON) -> dict[str, str]:
    """Return the entries of a Secret as text."""
    data = secret.get("data") or {}
    return {name: base64.b64decode(text).decode() for name, text in data.items()}


async def query(login: Mapping[str, str], statement: str) -> str:
    """Log in with the entries of a Secret, run one statement, and return its first value.

    Raises:
        psycopg.Error: the database refuses the login or the statement.
    """
    connection = await psycopg.AsyncConnection.connect(
        login["uri"], autocommit=True, connect_timeout=10
    )
    async with connection:
        cursor = await connection.execute(statement.encode())
        row = await cursor.fetchone() if cursor.description else None
        return str(row[0]) if row else ""


def play(file: str, story: Story) -> None:
    """Play the story of an example on a stage of its own, and exit.

    Args:
        file: the script that calls, in the folder of the example.
        story: the steps.
    """
    try:
        asyncio.run(_played(Path(file).resolve().parent, story))
    except asyncio.CancelledError:
        print("interrupted; everything is stopped and removed", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except (StageError, ClientError, psycopg.Error, TimeoutError, msgspec.MsgspecError) as error:
        sys.exit(f"  ✘ {str(error) or 'no answer in time'}")
    print("everything is stopped and removed")


async def _played(example: Path, story: Story) -> None:
    task = asyncio.current_task()
    asked: list[int] = []

    def interrupt(number: int) -> None:
        # The first signal stops the story; later ones must not stop the removal.
        asked.append(number)
        if task and len(asked) == 1:
            task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupt, number)
    with tempfile.TemporaryDirectory(prefix="fairlead-example-") as folder:
        async with contextlib.AsyncExitStack() as stack:
            await story(Stage(example, Path(folder), stack))
            if KEEP in sys.argv[1:]:
                await _kept(folder)


async def _kept(folder: str) -> None:
    """Let everything run until Ctrl-C."""
    print(f"everything runs until Ctrl-C; in another terminal: cd {folder}", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


def _runs(line: str) -> bool:
    return line == "ready" or '"msg": "running"' in line


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
