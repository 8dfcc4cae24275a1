"""``fairlead bind`` as a person runs it: every form of answer, and what is left when it fails."""

from __future__ import annotations

import asyncio
import base64
import json
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from tests.support.commands import FAIRLEAD, against, fairlead
from tests.support.konnector import WIDGETS, World, offer, widget
from tests.support.provider import example
from tests.support.switch import Switch
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    ExportRequestResponse,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLES, CUSTOMRESOURCEDEFINITIONS, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.client.lookups import list_all
from fairlead.konnector.commands.consumer_objects import ensure_roles, restore_role
from fairlead.konnector.rights import konnector_role_name, role_labels
from fairlead.process import INTERRUPTED
from fairlead.provider.invitation import invite
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


async def invitation(world: World, **more: Any) -> JSON:
    known = {"name": "team", "template": "widgets", "identity": "shop", "binding_name": "widgets"}
    return await invite(world.provider, **{**known, **more})


async def left(consumer: Client) -> set[str]:
    """What `fairlead bind` writes and is there."""
    roles = {one.meta.name for one in (await consumer.list(CLUSTERROLES)).items}
    found = roles & {*role_labels("widgets")}
    secrets = (await consumer.list(SECRETS, "kube-bind")).items
    found |= {one.meta.name for one in secrets if one.meta.name.startswith("kubeconfig-")}
    for resource in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES):
        found |= {f"{one.kind} {one.meta.name}" for one in await list_all(consumer, resource)}
    return found


@asynccontextmanager
async def binding(
    world: World, folder: Path, answer: str, *arguments: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`fairlead bind -f -` with this answer, as a process."""
    command = (*FAIRLEAD, "bind", "-f", "-", *arguments, *against(world.consumer_plane, folder))
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(answer.encode())
    process.stdin.close()
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def bind(
    world: World, folder: Path, answer: str, *arguments: str
) -> tuple[int | None, str, str]:
    async with binding(world, folder, answer, *arguments) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
    assert b"Traceback" not in err
    return process.returncode, out.decode(), err.decode()


async def test_an_answer_without_requests_in_yaml_from_standard_input(
    world: World, tmp_path: Path
) -> None:
    """As kube-bind's backend answers a BindableResourcesRequest."""
    await world.konnector()
    answer = await invitation(world)
    (request,) = answer["requests"]
    answer |= {"kind": "BindingResourceResponse", "authentication": {}, "requests": None}
    text = yaml.safe_dump(answer)
    code, out, err = await bind(world, tmp_path, text)
    assert (code, out) == (1, "")
    assert "--request FILE" in err.splitlines()[-1]
    (tmp_path / "request.yaml").write_text(yaml.safe_dump(request))
    code, out, err = await bind(world, tmp_path, text, "--request", str(tmp_path / "request.yaml"))
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/widgets is Ready\n"), err
    await world.consumer.create(WIDGETS, widget())
    assert "kube-bind-konnector-widgets" in await left(world.consumer)


async def test_a_bundle_binds_what_the_invitation_asks_for_and_what_comes_later(
    world: World, tmp_path: Path
) -> None:
    await world.konnector(provider_polling_interval=0.5)
    answer = await invitation(world)
    code, out, err = await bind(world, tmp_path, json.dumps(answer), "--bundle", "--name", "all")
    assert (code, out) == (0, "apiservicebindingbundle.kube-bind.io/all binds widgets\n"), err
    await world.consumer.create(WIDGETS, widget())
    await when(world.consumer, WIDGETS, "blue", "default", until=bool)
    await offer(world.provider, "other.org")
    more = await invitation(world, template="other.org", binding_name="more")
    (request,) = more["requests"]
    request["metadata"]["namespace"] = more["providerNamespace"]
    await world.provider.create(APISERVICEEXPORTREQUESTS, request)
    await when(world.consumer, APISERVICEBINDINGS, "more", until=bool)
    empty = json.dumps(answer | {"requests": []})
    code, out, err = await bind(world, tmp_path, empty, "--bundle", "--name", "all")
    assert (code, out) == (0, "apiservicebindingbundle.kube-bind.io/all binds more, widgets\n")
    assert "`fairlead accept more`" in err
    ask = ("unbind", "--bundle")
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *ask, "al")
    assert (code, out) == (1, "")
    assert "APIServiceBindingBundle al does not exist; did you mean all?" in err
    code, out, err = await fairlead(world.consumer_plane, tmp_path, "unbind", "more", "--yes")
    assert (code, out) == (1, "")
    assert "`fairlead unbind --bundle all` removes the bundle" in err
    code, out, err = await fairlead(world.consumer_plane, tmp_path, *ask, "all", "--yes")
    assert (code, out) == (0, "apiservicebindingbundle.kube-bind.io/all is unbound\n"), err
    assert "APIServiceBinding more was never accepted" in err
    assert await left(world.consumer) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminated"])
async def test_a_bind_that_is_stopped_takes_back_what_it_wrote(
    world: World, tmp_path: Path, number: signal.Signals
) -> None:
    answer = json.dumps(await invitation(world))
    before = await left(world.consumer)
    async with binding(world, tmp_path, answer) as process:
        await when_bound(world.consumer)
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), SECONDS) == INTERRUPTED
    assert await left(world.consumer) == before == set()


