"""What ``kubectl get`` shows of a PostgresAccess."""

from __future__ import annotations

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES, crds
from fairlead.client import Client
from fairlead.runtime import install_crds


async def test_an_access_shows_why_it_is_not_ready(client: Client, namespace: str) -> None:
    await install_crds(client, crds())
    body: JSON = {
        "apiVersion": POSTGRESACCESSES.api_version,
        "kind": POSTGRESACCESSES.kind,
        "metadata": {"name": "db", "namespace": namespace},
        "spec": {
            "username": "shop",
            "generatedSecret": "login",
            "connection": {"serverRef": {"name": "main"}},
        },
    }
    await client.create(POSTGRESACCESSES, body)
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "ServerNotFound",
        "message": "there is none",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"status": {"conditions": [condition], "lastReconcileState": "Error"}}
    await client.merge_patch(POSTGRESACCESSES, "db", namespace, status, subresource="status")
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    path = POSTGRESACCESSES.path(namespace)
    table = msgspec.json.decode(await client.request("GET", path, accept=accept))
    names = [column["name"] for column in table["columnDefinitions"]]
    shown = dict(zip(names, table["rows"][0]["cells"], strict=True))
    assert (shown["Status"], shown["Reason"], shown["User"]) == ("Error", "ServerNotFound", "shop")
