"""What is rendered from objects of a cluster is what the controller writes there."""

from __future__ import annotations

import base64

import pytest
from tests.support.binding import DATABASES, Team, crd, pod, running

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, SECRETS
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.documents import Document, collection
from fairlead.binding.outside.rendering import render
from fairlead.client import Client


DATA = {"type": "postgresql", "host": "db", "password": "s3cret"}


@pytest.fixture
async def team(admin: Client) -> Team:
    return await Team.arrive(admin, login=False)


async def test_what_is_rendered_is_what_the_controller_writes(team: Team) -> None:
    data = {name: base64.b64encode(text.encode()).decode() for name, text in DATA.items()}
    await team.deployment("web")
    await team.deployment("job", labels={"tier": "back"})
    await team.create(SECRETS, "login", data=data)
    await team.create(DATABASES, "db", spec={})
    status = {"status": {"binding": {"name": "login"}}}
    await team.patch(DATABASES, "db", status, subresource="status")
    service: JSON = {"apiVersion": DATABASES.api_version, "kind": "Database", "name": "db"}
    web: JSON = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    await team.create(
        SERVICEBINDINGS,
        "one",
        spec={
            "type": "mysql",
            "service": service,
            "workload": web,
            "env": [{"name": "PW", "key": "password"}],
        },
    )
    plain = {"group": DATABASES.group, "version": "v1", "kind": "Database", "name": "db"}
    await team.create(
        COREOS_SERVICEBINDINGS,
        "two",
        spec={
            "services": [plain],
            "application": {
                "group": "apps",
                "version": "v1",
                "resource": "deployments",
                "labelSelector": {"matchLabels": {"tier": "back"}},
            },
        },
    )
    found = [crd(DATABASES)]
    for resource in (DEPLOYMENTS, SECRETS, DATABASES, SERVICEBINDINGS, COREOS_SERVICEBINDINGS):
        listed = await team.admin.list(resource, team.namespace)
        # Items of a list do not say what they are.
        about = {"apiVersion": resource.api_version, "kind": resource.kind}
        found += [{**item.to_dict(), **about} for item in listed.items]
    documents = [Document("cluster", body) for body in found]
    rendering = render(collection(documents, "default"), BindingOptions())
    assert rendering.problems == []

    async with running(team.admin):
        await team.says("one", "Ready", "True", "ApplicationsBound")
        await team.says(
            "two", "Ready", "True", "ApplicationsBound", resource=COREOS_SERVICEBINDINGS
        )
        written = {}
        for resource in (DEPLOYMENTS, SECRETS):
            for item in (await team.admin.list(resource, team.namespace)).items:
                written[resource.kind, item.meta.name] = item.to_dict()
    kinds = [body["kind"] for body in rendering.objects]
    assert kinds == ["Secret", "Deployment", "Deployment"]
    for body in rendering.objects:
        wanted = written[body["kind"], body["metadata"]["name"]]
        for field in ("annotations", "labels", "ownerReferences"):
            assert body["metadata"].get(field) == wanted["metadata"].get(field)
        for volume in pod(wanted).get("volumes", ()) if "spec" in wanted else ():
            # Servers add a mode by default.
            assert volume["secret"].pop("defaultMode") == 0o644
        assert body.get("spec") == wanted.get("spec")
        assert body.get("data") == wanted.get("data")
