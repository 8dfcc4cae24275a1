"""``fairlead support`` on a cluster in which secrets are in every place."""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import sys
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from aiohttp import web

from fairlead.api.kubebind import APISERVICEBINDINGS, consumer_crds
from fairlead.api.resource import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, SECRETS
from fairlead.client import ApiError, Client, parse_kubeconfig
from fairlead.konnector import manifests as konnector
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


LABELS = {"app.kubernetes.io/name": "konnector", "app.kubernetes.io/part-of": "fairlead"}
PLANTED = {
    "password": "hunter2-of-the-secret",
    "short": "pa$5",
    "quoted": 'a"b\\c-quoted-secret',
    "token": "opaque-token-of-a-kubeconfig",
    "applied": "password-in-last-applied",
    "variable": "password-in-the-environment",
    "flag": "password-in-a-flag",
    "annotation": "password-in-an-annotation",
    "spec": "password-in-a-spec",
    "assigned": "zq81",
    "said": "xk72",
    "header": "AbC.header~token",
    "userinfo": "urlpw9",
    "json": "jsonpw9",
    "cookie": "c00kie9",
}
"""Secrets, each of which is in one place; those from assigned on are in the log alone."""
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJl"
KEY = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIE\n-----END PRIVATE KEY-----"
SCRAM = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"
KUBECONFIG = yaml.safe_dump(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "provider", "user": {"token": PLANTED["token"]}}],
    }
)
LOG = "\n".join(
    (
        "a step that helps",
        f"connects with {PLANTED['password']} and {PLANTED['short']}",
        f"in JSON {json.dumps(PLANTED['quoted'])}, {PLANTED['token']}",
        f"base64 {base64.b64encode(PLANTED['password'].encode()).decode()}",
        f"{PLANTED['applied']} {PLANTED['variable']}",
        f"host=db password={PLANTED['assigned']} user=app",
        f"the password is {PLANTED['said']}",
        f"Authorization: Bearer {PLANTED['header']}",
        f"postgresql://app:{PLANTED['userinfo']}@db.example.org:5432/shop",
        f'{{"clientSecret": "{PLANTED["json"]}", "ts": "now"}}',
        f"Set-Cookie: session={PLANTED['cookie']}; Path=/",
        JWT,
        KEY,
        SCRAM,
        "",
    )
)


def needles() -> list[str]:
    found = [*PLANTED.values(), JWT, "c2lnbmF0dXJl", "MC4CAQAwBQYDK2VwBCIE", "c3RvcmVk", "c2FsdA"]
    return [*found, *(base64.b64encode(one.encode()).decode().rstrip("=") for one in found)]


async def plant(admin: Client) -> None:
    await install_crds(admin, consumer_crds())
    for document in konnector.manifests(namespace="kube-bind", image="fairlead:1"):
        resource = {"Namespace": NAMESPACES, "Deployment": DEPLOYMENTS}.get(document["kind"])
        if resource is not None:
            await admin.create(resource, document, document["metadata"].get("namespace", ""))
    applied = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login"},
        "stringData": {"password": PLANTED["applied"]},
    }
    last = "kubectl.kubernetes.io/last-applied-configuration"
    for name, data, marks in (
        (
            "login",
            {key: PLANTED[key] for key in ("password", "short", "quoted")},
            {last: json.dumps(applied)},
        ),
        ("kubeconfig-provider", {"kubeconfig": KUBECONFIG}, {}),
    ):
        await admin.create(
            SECRETS,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": "kube-bind", "annotations": marks},
                "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()},
            },
            "kube-bind",
        )
    await admin.create(
        PODS,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "konnector-1",
                "namespace": "kube-bind",
                "labels": LABELS,
                "annotations": {"example.org/note": PLANTED["annotation"]},
            },
            "spec": {
                "serviceAccountName": "konnector",
                "containers": [
                    {
                        "name": "konnector",
                        "image": "fairlead:1",
                        "args": [f"--redis-password={PLANTED['flag']}"],
                        "env": [{"name": "DB_PASSWORD", "value": PLANTED["variable"]}],
                        "ports": [{"name": "metrics", "containerPort": 8080}],
                    }
                ],
            },
        },
        "kube-bind",
    )
    await admin.create(
        APISERVICEBINDINGS,
        {
            "apiVersion": APISERVICEBINDINGS.api_version,
            "kind": "APIServiceBinding",
            "metadata": {"name": "widgets", "annotations": {last: PLANTED["annotation"]}},
            "spec": {
                "kubeconfigSecretRef": {
                    "name": "kubeconfig-provider",
                    "namespace": "kube-bind",
                    "key": PLANTED["spec"],
                }
            },
        },
    )
    body = (await admin.get(APISERVICEBINDINGS, "widgets")).to_dict()
    condition = {
        "type": "Connected",
        "status": "False",
        "reason": "ProviderUnreachable",
        "message": f"no answer; {PLANTED['password']}",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await admin.update(
        APISERVICEBINDINGS, {**body, "status": {"conditions": [condition]}}, subresource="status"
    )
    await admin.create(
        EVENTS,
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e1", "namespace": "kube-bind"},
            "involvedObject": {"kind": "Pod", "namespace": "kube-bind", "name": "konnector-1"},
            "reason": "BackOff",
            "type": "Warning",
            "message": f"env {PLANTED['token']}",
        },
        "kube-bind",
    )


