"""Advice for a reader who may not change the object that it is about."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairlead.api.links import Link
from fairlead.api.meta import Object
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.reasons.postgres import POSTGRES, is_operators
from fairlead.api.reasons.verdict import UNSEEN
from fairlead.api.resource import Resource
from fairlead.client import Client, ClientError
from fairlead.client.lookups import may


async def advised(
    client: Client, resource: Resource, obj: Object, links: Iterable[Link]
) -> list[Link]:
    """Return the links of an object, with advice on its spec for who may change it.

    Advice on the spec of a PostgresAccess goes to who may update it; others are told to ask them.
    """
    all_links = list(links)
    if resource != POSTGRESACCESSES or not any(map(_is_about_spec, all_links)):
        return all_links
    if await _may_update(client, obj):
        return all_links
    whom = f"ask who may change {obj.kind} {obj.key}"
    return [
        msgspec.structs.replace(link, remedy=f"{whom}: {link.remedy}")
        if _is_about_spec(link)
        else link
        for link in all_links
    ]


def _is_about_spec(link: Link) -> bool:
    if link.state != "failed" or not link.remedy or link.name not in {"service", "role"}:
        return False
    return link.reason in POSTGRES and link.reason != UNSEEN and not is_operators(link.reason)


async def _may_update(client: Client, obj: Object) -> bool:
    """Whether the caller may update an access; True also where the server does not say."""
    try:
        return await may(client, POSTGRESACCESSES, "update", obj.meta.key)
    except ClientError:
        return True
