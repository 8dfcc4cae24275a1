"""Binds the kinds of a provider's BindingResponse in the consumer's cluster, and waits for them.

First both clusters are checked, then the provider is asked for its exports, and only then are
objects written here: the binding first, so that the others belong to one, and the Secret last,
which lets a konnector begin. A bind that fails or is stopped is undone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APIServiceBinding,
    BindingResponse,
    BindingSpec,
    ConversionWebhook,
    ExportRequestResponse,
)
from fairlead.api.kubebind.conditions import READY, false, set_conditions
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.timestamps import now
from fairlead.client import (
    AlreadyExists,
    Client,
    ClientError,
    ClusterConfig,
    Conflict,
    NotFound,
)
from fairlead.konnector.commands.consumer_objects import (
    MANAGED_BY,
    MANAGER,
    Reach,
    directly,
    ensure_crds,
    ensure_namespace,
    ensure_roles,
    ensure_secret,
    ensure_user_roles,
    find_secret_ref,
    remove_user_roles,
    secret_ref,
)
from fairlead.konnector.commands.conversions import (
    AcceptedWebhooks,
    check_accepted,
    check_webhooks,
    record_webhooks,
)
from fairlead.konnector.commands.copies import Copies, settle_copies
from fairlead.konnector.commands.names import (
    bindings_by_name,
    check_unbound,
    choose_name,
    named,
    with_name,
)
from fairlead.konnector.commands.preflight import (
    BLAME,
    check_apart,
    check_crds,
    check_response,
    check_served,
    whence,
)
from fairlead.konnector.commands.readiness import PENDING, Deadline, WaitOptions, within
from fairlead.konnector.commands.request import BindError, Progress, request_export
from fairlead.konnector.commands.unbind import bindings_of
from fairlead.konnector.commands.undo import Written, undone_on_failure
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.statuses import with_status


TIMEOUT = 120.0
"""Seconds for the whole command by default."""


async def bind(
    client: Client,
    response: BindingResponse,
    *,
    name: str = "",
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
    copies: Copies = "",
    webhooks: AcceptedWebhooks = AcceptedWebhooks(),  # noqa: B008  it is frozen
    user_roles: bool = True,
) -> list[str]:
    """Bind all that a provider's response asks for; the names of the bindings, all Ready.

    A bind that fails or is cancelled leaves no rights, no binding and no unused Secret;
    taking them back may last for :data:`~fairlead.konnector.commands.undo.UNDO_SECONDS` more.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        response: the provider's answer.
        name: of request, export and binding, where the response has one request; the default is
            the request's own. A name that stands for something else gets a number.
        timeout: limit in seconds for all of it.
        progress: called with each step.
        namespace: the konnector's, where the kubeconfig is kept.
        copies: the decision about copies of another cluster, "" to leave it open.
        webhooks: the conversion webhooks of the provider that are accepted.
        user_roles: whether people with view, edit or admin get rights on the bound kinds; if not,
            those of an earlier bind go.

    Raises:
        BindError: the response cannot be used, the provider refused, or it took too long; the
            message says what was waited for and what to do.
        ValueError: ``name`` cannot be used with this response.
        ClientError: a server refused or cannot be reached.
    """
    response = with_name(response, name)
    if not response.requests:
        raise BindError(
            "the response has no requests: give requests with --request FILE, or bind "
            "everything that the provider exports with --bundle"
        )
    return await _run(
        client, response, "", timeout, progress, namespace, copies, webhooks, user_roles
    )


async def bind_bundle(
    client: Client,
    response: BindingResponse,
    *,
    name: str = "",
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    namespace: str = DEFAULT_NAMESPACE,
    copies: Copies = "",
    webhooks: AcceptedWebhooks = AcceptedWebhooks(),  # noqa: B008  it is frozen
    user_roles: bool = True,
) -> tuple[str, list[str]]:
    """Bind all exports of the provider by an APIServiceBindingBundle, now and later.

    Rights are given only on what the response asks for, which is Ready at the end; of the rest
    ``progress`` is told how they are given.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        response: the provider's answer, with or without requests.
        name: the bundle's name; the default is the cluster namespace's.
        timeout: limit in seconds for all of it.
        progress: called with each step.
        namespace: the konnector's, where the kubeconfig is kept.
        copies: as for :func:`bind`.
        webhooks: as for :func:`bind`.
        user_roles: as for :func:`bind`.

    Returns:
        The bundle's name, and those of its bindings.

    Raises:
        BindError: as :func:`bind` does; what failed is taken back in the same way.
        ClientError: a server refused or cannot be reached.
    """
    bundle = name or check_response(response).namespace
    return bundle, await _run(
        client, response, bundle, timeout, progress, namespace, copies, webhooks, user_roles
    )


async def write_bundle(
    client: Client,
    response: BindingResponse,
    *,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    reach: Reach = directly,
) -> str:
    """Write what :func:`bind_bundle` does, and wait for no konnector; the bundle's name.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        response: the provider's answer, with requests.
        timeout: limit in seconds for all of it.
        progress: called with each step.
        reach: makes the provider's client, also for what the consumer keeps of it.

    Raises:
        BindError: as :func:`bind` does; what failed is taken back in the same way.
        ClientError: a server refused or cannot be reached.
    """
    config = check_response(response)
    written = Written(secret_ref(config, DEFAULT_NAMESPACE), config.namespace)
    # Open until the end of the undoing, which withdraws requests from the provider.
    async with reach(config) as provider:
        work = _Bind(client, provider, config, written, Deadline(timeout), progress, reach)
        async with undone_on_failure(client, provider, written, progress):
            await within(timeout, work.write(response), lambda: work.doing)
    return config.namespace


async def _run(
    client: Client,
    response: BindingResponse,
    bundle: str,
    timeout: float,  # noqa: ASYNC109
    progress: Progress,
    namespace: str,
    copies: Copies,
    webhooks: AcceptedWebhooks,
    user_roles: bool,
) -> list[str]:
    config = check_response(response)
    written = Written(secret_ref(config, namespace), bundle)
    async with directly(config) as provider:
        work = _Bind(
            client,
            provider,
            config,
            written,
            Deadline(timeout),
            progress,
            webhooks=webhooks,
            user_roles=user_roles,
        )
        async with undone_on_failure(client, provider, written, progress):
            # Within the undoing, which has a limit of its own.
            return await within(timeout, work.run(response, copies), lambda: work.doing)


class _Bind:
    """One run: the wanted objects, both clusters, and the progress."""

    def __init__(
        self,
        client: Client,
        provider: Client,
        config: ClusterConfig,
        written: Written,
        deadline: Deadline,
        progress: Progress,
        reach: Reach = directly,
        webhooks: AcceptedWebhooks | None = None,
        *,
        user_roles: bool = True,
    ) -> None:
        self.doing = (
            f"looking at the provider, {config.server}, and this cluster, {client.config.server}"
        )
        self._client = client
        self._provider = provider
        self._config = config
        self._reach = reach
        self._namespace = config.namespace
        self._ref = written.secret
        self._written = written
        self._deadline = deadline
        self._progress = progress
        self._webhooks = webhooks
        self._user_roles = user_roles

    async def run(self, response: BindingResponse, copies: Copies) -> list[str]:
        names = await self._bound(response)
        for name in names:
            self.doing = f"looking for copies of APIServiceBinding {name}"
            await settle_copies(self._waiting(), name, copies)
        return names

    async def write(self, response: BindingResponse) -> list[ExportRequestResponse]:
        """Request the exports and write all objects; return the requests."""
        await check_apart(self._client, self._provider, self._config.server)
        self._ref = self._written.secret = await find_secret_ref(
            self._client, self._config, self._ref.namespace
        )
        bindings = await bindings_by_name(self._client)
        for response_request in response.requests:
            await check_served(self._client, response_request, blame=BLAME)
            await check_crds(self._client, response_request, bindings, self._ref, self._config)
        requests = [await self._exported(request) for request in response.requests]
        accepted = await self._accepted(requests)
        # Before the first write, whose answer may never come.
        self.doing, self._written.begun = "writing into this cluster", True
        await ensure_crds(self._client, self._progress)
        await ensure_namespace(self._client, self._ref.namespace, self._progress)
        bundle = None
        if self._written.bundle:
            bundle = await self._create(APISERVICEBINDINGBUNDLES, self._written.bundle)
        for request in requests:
            await self._create(APISERVICEBINDINGS, request.metadata.name, bundle)
        for request in requests:
            # After the export: a refused request leaves no rights behind.
            changed = await ensure_roles(self._client, request, self._progress)
            self._written.roles += changed
            name = request.metadata.name
            if self._user_roles:
                # No kind is this cluster's own: check_crds has seen to that.
                kinds = request.spec.resources
                self._written.roles += await ensure_user_roles(
                    self._client, name, kinds, self._progress
                )
            else:
                await remove_user_roles(self._client, name, self._progress)
            await record_webhooks(self._client, name, accepted[name], self._progress)
        await ensure_secret(
            self._client, self._ref, response.kubeconfig, self._progress, self._reach
        )
        return requests

    async def _accepted(
        self, requests: Sequence[ExportRequestResponse]
    ) -> dict[str, list[ConversionWebhook]]:
        """Return the accepted conversion webhooks of each request, by its name."""
        if self._webhooks is None:
            # Without a person to ask the konnector reports what was not accepted.
            return {request.metadata.name: [] for request in requests}
        bindings = await bindings_by_name(self._client)
        accepted = {
            request.metadata.name: await check_webhooks(
                self._client,
                self._provider,
                bindings.get(request.metadata.name),
                request.spec.resources,
                self._webhooks,
                self._progress,
            )
            for request in requests
        }
        check_accepted(self._webhooks, [one for every in accepted.values() for one in every])
        return accepted

    async def _bound(self, response: BindingResponse) -> list[str]:
        requests = await self.write(response)
        if self._written.bundle:
            return await self._bundled(self._written.bundle, requests)
        # All are written before one is waited for: the konnector works on them together.
        for request in requests:
            await self._waiting().binding(request)
        return [request.metadata.name for request in requests]

    async def _exported(self, requested: ExportRequestResponse) -> ExportRequestResponse:
        """Return the request under its final name, once the provider exports it."""
        self.doing = f"asking the provider for {requested.metadata.name}"
        bindings = await bindings_by_name(self._client)
        chosen = await choose_name(
            bindings,
            self._provider,
            requested,
            self._ref,
            namespace=self._namespace,
            progress=self._progress,
        )
        request = named(requested, chosen)
        await check_unbound(bindings, self._provider, request, namespace=self._namespace)
        # Recorded before the request is made, so that a run which is stopped then can undo it.
        self._written.names.append(chosen)
        await request_export(
            self._provider,
            request,
            namespace=self._namespace,
            timeout=self._deadline.left(),
            created=self._written.requests.append,
            progress=self._progress,
        )
        return request

    async def _bundled(self, name: str, requests: Sequence[ExportRequestResponse]) -> list[str]:
        """Wait for a bundle; return the names of its bindings."""
        await self._waiting().bundle(name)
        for request in requests:
            await self._waiting().binding(request)
        bundle = await self._client.get(APISERVICEBINDINGBUNDLES, name)
        names = [one.meta.name for one in await bindings_of(self._client, bundle)]
        for other in sorted(set(names) - {request.metadata.name for request in requests}):
            self._progress(
                f"the provider exports {other} too: `fairlead accept {other}` shows what that "
                "is, and gives the konnector rights on it"
            )
        return sorted(names)

    def _waiting(self) -> WaitOptions:
        return WaitOptions(
            self._client,
            self._deadline,
            self._progress,
            self._ref.namespace,
            self._config,
        )

    async def _create(self, resource: Resource, name: str, bundle: Object | None = None) -> Object:
        """Create a bundle, or a binding, which may be of a bundle; return it.

        An existing one with the same Secret is accepted.
        """
        spec = BindingSpec(kubeconfig_secret_ref=self._ref)
        body: JSON = {
            "apiVersion": API_VERSION,
            "kind": resource.kind,
            # By the label a later run knows what a killed one has left (undo).
            "metadata": {"name": name, "labels": {MANAGED_BY: MANAGER}},
            "spec": msgspec.to_builtins(spec),
        }
        if bundle is not None:
            # Without it the bundle would report the binding as foreign, and never delete it.
            body["metadata"]["ownerReferences"] = [msgspec.to_builtins(bundle.owner_reference())]
        try:
            created = await self._client.create(resource, body)
        except AlreadyExists:
            obj = await self._client.get(resource, name)
            if obj.meta.deleting:
                raise BindError(
                    f"{resource.kind} {name} is being deleted: choose another with --name, or "
                    "bind again when it is gone"
                ) from None
            # A bundle's spec has the same fields as a binding's.
            if obj.decode(APIServiceBinding).spec != spec:
                where = await whence(self._client, obj, self._config)
                raise BindError(
                    f"{resource.kind} {name} binds from {where}: choose another with --name, or "
                    "unbind that first"
                ) from None
            return obj
        self._written.uids.add(created.meta.uid)
        self._progress(f"created {resource.kind} {name}")
        if resource == APISERVICEBINDINGS:
            await _mark_pending(self._client, created)
        return created


async def _mark_pending(client: Client, created: Object) -> None:
    """Set the condition of a binding that no konnector has seen, unless one was faster."""
    # kube-bind's CLI sets the same condition.
    pending = false(READY, PENDING, "waiting for a konnector", severity="Info")
    status = msgspec.structs.replace(
        created.decode(APIServiceBinding).status,
        conditions=set_conditions([], pending, now=now()),
    )
    try:
        await client.update(APISERVICEBINDINGS, with_status(created, status), subresource="status")
    except (Conflict, NotFound):
        return


__all__ = ["BindError", "ClientError", "bind"]
