"""Large requests, worked out in other processes: the same answers, and an end to each."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest
import yaml
from tests.support.waiting import SECONDS
from tests.unit.sandbox.api import CONFIGMAPS, CRDS, WIDGETS, Api, Reply, configmap, crd, widget

from fairlead.api.meta import JSON
from fairlead_sandbox import Sandbox
from fairlead_sandbox.requests import heavy, workers
from fairlead_sandbox.requests.workers import Job, JobResult, Workers


SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
SERVICE: JSON = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
TEMPLATE: JSON = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
DEPLOYMENT: JSON = {
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
APPLIED: JSON = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "applied"},
    "data": {"a": "1"},
}

# Method, path, body and the body's media type, in the order in which they are sent.
REQUESTS: list[tuple[str, str, Any, str]] = [
    ("POST", CRDS, crd(), "application/json"),
    ("POST", CONFIGMAPS, configmap("a"), "application/json"),
    ("POST", CONFIGMAPS, configmap("a"), "application/json"),
    ("POST", CONFIGMAPS, {"metadata": {"generateName": "made-"}}, "application/json"),
    ("POST", CONFIGMAPS + "?fieldValidation=Strict", configmap("odd") | {"x": 1}, ""),
    ("POST", CONFIGMAPS + "?fieldValidation=Warn", configmap("odd") | {"x": 1}, ""),
    ("POST", CONFIGMAPS + "?dryRun=All", configmap("dry"), "application/json"),
    ("POST", CONFIGMAPS + "?dryRun=All", configmap("a"), "application/json"),
    ("POST", "/api/v1/namespaces/nowhere/configmaps", configmap("a"), "application/json"),
    ("POST", CONFIGMAPS, configmap("A_"), "application/json"),
    ("POST", CONFIGMAPS, {"data": []}, "application/json"),
    ("POST", CONFIGMAPS, [], "application/json"),
    ("PUT", f"{CONFIGMAPS}/a", configmap("a") | {"data": {"k": "2"}}, "application/json"),
    ("PUT", f"{CONFIGMAPS}/a", configmap("a", resourceVersion="1"), "application/json"),
    ("PUT", f"{CONFIGMAPS}/a?dryRun=All", configmap("a"), "application/json"),
    ("PUT", f"{CONFIGMAPS}/none", configmap("none"), "application/json"),
    ("PUT", f"{LEASES}/made", {"metadata": {"name": "made"}}, "application/json"),
    ("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "3"}}, MERGE),
    ("PATCH", f"{CONFIGMAPS}/a", {"data": {"k": "3"}}, MERGE),
    ("PATCH", f"{CONFIGMAPS}/a", {"metadata": {"finalizers": ["a/b"]}}, STRATEGIC),
    ("DELETE", f"{CONFIGMAPS}/a", None, "application/json"),
    ("PATCH", f"{CONFIGMAPS}/a", {"metadata": {"finalizers": None}}, MERGE),
    ("GET", f"{CONFIGMAPS}/a", None, "application/json"),
    ("PATCH", f"{CONFIGMAPS}/none", {"data": {}}, MERGE),
    ("PATCH", f"{CONFIGMAPS}/odd", [{"op": "frob"}], "application/json-patch+json"),
    ("PATCH", f"{CONFIGMAPS}/applied?fieldManager=x", APPLIED, APPLY),
    ("PATCH", f"{CONFIGMAPS}/applied?fieldManager=x", APPLIED | {"data": {"b": "1"}}, APPLY),
    ("PATCH", f"{CONFIGMAPS}/applied?fieldManager=y", APPLIED | {"data": {"b": "2"}}, APPLY),
    ("PATCH", f"{CONFIGMAPS}/applied", APPLIED, APPLY),
    ("POST", SERVICES, SERVICE, "application/json"),
    ("POST", SERVICES, {**SERVICE, "metadata": {"name": "t"}}, "application/json"),
    ("PATCH", f"{SERVICES}/s", {"spec": {"type": "NodePort"}}, MERGE),
    ("POST", DEPLOYMENTS, DEPLOYMENT, "application/json"),
    ("PATCH", f"{DEPLOYMENTS}/d/scale", {"spec": {"replicas": 3}}, MERGE),
    ("PATCH", f"{DEPLOYMENTS}/d/status", {"status": {"replicas": 2}}, MERGE),
    ("PATCH", f"{DEPLOYMENTS}/d/scale?dryRun=All", {"spec": {"replicas": 9}}, MERGE),
    ("GET", f"{DEPLOYMENTS}/d", None, "application/json"),
    ("POST", WIDGETS, widget("w", spec={"size": 1}), "application/json"),
    ("POST", WIDGETS, widget("bad", spec={"size": "x"}), "application/json"),
    ("PATCH", f"{WIDGETS}/w", {"spec": {"size": 2, "odd": 1}}, MERGE),
    ("GET", f"{WIDGETS}/w", None, "application/json"),
    ("POST", CRDS, crd() | {"spec": {}}, "application/json"),
    ("GET", CONFIGMAPS, None, "application/json"),
]
CHANGING = {"uid", "creationTimestamp", "time", "lastTransitionTime", "deletionTimestamp"}


def stable(value: Any, key: str = "") -> Any:
    """The value without what is another at every run."""
    if isinstance(value, dict):
        return {name: stable(inner, name) for name, inner in value.items()}
    if isinstance(value, list):
        return [stable(inner) for inner in value]
    if key in CHANGING or (isinstance(value, str) and value.startswith("made-")):
        return "..."
    return value


async def replies(api: Api) -> list[tuple[str, int, Any, list[str]]]:
    found = []
    for method, path, body, kind in REQUESTS:
        reply = await api.send(method, path, body, kind=kind or "application/json")
        warnings = [text for name, text in reply.headers.items() if name == "Warning"]
        found.append((f"{method} {path}", reply.code, stable(reply.body), warnings))
        if path == CRDS and method == "POST":
            await until(lambda: served(api))
    return found


async def served(api: Api) -> bool:
    return (await api.get(WIDGETS)).code != 404


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await check():  # noqa: ASYNC110 - the server changes
            await asyncio.sleep(0.01)


async def test_a_worker_answers_as_the_server_does(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    light = await replies(api)
    run = Workers.run
    asked: list[str] = []

    async def counting(self: Workers, job: Job) -> JobResult:
        asked.append(job.kind)
        return await run(self, job)

    monkeypatch.setattr(Workers, "run", counting)
    monkeypatch.setattr(heavy, "HEAVY", 0)
    async with Sandbox(tls=False, rbac=False) as other, Api(other.url) as second:
        assert await replies(second) == light
    writes = [method for method, *_ in REQUESTS if method in {"POST", "PUT", "PATCH"}]
    assert asked.count("write") == len(writes)


@pytest.fixture
async def heavily(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Sandbox, Api]]:
    """A sandbox that leaves every write to its workers."""
    monkeypatch.setattr(heavy, "HEAVY", 0)
    async with Sandbox(tls=False, rbac=False) as sandbox, Api(sandbox.url) as api:
        yield sandbox, api


Heavily = tuple[Sandbox, Api]


async def test_an_object_that_has_changed_meanwhile_is_looked_at_again(
    heavily: Heavily, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, api = heavily
    await api.post(CONFIGMAPS, configmap("a"))
    run = Workers.run
    changes = iter(["one", "two"])

    async def disturbed(self: Workers, job: Job) -> JobResult:
        result = await run(self, job)
        name = next(changes, None)
        if name is not None:
            with monkeypatch.context() as patch:
                patch.setattr(heavy, "HEAVY", 1 << 30)
                await api.send("PATCH", f"{CONFIGMAPS}/a", {"data": {name: "x"}}, kind=MERGE)
        return result

    monkeypatch.setattr(Workers, "run", disturbed)
    reply = await api.send("PATCH", f"{CONFIGMAPS}/a", {"data": {"mine": "y"}}, kind=MERGE)
    assert reply.body["data"] == {"k": "v", "one": "x", "two": "x", "mine": "y"}


@pytest.mark.parametrize("query", ["", "?dryRun=All"])
async def test_nobody_gets_rights_through_a_worker(
    monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    monkeypatch.setattr(heavy, "HEAVY", 0)
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rule: JSON = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"]}
    makes = {"metadata": {"name": "makes"}, "rules": [{**rule, "verbs": ["create"]}]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "makes"}
    binding = {
        "metadata": {"name": "makes"},
        "roleRef": reference,
        "subjects": [{"kind": "User", "name": "bob"}],
    }
    more = {"metadata": {"name": "more"}, "rules": [{**rule, "verbs": ["delete"]}]}
    async with Sandbox(tls=False) as sandbox:
        token = yaml.safe_load(sandbox.kubeconfig())["users"][0]["user"]["token"]
        admin = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(sandbox.url, headers=admin) as session:
            for path, body in ((roles, makes), (f"{roles[:-1]}bindings", binding)):
                async with session.post(path, json=body) as made:
                    assert made.status == 201
            bob = {"Impersonate-User": "bob"}
            async with session.post(f"{roles}{query}", json=more, headers=bob) as refused:
                assert refused.status == 403
                assert "is attempting to grant RBAC permissions" in await refused.text()


async def test_what_takes_too_long_is_ended(
    heavily: Heavily, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, api = heavily
    monkeypatch.setattr(workers, "SECONDS", 0.0)
    reply = await api.post(CONFIGMAPS, configmap("a"))
    assert (reply.code, reply.body["reason"]) == (504, "Timeout")
    assert reply.message == "Timeout: request did not complete within requested timeout 0s"
    monkeypatch.setattr(workers, "SECONDS", SECONDS)
    assert (await api.post(CONFIGMAPS, configmap("a"))).code == 201


def workers_of(sandbox: Sandbox) -> Workers:
    assert isinstance(sandbox._workers, Workers)
    return sandbox._workers


async def test_a_worker_that_dies_is_replaced(heavily: Heavily) -> None:
    sandbox, api = heavily
    assert (await api.post(CONFIGMAPS, configmap("a"))).code == 201
    (process,) = workers_of(sandbox)._idle
    os.kill(process.pid, signal.SIGKILL)
    assert (await api.post(CONFIGMAPS, configmap("b"))).code == 201


async def test_a_job_that_ends_its_worker_is_refused(
    heavily: Heavily, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, api = heavily
    exchange = workers._exchange

    async def die(process: Any, message: bytes) -> JobResult:
        os.kill(process.pid, signal.SIGKILL)
        return await exchange(process, message)

    monkeypatch.setattr(workers, "_exchange", die)
    reply = await api.post(CONFIGMAPS, configmap("b"))
    assert (reply.code, reply.body["reason"]) == (413, "RequestEntityTooLarge")
    monkeypatch.undo()
    assert (await api.post(CONFIGMAPS, configmap("b"))).code == 201


async def test_too_many_large_requests_are_asked_to_come_again(
    heavily: Heavily, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, api = heavily
    monkeypatch.setattr(workers, "_WAITING", 0)
    reply = await api.post(CONFIGMAPS, configmap("a"))
    assert (reply.code, reply.headers["Retry-After"]) == (429, "1")


async def test_a_client_that_goes_leaves_no_worker_at_work(
    heavily: Heavily, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, api = heavily
    begun = asyncio.Event()
    exchange = workers._exchange

    async def begin(process: Any, message: bytes) -> JobResult:
        begun.set()
        await asyncio.Event().wait()
        return await exchange(process, message)

    monkeypatch.setattr(workers, "_exchange", begin)
    ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    end = workers._end

    async def noting(process: Any) -> None:
        await end(process)
        ended.set_result(process.returncode)

    monkeypatch.setattr(workers, "_end", noting)
    request = asyncio.ensure_future(api.post(CONFIGMAPS, configmap("a")))
    await begun.wait()
    request.cancel()
    async with asyncio.timeout(SECONDS):
        assert await ended == -signal.SIGKILL


async def test_workers_without_work_end(heavily: Heavily, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox, api = heavily
    monkeypatch.setattr(workers, "_IDLE", 0.0)
    await api.post(CONFIGMAPS, configmap("a"))
    found = workers_of(sandbox)

    async def idle() -> bool:
        return not found._idle and not found._ending

    await until(idle)


async def test_workers_end_with_the_sandbox(heavily: Heavily) -> None:
    sandbox, api = heavily
    await api.post(CONFIGMAPS, configmap("a"))
    (process,) = workers_of(sandbox)._idle
    await sandbox.stop()
    assert process.returncode == -signal.SIGKILL


async def test_stored_objects_are_completed_by_a_worker(heavily: Heavily) -> None:
    _, api = heavily
    await api.post(CRDS, crd())
    await until(lambda: served(api))
    for index in range(3):
        await api.post(WIDGETS, widget(f"w{index}"))
    body = (await api.get(f"{CRDS}/widgets.example.org")).body
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["new"] = {"type": "string", "default": "n"}
    schema["properties"]["spec"]["default"] = {}
    assert (await api.send("PUT", f"{CRDS}/widgets.example.org", body)).code == 200

    async def all_new() -> bool:
        items = (await api.get(WIDGETS)).body["items"]
        return all(item.get("spec", {}).get("new") == "n" for item in items)

    await until(all_new)


def test_replies_differ_where_they_should() -> None:
    """What is left out of the comparison is no more than what changes by itself."""
    one = Reply(201, {"metadata": {"uid": "1", "name": "a"}}, {})
    assert stable(one.body) == {"metadata": {"uid": "...", "name": "a"}}
