"""The flags of the binding's webhooks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairlead.api.meta import JSON
from fairlead.binding.admission import names
from fairlead.binding.options import SERVICE_ACCOUNTS_ELSEWHERE, BindingOptions
from fairlead.cli.manifests import command as manifests
from fairlead.cli.servicebinding.controllers import command as binding
from fairlead.runtime import Cluster, Manager


LISTENING = ["--webhooks-bind-address", "127.0.0.1:0"]


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
        (["--fail-open", "requester"], "--fail-open needs --webhooks-bind-address"),
        (["--project", "jobs.batch"], "--project needs --webhooks-bind-address"),
        (["--fail-closed", "projector"], "--fail-closed needs --webhooks-bind-address"),
        ([*LISTENING, "--fail-closed", "projector"], "--fail-closed needs --project"),
        ([*LISTENING, "--project", "jobs"], "--project jobs: did you mean jobs.batch?"),
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


def printed(*args: str) -> list[JSON]:
    found = CliRunner().invoke(manifests, ["binding", "--webhooks", *args])
    assert found.exit_code == 0
    return list(yaml.safe_load_all(found.output))


def arguments(documents: list[JSON]) -> list[str]:
    (deployment,) = [one for one in documents if one["kind"] == "Deployment"]
    found: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def test_configurations_have_no_webhooks_until_the_program_registers_them() -> None:
    """API servers would refuse writes for as long as they do not trust the server."""
    found = [one for one in printed() if one["kind"].endswith("WebhookConfiguration")]
    assert len(found) == 2
    assert all({*one} == {"apiVersion", "kind", "metadata"} for one in found)


def test_the_program_is_told_what_it_registers() -> None:
    kinds = ["--project", "jobs.batch", "--project", "pods"]
    documents = printed(*kinds, "--fail-closed", "projector", "--fail-open", "mappings")
    assert {
        *("--project=jobs.batch", "--project=pods"),
        *("--fail-closed=projector", "--fail-open=mappings"),
    } <= {*arguments(documents)}
    (role,) = [one for one in documents if one["metadata"]["name"] == "fairlead-binding-projected"]
    assert {verb for one in role["rules"] for verb in one["verbs"]} == {
        *("get", "list", "watch", "update", "patch")
    }
    assert {name for one in role["rules"] for name in one["resources"]} == {"jobs", "pods"}


def test_without_the_projector_nothing_is_named_for_it() -> None:
    text = yaml.safe_dump(printed())
    assert "--project" not in text
    assert "fairlead-binding-projected" not in text


@pytest.mark.parametrize(
    ("args", "allowed", "by_proof"),
    [
        ([], False, False),
        (["--cross-namespace", "true"], True, False),
        (LISTENING, False, False),
        ([*LISTENING, "--cross-namespace", "requester"], False, True),
        ([*LISTENING, "--cross-namespace", "True"], True, False),
        ([*LISTENING, "--cross-namespace", "false"], False, False),
    ],
)
def test_services_of_other_namespaces_are_allowed_by_a_value_alone(
    args: list[str], allowed: bool, by_proof: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options_of(args, monkeypatch)
    key = ("own", names.KEY_SECRET) if by_proof else None
    assert (options.cross_namespace, options.requester_key) == (allowed, key)


def options_of(args: list[str], monkeypatch: pytest.MonkeyPatch) -> BindingOptions:
    """The options with which the program would run."""
    found: list[BindingOptions] = []

    async def build(manager: Manager, cluster: Cluster, options: Any, webhooks: Any) -> None:
        found.append(options)

    def run_program(name: str, namespace: str, run: Any, install: Any, build: Any) -> None:
        asyncio.run(build(None, None))

    monkeypatch.setattr("fairlead.binding.app.build", build)
    monkeypatch.setattr("fairlead.cli.servicebinding.controllers.run_program", run_program)
    assert CliRunner().invoke(binding, ["run", *args, "--namespace", "own"]).exit_code == 0
    (options,) = found
    return options


DENIED = "--cross-namespace-denied-requesters"
BY_PROOF = ["--cross-namespace", "requester"]


@pytest.mark.parametrize(
    ("args", "denied"),
    [
        ([], (SERVICE_ACCOUNTS_ELSEWHERE,)),
        ([DENIED, "none"], ()),
        ([DENIED, "deployer", DENIED, "ci:*"], ("deployer", "ci:*")),
    ],
)
def test_denied_requesters_replace_the_default(
    args: list[str], denied: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = options_of([*LISTENING, *BY_PROOF, *args], monkeypatch)
    assert found.denied_requesters == denied


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--cross-namespace"], "requires an argument"),
        (["--cross-namespace", "yes"], "'false', 'requester', 'true'"),
        (BY_PROOF, "--cross-namespace requester needs --webhooks-bind-address"),
        ([*LISTENING, DENIED, "ci"], f"{DENIED} needs --cross-namespace requester"),
        ([*LISTENING, *BY_PROOF, DENIED, " "], f"{DENIED} is empty"),
        (
            [*LISTENING, *BY_PROOF, DENIED, "none", DENIED, "ci"],
            f"{DENIED} none denies no requester",
        ),
    ],
)
def test_values_that_say_nothing_are_refused(args: list[str], told: str) -> None:
    found = CliRunner().invoke(binding, ["run", *args])
    assert found.exit_code == 2
    assert told in " ".join(found.output.split())


def test_manifests_take_what_the_program_takes() -> None:
    assert not [one for one in arguments(printed()) if "cross-namespace" in one]
    found = arguments(printed(*BY_PROOF, DENIED, "ci:*"))
    assert {"--cross-namespace=requester", f"{DENIED}=ci:*"} <= {*found}
    for args, told in (
        (["binding", *BY_PROOF], "--cross-namespace requester needs --webhooks"),
        (["binding", "--webhooks", DENIED, "ci"], f"{DENIED} needs --cross-namespace requester"),
        (
            ["konnector", "--cross-namespace-denied-requesters", "a"],
            "--cross-namespace-denied-requesters is for binding only",
        ),
    ):
        refused = CliRunner().invoke(manifests, args)
        assert refused.exit_code == 2
        assert told in " ".join(refused.output.split())


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
