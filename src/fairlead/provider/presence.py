"""Whether a cluster is a provider's: commands on consumers have no answer in any other."""

from __future__ import annotations

from fairlead.api.kubebind import APISERVICEBINDINGS, APISERVICEEXPORTS
from fairlead.api.resource import Resource
from fairlead.client import Client, ClientError, Forbidden, NotServed
from fairlead.client.lookups import list_all
from fairlead.provider import bounds


class NoProviderError(ClientError):
    """The cluster lacks a provider's kinds; the text has the command that answers there."""


async def check_provider(client: Client, resource: Resource = APISERVICEEXPORTS) -> None:
    """Raise unless the cluster serves a provider's kind.

    Args:
        client: a client of the cluster.
        resource: the kind.

    Raises:
        NoProviderError: it does not: the cluster is a consumer's alone, or no provider runs yet.
        ClientError: the server cannot be reached.
    """
    try:
        await client.discovery.resource_by_plural(resource.group, resource.plural)
    except NotServed:
        missing = f"this cluster has no kind {resource.kind}"
    else:
        return
    try:
        names = sorted(found.meta.name for found in await list_all(client, APISERVICEBINDINGS))
    except Forbidden:
        names = []
    if names:
        more = f" and {len(names) - bounds.NAMED} more" if len(names) > bounds.NAMED else ""
        raise NoProviderError(
            f"{missing}, and binds {', '.join(names[: bounds.NAMED])}{more}: it is a "
            "consumer's cluster, for which you can run `fairlead bindings`. Give this command "
            "the provider's kubeconfig"
        )
    raise NoProviderError(
        f"{missing}: is this the provider's cluster? `fairlead provider run` installs the kind "
        "there"
    )
