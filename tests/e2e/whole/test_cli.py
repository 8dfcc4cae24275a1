"""The commands as a person runs them, as processes, against embedded control planes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from tests.support.kubectl import kubectls
from tests.support.waiting import SECONDS, condition, when

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import CONFIGMAPS, NAMESPACES, SECRETS
from fairlead.client import Client, load_config
from fairlead.demo import objects
from fairlead.demo.identity import create_all


FAIRLEAD = [sys.executable, "-m", "fairlead"]
NOBODY: list[JSON] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
    {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "nobody", "namespace": "team"},
    },
]


async def fairlead(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *FAIRLEAD,
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(stdin.encode())
    assert process.returncode is not None
    assert b"Traceback" not in out + err, err.decode()
    return process.returncode, out.decode(), err.decode()


class Running(NamedTuple):
    """A long-running command, and what it has said up to being ready."""

    process: asyncio.subprocess.Process
    said: str


@asynccontextmanager
async def started(*arguments: str, ready: str) -> AsyncIterator[Running]:
    """A long-running command, once it has said that it is ready."""
    process = await asyncio.create_subprocess_exec(
        *FAIRLEAD,
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    said = b""
    try:
        while ready.encode() not in said:
            line = await process.stdout.readline()
            said += line
            assert line, f"ended before it was ready: {said.decode()}"
        yield Running(process, said.decode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def running(*arguments: str, ready: str) -> AsyncIterator[Running]:
    """A long-running command, once it has said that it is ready; it must end well on SIGTERM."""
    async with started(*arguments, ready=ready) as command:
        yield command
        process = command.process
        assert process.stdout is not None
        process.send_signal(signal.SIGTERM)
        rest = (await process.stdout.read()).decode()
        assert await process.wait() == 0, command.said + rest
        assert "Traceback" not in command.said + rest


@pytest.fixture
async def planes(tmp_path: Path) -> AsyncIterator[Path]:
    arguments = ("sandbox", "up", "--dir", str(tmp_path))
    clusters = ("--cluster", "provider", "--cluster", "consumer")
    async with running(*arguments, *clusters, ready="ready"):
        yield tmp_path


def kubeconfig(planes: Path, name: str) -> tuple[str, str]:
    return "--kubeconfig", str(planes / f"{name}.kubeconfig")


async def test_kubeconfigs_are_private_and_usable(planes: Path) -> None:
    path = planes / "consumer.kubeconfig"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with Client(load_config(str(path))) as client:
        names = {item.meta.name for item in (await client.list(NAMESPACES)).items}
    assert {"default", "kube-system"} <= names


async def test_objects_kept_in_a_folder_outlive_the_process(tmp_path: Path) -> None:
    arguments = ("sandbox", "up", "--dir", str(tmp_path), "--data")
    body: JSON = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
    path = str(tmp_path / "sandbox.kubeconfig")
    async with running(*arguments, ready="ready"), Client(load_config(path)) as client:
        created = await client.create(CONFIGMAPS, body, "default")
    async with running(*arguments, ready="ready"), Client(load_config(path)) as client:
        again = await client.get(CONFIGMAPS, "kept", "default")
    assert (again.meta.uid, again.meta.resource_version) == (
        created.meta.uid,
        created.meta.resource_version,
    )


async def test_inviting_without_the_providers_crds_says_what_is_missing(planes: Path) -> None:
    code, _, err = await fairlead(
        *("provider", "invite", "shop", "--template", "postgres", "-o", str(planes / "out")),
        *kubeconfig(planes, "provider"),
    )
    assert code == 1
    assert len(err.strip().splitlines()) == 1
    assert "no kind APIServiceExportTemplate: is this the provider's cluster?" in err
    assert not (planes / "out").exists()


async def test_a_forbidden_verb_is_one_line(planes: Path) -> None:
    """The person behind this kubeconfig may do nothing at all."""
    async with Client(load_config(str(planes / "provider.kubeconfig"))) as admin:
        await create_all(admin, NOBODY)
    document = yaml.safe_load((planes / "provider.kubeconfig").read_text())
    user = document["users"][0]["user"]
    user["as"] = "system:serviceaccount:team:nobody"
    limited = planes / "limited.kubeconfig"
    limited.write_text(yaml.safe_dump(document))
    for arguments in (
        ("provider", "invite", "shop", "--template", "t", "-o", str(planes / "out")),
        ("sandbox", "run", "deployment/x", "-n", "team"),
        ("postgres", "run", "--health-probe-bind-address=", "--metrics-bind-address="),
    ):
        code, _, err = await fairlead(*arguments, "--kubeconfig", str(limited))
        last = err.strip().splitlines()[-1]
        assert code == 1, err
        assert "nobody" in last, err


async def test_binding_gives_up_and_says_what_it_waited_for(planes: Path) -> None:
    provider, consumer = kubeconfig(planes, "provider"), kubeconfig(planes, "consumer")
    manifests = await fairlead("crds", "postgres")
    async with Client(load_config(provider[1])) as admin:
        await create_all(admin, list(yaml.safe_load_all(manifests[1])))
    health = ("--health-probe-bind-address=", "--metrics-bind-address=")
    run = ("provider", "run", *provider, *health, "--log-format=json")
    async with running(*run, ready='"CRD created"'):
        invitation = planes / "invitation.json"
        async with Client(load_config(provider[1])) as admin:
            await until_created(admin, objects.template())
        code, _, err = await fairlead(
            *("provider", "invite", "shop", "--template", objects.TEMPLATE),
            *("-o", str(invitation), *provider),
        )
        assert code == 0, err
        assert stat.S_IMODE(invitation.stat().st_mode) == 0o600
        assert json.loads(invitation.read_text())["kind"] == "BindingResponse"
        code, out, err = await fairlead(
            "bind", "-f", str(invitation), "--timeout", "3s", *consumer
        )
    assert (code, out) == (1, "")
    assert err.strip().splitlines()[-1].startswith("Error: ")


async def until_created(client: Client, body: JSON) -> None:
    """Create an object of a CRD that a program is installing right now."""
    from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
    from fairlead.client.lookups import wait_for
    from fairlead.demo.story import TEMPLATES, condition_is_true

    await wait_for(
        client,
        CUSTOMRESOURCEDEFINITIONS,
        TEMPLATES.group_resource,
        until=condition_is_true("Established"),
        timeout=SECONDS,
    )
    await client.create(TEMPLATES, body)


async def test_the_demo_prints_one_json_object() -> None:
    code, out, err = await fairlead("demo", "--json")
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True), report
    for step in report["steps"]:
        assert set(step) == {"name", "ok", "seconds", "detail"}
    assert len(report["steps"]) == 9


async def test_what_is_kept_goes_on_a_signal_and_no_password_is_printed() -> None:
    async with running("demo", "--keep", ready="Ctrl-C removes everything") as demo:
        (path,) = re.findall(r"^provider: +(\S+)$", demo.said, re.MULTILINE)
        async with Client(load_config(path)) as admin:
            secret = await admin.get(SECRETS, "main-admin", "fairlead-postgres")
        password = base64.b64decode(secret.to_dict()["data"]["password"]).decode()
        assert password not in demo.said
        hints = demo.said.partition("Look, in another terminal:")[2]
        for hint in re.findall(r"^  (.+)$", hints, re.MULTILINE) if kubectls() else ():
            await succeeds(hint)
    assert not os.path.exists(path)  # noqa: ASYNC240, PTH110


async def succeeds(command: str) -> None:
    """Wait until a command of the shell succeeds: what was deleted comes back a moment later."""
    async with asyncio.timeout(SECONDS):
        while True:
            process = await asyncio.create_subprocess_shell(
                command, stdout=asyncio.subprocess.DEVNULL, stdin=asyncio.subprocess.DEVNULL
            )
            if await process.wait() == 0:
                return
            await asyncio.sleep(0.1)


async def test_a_sandbox_with_a_database_server_that_an_operator_finds(tmp_path: Path) -> None:
    up = ("sandbox", "up", "--dir", str(tmp_path), "--data", "--postgres")
    clusters = ("--cluster", "provider", "--cluster", "consumer")
    quiet = ("--health-probe-bind-address=", "--metrics-bind-address=")
    operator = ("postgres", "run", *kubeconfig(tmp_path, "provider"), *quiet)
    ports = []
    for _ in range(2):  # the second finds the objects of the first
        async with running(*up, *clusters, ready="ready") as sandbox:
            assert "PostgresServer main of provider" in sandbox.said
            async with (
                Client(load_config(kubeconfig(tmp_path, "provider")[1])) as admin,
                running(*operator, ready='"running"'),
            ):
                found = await when(admin, POSTGRESSERVERS, "main", until=is_ready)
            ports.append(found["spec"]["port"])
            async with Client(load_config(kubeconfig(tmp_path, "consumer")[1])) as other:
                names = {item.meta.name for item in (await other.list(NAMESPACES)).items}
            assert "fairlead-postgres" not in names
        assert not await listening(ports[-1])
    assert ports[0] != ports[1]


def is_ready(body: JSON) -> bool:
    """Ready as it is now, not as an earlier server was."""
    found = condition(body, "Ready")
    return (found.get("status"), found.get("observedGeneration")) == (
        "True",
        body["metadata"]["generation"],
    )


async def test_a_sandbox_that_is_killed_leaves_no_database_server(tmp_path: Path) -> None:
    up = ("sandbox", "up", "--dir", str(tmp_path), "--postgres")
    async with started(*up, ready="ready") as sandbox:
        (found,) = re.findall(r"PostgreSQL: 127.0.0.1:(\d+)", sandbox.said)
        port = int(found)
        assert await listening(port)
        sandbox.process.kill()
        async with asyncio.timeout(SECONDS):
            while await listening(port):  # noqa: ASYNC110  a port that closes tells nobody
                await asyncio.sleep(0.05)


async def listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
