"""A pod template's environment, volumes and command as a local process."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.resource import CRONJOBS, DEPLOYMENTS, PODS, Resource
from fairlead.api.status import Status
from fairlead.client import Client, Forbidden, NotFound
from fairlead.demo.pods.runner import PodRunError, RunResult, expand, run_workload


REPORT = """
import json, os, sys
root = os.environ.get("LOOK", "")
files = {}
for folder, _, names in os.walk(root):
    for name in names:
        path = os.path.join(folder, name)
        files[os.path.relpath(path, root)] = [open(path).read(), os.stat(path).st_mode & 0o777]
print(json.dumps({"env": dict(os.environ), "files": files, "args": sys.argv[1:]}))
"""
COMMAND = [sys.executable, "-c", REPORT]


class Cluster:
    """Answers gets from a dict by kind and name."""

    def __init__(self, *bodies: JSON) -> None:
        self.bodies = {(body["kind"], body["metadata"]["name"]): body for body in bodies}
        self.forbidden: set[str] = set()

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        if name in self.forbidden:
            raise Forbidden(Status("Failure", f"{resource.plural} {name} is forbidden"))
        if (resource.kind, name) not in self.bodies:
            raise NotFound(Status("Failure", f"{resource.plural} {name} not found"))
        return object_from_dict(self.bodies[resource.kind, name])


def secret(name: str = "login", **entries: str) -> JSON:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in entries.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}


def config_map(name: str = "settings", **entries: str) -> JSON:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": entries}


def deployment(*volumes: JSON, **container: Any) -> JSON:
    pod = {"containers": [{"name": "app", **container}], "volumes": list(volumes)}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod}
    meta = {"name": "web", "namespace": "shop", "uid": "u1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"template": template},
    }


async def run(*bodies: JSON, resource: Resource = DEPLOYMENTS, **options: Any) -> RunResult:
    client = cast("Client", Cluster(*bodies))
    options.setdefault("command", COMMAND)
    return await run_workload(client, resource, "shop", "web", capture=True, **options)


async def report(*bodies: JSON, **options: Any) -> JSON:
    result = await run(*bodies, **options)
    assert result.exit_code == 0, result.output
    found: JSON = json.loads(result.output)
    return found


LITERAL = {"name": "A", "value": "one"}
FROM_SECRET = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "user"}}}
FROM_CONFIG = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "user"}}}


def field(path: str) -> JSON:
    return {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def wait_for(path: Path) -> None:
    """Blocks until another process has made the file."""
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def exists(*parts: str | Path) -> bool:
    return Path(*parts).exists()


def leftovers() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("fairlead-pod-*"))


def optional(variable: JSON, **changes: str) -> JSON:
    ((kind, reference),) = variable["valueFrom"].items()
    return {**variable, "valueFrom": {kind: {**reference, "optional": True, **changes}}}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param({"env": [LITERAL]}, "one", id="literal"),
        pytest.param({"env": [LITERAL, {"name": "A", "value": "$(A)+"}]}, "one+", id="expanded"),
        pytest.param(
            {"env": [{"name": "A", "value": "$$(B) $(C)"}]}, "$(B) $(C)", id="not expanded"
        ),
        pytest.param({"env": [{"name": "A"}]}, "", id="without value"),
        pytest.param({"env": [FROM_SECRET]}, "shop", id="from a Secret"),
        pytest.param({"env": [FROM_CONFIG]}, "plain", id="from a ConfigMap"),
        pytest.param({"env": [optional(FROM_SECRET, key="x")]}, None, id="optional entry"),
        pytest.param({"env": [optional(FROM_CONFIG, name="x")]}, None, id="optional object"),
        pytest.param({"env": [field("metadata.namespace")]}, "shop", id="namespace"),
        pytest.param({"env": [field("metadata.labels['app']")]}, "web", id="label"),
        pytest.param(
            {"envFrom": [{"prefix": "A", "secretRef": {"name": "short"}}]}, "tail", id="envFrom"
        ),
        pytest.param(
            {"envFrom": [{"configMapRef": {"name": "x", "optional": True}}]}, None, id="no envFrom"
        ),
        pytest.param(
            {"envFrom": [{"secretRef": {"name": "caps"}}], "env": [LITERAL]}, "one", id="env wins"
        ),
    ],
)
async def test_the_environment_is_resolved_as_by_a_kubelet(
    container: JSON, expected: str | None
) -> None:
    found = await report(
        deployment(**container),
        secret(user="shop"),
        secret("short", **{"": "tail"}),
        secret("caps", A="other"),
        config_map(user="plain"),
    )
    assert found["env"].get("A") == expected


async def test_nothing_of_the_surroundings_leaks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/secret/admin")
    found = await report(deployment())
    assert "KUBECONFIG" not in found["env"]


@pytest.mark.parametrize(
    ("volume", "mount", "expected"),
    [
        pytest.param(
            {"secret": {"secretName": "login"}},
            {},
            {"user": ["shop", 0o600], "password": ["pw", 0o600]},
            id="secret",
        ),
        pytest.param(
            {"secret": {"secretName": "login", "items": [{"key": "user", "path": "a/b"}]}},
            {},
            {"a/b": ["shop", 0o600]},
            id="items",
        ),
        pytest.param(
            {"configMap": {"name": "settings", "defaultMode": 0o555}},
            {},
            {"user": ["plain", 0o500]},
            id="config map with a mode",
        ),
        pytest.param({"secret": {"secretName": "x", "optional": True}}, {}, {}, id="optional"),
        pytest.param({"emptyDir": {}}, {}, {}, id="empty directory"),
        pytest.param(
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "login", "items": [{"key": "user", "path": "u"}]}},
                        {"configMap": {"name": "settings"}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "n", "fieldRef": {"fieldPath": "metadata.namespace"}}
                                ]
                            }
                        },
                    ]
                }
            },
            {},
            {"u": ["shop", 0o600], "user": ["plain", 0o600], "n": ["shop", 0o600]},
            id="projected",
        ),
        pytest.param(
            {"secret": {"secretName": "login", "items": [{"key": "user", "path": "a/b"}]}},
            {"subPath": "a"},
            {"b": ["shop", 0o600]},
            id="folder by subPath",
        ),
    ],
)
async def test_volumes_are_files(volume: JSON, mount: JSON, expected: JSON) -> None:
    body = deployment(
        {"name": "v", **volume},
        env=[{"name": "LOOK", "value": "/data/files"}],
        volumeMounts=[{"name": "v", "mountPath": "/data/files", **mount}],
    )
    found = await report(body, secret(user="shop", password="pw"), config_map(user="plain"))
    assert found["files"] == expected


async def test_paths_lead_into_the_volumes_and_nothing_is_left() -> None:
    body = deployment(
        {"name": "v", "secret": {"secretName": "login"}},
        env=[
            {"name": "SERVICE_BINDING_ROOT", "value": "/bindings"},
            {"name": "LOOK", "value": "$(SERVICE_BINDING_ROOT)/db"},
            {"name": "FILE", "value": "/bindings/db/user"},
            {"name": "ELSEWHERE", "value": "/bindings-of-others"},
            {"name": "PARENT", "value": "/bindings"},
            {"name": "URL", "value": "x://h/bindings/db?a=/bindings/db/user&b=/bindings/dbs"},
            {"name": "QUOTED", "value": "A=1;B=\"/bindings/db/user\";C='/bindings/db'"},
        ],
        volumeMounts=[{"name": "v", "mountPath": "/bindings/db"}],
        command=[*COMMAND, "$(FILE)"],
    )
    found = await report(body, secret(user="shop"), command=None)
    env = found["env"]
    root = Path(env["SERVICE_BINDING_ROOT"])
    assert found["files"] == {"user": ["shop", 0o600]}
    assert env["LOOK"] == str(root / "db")
    assert env["FILE"] == str(root / "db" / "user")
    assert found["args"] == [env["FILE"]]
    assert env["ELSEWHERE"] == "/bindings-of-others"
    assert env["PARENT"] == "/bindings"
    folder = f"{env['SERVICE_BINDING_ROOT']}/db"
    assert env["URL"] == f"x://h/bindings/db?a={folder}/user&b=/bindings/dbs"
    assert env["QUOTED"] == f"A=1;B=\"{folder}/user\";C='{folder}'"
    assert not exists(root)
    assert not exists(root.parent)


async def test_nobody_else_may_enter_the_folder() -> None:
    body = deployment(
        {"name": "v", "secret": {"secretName": "login"}},
        env=[{"name": "SERVICE_BINDING_ROOT", "value": "/bindings"}],
        volumeMounts=[{"name": "v", "mountPath": "/bindings/db"}],
    )
    code = (
        "import os; root = os.path.dirname(os.environ['SERVICE_BINDING_ROOT']);"
        "print(oct(os.stat(root).st_mode & 0o777))"
    )
    result = await run(body, secret(user="shop"), command=[sys.executable, "-c", code])
    assert result.output == "0o700\n"


async def test_a_file_by_sub_path_is_where_it_is_mounted() -> None:
    body = deployment(
        {"name": "v", "secret": {"secretName": "login"}},
        env=[{"name": "FILE", "value": "/etc/user.txt"}],
        volumeMounts=[{"name": "v", "mountPath": "/etc/user.txt", "subPath": "user"}],
    )
    command = [sys.executable, "-c", "import os; print(open(os.environ['FILE']).read())"]
    result = await run(body, secret(user="shop"), command=command)
    assert result == RunResult(0, "shop\n")


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        pytest.param(
            deployment(env=[{**FROM_SECRET}]), {}, "Secret shop/login does not exist", id="Secret"
        ),
        pytest.param(
            deployment(env=[FROM_CONFIG]),
            {},
            "ConfigMap shop/settings has no entry user",
            id="entry",
        ),
        pytest.param(
            deployment(), {"container": "db"}, "has no container db; it has app", id="container"
        ),
        pytest.param(deployment(), {"command": None}, "app has no command", id="no command"),
        pytest.param(
            deployment(), {"command": ["/no/such"]}, "cannot start /no/such", id="no such program"
        ),
        pytest.param(
            deployment(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
            {},
            "mounts volume v: there is none",
            id="no volume",
        ),
        pytest.param(
            deployment(
                {"name": "v", "hostPath": {"path": "/"}},
                volumeMounts=[{"name": "v", "mountPath": "/x"}],
            ),
            {},
            "volume v is of a kind that only a node has: hostPath",
            id="host path",
        ),
        pytest.param(
            deployment(
                {
                    "name": "v",
                    "configMap": {
                        "name": "settings",
                        "items": [{"key": "a", "path": "../../evil"}],
                    },
                },
                volumeMounts=[{"name": "v", "mountPath": "/x"}],
            ),
            {},
            "cannot be at ../../evil",
            id="path that leaves the folder",
        ),
        pytest.param(
            deployment(volumeMounts=[{"name": "v", "mountPath": "/../x"}], volumes=[])
            | {"spec": {"template": {"spec": {}}}},
            {},
            "has no pod template",
            id="no template",
        ),
        pytest.param(
            deployment(env=[field("spec.nodeName")]), {}, "known on a node alone", id="node field"
        ),
        pytest.param(
            deployment(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]),
            {},
            "variable A has a source",
            id="resource field",
        ),
    ],
)
async def test_what_is_missing_is_said_in_one_line(
    body: JSON, options: JSON, message: str
) -> None:
    before = leftovers()
    with pytest.raises(PodRunError) as caught:
        await run(body, config_map(a="b"), **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert leftovers() <= before


async def test_a_workload_that_is_not_there_and_a_secret_that_may_not_be_read() -> None:
    with pytest.raises(PodRunError, match="Deployment shop/web does not exist"):
        await run()
    cluster = Cluster(deployment(env=[FROM_SECRET]), secret(user="x"))
    cluster.forbidden.add("login")
    with pytest.raises(PodRunError, match="secrets login is forbidden"):
        await run_workload(cast("Client", cluster), DEPLOYMENTS, "shop", "web", command=COMMAND)


async def test_pods_and_cron_jobs_have_their_templates_elsewhere() -> None:
    template = deployment(env=[LITERAL])["spec"]["template"]
    meta = {"name": "web", "namespace": "shop"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
    job = {"spec": {"template": template}}
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": meta,
        "spec": {"jobTemplate": job},
    }
    for body, resource in ((pod, PODS), (cron, CRONJOBS)):
        found = await report(body, resource=resource)
        assert found["env"]["A"] == "one"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        pytest.param("raise SystemExit(3)", 3, id="exit code"),
        pytest.param("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143, id="signal"),
    ],
)
async def test_the_exit_code_is_that_of_the_process(code: str, expected: int) -> None:
    result = await run(deployment(), command=[sys.executable, "-c", code])
    assert result.exit_code == expected


async def test_cancelling_ends_the_process_and_removes_the_folder() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        code = (
            "import os, sys, time; open(sys.argv[1], 'w').write("
            "os.environ['D'] + '\\n' + str(os.getpid())); os.rename(sys.argv[1], sys.argv[2])\n"
            "time.sleep(60)"
        )
        body = deployment(
            {"name": "v", "secret": {"secretName": "login"}},
            env=[{"name": "D", "value": "/d"}],
            volumeMounts=[{"name": "v", "mountPath": "/d"}],
        )
        command = [sys.executable, "-c", code, f"{ready}.new", str(ready)]
        task = asyncio.create_task(run(body, secret(user="x"), command=command))
        await asyncio.to_thread(wait_for, ready)
        path, pid = ready.read_text().split("\n")
        assert exists(path, "user")
        # Another process may get its number at once.
        process = os.pidfd_open(int(pid))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not exists(path)
        ended, _, _ = select.select([process], [], [], 0)
        assert ended
        os.close(process)


async def test_a_signal_ends_the_process_and_the_folder_goes() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready"
        code = (
            "import os, sys, time; open(sys.argv[1], 'w').write(os.environ['D'])\n"
            "os.rename(sys.argv[1], sys.argv[2]); time.sleep(60)"
        )
        body = deployment(
            {"name": "v", "emptyDir": {}},
            env=[{"name": "D", "value": "/d"}],
            volumeMounts=[{"name": "v", "mountPath": "/d"}],
        )
        command = [sys.executable, "-c", code, f"{ready}.new", str(ready)]
        client = cast("Client", Cluster(body))
        task = asyncio.create_task(
            run_workload(client, DEPLOYMENTS, "shop", "web", command=command)
        )
        await asyncio.to_thread(wait_for, ready)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (await task).exit_code == 128 + signal.SIGTERM
        assert not exists(ready.read_text())


async def test_a_signal_before_there_is_a_process_ends_the_run() -> None:
    class Slow(Cluster):
        async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            raise AssertionError

    client = cast("Client", Slow())
    result = await run_workload(client, DEPLOYMENTS, "shop", "web", command=COMMAND)
    assert result.exit_code == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "1"), ("x$(A)y$(B)", "x1y$(B)"), ("$$(A)", "$(A)"), ("$A $", "$A $"), ("$(", "$(")],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    assert expand(text, {"A": "1"}) == expected
