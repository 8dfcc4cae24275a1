"""The flags of the binding's webhooks."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from fairlead.api.meta import JSON
from fairlead.cli.manifests import command as manifests
from fairlead.cli.servicebinding import command as binding


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["konnector", "--webhooks"], "--webhooks belongs to binding alone"),
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
        (["--webhooks-bind-address", "odd"], "--webhooks-bind-address: 'odd' is no address"),
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


def test_without_the_projector_nothing_is_said_of_it() -> None:
    text = yaml.safe_dump(printed())
    assert "projector" not in text
    assert "fairlead-binding-projected" not in text
