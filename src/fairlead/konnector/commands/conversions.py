"""A consumer's decisions about conversion webhooks: to accept one, and to remove one again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import msgspec

from fairlead.api.addresses import Network
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    BOUNDSCHEMAS,
    APIServiceBinding,
    BoundSchema,
    ConversionWebhook,
    GroupResource,
    crd_name,
)
from fairlead.api.meta import Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client, Conflict
from fairlead.client.lookups import (
    WaitTimeout,
    find,
    find_custom,
    list_all,
    unknown,
    wait_for,
)
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.conversions import (
    ACCEPT_FLAG,
    NETWORKS_FLAG,
    accepted_webhooks,
    consequences,
    installed_webhook,
    named_webhook,
    refused_webhook,
    shown_url,
    webhook,
    without_webhook,
)
from fairlead.konnector.statuses import with_status


KONNECTOR_SECONDS = 5.0
"""Seconds within which a konnector at work takes off a webhook that was withdrawn."""
_ATTEMPTS = 10
"""Largest number of attempts to write an object that others change at the same time."""


class AcceptedWebhooks(msgspec.Struct, frozen=True):
    """URLs of webhooks that a person accepts, and the private networks in which they may be."""

    urls: Sequence[str] = ()
    networks: Sequence[Network] = ()


async def check_webhooks(
    client: Client,
    provider: Client,
    binding: Object | None,
    resources: Iterable[GroupResource],
    accepted: AcceptedWebhooks,
    progress: Progress,
) -> list[ConversionWebhook]:
    """Return the accepted webhooks of the provider's schemas that a binding has no record of.

    Args:
        client: a client of the consumer's cluster.
        provider: a client of the provider's.
        binding: the binding, None while there is none.
        resources: the bound kinds.
        accepted: what the person has accepted.
        progress: called with a line about each webhook.

    Raises:
        BindError: a kind that is not bound yet has a webhook that is not accepted.
        ClientError: a server refused or cannot be reached.
    """
    webhooks: list[ConversionWebhook] = []
    open_: list[ConversionWebhook] = []
    recorded = None if binding is None else await _recorded(client, binding)
    for item in resources:
        schema = await find(provider, BOUNDSCHEMAS, item.name, provider.config.namespace)
        url = named_webhook(schema.decode(BoundSchema).spec) if schema is not None else ""
        if not url:
            continue
        named = webhook(item, url)
        if url in accepted.urls:
            webhooks.append(named)
        elif named not in (recorded or ()):
            open_.append(named)
    for named in webhooks:
        progress(consequences(named, named.url))
    for named in open_:
        line = (
            f"{consequences(named, named.url)}. To agree, give {ACCEPT_FLAG} "
            f"{shown_url(named.url)}"
        )
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, crd_name(named.resource, named.group))
        if binding is None or crd is None:
            raise BindError(line)
        progress(line)
    return webhooks


def check_accepted(accepted: AcceptedWebhooks, named: Iterable[ConversionWebhook]) -> None:
    """Raise unless each accepted webhook can be, and is one that the provider names.

    Raises:
        BindError: one is not; the message names it.
    """
    urls = {webhook_.url for webhook_ in named}
    for url in accepted.urls:
        if why := refused_webhook(url, accepted.networks):
            allow = f": {NETWORKS_FLAG} allows its network" if "private" in why else ""
            raise BindError(f"{ACCEPT_FLAG} {shown_url(url)} cannot be accepted: {why}{allow}")
        _check_named(url, urls)


async def record_webhooks(
    client: Client, name: str, accepted: Sequence[ConversionWebhook], progress: Progress
) -> None:
    """Record accepted webhooks on a binding; without any, nothing is written.

    Raises:
        BindError: the binding is gone, or its CRD has no place for the record.
        ClientError: the server refused or cannot be reached.
    """
    if not accepted:
        return

    def added(recorded: list[ConversionWebhook]) -> list[ConversionWebhook]:
        return recorded + [one for one in accepted if one not in recorded]

    await _record(client, name, added)
    for webhook_ in accepted:
        progress(f"accepted webhook {shown_url(webhook_.url)} for {webhook_.name}")


async def remove_webhooks(
    client: Client, name: str, urls: Sequence[str], progress: Progress = lambda _line: None
) -> None:
    """Withdraw the acceptance of webhooks, and take them off the binding's CRDs.

    A konnector at work does that, for it must know before that objects lack their conversion. If
    it has not within :data:`KONNECTOR_SECONDS`, as without the provider, it is done here.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        name: the binding's name.
        urls: the URLs.
        progress: called with each step.

    Raises:
        BindError: there is no such binding, or it has accepted no such webhook.
        ClientError: the server refused or cannot be reached.
    """
    binding = await find_custom(client, APISERVICEBINDINGS, name)
    if binding is None:
        names = [one.meta.name for one in await list_all(client, APISERVICEBINDINGS)]
        raise BindError(unknown(APISERVICEBINDINGS.kind, name, names))
    recorded = await _recorded(client, binding)
    for url in urls:
        _check_named(url, {one.url for one in recorded}, "the accepted ones are")
    # Before the CRDs: a konnector would install again what counts as accepted.
    await _record(client, name, lambda recorded: [one for one in recorded if one.url not in urls])
    for item in binding.decode(APIServiceBinding).status.bound_schemas:
        await _take_off(client, binding, crd_name(item.resource, item.group), urls, progress)


async def _take_off(
    client: Client, binding: Object, name: str, urls: Sequence[str], progress: Progress
) -> None:
    def there(crd: Object | None) -> str:
        return "webhook" if crd is not None and installed_webhook(crd) in urls else ""

    with suppress(WaitTimeout):
        await wait_for(
            client, CUSTOMRESOURCEDEFINITIONS, name, until=there, timeout=KONNECTOR_SECONDS
        )
    for _ in range(_ATTEMPTS):
        crd = await find(client, CUSTOMRESOURCEDEFINITIONS, name)
        if crd is None or not crd.meta.owned_by(binding.meta.uid):
            return
        url = installed_webhook(crd)
        if url not in urls:
            progress(f"CustomResourceDefinition {name} no longer has this webhook")
            return
        try:
            await client.update(CUSTOMRESOURCEDEFINITIONS, without_webhook(crd))
        except Conflict:
            continue
        progress(f"removed webhook {shown_url(url)} from CustomResourceDefinition {name}")
        return
    raise BindError(f"CustomResourceDefinition {name} keeps changing: try again")


async def _record(
    client: Client,
    name: str,
    change: Callable[[list[ConversionWebhook]], list[ConversionWebhook]],
) -> None:
    for _ in range(_ATTEMPTS):
        binding = await find(client, APISERVICEBINDINGS, name)
        if binding is None:
            raise BindError(f"APIServiceBinding {name} is gone")
        status = binding.decode(APIServiceBinding).status
        webhooks = change(await _recorded(client, binding))
        new = msgspec.structs.replace(status, conversion_webhooks=webhooks)
        body = with_status(binding, new)
        try:
            written = await client.update(APISERVICEBINDINGS, body, subresource="status")
        except Conflict:
            continue
        if written.decode(APIServiceBinding).status.conversion_webhooks != webhooks:
            raise BindError(
                "CustomResourceDefinition "
                f"{APISERVICEBINDINGS.plural}.{APISERVICEBINDINGS.group} is too old to record "
                "accepted webhooks: start a konnector of this version, which updates it, or "
                "apply the output of `fairlead crds`"
            )
        return
    raise BindError(f"the status of APIServiceBinding {name} keeps changing: try again")


async def _recorded(client: Client, binding: Object) -> list[ConversionWebhook]:
    """Return the accepted webhooks, as the konnector would record them."""
    status = binding.decode(APIServiceBinding).status
    installed: list[ConversionWebhook] = []
    if status.conversion_webhooks is None:
        for item in status.bound_schemas:
            name = crd_name(item.resource, item.group)
            crd = await find(client, CUSTOMRESOURCEDEFINITIONS, name)
            if crd is None or not crd.meta.owned_by(binding.meta.uid):
                continue
            if url := installed_webhook(crd):
                installed.append(webhook(item, url))
    return accepted_webhooks(status, installed)


def _check_named(url: str, named: Iterable[str], who: str = "those of the provider are") -> None:
    names = sorted(named)
    if url in names:
        return
    other = ", ".join(map(shown_url, names)) or "none"
    raise BindError(f"no conversion webhook has URL {shown_url(url)}: {who} {other}")