@asynccontextmanager
async def kubelet(admin: Client) -> AsyncIterator[str]:
    """The sandbox with logs and metrics of Pods, which it does not have itself."""

    async def answer(request: web.Request) -> web.Response:
        if request.path.endswith("/log"):
            return web.Response(text=LOG)
        if request.path.endswith("/proxy/metrics"):
            return web.Response(text=f'up{{dsn="{PLANTED["password"]}"}} 1\n')
        try:
            body = await admin.request("GET", request.path, params=dict(request.query))
        except ApiError as error:
            status = {"kind": "Status", "reason": error.reason, "code": error.code}
            return web.json_response({**status, "message": str(error)}, status=error.code)
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def support(kubeconfig: Path, output: Path) -> tuple[int | None, str, dict[str, str]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairlead", "support", "--kubeconfig", str(kubeconfig)),
        *("-o", str(output)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await process.communicate()
    files = {}
    if process.returncode in {0, 3}:
        with tarfile.open(output) as tar:
            for member in tar:
                content = tar.extractfile(member)
                assert content is not None
                assert member.mode == 0o600
                files[member.name.partition("/")[2]] = content.read().decode()
    return process.returncode, err.decode(), files


async def test_no_secret_is_in_the_bundle_and_what_helps_is(tmp_path: Path) -> None:
    output, kubeconfig = tmp_path / "bundle.tar.gz", tmp_path / "kubeconfig"
    async with (
        Sandbox(name="consumer") as sandbox,
        Client(parse_kubeconfig(sandbox.kubeconfig())) as admin,
        kubelet(admin) as url,
    ):
        await plant(admin)
        body = yaml.safe_load(sandbox.kubeconfig())
        body["clusters"][0]["cluster"] = {"server": url}
        kubeconfig.write_text(yaml.safe_dump(body))
        code, err, files = await support(kubeconfig, output)
    assert code == 0, err
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    whole = "\n".join((err, *files, *files.values()))
    assert [one for one in needles() if one in whole] == []
    # Something is left.
    assert "a step that helps" in files["logs/kube-bind/konnector-1/konnector.log"]
    assert "host=db" in files["logs/kube-bind/konnector-1/konnector.log"]
    assert "@db.example.org:5432/shop" in files["logs/kube-bind/konnector-1/konnector.log"]
    assert "up{dsn=" in files["metrics/kube-bind/konnector-1.txt"]
    (binding,) = json.loads(files["objects/apiservicebindings.kube-bind.io.json"])
    assert binding["status"]["conditions"][0]["reason"] == "ProviderUnreachable"
    assert binding["status"]["conditions"][0]["message"] == "no answer; [redacted]"
    (event,) = json.loads(files["events.json"])
    assert event["message"] == "env [redacted]"
    versions = json.loads(files["versions.json"])
    assert versions["kubernetes"].startswith("v1.")
    assert versions["programs"][0]["metadata"]["name"] == "konnector"
    assert files["unread.txt"] == "all could be read\n"
    assert [line.partition(":")[0] for line in err.splitlines()] == [
        *("versions", "conditions", "events", "logs", "metrics", "secrets", "unread")
    ]


async def test_what_the_caller_may_not_read_is_named(tmp_path: Path) -> None:
    output, kubeconfig = tmp_path / "bundle.tar.gz", tmp_path / "kubeconfig"
    async with (
        Sandbox(name="consumer") as sandbox,
        Client(parse_kubeconfig(sandbox.kubeconfig())) as admin,
    ):
        await plant(admin)
        body = yaml.safe_load(sandbox.kubeconfig())
        body["users"][0]["user"]["as"] = "nobody"
        kubeconfig.write_text(yaml.safe_dump(body))
        code, err, files = await support(kubeconfig, output)
    assert code == 3, err
    unread = files["unread.txt"]
    for resource in ("pods", "deployments.apps", "events", "apiservicebindings.kube-bind.io"):
        assert f"{resource}: " in unread
    assert "could not be read: unread.txt in the file names them" in err
    assert [one for one in needles() if one in "".join(files.values())] == []


async def test_a_file_that_exists_stays(tmp_path: Path) -> None:
    output, kubeconfig = tmp_path / "bundle.tar.gz", tmp_path / "kubeconfig"
    output.write_bytes(b"")
    async with Sandbox(name="consumer") as sandbox:
        kubeconfig.write_bytes(sandbox.kubeconfig())
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairlead", "support", "--kubeconfig", str(kubeconfig)),
            *("-o", str(output)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, err = await process.communicate()
    assert process.returncode == 1
    assert b"exists: give another name to -o" in err
    assert output.read_bytes() == b""
