"""The commands as a person runs them, as processes, against embedded control planes."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, NAMESPACES
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


@asynccontextmanager
async def running(*arguments: str, ready: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A long-running command, once it has said that it is ready; it must end well on SIGTERM."""
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
        yield process
        process.send_signal(signal.SIGTERM)
        rest = await process.stdout.read()
        assert await process.wait() == 0, (said + rest).decode()
        assert b"Traceback" not in said + rest
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


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
    assert "no kind APIServiceExportTemplate: is it the provider's?" in err
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
        timeout=20,
    )
    await client.create(TEMPLATES, body)


async def test_the_demo_prints_one_json_object() -> None:
    code, out, err = await fairlead("demo", "--json")
    report = json.loads(out)
    assert (code, err, report["ok"]) == (0, "", True), report
    for step in report["steps"]:
        assert set(step) == {"name", "ok", "seconds", "detail"}
    assert len(report["steps"]) == 8


async def test_what_is_kept_goes_on_a_signal(tmp_path: Path) -> None:
    async with running("demo", "--keep", ready="Ctrl-C removes everything"):
        pass
