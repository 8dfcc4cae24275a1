"""The flags of the binding's webhooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.api.meta import JSON
from fairlead.binding.admission import names
from fairlead.binding.options import BindingOptions
from fairlead.cli.manifests import command as manifests
from fairlead.cli.servicebinding.controllers import command as binding
from fairlead.runtime import Cluster, Manager


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["konnector", "--webhooks"], "--webhooks is for binding only"),
        (["binding", "--fail-open", "mappings"], "--fail-open needs --webhooks"),
        (["binding", "--webhooks", "--fail-open", "odd"], "'odd' is not one of"),
        (["binding", "--project", "pods"], "--project needs --webhooks"),
        (["binding", "--webhooks", "--fail-closed", "projector"], "needs --project"),
        (["binding", "--webhooks", "--project", "Jobs"], "--project Jobs: name a resource as"),
        (["binding", "--webhooks", "--project", "*.batch"], "--project *.batch: name a resource"),
    ],
)
def test_flags_that_make_no_sense(args: list[str], text: str) -> None:
    found = CliRunner().invoke(manifests, args)
    assert found.exit_code == 2
    assert text in found.output


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["--webhooks-host", "a"], "--webhooks-host needs --webhooks-bind-address"),
        (["--projector"], "--projector needs --webhooks-bind-address"),
        (["--webhooks-bind-address", "odd"], "--webhooks-bind-address: 'odd' is not an address"),
    ],
)
def test_addresses_that_are_none(args: list[str], text: str) -> None:
    found = CliRunner().invoke(binding, ["run", *args])
    assert found.exit_code == 2
    assert text in found.output


def test_webhooks_are_off_unless_asked_for() -> None:
    kinds = [
        document["kind"]
        for document in yaml.safe_load_all(CliRunner().invoke(manifests, ["binding"]).output)
    ]
    assert not [kind for kind in kinds if kind.endswith("WebhookConfiguration")]
    asked = CliRunner().invoke(manifests, ["binding", "--webhooks", "--fail-open", "requester"])
    policies = [
        hook["failurePolicy"]
        for document in yaml.safe_load_all(asked.output)
        for hook in document.get("webhooks") or []
    ]
    assert policies == ["Ignore", "Fail", "Fail", "Fail"]


def printed(*args: str) -> list[JSON]:
    found = CliRunner().invoke(manifests, ["binding", "--webhooks", *args])
    assert found.exit_code == 0
    return list(yaml.safe_load_all(found.output))


def test_the_projector_is_asked_about_what_is_named_and_no_more() -> None:
    kinds = ["--project", "jobs.batch", "--project", "pods", "--project", "cronjobs.batch"]
    documents = printed(*kinds)
    (hook,) = [
        hook
        for document in documents
        for hook in document.get("webhooks") or []
        if hook["name"].startswith("projector.")
    ]
    rules = [(one["apiGroups"], one["resources"], one["operations"]) for one in hook["rules"]]
    assert rules == [
        ([""], ["pods"], ["CREATE"]),
        (["batch"], ["cronjobs", "jobs"], ["CREATE"]),
    ]
    assert (hook["failurePolicy"], hook["sideEffects"]) == ("Ignore", "None")
    assert hook["namespaceSelector"]["matchExpressions"][0]["values"] == [
        "kube-system",
        "fairlead-binding",
    ]
    (role,) = [one for one in documents if one["metadata"]["name"] == "fairlead-binding-projected"]
    assert {verb for one in role["rules"] for verb in one["verbs"]} == {
        *("get", "list", "watch", "update", "patch")
    }
    assert {name for one in role["rules"] for name in one["resources"]} == {
        *("jobs", "pods", "cronjobs")
    }
    assert "--projector" in yaml.safe_dump(
        [one for one in documents if one["kind"] == "Deployment"]
    )


def test_the_projector_fails_closed_when_it_is_asked_to() -> None:
    documents = printed("--project", "pods", "--fail-closed", "projector")
    policies = {
        hook["name"].partition(".")[0]: hook["failurePolicy"]
        for document in documents
        for hook in document.get("webhooks") or []
    }
    assert policies["projector"] == "Fail"


def test_the_requester_is_noted_for_what_other_webhooks_make_of_a_spec() -> None:
    hooks = [hook for document in printed() for hook in document.get("webhooks") or []]
    again = [one["name"] for one in hooks if one.get("reinvocationPolicy") == "IfNeeded"]
    assert again == ["requester.admission.servicebinding.io"]


def test_without_the_projector_nothing_is_said_of_it() -> None:
    text = yaml.safe_dump(printed())
    assert "projector" not in text
    assert "fairlead-binding-projected" not in text


@pytest.mark.parametrize(
    ("args", "allowed", "by_proof"),
    [
        ([], False, False),
        (["--cross-namespace", "true"], True, False),
        (["--webhooks-bind-address", "127.0.0.1:0"], False, True),
        (["--webhooks-bind-address", "127.0.0.1:0", "--cross-namespace", "true"], True, False),
        (["--webhooks-bind-address", "127.0.0.1:0", "--cross-namespace", "false"], False, False),
    ],
)
def test_other_namespaces_are_the_default_where_webhooks_say_who_asks(
    args: list[str], allowed: bool, by_proof: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[BindingOptions] = []

    async def build(manager: Manager, cluster: Cluster, options: Any, webhooks: Any) -> None:
        found.append(options)

    def run_program(name: str, namespace: str, run: Any, install: Any, build: Any) -> None:
        asyncio.run(build(None, None))

    monkeypatch.setattr("fairlead.binding.app.build", build)
    monkeypatch.setattr("fairlead.cli.servicebinding.controllers.run_program", run_program)
    assert CliRunner().invoke(binding, ["run", *args, "--namespace", "own"]).exit_code == 0
    (options,) = found
    key = ("own", names.KEY_SECRET) if by_proof else None
    assert (options.cross_namespace, options.requester_key) == (allowed, key)


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("jobs", "--project jobs: did you mean jobs.batch?"),
        ("deployments", "--project deployments: did you mean deployments.apps?"),
        ("rigs", "--project rigs: the core group has no such workloads"),
    ],
)
def test_a_workload_is_projected_by_its_group_as_well(named: str, told: str) -> None:
    arguments = ["binding", "--webhooks", "--project", named]
    result = CliRunner().invoke(manifests, arguments)
    assert result.exit_code == 2
    assert told in result.stderr
    assert CliRunner().invoke(manifests, [*arguments[:-1], "pods"]).exit_code == 0
