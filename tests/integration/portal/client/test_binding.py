"""Binding by the front door, as processes, between two control planes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.konnector.test_bind import names, written
from tests.integration.portal.client.conftest import Planes, request
from tests.integration.portal.client.test_signing_in import signed_in
from tests.support.frontdoor import FrontDoor, browse, template
from tests.support.terminals import begun, run, started

from fairlead.api.kubebind import APISERVICEEXPORTREQUESTS
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS


async def identity(planes: Planes) -> str:
    return (await planes.client.get(NAMESPACES, "kube-system")).meta.uid


async def everything(planes: Planes) -> dict[str, Any]:
    """What both sides have that a bind might have written."""
    crds = {one.meta.name for one in (await planes.client.list(CUSTOMRESOURCEDEFINITIONS)).items}
    spaces = {one.meta.name for one in (await planes.client.list(NAMESPACES)).items}
    requests = (await planes.provider.list(APISERVICEEXPORTREQUESTS)).items
    found = await written(planes.client) if crds else set()
    return {"crds": crds, "namespaces": spaces, "requests": len(requests), "written": found}


@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_a_template_is_bound_in_a_terminal(
    program: str, door: FrontDoor, planes: Planes, tmp_path: Path
) -> None:
    await signed_in(tmp_path, door)
    arguments = {
        "fairlead": ("bind", "--template", "postgres", "--name", "db"),
        "kubectl-bind": ("apiservice", "--template-name", "postgres", "--name", "db"),
    }[program]
    code, out, err = await run(tmp_path, *arguments, *planes.options, program=program)
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/db is Ready\n"), err
    (body,) = door.bound
    assert body["metadata"] == {"name": "db"}
    assert body["spec"] == {
        "templateRef": {"name": "postgres"},
        "clusterIdentity": {"identity": await identity(planes)},
    }
    # The same again changes nothing, and can be printed.
    before = await everything(planes)
    code, out, err = await run(
        tmp_path, *arguments, "-o", "yaml", *planes.options, program=program
    )
    assert code == 0, err
    printed = yaml.safe_load(out)
    assert (printed["kind"], printed["metadata"]["name"]) == ("APIServiceBinding", "db")
    assert await everything(planes) == before


async def test_what_one_may_not_bind_is_told_and_leaves_nothing(
    door: FrontDoor, planes: Planes, tmp_path: Path
) -> None:
    await signed_in(tmp_path, door)
    before = await everything(planes)
    for program, arguments in {
        "fairlead": ("bind", "--template", "other"),
        "kubectl-bind": ("apiservice", "other"),
    }.items():
        code, out, err = await run(tmp_path, *arguments, *planes.options, program=program)
        assert (code, out) == (1, "")
        assert err == f"Error: {door.url} answers 403: you may not bind this (request 1)\n"
    assert await everything(planes) == before


@pytest.mark.parametrize("how", ["client", "server"])
async def test_a_dry_run_of_a_template_writes_nothing_anywhere(
    how: str, door: FrontDoor, planes: Planes, tmp_path: Path
) -> None:
    await signed_in(tmp_path, door)
    before = await everything(planes)
    arguments = ("bind", "--template", "postgres", "--name", "db", f"--dry-run={how}")
    code, out, err = await run(tmp_path, *arguments, "-o", "name", *planes.options)
    assert (code, door.bound) == (0, []), err
    assert "apiservicebinding.kube-bind.io/db" in out.splitlines()
    assert "/api/bind" not in door.paths()
    assert await everything(planes) == before
    code, _, err = await run(
        tmp_path, "bind", "--template", "other", f"--dry-run={how}", *planes.options
    )
    assert (code, err) == (1, "Error: you are offered no template 'other', but postgres\n")


async def test_a_name_that_a_server_chose_steers_no_terminal(
    planes: Planes, tmp_path: Path
) -> None:
    evil = "\x1b]0;hello\x07\x9b2J\u202e"
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        door.templates = [template(evil)]
        arguments = ("bind", "--template", "other", "--dry-run=client", *planes.options)
        code, _, err = await run(tmp_path, *arguments)
    assert code == 1
    assert err == "Error: you are offered no template 'other', but ?]0;hello??2J?\n"


@pytest.mark.parametrize("how", ["client", "server"])
async def test_a_dry_run_of_an_invitation_shows_no_secret_and_writes_nothing(
    how: str, planes: Planes, tmp_path: Path
) -> None:
    invitation = tmp_path / "invitation.json"
    invitation.write_text(json.dumps(planes.response("db")))
    before = await everything(planes)
    arguments = ("bind", "-f", str(invitation), f"--dry-run={how}", *planes.options)
    code, out, err = await run(tmp_path, *arguments, "-o", "yaml")
    assert code == 0, err
    printed = list(yaml.safe_load_all(out))
    kinds = [one["kind"] for one in printed]
    assert kinds == ["Namespace", "Secret", *["ClusterRole"] * 4, "APIServiceBinding"]
    assert "data" not in printed[1]
    assert printed[1]["metadata"]["name"] == printed[-1]["spec"]["kubeconfigSecretRef"]["name"]
    assert await everything(planes) == before
    asked = "provider: APIServiceExportRequest db would be created" in err
    assert asked is (how == "server")


async def test_a_dry_run_by_both_servers_finds_what_is_in_the_way(
    planes: Planes, tmp_path: Path
) -> None:
    invitation = tmp_path / "invitation.json"
    invitation.write_text(json.dumps(planes.response("other")))
    arguments = ("bind", "-f", str(invitation), "--dry-run=server", *planes.options)
    code, _, err = await run(tmp_path, *arguments)
    assert code == 1
    assert "exports things.example.org to this cluster already" in err


@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_a_choice_on_the_page_is_bound(
    program: str, door: FrontDoor, planes: Planes, tmp_path: Path
) -> None:
    words = ["bind", door.url] if program == "fairlead" else [door.url]
    arguments = (*words, "--skip-browser", *planes.options)
    async with begun(tmp_path, *arguments, program=program) as bind:
        status, _, visited = await browse(bind.url)
    assert (status, bind.code) == (200, 0), bind.err
    assert bind.out == "apiservicebinding.kube-bind.io/db is Ready\n"
    (body,) = door.bound
    assert body["spec"]["clusterIdentity"]["identity"] == await identity(planes)
    # S14: our own server has sent a code, and the kubeconfig came afterwards.
    assert ("binding_response" in visited[-1]) is not door.ours
    assert ("/api/token" in door.paths()) is door.ours


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"error": "denied", "error_description": "not today"}, "refused: denied: not today"),
        ({"success": "false", "message": "it broke"}, "the server refused: it broke"),
        ({"success": "true"}, "bound nothing"),
        ({"binding_response": "e30="}, "binding_response is unusable"),
        ({"code": "forged"}, "the code is of another client"),
    ],
)
async def test_a_page_that_binds_nothing_is_told(
    said: dict[str, str], message: str, planes: Planes, tmp_path: Path
) -> None:
    before = await everything(planes)
    async with FrontDoor() as door:
        door.page = said
        arguments = ("bind", door.url, "--skip-browser", *planes.options)
        async with begun(tmp_path, *arguments) as bind:
            await browse(bind.url)
    assert bind.code == 1
    assert message in bind.err
    assert await everything(planes) == before


async def test_s20_a_response_without_our_session_is_not_bound(
    planes: Planes, tmp_path: Path
) -> None:
    """Another page of the browser that knew the address would still not know the session."""
    async with FrontDoor(ours=False) as door:
        door.response = lambda _body: planes.response("db")
        arguments = ("bind", door.url, "--skip-browser", *planes.options)
        async with begun(tmp_path, *arguments) as bind:
            redirect = bind.url.partition("redirect_url=")[2].partition("&")[0]
            address = redirect.replace("%3A", ":").replace("%2F", "/")
            for forged in ("binding_response=e30%3D", "session_id=guess&binding_response=e30%3D"):
                assert (await browse(f"{address}?{forged}"))[0] == 401
            assert (await browse(bind.url))[0] == 200
    assert bind.code == 0, bind.err


async def test_a_request_of_ones_own_is_bound_with_a_kubeconfig(
    planes: Planes, tmp_path: Path
) -> None:
    asked, given = tmp_path / "request.yaml", tmp_path / "given.kubeconfig"
    asked.write_text(yaml.safe_dump(request("db")))
    given.write_bytes(planes.kubeconfig().replace(b"cluster-abc", b"other"))
    code, _, err = await run(
        tmp_path,
        *("apiservice", "-f", str(asked), "--remote-kubeconfig", str(given)),
        *("--remote-namespace", "cluster-abc", *planes.options),
        program="kubectl-bind",
    )
    assert code == 0, err
    assert await names(planes.client) == {"db"}


async def test_a_request_of_ones_own_is_bound_with_a_secret(
    planes: Planes, tmp_path: Path
) -> None:
    asked = tmp_path / "request.yaml"
    asked.write_text(yaml.safe_dump(request("db")))
    await secret(planes, "way", kubeconfig=planes.kubeconfig())
    named = ("--remote-kubeconfig-namespace", "default", "--remote-kubeconfig-name", "way")
    code, out, err = await run(tmp_path, "bind", "--request", str(asked), *named, *planes.options)
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/db is Ready\n"), err


async def secret(planes: Planes, name: str, **data: bytes) -> None:
    encoded = {key.replace("_", "-"): base64.b64encode(one).decode() for key, one in data.items()}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
    await planes.client.create(SECRETS, body, "default")


@pytest.mark.parametrize("key", ["kubeconfig", "binding_response"])
@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_an_answer_in_a_secret_is_bound(
    program: str, key: str, planes: Planes, tmp_path: Path
) -> None:
    await secret(planes, "answer", **{key: json.dumps(planes.response("db")).encode()})
    arguments = ("deploy", "--secret", "default/answer", *planes.options)
    code, out, err = await run(tmp_path, *arguments, program=program)
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/db is Ready\n"), err


async def test_a_secret_without_an_answer_is_told(planes: Planes, tmp_path: Path) -> None:
    await secret(planes, "answer", other=b"x", kubeconfig=planes.kubeconfig())
    for arguments, message in {
        ("default/none",): "there is no Secret default/none",
        ("default/answer", "--secret-key", "a"): "has no key 'a': name one with --secret-key",
        ("default/answer",): "it is a kubeconfig, and an invitation has one in it",
    }.items():
        code, _, err = await run(tmp_path, "deploy", "--secret", *arguments, *planes.options)
        assert (code, message in err) == (1, True), err
    assert await everything(planes) | {"crds": 0} == {
        "crds": 0,
        "namespaces": {"default", "kube-node-lease", "kube-public", "kube-system"},
        "requests": 0,
        "written": set(),
    }


@pytest.mark.parametrize("program", ["fairlead", "kubectl-bind"])
async def test_the_identity_of_a_cluster(program: str, planes: Planes, tmp_path: Path) -> None:
    arguments = ("cluster-identity", *planes.options)
    code, out, _ = await run(tmp_path, *arguments, program=program)
    assert (code, out) == (0, f"{await identity(planes)}\n")
    code, _, err = await run(tmp_path, *arguments, "-n", "nowhere", program=program)
    assert (code, len(err.splitlines())) == (1, 1)


async def test_what_the_plugin_would_ask_for_is_taken_by_it_again(
    planes: Planes, tmp_path: Path
) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        arguments = ("apiservice", "postgres", "--name", "db", "--dry-run", *planes.options)
        code, out, err = await run(tmp_path, *arguments, program="kubectl-bind")
        assert (code, door.bound) == (0, []), err
    asked, way = tmp_path / "request.yaml", tmp_path / "way"
    asked.write_text(out)
    way.write_bytes(planes.kubeconfig())
    again = ("apiservice", "-f", str(asked), "--remote-kubeconfig", str(way), *planes.options)
    code, out, err = await run(tmp_path, *again, program="kubectl-bind")
    assert (code, out) == (0, "apiservicebinding.kube-bind.io/db is Ready\n"), err


async def test_a_server_that_is_asked_for_templates_completes_them(tmp_path: Path) -> None:
    async with FrontDoor() as door:
        await signed_in(tmp_path, door)
        environment = {"FAIRLEAD_COMPLETION_SECONDS": "30", "_FAIRLEAD_COMPLETE": "bash_complete"}
        words = {"COMP_WORDS": "fairlead bind --template p", "COMP_CWORD": "3"}
        process = await started(tmp_path, **environment, **words)
        out, err = await process.communicate()
    assert (out, err) == (b"plain,postgres\n", b"")
