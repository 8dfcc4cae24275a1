"""What the chart renders is what ``fairlead manifests`` prints, and what it adds where asked."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.support.helm import CHART, HOOK, MISSING, Helm, by_identity, program

from fairlead.api.meta import JSON
from fairlead.cli import main


pytestmark = [pytest.mark.extended, pytest.mark.skipif(not program("helm"), reason=MISSING)]

ICON = CHART.parents[1] / "src/fairlead/portal/console/static/icon.svg"
RUNNING = ("Deployment", "Job")
PROGRAMS = ("binding", "konnector", "postgres", "provider", "serve")
SERVE: JSON = {
    "externalUrl": "https://bind.example.org",
    "oidc": {"issuerUrl": "https://login.example.org", "clientId": "fairlead"},
}
SERVE_FLAGS = (
    *("--external-url", "https://bind.example.org"),
    *("--oidc-issuer-url", "https://login.example.org"),
    *("--oidc-issuer-client-id", "fairlead"),
)
ALL_FLAGS = (
    *("--replicas", "3", "--priority-class", "high"),
    *("--cpu-request", "1", "--cpu-limit", "2", "--memory-request", "1Gi"),
    *("--memory-limit", "2Gi", "--toleration", "a=b:NoExecute", "--toleration", "c"),
    *("--topology-spread", "zone", "--topology-spread", "rack"),
    *("--image-pull-secret", "one", "--image-pull-secret", "two"),
    *("--label", "team=shop", "--label", "app.kubernetes.io/name=theirs"),
    *("--image", "registry.example.org/f:1", "--namespace", "elsewhere"),
)
ALL_OF_PROGRAM: JSON = {
    "namespace": "elsewhere",
    "replicas": 3,
    "priorityClassName": "high",
    "resources": {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    },
    "tolerations": [
        {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"},
        {"key": "c", "operator": "Exists"},
    ],
    "topologySpread": ["zone", "rack"],
}
ALL: JSON = {
    "image": {"repository": "registry.example.org/f", "tag": "1"},
    "imagePullSecrets": [{"name": "one"}, {"name": "two"}],
    "labels": {"team": "shop", "app.kubernetes.io/name": "theirs"},
}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def printed(name: str, *flags: str) -> dict[tuple[str, str, str], Any]:
    """The objects of the manifests, with what a chart has to add."""
    flags = (*(SERVE_FLAGS if name == "serve" else ()), *flags)
    result = CliRunner().invoke(main, ["manifests", name, *flags])
    assert result.exit_code == 0, result.output
    found = list(yaml.safe_load_all(result.output))
    for body in found:
        if body["kind"] == "Namespace":
            body["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    made = by_identity(found)
    if name == "binding" and "--webhooks" not in flags:
        # It is there before the configurations, and after them.
        serving = printed(name, "--webhooks", *flags)
        made |= {key: body for key, body in serving.items() if body["kind"] == "Service"}
    return made


def on(name: str, **more: object) -> JSON:
    """Values with one program on."""
    return {name: {"enabled": True, **(SERVE if name == "serve" else {}), **more}}


def compare(rendered: list[JSON], expected: dict[tuple[str, str, str], Any]) -> None:
    found = by_identity(rendered)
    assert set(found) == set(expected)
    for key, body in expected.items():
        assert found[key] == body, key


@pytest.mark.parametrize("name", PROGRAMS)
def test_by_default_it_is_what_the_manifests_are(helm: Helm, name: str) -> None:
    compare(helm.render(on(name)), printed(name))


@pytest.mark.parametrize(
    ("values", "there"),
    [
        pytest.param({}, False, id="auto"),
        pytest.param({"userRoles": True}, True, id="on"),
        pytest.param({"userRoles": False}, False, id="off"),
    ],
)
def test_an_upgrade_lets_nobody_make_logins_unasked(helm: Helm, values: JSON, there: bool) -> None:
    """A release that has the roles keeps them: helm asks its cluster, and here there is none."""
    rendered = by_identity(helm.render(on("postgres", **values), "--is-upgrade"))
    expected = printed("postgres", *(() if there else ("--no-user-roles",)))
    assert set(rendered) == set(expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_flag_about_pods_has_its_value(helm: Helm, name: str) -> None:
    compare(helm.render({**ALL, **on(name, **ALL_OF_PROGRAM)}), printed(name, *ALL_FLAGS))


@pytest.mark.parametrize(
    ("name", "flags", "values"),
    [
        pytest.param(
            "provider",
            (
                *("--export", "widgets.example.org", "--export", "a.b.c.example.org"),
                *("--claim", "configmaps", "--claim", "secrets", "--invitations"),
            ),
            {
                "exports": ["widgets.example.org", "a.b.c.example.org"],
                "claims": ["configmaps", "secrets"],
                "invitations": True,
            },
            id="provider",
        ),
        pytest.param("postgres", ("--exported",), {"exported": True}, id="postgres"),
        pytest.param(
            "konnector",
            ("--bound-group", "acme.io", "--bound-group", "*"),
            {"boundGroups": ["acme.io", "*"]},
            id="konnector",
        ),
        *(
            pytest.param(
                "konnector",
                ("--protocols", protocol),
                {"protocols": [protocol]},
                id=f"konnector-{protocol}",
            )
            for protocol in ("v1alpha2", "v2")
        ),
        pytest.param(
            "postgres", ("--no-user-roles",), {"userRoles": False}, id="no-rights-of-people"
        ),
        pytest.param("binding", ("--webhooks",), {"webhooks": {"enabled": True}}, id="webhooks"),
        *(
            pytest.param(
                "binding",
                ("--webhooks", "--fail-open", hook, "--namespace", "elsewhere"),
                {"webhooks": {"enabled": True, "failOpen": [hook]}, "namespace": "elsewhere"},
                id=f"fail-open-{hook}",
            )
            for hook in ("requester", "bindings", "mappings")
        ),
        pytest.param(
            "binding",
            (
                *("--webhooks", "--project", "jobs.batch", "--project", "pods"),
                *("--project", "cronjobs.batch", "--project", "runs.tekton.dev"),
            ),
            {
                "webhooks": {
                    "enabled": True,
                    "project": ["jobs.batch", "pods", "cronjobs.batch", "runs.tekton.dev"],
                }
            },
            id="projector",
        ),
        pytest.param(
            "binding",
            ("--webhooks", "--project", "jobs.batch", "--fail-closed", "projector"),
            {"webhooks": {"enabled": True, "project": ["jobs.batch"], "failClosed": True}},
            id="fail-closed",
        ),
        pytest.param(
            "binding",
            (
                *("--webhooks", "--cross-namespace", "requester"),
                *("--cross-namespace-denied-requesters", "ci:*"),
                *("--cross-namespace-denied-requesters", "service-accounts-of-other-namespaces"),
            ),
            {
                "webhooks": {"enabled": True},
                "crossNamespace": "requester",
                "crossNamespaceDeniedRequesters": ["ci:*", "service-accounts-of-other-namespaces"],
            },
            id="cross-namespace-requester",
        ),
        *(
            pytest.param(
                "binding",
                () if value in {False, "false"} else ("--cross-namespace", "true"),
                {"crossNamespace": value},
                id=f"cross-namespace-{value!r}",
            )
            for value in ("false", False, "true", True)
        ),
        pytest.param(
            "serve",
            (
                *("--trusted-proxies", "10.0.0.0/8", "--trusted-proxies", "192.168.0.1"),
                *("--oidc-allowed-group", "platform", "--oidc-allowed-group", "shop"),
                *("--oidc-allowed-user", "ada", "--oidc-username-prefix", "u:"),
                *("--oidc-groups-prefix", "", "--console-admin-group", "platform"),
                *("--oidc-groups-claim", "roles", "--oidc-most-groups", "5000"),
                *("--oidc-subject-claim", "oid"),
            ),
            {
                "trustedProxies": ["10.0.0.0/8", "192.168.0.1"],
                "oidc": {
                    **SERVE["oidc"],
                    "allowedGroups": ["platform", "shop"],
                    "allowedUsers": ["ada"],
                    "usernamePrefix": "u:",
                    "groupsPrefix": "",
                    "subjectClaim": "oid",
                    "groupsClaim": "roles",
                    "mostGroups": 5000,
                    "consoleAdminGroups": ["platform"],
                },
            },
            id="serve",
        ),
    ],
)
def test_each_flag_of_one_program_has_its_value(
    helm: Helm, name: str, flags: tuple[str, ...], values: JSON
) -> None:
    compare(helm.render(on(name, **values)), printed(name, *flags))


def test_all_together_have_each_object_once(helm: Helm) -> None:
    values = {key: value for name in PROGRAMS for key, value in on(name).items()}
    expected = {key: body for name in PROGRAMS for key, body in printed(name).items()}
    compare(helm.render(values), expected)


def test_a_namespace_is_made_once_and_the_releases_own_not_at_all(helm: Helm) -> None:
    values = {**on("konnector", namespace="apart"), **on("binding", namespace="apart")}

    def namespaces(*flags: str, **more: object) -> list[str]:
        found = helm.render({**values, **more}, *flags)
        return [one["metadata"]["name"] for one in found if one["kind"] == "Namespace"]

    assert namespaces() == ["apart"]
    assert namespaces(namespaces={"create": False}) == []
    found = helm.render(values, namespace="apart")
    assert not [one for one in found if one["kind"] == "Namespace"]


def test_an_account_that_exists_gets_the_rights(helm: Helm) -> None:
    values = on("konnector", serviceAccount={"create": False, "name": "theirs"})
    found = helm.render(values)
    assert not [one for one in found if one["kind"] == "ServiceAccount"]
    names = {subject["name"] for one in found for subject in one.get("subjects", [])}
    assert names == {"theirs"}
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


def test_what_a_pod_may_be_given_besides(helm: Helm) -> None:
    values = {
        "ca": {"configMap": "cas", "key": "all.pem"},
        "crds": {"install": False},
        "image": {"digest": f"sha256:{'0' * 64}"},
        **on(
            "konnector",
            extraArgs=["--workers=64"],
            extraEnv=[{"name": "A", "value": "b"}],
            extraVolumes=[{"name": "v", "emptyDir": {}}],
            extraVolumeMounts=[{"name": "v", "mountPath": "/v"}],
            podAnnotations={"a": "b"},
            nodeSelector={"disk": "ssd"},
            startupProbe=None,
        ),
    }
    (deployment,) = (one for one in helm.render(values) if one["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    pod, (container,) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["annotations"] == {"a": "b"}
    assert container["args"][-2:] == ["--install-crds=false", "--workers=64"]
    assert container["env"] == [
        {"name": "SSL_CERT_FILE", "value": "/etc/fairlead/ca/all.pem"},
        {"name": "A", "value": "b"},
    ]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts == {"tmp": "/tmp", "ca": "/etc/fairlead/ca", "v": "/v"}
    assert {one["name"] for one in pod["volumes"]} == set(mounts)
    assert container["image"] == f"fairlead@sha256:{'0' * 64}"
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert "startupProbe" not in container


def test_policies_budgets_and_monitors_are_there_when_they_are_asked_for(helm: Helm) -> None:
    values = yaml.safe_load((CHART / "ci" / "production.yaml").read_text())
    found = by_identity(helm.render(values))
    plain = {key: body for name in PROGRAMS for key, body in printed(name).items()}
    kinds: dict[str, int] = {}
    for kind, _, _ in set(found) - set(plain):
        kinds[kind] = kinds.get(kind, 0) + 1
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        assert kinds.pop(kind) == len(PROGRAMS)
    # The hook's Jobs have one of their own.
    assert kinds.pop("NetworkPolicy") == 2 * len(PROGRAMS)
    assert kinds.pop("PrometheusRule", 0) == len(list((CHART / "files").glob("alerts/*.yaml")))
    assert "ServiceMonitor" not in kinds
    for body in found.values():
        assert body["metadata"]["labels"]["team"] == "platform", body["metadata"]["name"]


def test_a_service_monitor_brings_a_service_that_it_finds(helm: Helm) -> None:
    monitoring = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
    found = by_identity(helm.render({"monitoring": monitoring, **on("serve")}))
    key = ("fairlead-serve", "fairlead-serve")
    monitor = found["ServiceMonitor", *key]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [
        name
        for (kind, _, name), body in found.items()
        if kind == "Service" and selected <= body["metadata"]["labels"].items()
    ]
    assert services == ["fairlead-serve-metrics"]
    service = found["Service", "fairlead-serve", "fairlead-serve-metrics"]["spec"]
    deployment = found["Deployment", *key]["spec"]["template"]
    assert service["selector"].items() <= deployment["metadata"]["labels"].items()
    (port,) = service["ports"]
    ports = {one["name"] for one in deployment["spec"]["containers"][0]["ports"]}
    assert port["targetPort"] in ports


def test_egress_goes_where_it_is_said_to(helm: Helm) -> None:
    values = {
        "networkPolicy": {"enabled": True, "apiServers": {"cidrs": ["10.0.0.0/8"]}},
        **on("konnector"),
        **on("postgres", networkPolicy={"databaseCidrs": ["10.1.0.0/16"]}),
    }
    rules = {
        one["metadata"]["name"]: [
            (
                sorted({port["port"] for port in rule["ports"]}),
                [peer["ipBlock"]["cidr"] for peer in rule.get("to", [])],
            )
            for rule in one["spec"]["egress"]
        ]
        for one in helm.render(values)
        if one["kind"] == "NetworkPolicy"
    }
    common = [([53], []), ([443, 6443], ["10.0.0.0/8"])]
    assert rules == {
        "konnector": common,
        "konnector-uninstall": common,
        "fairlead-postgres": [*common, ([5432], ["10.1.0.0/16"])],
        "fairlead-postgres-uninstall": common,
    }


def test_no_ports_are_no_rule_and_not_all_ports(helm: Helm) -> None:
    values = {
        "networkPolicy": {"enabled": True, "apiServers": {"ports": []}, "dns": {"ports": []}},
        **on("postgres", networkPolicy={"databasePorts": []}),
        **on("serve", networkPolicy={"egressPorts": []}),
    }
    policies = [one for one in helm.render(values) if one["kind"] == "NetworkPolicy"]
    assert len(policies) == 4
    for one in policies:
        assert "Egress" in one["spec"]["policyTypes"]
        assert not one["spec"].get("egress")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "no program is on: turn one on, such as --set konnector.enabled=true"),
        (on("konnector", replica=1), "replica"),
        ({"konector": {}}, "konector"),
        (on("provider", exports=["widgets"]), "exports"),
        (on("provider", claims=["pods"]), "claims"),
        (on("konnector", resources={"limits": {"memory": "2GB"}}), "memory"),
        ({"serve": {"enabled": True}}, "is missing: the front door needs it"),
        (on("serve", externalUrl="http://bind.example.org"), "externalUrl"),
        (on("serve", namespace="fairlead-provider"), "has ServiceAccounts of other programs"),
        (on("serve", namespace="kube-system"), "has ServiceAccounts of other programs"),
        (
            on("serve", oidc={**SERVE["oidc"], "groupsPrefix": "", "allowedGroups": ["system:m"]}),
            "is a name that Kubernetes reserves: remove it",
        ),
        (
            on("konnector", serviceAccount={"create": False}),
            "set konnector.serviceAccount.name",
        ),
        (on("binding", webhooks={"project": ["pods"]}), "needs binding.webhooks.enabled"),
        (on("binding", webhooks={"enabled": True, "failClosed": True}), "webhooks.project"),
        (on("binding", crossNamespace="requester"), "requester needs binding.webhooks.enabled"),
        (on("binding", crossNamespace="yes"), "crossNamespace"),
        (
            on("binding", crossNamespace=True, crossNamespaceDeniedRequesters=["ci"]),
            "needs binding.crossNamespace requester",
        ),
        ({"ca": {"configMap": "a", "secret": "b"}, **on("konnector")}, "keep one of them"),
        (
            {
                "monitoring": {
                    "podMonitor": {"enabled": True},
                    "serviceMonitor": {"enabled": True},
                },
                **on("konnector"),
            },
            "would have all metrics twice",
        ),
    ],
)
def test_values_that_cannot_be_used_are_said(helm: Helm, values: JSON, said: str) -> None:
    assert said in helm.refuses(values)


@pytest.mark.parametrize("file", sorted(one.name for one in (CHART / "ci").iterdir()))
def test_the_hooks_pods_are_as_restricted_as_all(helm: Helm, file: str) -> None:
    values = yaml.safe_load((CHART / "ci" / file).read_text())
    found = helm.render(values, hooks=True)
    pods = [
        (one["kind"], one["metadata"]["name"], one["spec"]["template"]["spec"])
        for one in found
        if one["kind"] in RUNNING
    ]
    pods += [
        (one["kind"], one["metadata"]["name"], one["spec"])
        for one in found
        if one["kind"] == "Pod"
    ]
    on_ = [name for name in PROGRAMS if values.get(name, {}).get("enabled")]
    assert len(pods) == 3 * len(on_)
    for _, name, pod in pods:
        context = pod["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"]


def test_the_hooks_rights_have_no_wildcard(helm: Helm) -> None:
    values = {key: value for name in PROGRAMS for key, value in on(name).items()}
    roles = [one for one in helm.render(values, hooks=True) if "rules" in one]
    for role in roles:
        for rule in role["rules"]:
            words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert not {"*", "escalate", "bind", "impersonate"} & set(words), role["metadata"]


def test_a_cluster_may_choose_the_uid(helm: Helm) -> None:
    """The uids of a namespace of OpenShift have ten digits."""
    for value, uid in ((None, None), ("", None), (1000650000, 1000650000)):
        found = helm.render({**on("konnector"), "runAsUser": value}, hooks=True)
        pods = [one["spec"]["template"]["spec"] for one in found if one["kind"] in RUNNING]
        assert len(pods) == len(RUNNING)
        for pod in pods:
            context = pod["securityContext"]
            assert context["runAsNonRoot"] is True
            assert (context.get("runAsUser"), context.get("runAsGroup")) == (uid, uid)
    assert "runAsUser" in helm.refuses({**on("konnector"), "runAsUser": 0})


def hook_job(helm: Helm, **values: object) -> JSON:
    found = helm.render({**on("konnector"), **values}, hooks=True)
    (job,) = (one for one in found if one["kind"] == "Job")
    return job


def test_the_hooks_job_ends_and_goes(helm: Helm) -> None:
    spec = hook_job(helm)["spec"]
    assert spec["backoffLimit"] == 0
    # Helm waits for five minutes, and the Job's failure names the cause where a timeout does not.
    assert spec["activeDeadlineSeconds"] < 300
    assert spec["ttlSecondsAfterFinished"] == 86400
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_injectors_leave_the_hooks_pod_alone(helm: Helm) -> None:
    metadata = hook_job(helm)["spec"]["template"]["metadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    for annotation, text in (
        ("sidecar.istio.io/inject", "false"),
        ("linkerd.io/inject", "disabled"),
        ("kuma.io/sidecar-injection", "disabled"),
        ("consul.hashicorp.com/connect-inject", "false"),
        ("vault.hashicorp.com/agent-inject", "false"),
    ):
        assert metadata["annotations"][annotation] == text


def test_the_hooks_pod_has_the_marks_that_a_cluster_asks_for(helm: Helm) -> None:
    """A policy may refuse Pods without a label, and an injector have a mark of its own."""
    metadata = hook_job(
        helm,
        labels={"team": "shop", "app.kubernetes.io/name": "theirs"},
        uninstall={
            "podLabels": {"sidecar.istio.io/inject": "true", "app.kubernetes.io/name": "theirs"},
            "podAnnotations": {"example.org/inject": "no", "linkerd.io/inject": "ingress"},
        },
    )["spec"]["template"]["metadata"]
    labels, annotations = metadata["labels"], metadata["annotations"]
    assert labels["team"] == "shop"
    assert labels["sidecar.istio.io/inject"] == "true"
    # The NetworkPolicy of the hook selects it.
    assert labels["app.kubernetes.io/name"] == "konnector-uninstall"
    assert annotations["example.org/inject"] == "no"
    assert annotations["linkerd.io/inject"] == "ingress"
    assert annotations["sidecar.istio.io/inject"] == "false"


@pytest.mark.parametrize(
    ("version", "fits"),
    [("1.19.16", False), ("1.20.0", True), ("1.20.0-eks-1", True), ("1.37.2", True)],
)
def test_clusters_from_1_20_on_are_served(helm: Helm, version: str, fits: bool) -> None:
    if fits:
        assert helm.render(on("konnector"), "--kube-version", version)
    else:
        assert "1.20.0" in helm.refuses(on("konnector"), "--kube-version", version)


def test_the_notes_say_where_the_image_comes_from(tmp_path: Path) -> None:
    # Helm 3 prints the notes where it reaches a cluster alone.
    helm = Helm(tmp_path, name="helm4")
    provider = on("provider")
    assert "has no registry" in helm.notes(provider)
    notes = helm.notes({**provider, "image": {"repository": "registry.example.org/fairlead"}})
    assert "from the image registry.example.org/fairlead:" in notes
    assert "has no registry" not in notes
    assert "--reset-then-reuse-values" in notes
    assert "--reuse-values" not in notes


@pytest.mark.parametrize("name", PROGRAMS)
def test_helm_test_asks_the_programs_own_health_port(helm: Helm, name: str) -> None:
    found = helm.render({**on(name), "labels": {"team": "shop"}}, hooks=True)
    (deployment,) = (one for one in found if one["kind"] == "Deployment")
    tests = [one for one in found if one["metadata"].get("annotations", {}).get(HOOK) == "test"]
    service, pod = tests
    assert (service["kind"], pod["kind"]) == ("Service", "Pod")
    # A Pod takes its own name for itself.
    assert service["metadata"]["name"] != pod["metadata"]["name"]
    assert service["metadata"]["namespace"] == pod["metadata"]["namespace"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    (container,) = pod["spec"]["containers"]
    assert container["args"][:2] == [
        "ready",
        f"http://{service['metadata']['name']}:{port['port']}/readyz",
    ]
    (serving,) = deployment["spec"]["template"]["spec"]["containers"]
    ports = {one["name"]: one["containerPort"] for one in serving["ports"]}
    assert ports[port["targetPort"]] == port["port"]
    assert container["image"] == serving["image"]
    # Without a token it has no right at all.
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["metadata"]["labels"]["team"] == "shop"


def test_the_pod_of_helm_test_reaches_its_program_alone(helm: Helm) -> None:
    found = helm.render({"networkPolicy": {"enabled": True}, **on("konnector")}, hooks=True)
    bodies = {(one["kind"], one["metadata"]["name"]): one for one in found}
    spec = bodies["NetworkPolicy", "konnector-test"]["spec"]
    pod = bodies["Pod", "konnector-test"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= pod.items()
    *_, rule = spec["egress"]
    (peer,), (port,) = rule["to"], rule["ports"]
    labels = bodies["Deployment", "konnector"]["spec"]["template"]["metadata"]["labels"]
    assert peer["podSelector"]["matchLabels"].items() <= labels.items()
    assert port["port"] == 8081
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in spec


def test_helm_show_prints_a_readme_and_our_icon(helm: Helm) -> None:
    readme = helm.run("show", "readme", str(CHART)).out
    assert "helm test" in readme
    assert "--reset-then-reuse-values" in readme
    icon = yaml.safe_load(helm.run("show", "chart", str(CHART)).out)["icon"]
    kind, _, content = icon.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(content) == ICON.read_bytes()
    assert "[ERROR]" not in helm.run("lint", str(CHART), values=on("konnector")).out


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_logs_at_the_level_of_its_value(helm: Helm, name: str) -> None:
    (deployment,) = (
        one for one in helm.render(on(name, logLevel="warning")) if one["kind"] == "Deployment"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--log-level=warning" in container["args"]
    assert "logLevel" in helm.refuses(on(name, logLevel="loud"))


@pytest.mark.parametrize("base", ["", "https://forge.example.org/fairlead/main"])
def test_alerts_lead_to_the_pages_of_a_base_address(helm: Helm, base: str) -> None:
    rule = {"enabled": True, "runbookBaseUrl": base and f"{base}/"}
    found = helm.render({"monitoring": {"prometheusRule": rule}, **on("konnector")})
    urls = [
        (alert["alert"], alert["annotations"]["runbook_url"])
        for body in found
        if body["kind"] == "PrometheusRule"
        for group in body["spec"]["groups"]
        for alert in group["rules"]
    ]
    assert urls
    for alert, url in urls:
        assert url == f"{base}{base and '/'}docs/runbooks/{alert}.md"
