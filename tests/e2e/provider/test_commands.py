"""The provider's commands as its operator runs them: processes against two control planes."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.support.konnector import World
from tests.support.provider import prepare
from tests.support.waiting import SECONDS, condition, gone, when

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICENAMESPACES,
    BINDABLERESOURCESREQUESTS,
    CLUSTERBINDINGS,
    decode_binding_response,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, NotFound, parse_kubeconfig
from fairlead_sandbox import Sandbox


FAIRLEAD = [sys.executable, "-m", "fairlead"]


class Operator:
    """Who runs commands against a provider, and its consumer's administrator."""

    def __init__(self, world: World, folder: Path, provider: bytes, consumer: bytes) -> None:
        self.world = world
        self.folder = folder
        self._paths = {}
        for name, content in (("provider", provider), ("consumer", consumer)):
            path = folder / f"{name}.kubeconfig"
            path.write_bytes(content)
            self._paths[name] = str(path)

    @property
    def template(self) -> str:
        return self.world.group if self.world.group != "example.org" else "widgets"

    async def run(
        self, *arguments: str, cluster: str = "provider", answer: str | None = None
    ) -> tuple[int, str, str]:
        """Exit code, standard output and error; with an answer on a terminal, else without."""
        terminal, stdin = os.openpty() if answer is not None else (-1, asyncio.subprocess.DEVNULL)
        process = await asyncio.create_subprocess_exec(
            *(*FAIRLEAD, *arguments, "--kubeconfig", self._paths[cluster]),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        if answer is not None:
            os.close(stdin)
            os.write(terminal, f"{answer}\n".encode())
        async with asyncio.timeout(SECONDS):
            out, err = await process.communicate()
        if answer is not None:
            os.close(terminal)
        assert b"Traceback" not in out + err, err.decode()
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def does(self, *arguments: str, cluster: str = "provider") -> tuple[str, str]:
        code, out, err = await self.run(*arguments, cluster=cluster)
        assert code == 0, err
        return out, err

    async def consumers(self) -> dict[str, JSON]:
        out, _ = await self.does("provider", "consumers", "--json")
        return {row["identity"]: row for row in json.loads(out)}


@pytest.fixture
async def operator(provider_world: World, tmp_path: Path) -> Operator:
    world = provider_world
    await world.konnector()
    return Operator(world, tmp_path, world.kubeconfig("provider"), world.kubeconfig("consumer"))


async def test_from_an_invitation_to_the_end(operator: Operator) -> None:
    world, name = operator.world, f"team-{os.urandom(3).hex()}"
    invitation = operator.folder / "invitation.json"
    _, err = await operator.does(
        *("provider", "invite", name, "--template", operator.template, "-o", str(invitation)),
        *("--name", "shop", "--namespace-prefix", "px-", "--pretty-name", "ACME"),
    )
    assert err.splitlines()[-1].endswith(f"fairlead bind -f {invitation}")
    assert stat.S_IMODE(invitation.stat().st_mode) == 0o600
    response = decode_binding_response(invitation.read_bytes())
    namespace = response.provider_namespace
    assert namespace.startswith("px-")
    row = (await operator.consumers())[name]
    assert (row["healthy"]["reason"], row["objects"]) == ("FirstHeartbeatPending", 0)

    await operator.does("bind", "-f", str(invitation), cluster="consumer")
    bound = (await world.consumer.get(APISERVICEBINDINGS, "shop")).to_dict()
    assert bound["status"]["providerPrettyName"] == "ACME"
    await world.consumer.create(world.widgets, world.widget())
    body = await when(
        world.provider,
        APISERVICENAMESPACES,
        "default",
        namespace,
        until=lambda body: body.get("status", {}).get("namespace"),
    )
    there = body["status"]["namespace"]
    await when(world.provider, world.widgets, "blue", there, until=bool)
    await when(
        world.provider,
        CLUSTERBINDINGS,
        "cluster",
        namespace,
        until=lambda body: condition(body, "Healthy").get("status") == "True",
    )
    row = (await operator.consumers())[name]
    assert (row["namespace"], row["exports"], row["objects"]) == (namespace, ["shop"], 1)
    assert (row["templates"], row["originalKonnector"]) == ([operator.template], False)
    assert row["warnings"] == []
    assert row["healthy"]["status"] == "True"
    assert row["konnectorVersion"].startswith("v")
    out, _ = await operator.does("provider", "consumers")
    (line,) = [line for line in out.splitlines() if line.startswith(name)]
    assert line.split()[1:5] == [namespace, operator.template, "shop", "1"]
    assert line.split()[-1] == "healthy"

    out, err = await operator.does("provider", "rotate", name)
    assert out == f"{name} has a new token\n"
    assert "deleted token kube-binder" in err.splitlines()

    shop, ann = "group:oidc:shop", "https://login.example.org/ann"
    for author, former in ((shop, "no one"), (ann, shop)):
        out, err = await operator.does("provider", "hand-over", name, "--to", author)
        assert out == f"namespace/{namespace} belongs to {author} now, before to {former}\n"
        assert f"fairlead provider rotate {namespace}" in err
    everything = ("provider", "hand-over", "--author", ann, "--to", shop)
    code, out, err = await operator.run(*everything)
    assert (code, out) == (2, "")
    assert "there is no terminal to ask on: give --yes" in err
    preview = f"{name} in namespace/{namespace}: from {ann} to {shop}"
    code, out, err = await operator.run(*everything, answer="n")
    assert (code, out) == (1, "")
    assert preview in err
    out, err = await operator.does(*everything, "--yes")
    assert out == f"namespace/{namespace} belongs to {shop} now, before to {ann}\n"
    assert preview in err
    code, out, err = await operator.run(*everything, "--yes")
    assert (code, out) == (1, "")
    assert ann in err
    code, out, err = await operator.run("provider", "hand-over", name, "--to", "ann")
    assert (code, out) == (2, "")
    assert "'ann' names neither a person nor a group: give ISSUER/SUB" in err

    for sure in ((), ("--yes",)):
        code, out, err = await operator.run("provider", "revoke", f"{name}0", *sure)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert f"consumer {name}0 does not exist; did you mean {name}?" in err
    code, out, err = await operator.run("provider", "revoke", name)
    assert (code, out) == (2, "")
    assert "there is no terminal to ask on: give --yes" in err
    code, _, err = await operator.run("provider", "revoke", name, answer="n")
    assert (code, "Aborted" in err) == (1, True)
    assert "1 object and 1 namespace are deleted permanently" in err
    assert (await operator.consumers())[name]["healthy"]["status"] == "True"
    code, out, err = await operator.run("provider", "revoke", name, answer="y")
    assert (code, out) == (0, f"{name} is revoked\n"), err
    assert "removed its access: " in err
    for deleted in (namespace, there):
        with pytest.raises(NotFound):
            await world.provider.get(NAMESPACES, deleted)
    assert name not in await operator.consumers()


async def test_data_can_be_kept(operator: Operator) -> None:
    world, name = operator.world, f"team-{os.urandom(3).hex()}"
    invitation = operator.folder / "invitation.json"
    arguments = ("--template", operator.template, "-o", str(invitation))
    await operator.does("provider", "invite", name, *arguments)
    await operator.does("bind", "-f", str(invitation), cluster="consumer")
    await world.consumer.create(world.widgets, world.widget())
    namespace = decode_binding_response(invitation.read_bytes()).provider_namespace
    there = f"{namespace}-default"
    await when(world.provider, world.widgets, "blue", there, until=bool)
    # By the cluster namespace, as somebody does who finds it with kubectl.
    _, err = await operator.does("provider", "revoke", namespace, "--keep-data", "--yes")
    assert "1 object and 1 namespace stay and belong to no consumer" in err
    assert (await world.provider.get(world.widgets, "blue", there)).meta.name == "blue"
    assert name not in await operator.consumers()


async def test_a_kind_that_cannot_be_listed_hides_nothing_else_and_keeps_no_access(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    world = World(stack)
    await world.start()
    await world.konnector()
    link = await world.bound()
    await world.consumer.create(world.widgets, world.widget())
    there = await link.provider_namespace()
    await when(world.provider, world.widgets, "blue", there, until=bool)
    operator = Operator(
        world, tmp_path, world.kubeconfig("provider"), world.kubeconfig("consumer")
    )
    faults = world.provider_plane.faults
    faults.fail("*", "widgets", 500, times=-1)
    why = "injected fault: HTTP 500"
    told = (
        "warning: objects of widgets.example.org are not counted, since they cannot be listed: "
        f"{why}\n"
    )
    code, out, err = await operator.run("provider", "consumers")
    assert (code, err) == (3, told)
    assert out.splitlines()[1].split()[2:8] == [
        *(link.cluster_namespace, "widgets", "widgets"),
        *("0", "+", "?"),
    ]
    code, out, err = await operator.run("provider", "consumers", "--json")
    (row,) = json.loads(out)
    assert (code, row["notCounted"], err) == (3, {"widgets.example.org": why}, told)
    name = row["identity"]
    code, out, err = await operator.run("provider", "revoke", name, "--yes")
    assert (code, out) == (3, "")
    first, *_, last = err.splitlines()
    assert first.startswith("removed its access: ")
    assert "no longer has access, but the command could not list all objects" in last
    # The provider's controller goes on where the command has ended.
    faults.clear()
    await gone(world.provider, NAMESPACES, link.cluster_namespace)
    assert name not in await operator.consumers()


async def test_inviting_again_keeps_the_address_and_says_so(operator: Operator) -> None:
    name, invitation = f"team-{os.urandom(3).hex()}", operator.folder / "invitation.json"
    output = ("-o", str(invitation))
    arguments = ("provider", "invite", name, "--template", operator.template, *output)
    _, err = await operator.does(*arguments, "--external-address", "https://out.example.org:6443")
    assert "Pod itself" not in err
    first = invitation.read_bytes()
    _, err = await operator.does(*arguments)
    assert "keeps reaching this cluster at https://out.example.org:6443" in err
    assert invitation.read_bytes() == first
    _, err = await operator.does(*arguments, "--external-address", "https://127.0.0.1:6443")
    assert "https://127.0.0.1:6443, which in a Pod is the Pod itself" in err
    await operator.does("provider", "revoke", name, "--yes")


async def test_a_provider_invites_those_that_ask_as_its_flags_say(
    stack: AsyncExitStack, tmp_path: Path
) -> None:
    plane = await stack.enter_async_context(Sandbox(name="provider"))
    admin = await stack.enter_async_context(Client(parse_kubeconfig(plane.kubeconfig())))
    await prepare(admin, exports=["widgets.example.org"])
    path = tmp_path / "provider.kubeconfig"
    path.write_bytes(plane.kubeconfig())
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "provider", "run", "--kubeconfig", str(path)),
        *("--health-probe-bind-address=", "--metrics-bind-address=", "--namespace-prefix=brr-"),
        *("--external-address=https://out.example.org", "--external-server-name=inner"),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    body: JSON = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindableResourcesRequest",
        "metadata": {"name": "shop"},
        "spec": {
            "templateRef": {"name": "widgets"},
            "clusterIdentity": {"identity": "shop-team", "prettyName": "The Shop"},
            "author": "ann",
        },
    }
    try:
        await admin.create(BINDABLERESOURCESREQUESTS, body, "default")
        found = await when(
            admin,
            BINDABLERESOURCESREQUESTS,
            "shop",
            "default",
            until=lambda body: condition(body, "Ready").get("reason") == "SecretReady",
        )
    finally:
        process.terminate()
        await process.wait()
    assert found["status"]["namespace"].startswith("brr-")
    ref = found["status"]["kubeconfigSecretRef"]
    secret = (await admin.get(SECRETS, ref["name"], "default")).to_dict()
    response = decode_binding_response(base64.b64decode(secret["data"][ref["key"]]))
    config = parse_kubeconfig(response.kubeconfig)
    assert (config.server, config.tls_server_name) == ("https://out.example.org", "inner")
