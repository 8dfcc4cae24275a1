"""The flags of the binding's webhooks."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from fairlead.cli.manifests import command as manifests
from fairlead.cli.servicebinding import command as binding


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["konnector", "--webhooks"], "--webhooks belongs to binding alone"),
        (["binding", "--fail-open", "mappings"], "--fail-open needs --webhooks"),
        (["binding", "--webhooks", "--fail-open", "odd"], "'odd' is not one of"),
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
