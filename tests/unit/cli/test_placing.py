"""The flags of ``fairlead manifests`` that all programs have: how many Pods, how large, where."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.api.meta import JSON
from fairlead.cli import main


SERVE = (
    *("--external-url", "https://bind.example.org"),
    *("--oidc-issuer-url", "https://login.example.org"),
    *("--oidc-issuer-client-id", "fairlead"),
)
PROGRAMS = {
    "binding": (),
    "konnector": (),
    "postgres": (),
    "provider": ("--export", "widgets.example.org"),
    "serve": SERVE,
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["manifests", *arguments])


def documents(program: str, *flags: str) -> list[JSON]:
    result = run(program, *PROGRAMS[program], *flags)
    assert result.exit_code == 0, result.output
    return list(yaml.safe_load_all(result.output))


def deployment(program: str, *flags: str) -> JSON:
    (found,) = (one for one in documents(program, *flags) if one["kind"] == "Deployment")
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_programs_have_what_is_asked_for_their_pods(program: str) -> None:
    found = deployment(
        program,
        *("--replicas", "3", "--priority-class", "system-cluster-critical"),
        *("--cpu-request", "0.1", "--cpu-limit", "2"),
        *("--memory-request", "1Gi", "--memory-limit", "2Gi"),
        *("--toleration", "dedicated=infra:NoSchedule", "--toleration", "spot"),
        *("--topology-spread", "topology.kubernetes.io/zone", "--image-pull-secret", "registry"),
        *("--host-alias", "10.0.0.7=api.example.org,bind.example.org"),
    )
    assert found["spec"]["replicas"] == 3
    pod = found["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "0.1", "memory": "1Gi"},
        "limits": {"cpu": "2", "memory": "2Gi"},
    }
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["hostAliases"] == [
        {"ip": "10.0.0.7", "hostnames": ["api.example.org", "bind.example.org"]}
    ]
    assert pod["tolerations"] == [
        {"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists"},
    ]
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["topologyKey"] == "topology.kubernetes.io/zone"
    assert spread["labelSelector"] == found["spec"]["selector"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_replicas_on_two_nodes_are_what_there_is_unless_said(program: str) -> None:
    found = deployment(program)
    assert found["spec"]["replicas"] == 2
    pod = found["spec"]["template"]["spec"]
    keys = [one["topologyKey"] for one in pod["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname"]
    assert pod["securityContext"]["runAsGroup"] == 65532
    assert "startupProbe" in pod["containers"][0]


@pytest.mark.parametrize("program", PROGRAMS)
def test_labels_are_on_every_object_and_pod_and_never_take_our_own_place(program: str) -> None:
    part = "app.kubernetes.io/part-of"
    found = documents(program, "--label", "team=shop", "--label", f"{part}=theirs")
    plain = documents(program)
    for one, other in zip(found, plain, strict=True):
        own = other["metadata"].get("labels", {})
        theirs = {"team": "shop"} if part in own else {"team": "shop", part: "theirs"}
        assert one["metadata"]["labels"] == own | theirs
    (workload,) = (one for one in found if one["kind"] == "Deployment")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    assert labels["team"] == "shop"
    # What selects Pods can never be changed again.
    assert "team" not in workload["spec"]["selector"]["matchLabels"]
    assert workload["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_none_takes_limits_and_spread_away() -> None:
    found = deployment("konnector", "--memory-limit", "none", "--topology-spread", "none")
    pod = found["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["limits"] == {}
    assert "topologySpreadConstraints" not in pod


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--memory-limit", "2GB"), "--memory-limit: '2GB' is not an amount"),
        (("--host-alias", "api.example.org=10.0.0.7"), "'api.example.org' is not an address"),
        (("--host-alias", "10.0.0.7"), "--host-alias '10.0.0.7': '' is not a host name"),
        (("--cpu-request", "-1"), "--cpu-request: '-1' is not an amount"),
        (("--memory-limit", "64Mi"), "--memory-request 128Mi is above --memory-limit 64Mi"),
        (("--cpu-request", "2", "--cpu-limit", "1500m"), "2 is above --cpu-limit 1500m"),
        (("--toleration", "a=b:Never"), "'Never' is not one of NoSchedule"),
        (("--toleration", "a="), ""),
        (("--toleration", "a b"), "is not KEY[=VALUE][:EFFECT]"),
        (("--toleration", "a:"), "the effect '' is not one of"),
        (("--label", "team"), "is not a label: use KEY=VALUE"),
        (("--label", "team=a b"), "is not a label: a valid label"),
        (("--topology-spread", "a b"), "--topology-spread 'a b' is not a label"),
        (("--replicas", "-1"), "'--replicas'"),
    ],
)
def test_what_no_server_takes_is_refused_by_its_flag(flags: tuple[str, ...], said: str) -> None:
    result = run("konnector", *flags)
    assert result.exit_code == (2 if said else 0)
    assert said in " ".join(result.output.replace("│", " ").split())
