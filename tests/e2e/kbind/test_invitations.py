"""Invitations by kbind v2 end to end: one file binds, and no consumer reaches another."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.kbindbound import widget
from tests.support.kbindinvited import Invited
from tests.support.kbindworld import KbindWorld
from tests.support.waiting import when

from fairlead.api.meta import JSON
from fairlead.api.resource import SECRETS
from fairlead.client import Client, Forbidden, parse_kubeconfig


def kubeconfig_of(file: list[JSON]) -> bytes:
    """The kubeconfig in a consumer's file."""
    import base64

    (secret,) = (one for one in file if one["kind"] == "Secret")
    return base64.b64decode(secret["data"]["kubeconfig"])


@pytest.mark.edge
async def test_a_file_alone_binds_and_another_consumers_account_reaches_nothing(
    any_kbind: KbindWorld,
) -> None:
    shop = Invited(any_kbind)
    other = Invited(any_kbind, f"{shop.name}-other")
    await any_kbind.provider.offer(exported=False)
    await shop.invite()
    await other.invite()
    await any_kbind.konnector()
    await shop.apply()
    await shop.bound()
    await shop.create()
    copy = await shop.copied()
    assert copy["spec"] == {"size": 1}
    status = {"status": {"phase": "Ready"}}
    await shop.there.merge_patch(shop.resource, "a", shop.name, status, subresource="status")
    await when(
        shop.here,
        shop.resource,
        "a",
        shop.name,
        until=lambda body: body.get("status") == status["status"],
    )
    async with Client(parse_kubeconfig(kubeconfig_of(other.file))) as theirs:
        await theirs.list(shop.resource, other.name)
        attempts: list[Any] = [
            theirs.get(shop.resource, "a", shop.name),
            theirs.list(shop.resource, shop.name),
            theirs.list(shop.resource),
            theirs.merge_patch(shop.resource, "a", shop.name, {"spec": {"size": 2}}),
            theirs.delete(shop.resource, "a", shop.name),
            theirs.create(shop.resource, widget(shop.resource, "b", shop.name)),
            theirs.list(SECRETS, shop.name),
            theirs.list(SECRETS, other.home),
            theirs.get(SECRETS, "kubeconfig", shop.home),
        ]
        for attempt in attempts:
            with pytest.raises(Forbidden):
                await attempt
