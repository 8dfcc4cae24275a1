"""A chart that sets SERVICE_BINDING_ROOT itself, as Helm 4 applies it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.binding import Team, bind, pod, running
from tests.support.helm import MISSING, Helm, program
from tests.support.planes import ControlPlane
from tests.support.waiting import eventually

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS, EVENTS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.client import Client


pytestmark = [
    pytest.mark.extended,
    pytest.mark.skipif(not program("helm4"), reason=MISSING),
]

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
        - name: app
          image: app
          env:
            - {name: MODE, value: fast}
            {{- if .Values.root }}
            - {name: SERVICE_BINDING_ROOT, value: {{ .Values.root }}}
            {{- end }}
"""


def chart(folder: Path) -> str:
    templates = folder / "chart" / "templates"
    templates.mkdir(parents=True)
    (templates / "web.yaml").write_text(WEB)
    (folder / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    (folder / "chart" / "values.yaml").write_text('root: ""\n')
    return str(folder / "chart")


def root(body: JSON) -> str:
    """The binding root of the only container, "" without one."""
    (container,) = pod(body)["containers"]
    values: dict[str, str] = {item["name"]: item["value"] for item in container["env"]}
    assert values["MODE"] == "fast"
    return values.get("SERVICE_BINDING_ROOT", "")


def mounts(body: JSON) -> list[str]:
    (container,) = pod(body)["containers"]
    return [item["mountPath"] for item in container.get("volumeMounts") or []]


async def is_said(team: Team, text: str) -> bool:
    events = await team.admin.list(EVENTS, team.namespace)
    return any(text in str(event.to_dict()["message"]) for event in events.items)


async def test_a_chart_takes_the_root_by_force_and_finds_it_free_after_unbinding(
    team: Team, admin: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    helm = Helm(tmp_path, control_plane.kubeconfig(), "helm4")
    web = ["web", chart(tmp_path), "--namespace", team.namespace]
    await helm.does("install", *web)
    async with running(admin):
        await team.create(SERVICEBINDINGS, "db", spec=bind())
        await team.when(DEPLOYMENTS, "web", lambda body: mounts(body) == ["/bindings/db"])

        refused = await helm.tell("upgrade", *web, "--set", "root=/etc/bound")
        assert refused.code
        assert 'conflict with "fairlead"' in refused.err
        assert "SERVICE_BINDING_ROOT" in refused.err
        await helm.does("upgrade", *web, "--set", "root=/etc/bound", "--force-conflicts")
        await team.when(DEPLOYMENTS, "web", lambda body: mounts(body) == ["/etc/bound/db"])
        await team.says("db", "Ready", "True", "ApplicationsBound")

        # Without the chart's it is the binding's again.
        await helm.does("upgrade", *web, "--set", "root=")
        bound = await team.when(DEPLOYMENTS, "web", lambda body: mounts(body) == ["/bindings/db"])
        assert root(bound) == "/bindings"
        await team.delete(SERVICEBINDINGS, "db")
        await team.when(SERVICEBINDINGS, "db", lambda body: not body)
        free = (await admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
        assert (root(free), mounts(free)) == ("", [])
        # Volume, mount and root went in one write.
        assert free["metadata"]["generation"] == bound["metadata"]["generation"] + 1
        await helm.does("upgrade", *web, "--set", "root=/opt/bound")


async def test_a_root_that_the_chart_sets_too_stays_the_charts(
    team: Team, admin: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    helm = Helm(tmp_path, control_plane.kubeconfig(), "helm4")
    web = ["web", chart(tmp_path), "--namespace", team.namespace]
    await helm.does("install", *web)
    async with running(admin):
        await team.create(SERVICEBINDINGS, "db", spec=bind())
        await team.says("db", "Ready", "True", "ApplicationsBound")
        # The same value is no conflict: both own it from now on.
        await helm.does("upgrade", *web, "--set", "root=/bindings")
        await team.delete(SERVICEBINDINGS, "db")
        await team.when(SERVICEBINDINGS, "db", lambda body: not body)
        left = (await admin.get(DEPLOYMENTS, "web", team.namespace)).to_dict()
        assert (root(left), mounts(left)) == ("/bindings", [])
        text = "which helm sets too: to set another value, use force once"
        await eventually(is_said, team, text)
        await helm.does("upgrade", *web, "--set", "root=/opt/bound", "--force-conflicts")
