"""The rules of the CRDs, and what was stored before there were any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.bindinghooks import coreos, mapping, spec_binding

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.common import EXCLUSIVE, IMMUTABLE
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, crds
from fairlead.cli.crds import _without_rules
from fairlead.client import Client, Invalid, NotFound, parse_kubeconfig
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


@pytest.fixture
async def client(stack: AsyncExitStack) -> AsyncIterator[Client]:
    """A control plane with CEL whose CRDs have no rules yet."""
    sandbox = Sandbox(name="rules")
    await sandbox.start()
    stack.push_async_callback(sandbox.close)
    async with Client(parse_kubeconfig(sandbox.kubeconfig())) as client:
        await install_crds(client, [_without_rules(crd) for crd in crds()])
        yield client


def ready(status: str = "True") -> JSON:
    said = {"type": "Ready", "status": status, "reason": "A", "message": ""}
    return {
        "secret": "",
        "conditions": [{**said, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }


class Stored:
    """An object that was stored before there were rules, with a finalizer."""

    def __init__(self, client: Client, resource: Resource, body: JSON) -> None:
        self.client = client
        self.resource = resource
        self.body = body
        self.name = body["metadata"]["name"]
        self.namespace = "default" if resource.namespaced else ""

    async def create(self, status: JSON | None = None) -> None:
        self.body["metadata"]["finalizers"] = ["example.org/kept"]
        await self.client.create(self.resource, self.body, self.namespace)
        if status is not None:
            await self.patch({"status": status}, subresource="status")

    async def patch(self, patch: JSON, subresource: str = "") -> None:
        await self.client.merge_patch(
            self.resource, self.name, self.namespace, patch, subresource=subresource
        )


def many(binding: JSON) -> JSON:
    entries = [{"name": f"entry-{number}", "value": "x" * 100} for number in range(5000)]
    binding["spec"]["mappings"] = entries
    return binding


OLD = [
    pytest.param(SERVICEBINDINGS, spec_binding("old", both=True), None, id="spec"),
    pytest.param(COREOS_SERVICEBINDINGS, coreos("old", both=True), None, id="coreos"),
    pytest.param(COREOS_SERVICEBINDINGS, coreos("old", both=True), ready(), id="ready"),
    pytest.param(COREOS_SERVICEBINDINGS, many(coreos("old", both=True)), ready(), id="large"),
    pytest.param(CLUSTERWORKLOADRESOURCEMAPPINGS, mapping(""), None, id="mapping"),
]


@pytest.mark.parametrize(("resource", "body", "status"), OLD)
async def test_what_was_stored_before_a_rule_can_always_go(
    client: Client, resource: Resource, body: JSON, status: JSON | None
) -> None:
    old = Stored(client, resource, body)
    await old.create(status)
    await install_crds(client, crds())
    await old.patch({"metadata": {"labels": {"a": "b"}}})
    if resource != CLUSTERWORKLOADRESOURCEMAPPINGS:
        await old.patch({"status": ready("False")}, subresource="status")
        await old.patch({"status": ready("True")}, subresource="status")
    await client.delete(resource, old.name, old.namespace)
    await old.patch({"metadata": {"finalizers": None}})
    with pytest.raises(NotFound):
        await client.get(resource, old.name, old.namespace)


WORKLOAD: JSON = {"selector": {"matchLabels": {"a": "b"}}}
APPLICATION: JSON = {"labelSelector": {"matchLabels": {"a": "b"}}}
BLANK: JSON = {"versions": [{"version": "*"}, {"version": ""}]}


@pytest.mark.parametrize(
    ("resource", "body", "status", "change", "text"),
    [
        pytest.param(
            SERVICEBINDINGS,
            spec_binding("b"),
            None,
            {"workload": WORKLOAD},
            EXCLUSIVE,
            id="both",
        ),
        pytest.param(
            SERVICEBINDINGS,
            spec_binding("b"),
            None,
            {"workload": {**WORKLOAD, "name": None}},
            "",
            id="another way",
        ),
        pytest.param(
            SERVICEBINDINGS,
            spec_binding("b"),
            ready(),
            {"workload": {"name": "other"}},
            "",
            id="ready, of the specification",
        ),
        pytest.param(
            COREOS_SERVICEBINDINGS,
            coreos("b"),
            None,
            {"application": APPLICATION},
            EXCLUSIVE,
            id="both of coreos",
        ),
        pytest.param(
            COREOS_SERVICEBINDINGS,
            coreos("b"),
            None,
            {"application": {**APPLICATION, "name": ""}},
            "",
            id="another way of coreos",
        ),
        pytest.param(
            COREOS_SERVICEBINDINGS,
            coreos("b"),
            ready(),
            {"bindAsFiles": False},
            IMMUTABLE,
            id="ready",
        ),
        pytest.param(
            COREOS_SERVICEBINDINGS, coreos("b"), ready(), {"bindAsFiles": True}, "", id="the same"
        ),
        pytest.param(
            COREOS_SERVICEBINDINGS,
            coreos("b"),
            ready("False"),
            {"bindAsFiles": False},
            "",
            id="not ready",
        ),
        pytest.param(
            CLUSTERWORKLOADRESOURCEMAPPINGS,
            mapping("*"),
            None,
            BLANK,
            "a version is blank: name a version",
            id="blank",
        ),
        pytest.param(
            CLUSTERWORKLOADRESOURCEMAPPINGS,
            mapping("*"),
            None,
            {"versions": [{"version": "v1"}]},
            "",
            id="another version",
        ),
    ],
)
async def test_what_changes_keeps_to_the_rules(
    client: Client, resource: Resource, body: JSON, status: Any, change: JSON, text: str
) -> None:
    await install_crds(client, crds())
    one = Stored(client, resource, body)
    await one.create(status)
    if not text:
        await one.patch({"spec": change})
        return
    with pytest.raises(Invalid) as caught:
        await one.patch({"spec": change})
    assert text in caught.value.message


async def test_what_breaks_a_rule_from_before_can_be_mended_and_changed_elsewhere(
    client: Client,
) -> None:
    old = Stored(client, SERVICEBINDINGS, spec_binding("old", both=True))
    await old.create()
    await install_crds(client, crds())
    await old.patch({"spec": {"type": "mysql"}})
    with pytest.raises(Invalid, match="name and selector MUST NOT be defined"):
        await old.patch({"spec": {"workload": {"name": "other"}}})
    await old.patch({"spec": {"workload": {"selector": None}}})
