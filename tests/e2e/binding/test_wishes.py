"""What bindings ask for by annotations and paths, on a control plane."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import partial

import pytest
from tests.support.binding import RIGS, Team, mounted, pod, running

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client, Conflict


RELOADED = "STAKATER_LOGIN_SECRET"
"""Variable of Reloader, https://github.com/stakater/Reloader, for a Secret ``login``."""
DATA = {"type": "postgresql", "host": "db"}


@pytest.fixture
async def team(admin: Client) -> AsyncIterator[Team]:
    team = await Team.arrive(admin)
    async with running(admin):
        yield team


def encoded(**entries: str) -> dict[str, str]:
    return {name: base64.b64encode(text.encode()).decode() for name, text in entries.items()}


def spec(**changes: object) -> JSON:
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    service = {"apiVersion": "v1", "kind": "Secret", "name": "login"}
    return {"workload": workload, "service": service, **changes}


def marks(body: JSON) -> dict[str, str]:
    found = body["spec"]["template"]["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key.startswith("content.")}


async def test_a_mode_variables_and_rollouts_as_long_as_they_are_asked_for(team: Team) -> None:
    await team.deployment("web")
    asked = {
        "servicebinding.io/default-mode": "0400",
        "servicebinding.io/bind-as-env": "true",
        "servicebinding.io/roll-on-change": "true",
    }
    await team.create(SERVICEBINDINGS, "db", spec=spec())
    await team.says("db", "Ready", "True", "ApplicationsBound")
    await team.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": asked}})
    bound = await team.when(DEPLOYMENTS, "web", lambda body: bool(marks(body)))
    assert pod(bound)["volumes"][0]["secret"]["defaultMode"] == 0o400
    (container,) = pod(bound)["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": "login"}}]
    before = marks(bound)

    await team.patch(SECRETS, "login", {"data": encoded(host="other")})
    rolled = await team.when(DEPLOYMENTS, "web", lambda body: marks(body) != before)
    assert rolled["metadata"]["generation"] > bound["metadata"]["generation"]

    nothing = dict.fromkeys(asked)
    await team.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": nothing}})
    plain = await team.when(DEPLOYMENTS, "web", lambda body: not marks(body))
    assert pod(plain)["volumes"][0]["secret"].get("defaultMode", 0o644) == 0o644
    assert not pod(plain)["containers"][0].get("envFrom")
    assert mounted(plain) == "login"

    wrong = {"servicebinding.io/default-mode": "rw"}
    await team.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": wrong}})
    await team.says("db", "Ready", "False", "ProcessingError", text="three octal digits")


async def reload(team: Team, name: str, checksum: str) -> JSON:
    """Do what Reloader does: find who names the Secret, and put its checksum into a variable."""
    while True:
        found = await team.admin.get(DEPLOYMENTS, "web", team.namespace)
        body = found.to_dict()
        volumes = [volume["secret"]["secretName"] for volume in pod(body)["volumes"]]
        assert name in volumes
        (container,) = pod(body)["containers"]
        others = [entry for entry in container.get("env") or [] if entry["name"] != RELOADED]
        container["env"] = [*others, {"name": RELOADED, "value": checksum}]
        try:
            updated = await team.admin.update(DEPLOYMENTS, body)
        except Conflict:
            continue
        return updated.to_dict()


def is_rolled(before: dict[str, str], body: JSON) -> bool:
    return marks(body) != before


async def test_beside_reloader_each_change_is_two_rollouts_and_no_loop(team: Team) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec())
    rolling = {"servicebinding.io/roll-on-change": "true"}
    await team.patch(SERVICEBINDINGS, "db", {"metadata": {"annotations": rolling}})
    bound = await team.when(DEPLOYMENTS, "web", lambda body: bool(marks(body)))
    for checksum in ("1f", "2e", "3d"):
        generation = bound["metadata"]["generation"]
        await team.patch(SECRETS, "login", {"data": encoded(host=checksum)})
        await team.when(DEPLOYMENTS, "web", partial(is_rolled, marks(bound)))
        bound = await reload(team, "login", checksum)
        assert bound["metadata"]["generation"] == generation + 2
        assert mounted(bound) == "login"
    # The projection leaves the other one's variable where it is, also as it goes itself.
    await team.delete(SERVICEBINDINGS, "db")
    left = await team.when(DEPLOYMENTS, "web", lambda body: not pod(body).get("volumes"))
    assert {"name": RELOADED, "value": "3d"} in pod(left)["containers"][0]["env"]


async def test_a_secret_of_the_bindings_own_has_the_type_of_the_specification(team: Team) -> None:
    await team.deployment("web")
    await team.create(SERVICEBINDINGS, "db", spec=spec(type="mysql"))
    ready = await team.says("db", "Ready", "True", "ApplicationsBound")
    made = await team.admin.get(SECRETS, ready["status"]["binding"]["name"], team.namespace)
    assert made.to_dict()["type"] == "servicebinding.io/mysql"


async def test_the_secrets_name_and_containers_where_the_binding_says(team: Team) -> None:
    body: JSON = {"machine": {"parts": [{"name": "a"}, {"name": "b"}]}, "size": 3}
    await team.create(RIGS, "rig", spec=body)
    application = {
        "group": RIGS.group,
        "version": "v1",
        "resource": RIGS.plural,
        "name": "rig",
        "bindingPath": {
            "secretPath": "spec.login.secretName",
            "containersPath": "spec.machine.parts",
        },
    }
    service = {"group": "", "version": "v1", "kind": "Secret", "name": "login"}
    asked: JSON = {"services": [service], "application": application}
    await team.create(COREOS_SERVICEBINDINGS, "db", spec=asked)
    await team.says("db", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS)
    rig = await team.admin.get(RIGS, "rig", team.namespace)
    bound = rig.to_dict()["spec"]
    assert bound["login"] == {"secretName": "login"}
    for part in bound["machine"]["parts"]:
        assert part["volumeMounts"] == [{"name": "db", "mountPath": "/bindings/db"}]
    assert bound["template"]["spec"]["volumes"] == [
        {"name": "db", "secret": {"secretName": "login"}}
    ]
    await team.delete(COREOS_SERVICEBINDINGS, "db")
    await team.when(COREOS_SERVICEBINDINGS, "db", lambda found: not found)
    left = (await team.admin.get(RIGS, "rig", team.namespace)).to_dict()["spec"]
    assert left["size"] == 3
    assert left["template"]["spec"]["volumes"] == []
    assert [part["volumeMounts"] for part in left["machine"]["parts"]] == [[], []]
