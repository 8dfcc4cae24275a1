"""Gives the konnector its rights for a binding that a bundle or a person with kubectl has made.

The konnector makes its CRDs by itself, but it can give itself no rights on their objects: an
administrator does, who sees what is bound and claimed.
"""

from __future__ import annotations

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APIServiceBinding,
    APIServiceExport,
    ExportRequestResponse,
    ExportRequestSpec,
    NameOnly,
)
from fairlead.api.meta import Object
from fairlead.client import Client, ClusterConfig, ConfigError
from fairlead.client.lookups import find, find_custom, list_all, unknown
from fairlead.konnector.commands.consumer_objects import (
    ensure_roles,
    ensure_user_roles,
    provider_of,
    remove_user_roles,
)
from fairlead.konnector.commands.conversions import (
    AcceptedWebhooks,
    check_accepted,
    check_webhooks,
    record_webhooks,
)
from fairlead.konnector.commands.preflight import check_rights, check_served
from fairlead.konnector.commands.readiness import Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError, Progress
from fairlead.konnector.commands.userroles import bound_kinds
from fairlead.konnector.options import DEFAULT_NAMESPACE


_BLAME = "delete the binding, or do not trust this provider"


async def accept(
    client: Client,
    name: str,
    *,
    timeout: float,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
    webhooks: AcceptedWebhooks = AcceptedWebhooks(),  # noqa: B008  it is frozen
    user_roles: bool = True,
) -> None:
    """Give the konnector the rights that a binding needs, and wait until it is Ready.

    Doing it again changes nothing, unless the provider's export was made anew with other claims.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        name: the binding's name.
        timeout: limit of the wait in seconds.
        progress: called with each step, the first of which lists the bound and claimed kinds.
        namespace: the konnector's.
        webhooks: the conversion webhooks of the provider that are accepted.
        user_roles: as for ``bind``.

    Raises:
        BindError: there is no such binding or export, no provider may offer its kinds, or a kind
            cannot be bound without a conversion webhook that is not accepted.
        ClientError: a server refused or cannot be reached.
    """
    work = _accept(client, name, Deadline(timeout), progress, namespace, webhooks)
    await within(timeout, work, lambda: f"accepting {name} at {client.config.server}")
    if user_roles:
        # Once the konnector has made the CRDs: what a provider exports may be a kind that this
        # cluster has by itself.
        kinds = await bound_kinds(client, await client.get(APISERVICEBINDINGS, name))
        await ensure_user_roles(client, name, kinds, progress)
    else:
        await remove_user_roles(client, name, progress)


async def _accept(
    client: Client,
    name: str,
    deadline: Deadline,
    progress: Progress,
    namespace: str,
    webhooks: AcceptedWebhooks,
) -> None:
    binding = await find_custom(client, APISERVICEBINDINGS, name)
    if binding is None:
        names = [one.meta.name for one in await list_all(client, APISERVICEBINDINGS)]
        raise BindError(unknown(APISERVICEBINDINGS.kind, name, names))
    config = await _provider(client, binding)
    async with Client(config, user_agent="fairlead-accept") as provider:
        request = await _request(provider, binding)
        resources = request.spec.resources
        accepted = await check_webhooks(client, provider, binding, resources, webhooks, progress)
        check_accepted(webhooks, accepted)
    check_rights(request, blame=_BLAME)
    await check_served(client, request, blame=_BLAME)
    for item in request.spec.resources:
        progress(f"binds {item.name}")
    for claim in request.spec.permission_claims:
        progress(f"claims {claim.name}")
    # The rights first: by them the konnector may write the CRD once the webhook is accepted.
    await ensure_roles(client, request, progress)
    await record_webhooks(client, name, accepted, progress)
    await WaitOptions(client, deadline, progress, namespace).binding(request)


async def _provider(client: Client, binding: Object) -> ClusterConfig:
    parsed = binding.decode(APIServiceBinding)
    try:
        return await provider_of(client, parsed.spec.kubeconfig_secret_ref)
    except ConfigError as error:
        raise BindError(f"APIServiceBinding {binding.meta.name}: {error}") from None


async def _request(provider: Client, binding: Object) -> ExportRequestResponse:
    """Return the export's resources, and the claims that were agreed to at the first bind."""
    parsed, namespace = binding.decode(APIServiceBinding), provider.config.namespace
    export = await find(provider, APISERVICEEXPORTS, binding.meta.name, namespace)
    if export is None:
        raise BindError(
            f"the provider has no APIServiceExport {binding.meta.name}: there is nothing to accept"
        )
    spec = export.decode(APIServiceExport).spec
    agreed = bool(parsed.status.bound_schemas)
    # The konnector takes over no others: see accepted_claims of its APIServiceBinding controller.
    claims = parsed.status.permission_claims if agreed else spec.permission_claims
    return ExportRequestResponse(
        api_version=API_VERSION,
        kind=APISERVICEEXPORTREQUESTS.kind,
        metadata=NameOnly(name=binding.meta.name),
        spec=ExportRequestSpec(resources=spec.resources, permission_claims=claims),
    )
