"""Conversion webhooks that a provider brings, and what the consumer has accepted of them.

A CustomResourceDefinition with such a webhook has the consumer's API server send objects to an
address that the provider has chosen, and take what comes back for the objects. While it does not
answer, no namespace ends. So none is installed before a person has accepted its URL for this kind:
``status.conversionWebhooks`` of the APIServiceBinding, which no provider can write, is the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_network

import msgspec

from fairlead.api.addresses import Network, refused_address
from fairlead.api.kubebind import (
    APIServiceBinding,
    BindingStatus,
    BoundSchemaSpec,
    ConversionWebhook,
    GroupResource,
    SchemaConversion,
)
from fairlead.api.meta import JSON, Object
from fairlead.konnector.crds import stored_versions, sync_version


MOST_URL = 1024
"""Length of the longest URL that can be accepted, in characters."""
ACCEPT_FLAG = "--conversion-webhook"
REMOVE_FLAG = "--remove-conversion-webhook"
NETWORKS_FLAG = "--conversion-allow-cidr"
_URL = re.compile(
    # As an API server takes it (apiextensions.k8s.io/v1, WebhookClientConfig.url): without user,
    # query and fragment.
    r"https://(?P<host>[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?|\[[0-9A-Fa-f:.]+\])"
    r"(:[0-9]{1,5})?(/[A-Za-z0-9._~!$&'()*+,;=:@/%-]*)?"
)
_EVERY_NETWORK: Sequence[Network] = tuple(map(ip_network, ("0.0.0.0/0", "::/0")))
"""All networks, to see whether a flag could allow an address."""
_NUMERIC = re.compile(r"(.*\.)?(0[xX][0-9A-Fa-f]*|[0-9]+)")
"""A host that resolvers may read as an IPv4 address: its last label is a number."""


class _ClientConfig(msgspec.Struct, frozen=True):
    url: str = ""


class _Webhook(msgspec.Struct, rename="camel", frozen=True):
    client_config: _ClientConfig = _ClientConfig()


class _Conversion(msgspec.Struct, frozen=True):
    strategy: str = "None"
    webhook: _Webhook | None = None


class _Spec(msgspec.Struct, frozen=True):
    conversion: _Conversion | None = None


class _CRD(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def named_webhook(schema: BoundSchemaSpec) -> str:
    """Return the URL of the webhook that a provider's schema names, "" without one."""
    return _url(schema.conversion)


def installed_webhook(crd: Object) -> str:
    """Return the URL of the webhook of a CRD, "" without one."""
    return _url(crd.decode(_CRD).spec.conversion)


def _url(conversion: SchemaConversion | _Conversion | None) -> str:
    if conversion is None or conversion.strategy != "Webhook" or conversion.webhook is None:
        return ""
    return conversion.webhook.client_config.url


def without_webhook(crd: Object) -> JSON:
    """Return the body of a CRD that converts by the strategy None; all else is as it was."""
    body = crd.to_dict()
    return {**body, "spec": {**body["spec"], "conversion": {"strategy": "None"}}}


def webhook(item: GroupResource, url: str) -> ConversionWebhook:
    """Return the record of a kind's webhook."""
    return ConversionWebhook(group=item.group, resource=item.resource, url=url)


def accepted_webhooks(
    status: BindingStatus, installed: Iterable[ConversionWebhook]
) -> list[ConversionWebhook]:
    """Return the webhooks that a binding has accepted.

    Args:
        status: the binding's.
        installed: the webhooks of its CRDs. A binding of a former version has no record: what was
            installed then counts as accepted, since only the consumer's side writes CRDs.
    """
    if status.conversion_webhooks is not None:
        return status.conversion_webhooks
    return sorted(installed, key=lambda item: (item.name, item.url))


def refused_webhook(url: str, networks: Sequence[Network] = ()) -> str:
    """Return why a webhook's URL cannot be accepted, "" if it can.

    A literal address obeys the rules of ``--apply-binding-allow-cidr``. A host name is not
    resolved: its owner may point it elsewhere at any time.

    Args:
        url: the URL.
        networks: the private networks that are allowed.
    """
    if len(url) > MOST_URL:
        return f"it is longer than {MOST_URL} characters"
    match = _URL.fullmatch(url)
    if match is None:
        return "it has to be an https URL with a host, and without user, query and fragment"
    name = match["host"].strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return f"{name} is loopback"
    if ":" in name or _NUMERIC.fullmatch(name):
        return refused_address(name, networks)
    return ""


def lacks_conversion(status: BindingStatus, schema: BoundSchemaSpec, crd: Object) -> bool:
    """Whether objects of a kind may lack fields in the version in which they cross.

    The provider converts by a webhook, and the CRD has none that the binding has accepted. Then a
    server changes the apiVersion alone, and drops what the schema of the version lacks.
    """
    version, installed = sync_version(schema, crd).name, installed_webhook(crd)
    if not named_webhook(schema):
        return False
    item = GroupResource(group=schema.group, resource=schema.names.plural)
    conversion = webhook(item, installed)
    if installed and conversion in accepted_webhooks(status, [conversion]):
        return False
    schemas = {one["name"]: one.get("schema") for one in crd.to_dict()["spec"]["versions"]}
    own = schemas.get(version)
    return any(name != version and schemas.get(name) != own for name in stored_versions(crd))


def shown_url(url: str) -> str:
    """Return a URL for people, without what a terminal would obey, and not endlessly long."""
    text = "".join(letter if "!" <= letter <= "~" else "?" for letter in url[: MOST_URL + 1])
    return text if len(url) <= MOST_URL else f"{text[:200]}..."


def consequences(item: GroupResource, url: str) -> str:
    """Return what it means to accept a webhook, for the person who decides."""
    match = _URL.fullmatch(url) if len(url) <= MOST_URL else None
    host = match["host"] if match is not None else shown_url(url)
    return (
        f"the provider converts {item.name} with webhook {shown_url(url)}: this cluster's API "
        "server sends all objects of this kind there and uses the replies; while the webhook "
        f"does not answer, no namespace in this cluster can terminate. You trust host {host}, "
        "whatever address its name has later"
    )


def acceptance(binding: str, url: str) -> str:
    """Return the remedy for a webhook that was not accepted."""
    why = refused_webhook(url)
    if not why:
        return f"to agree, run `fairlead accept {binding} {ACCEPT_FLAG} {shown_url(url)}`"
    if refused_webhook(url, _EVERY_NETWORK):
        return f"it cannot be accepted, since {why}: ask the provider for another URL"
    return (
        f"{why}: to agree, run `fairlead accept {binding} {ACCEPT_FLAG} {shown_url(url)} "
        f"{NETWORKS_FLAG} NETWORK`"
    )


def withdrawal(binding: str, url: str) -> str:
    """Return the command that removes a webhook."""
    return f"`fairlead accept {binding} {REMOVE_FLAG} {shown_url(url)}`"


def adoption(binding: APIServiceBinding, conversion: ConversionWebhook) -> str:
    """Return the message about a webhook that a former version has installed."""
    name = binding.metadata.name
    return (
        f"{consequences(conversion, conversion.url)}. A former version of the konnector "
        f"installed it, so it counts as accepted; {withdrawal(name, conversion.url)} removes it"
    )
