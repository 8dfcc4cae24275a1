"""Konnectors that are not Fairlead's, as a provider sees them: by what they write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.support.consumers import Consumer, consumer
from tests.support.planes import ControlPlane
from tests.support.provider import prepare, running
from tests.support.waiting import SECONDS, when

from fairlead.api.kubebind import CLUSTERBINDINGS, kubeconfig_digest
from fairlead.api.meta import JSON
from fairlead.api.resource import CLUSTERROLEBINDINGS, SECRETS, SERVICEACCOUNTS
from fairlead.api.timestamps import now
from fairlead.client import Client, parse_kubeconfig
from fairlead.provider.commands.consumers import find_consumer
from fairlead.provider.commands.overview import ConsumerRow, consumers
from fairlead.provider.commands.rotation.work import RotateError, rotate
from fairlead.provider.credentials import stored_kubeconfig
from fairlead.provider.options import InviteOptions, ProviderOptions
from fairlead.provider.tokens import token_secrets


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    async with Client(parse_kubeconfig(control_plane.kubeconfig())) as client:
        await prepare(client, exports=["widgets.example.org"])
        yield client


async def beat(team: Consumer, *, manager: str, version: str, **more: Any) -> None:
    """A heartbeat as a konnector of this program's name gives it."""
    status: JSON = {"lastHeartbeatTime": now(), "heartbeatInterval": "5m0s", **more}
    status["konnectorVersion"] = version
    async with Client(team.client.config, field_manager=manager) as konnector:
        await konnector.merge_patch(
            CLUSTERBINDINGS, "cluster", team.namespace, {"status": status}, subresource="status"
        )


async def row(admin: Client, team: Consumer) -> ConsumerRow:
    (found,) = [one for one in await consumers(admin) if one.namespace == team.namespace]
    return found


OURS: Any = {
    "manager": "kube-bind.io",
    "version": "v0.1.0",
    "conditions": [
        {
            "type": "CredentialsInUse",
            "status": "True",
            "reason": "Current",
            "message": kubeconfig_digest(b""),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


async def test_whoever_gave_the_last_heartbeat_is_the_konnector(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        assert not (await row(admin, team)).original_konnector
        await beat(team, **OURS)
        assert not (await row(admin, team)).original_konnector
        # It leaves the condition of ours as it was, and the time is another one.
        await beat(team, manager="konnector", version="v0.8.1", lastHeartbeatTime=BEFORE)
        found = await row(admin, team)
        assert (found.original_konnector, found.konnector_version) == (True, "v0.8.1")
        await beat(team, **OURS)
        assert not (await row(admin, team)).original_konnector


@pytest.mark.parametrize("gone", ["ServiceAccount", "token"])
async def test_a_consumer_whose_credentials_are_gone_is_told_before_its_heartbeat_is_missed(
    admin: Client, stack: AsyncExitStack, gone: str
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await beat(team, **OURS)
        assert (await row(admin, team)).reason != "CredentialsRefused"
        account = gone == "ServiceAccount"
        await admin.delete(SERVICEACCOUNTS if account else SECRETS, "kube-binder", team.namespace)
        found = await row(admin, team)
        assert (found.state, found.reason) == ("failed", "CredentialsRefused")
        assert gone in found.message
        assert found.healthy.status == "True"


BEFORE = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("options", "kind", "binding"),
    [
        pytest.param(
            *({"isolation": "Namespaced"}, "widgets.example.org", "kube-binder-resources"),
            id="isolation",
        ),
        pytest.param(
            *({"consumer_scope": "Cluster"}, "secrets.core", "kube-binder-claims"), id="scope"
        ),
    ],
)
async def test_an_original_konnector_that_lacks_rights_is_told_of(
    admin: Client, stack: AsyncExitStack, options: Any, kind: str, binding: str
) -> None:
    with capture_logs() as lines:
        async with running(admin, ProviderOptions(**options)):
            team = await consumer(stack, admin)
            await team.bind()
            await team.granted()
            # Ours was there before, and its condition stays for ever.
            await beat(team, **OURS)
            await beat(team, manager="konnector", version="v0.8.1")
            await beat(team, manager="konnector", version="v0.8.1", lastHeartbeatTime=BEFORE)
            await team.when(
                CLUSTERBINDINGS,
                "cluster",
                until=lambda body: "HeartbeatTimeout" in str(body.get("status")),
            )
            (told,) = (await row(admin, team)).warnings
            assert kind in told
            assert "--original-konnectors" in told
        warned = [line for line in lines if line.get("consumer") == team.namespace]
        assert [line["problem"] for line in warned] == [told]
        assert warned[0]["log_level"] == "warning"
        lines.clear()
        async with running(admin, ProviderOptions(**options, original_konnectors=True)):
            await when(
                admin, CLUSTERROLEBINDINGS, f"{binding}-{team.namespace}.widgets", until=bool
            )
            assert (await row(admin, team)).warnings == []
        assert not [line for line in lines if line.get("consumer") == team.namespace]


async def test_rotating_says_at_once_that_an_original_konnector_never_tells(
    admin: Client, stack: AsyncExitStack
) -> None:
    async with running(admin):
        team = await consumer(stack, admin)
        await beat(team, manager="konnector", version="v0.8.1")
    found = await find_consumer(admin, team.namespace)

    async def turn(*, finish: bool) -> list[str]:
        lines: list[str] = []
        await rotate(
            admin,
            found,
            options=InviteOptions(),
            timeout=10 * SECONDS,
            finish=finish,
            progress=lines.append,
        )
        return lines

    with pytest.raises(RotateError, match=r"v0\.8\.1.* does not report .*--finish"):
        await turn(finish=False)
    async with Client(
        parse_kubeconfig((await stored_kubeconfig(admin, team.namespace)).content)
    ) as new:
        for client in (new, team.client):
            await client.get(CLUSTERBINDINGS, "cluster", team.namespace)
        lines = await turn(finish=True)
        assert "deleted token kube-binder" in lines
        await new.get(CLUSTERBINDINGS, "cluster", team.namespace)
    secrets = await admin.list(SECRETS, team.namespace)
    assert [one.name for one in token_secrets(secrets.items) if one.generation] == [
        "kube-binder-2"
    ]