async def test_what_a_killed_bind_leaves_is_mended_by_the_next(
    world: World, tmp_path: Path
) -> None:
    answer = json.dumps(await invitation(world))
    async with binding(world, tmp_path, answer) as process:
        await when_bound(world.consumer)
        process.kill()
    assert len(await left(world.consumer)) == 6
    code, out, err = await bind(world, tmp_path, answer, "--timeout", "1s")
    assert (code, out) == (1, "")
    assert "there is no sign of a konnector in this cluster" in err
    assert await left(world.consumer) == set()
    async with binding(world, tmp_path, answer) as process:
        await when_bound(world.consumer)
        process.kill()
    await world.konnector()
    code, out, err = await bind(world, tmp_path, answer)
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/widgets is Ready\n"), err
    assert len(await left(world.consumer)) == 6


async def when_bound(consumer: Client) -> None:
    """Wait until the last of what binding writes is there."""
    async with asyncio.timeout(SECONDS):
        while not [one for one in await left(consumer) if one.startswith("kubeconfig-")]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_crd_of_somebody_elses_leaves_nothing(world: World, tmp_path: Path) -> None:
    await world.konnector()
    await install_crds(world.consumer, [example("crd")])
    answer = json.dumps(await invitation(world))
    code, _, err = await bind(world, tmp_path, answer)
    assert code == 1
    assert "CustomResourceDefinition widgets.example.org exists in this cluster and belongs" in err
    assert await left(world.consumer) == set()
    requests = (await world.provider.list(APISERVICEEXPORTREQUESTS)).items
    assert requests == []


async def test_a_crd_that_somebody_brings_meanwhile_leaves_nothing_else(
    world: World, tmp_path: Path
) -> None:
    """The konnector finds it in its way, after everything was looked at."""
    konnector = await world.konnector()
    await konnector.stop()
    answer = json.dumps(await invitation(world))
    async with binding(world, tmp_path, answer, "--timeout", "8s") as process:
        await when_bound(world.consumer)
        await install_crds(world.consumer, [example("crd")])
        await konnector.start()
        assert process.stderr is not None
        err = (await asyncio.wait_for(process.stderr.read(), SECONDS)).decode()
        assert await process.wait() == 1
    assert "not ready: ForeignCustomResourceDefinition" in err
    assert await left(world.consumer) == set()
    crds = {
        found.meta.name for found in (await world.consumer.list(CUSTOMRESOURCEDEFINITIONS)).items
    }
    assert "widgets.example.org" in crds


async def test_an_address_that_no_pod_reaches_is_told_at_the_end(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal may reach the provider at a loopback address, which in a Pod is the Pod."""
    konnector = await world.konnector()
    await konnector.stop()
    answer = await invitation(world)
    server = world.provider_plane.url
    async with AsyncExitStack() as bound:
        async with Switch() as terminal:
            await terminal.turn(server)
            loopback = terminal.url.replace("http:", "https:")
            kubeconfig = base64.b64decode(answer["kubeconfig"]).replace(
                server.encode(), loopback.encode()
            )
            answer["kubeconfig"] = base64.b64encode(kubeconfig).decode()
            process = await bound.enter_async_context(
                binding(world, tmp_path, json.dumps(answer), "--timeout", "8s")
            )
            await when_bound(world.consumer)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        await konnector.start()
        assert process.stderr is not None
        err = (await asyncio.wait_for(process.stderr.read(), SECONDS)).decode()
        assert await process.wait() == 1
    (last,) = [line for line in err.splitlines() if line.startswith("Error:")]
    assert "APIServiceBinding widgets: not ready" in last
    assert "127.0.0.1 is this Pod itself" in last
    assert "a provider gives one with --external-address" in last


async def test_the_providers_own_cluster_is_refused(world: World, tmp_path: Path) -> None:
    answer = await invitation(world)
    (tmp_path / "invitation.json").write_bytes(msgspec.json.encode(answer))
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "bind", "-f", str(tmp_path / "invitation.json")),
        *against(world.provider_plane, tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (process.returncode, out) == (1, b"")
    assert b"this cluster is the provider's own" in err
    assert await left(world.provider) == set()


@pytest.mark.parametrize("changed", [True, False], ids=["by another writer", "by bind alone"])
async def test_rules_that_another_writer_changed_are_left(
    stack: AsyncExitStack, changed: bool
) -> None:
    plane = await stack.enter_async_context(Sandbox(name="alone"))
    client = await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))
    lines: list[str] = []

    def request(*plurals: str) -> ExportRequestResponse:
        body = {
            "apiVersion": "kube-bind.io/v1alpha2",
            "kind": "APIServiceExportRequest",
            "metadata": {"name": "widgets"},
            "spec": {
                "resources": [
                    {"group": "example.org", "resource": one, "versions": ["v1"]}
                    for one in plurals
                ]
            },
        }
        return msgspec.convert(body, ExportRequestResponse)

    await ensure_roles(client, request("widgets"), lines.append)
    name = konnector_role_name("widgets")
    before = (await client.get(CLUSTERROLES, name)).to_dict()["rules"]
    (role, _) = await ensure_roles(client, request("widgets", "gadgets"), lines.append)
    wanted = before
    if changed:
        wanted = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        await client.merge_patch(CLUSTERROLES, name, "", patch={"rules": wanted})
    await restore_role(client, role, lines.append)
    assert (await client.get(CLUSTERROLES, name)).to_dict()["rules"] == wanted
    assert lines[-1] == (
        f"left ClusterRole {name} as it is: its rules were changed meanwhile"
        if changed
        else f"restored ClusterRole {name}"
    )
