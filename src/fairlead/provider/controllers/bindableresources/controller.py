"""Watches requests and templates, and stores the invitation for a request in a Secret."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from weakref import WeakValueDictionary

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    BindableResourcesRequest,
    LocalSecretKeyRef,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import moment
from fairlead.client import AlreadyExists, Client, Forbidden, Invalid, NotFound
from fairlead.provider import bounds
from fairlead.provider.controllers.bindableresources.reconcile import (
    HANDLE_RESOURCES_FAILED,
    IDENTITY_TAKEN,
    SECRET_CREATION_FAILED,
    SECRET_READY,
    TEMPLATE_NOT_FOUND,
    TOO_MANY_CONSUMERS,
    InvitationOutcome,
    fault,
    most_consumers,
    ready_events,
    reconcile,
    secret_ref,
    with_outcome,
)
from fairlead.provider.identity import InviteError, OtherAuthorError, TooManyConsumersError
from fairlead.provider.invitation import TemplateMissingError, invite
from fairlead.provider.options import InviteOptions
from fairlead.provider.watches import in_turns, requests_for
from fairlead.runtime import Cluster, Delta, Request, Result, StatusWriter, commit


NAME = "bindableresourcesrequest"
_BY_TEMPLATE = "template"


class BindableResourcesController:
    """Turns each request into a cluster namespace and a Secret with the invitation."""

    def __init__(self, cluster: Cluster, options: InviteOptions) -> None:
        self._cluster = cluster.name
        self._client = cluster.client
        self._statuses = StatusWriter(
            cluster.client, BINDABLERESOURCESREQUESTS, cluster.events(NAME), ready_events
        )
        self._options = options
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._requests = cluster.informer(BINDABLERESOURCESREQUESTS)
        self._requests.add_index(_BY_TEMPLATE, _template)
        self.controller = in_turns(NAME, self.reconcile)
        self.controller.watch(self._requests, cluster=cluster.name)
        self.controller.watch(cluster.informer(APISERVICEEXPORTTEMPLATES), self._from_template)

    async def reconcile(self, key: Request) -> Result:
        """Answer one request, and delete it when its ttlAfterFinished is over."""
        request = self._requests.get(key.namespace, key.name)
        if request is None:
            return Result()
        plan = reconcile(request, now=moment())
        if plan.delete:
            await self._delete(request)
        if not plan.invite:
            return Result(plan.requeue_after)
        outcome = await self._invited(request)
        await self._store(request, outcome)
        # The status that was just written leads here again, and the time until deletion counts
        # from then.
        if outcome.phase != "Failed":
            return Result()
        # A request that has failed is deleted at its time as well.
        return Result(min(plan.requeue_after or bounds.AGAIN_SECONDS, bounds.AGAIN_SECONDS))

    async def _invited(self, request: Object) -> InvitationOutcome:
        """Invite the consumer of a request, and return the outcome.

        Raises:
            ClientError: a retry may help; the status has the reason.
        """
        spec = request.decode(BindableResourcesRequest).spec
        if why := fault(spec):
            return _failed(HANDLE_RESOURCES_FAILED, why)
        try:
            most = most_consumers(request)
        except ValueError as error:
            return _failed(HANDLE_RESOURCES_FAILED, str(error))
        try:
            async with self._turn(spec.author, most):
                response = await invite(
                    self._client,
                    name=spec.cluster_identity.pretty_name or spec.cluster_identity.identity,
                    template=spec.template_ref.name,
                    identity=spec.cluster_identity.identity,
                    author=spec.author,
                    options=self._options,
                    requested_in=request.meta.namespace,
                    most=most,
                )
        except TemplateMissingError as error:
            return _failed(TEMPLATE_NOT_FOUND, str(error))
        except OtherAuthorError as error:
            return _failed(IDENTITY_TAKEN, str(error))
        except TooManyConsumersError as error:
            return _failed(TOO_MANY_CONSUMERS, str(error))
        except InviteError as error:
            return _failed(HANDLE_RESOURCES_FAILED, str(error))
        except (Forbidden, Invalid) as error:
            await self._store(request, _waiting(HANDLE_RESOURCES_FAILED, error))
            raise
        return await self._answered(request, response)

    def _turn(self, author: str, most: int | None) -> AbstractAsyncContextManager[None]:
        """Return the author's lock, if its consumers are counted before a new one is made.

        Two requests at once would count the same number, and both would be granted.
        """
        if most is None:
            return nullcontext()
        return self._turns.setdefault(author, asyncio.Lock())

    async def _answered(self, request: Object, response: JSON) -> InvitationOutcome:
        ref = secret_ref(request, request.decode(BindableResourcesRequest).spec)
        try:
            await store_answer(self._client, request, ref, response)
        except SecretRefusedError as error:
            return _failed(SECRET_CREATION_FAILED, str(error))
        except (Forbidden, Invalid) as error:
            await self._store(request, _waiting(SECRET_CREATION_FAILED, error))
            raise
        return InvitationOutcome(
            phase="Succeeded",
            reason=SECRET_READY,
            message=f"Secret {ref.name} has the invitation under {ref.key}",
            namespace=response["providerNamespace"],
            ref=ref,
        )

    async def _store(self, request: Object, outcome: InvitationOutcome) -> None:
        body = with_outcome(request, outcome, now=moment())
        await self._statuses.write(request, body)

    async def _delete(self, request: Object) -> None:
        """Delete a finished request, unless it has changed since the decision."""
        meta = request.meta
        with suppress(NotFound):
            await self._client.delete(
                BINDABLERESOURCESREQUESTS,
                meta.name,
                meta.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )

    def _from_template(self, delta: Delta) -> Iterator[Request]:
        waiting = self._requests.by_index(_BY_TEMPLATE, delta.object.meta.name)
        return requests_for(self._cluster, waiting)


def _failed(reason: str, message: str) -> InvitationOutcome:
    return InvitationOutcome(phase="Failed", reason=reason, message=message)


def _waiting(reason: str, error: Forbidden | Invalid) -> InvitationOutcome:
    said = f"The API server says: {str(error)[: bounds.TEXT_CHARACTERS]}"
    if isinstance(error, Invalid):
        return InvitationOutcome(phase="Pending", reason=reason, message=said)
    message = (
        "the provider has no right to invite consumers; so that it can answer requests, apply "
        f"the output of `fairlead manifests provider --invitations`. {said}"
    )
    return InvitationOutcome(phase="Pending", reason=reason, message=message)


def _template(request: Object) -> list[str]:
    try:
        return [request.decode(BindableResourcesRequest).spec.template_ref.name]
    except msgspec.ValidationError:
        return []


class SecretRefusedError(Exception):
    """The answer cannot be stored in the wanted Secret; the text gives the reason."""


async def store_answer(
    client: Client, request: Object, ref: LocalSecretKeyRef, response: JSON
) -> None:
    """Store a BindingResponse in a Secret of the request's own, which goes with it.

    Raises:
        SecretRefusedError: a Secret of this name exists and is not the request's: the right to ask
            for an invitation must not overwrite others' Secrets.
        ApiError: the server refused.
    """
    encoded = base64.b64encode(msgspec.json.encode(response)).decode()
    stored = await _secret(client, request, ref.name)
    if stored is None:
        try:
            await client.create(SECRETS, _new(request, ref.name, {ref.key: encoded}))
        except AlreadyExists:
            # Another writer has made it meanwhile: its owner tells whether it may be written.
            stored = await _secret(client, request, ref.name)
    if stored is not None:
        body = stored.to_dict()
        body["data"] = {ref.key: encoded}
        await commit(client, SECRETS, stored, body)


async def _secret(client: Client, request: Object, name: str) -> Object | None:
    namespace = request.meta.namespace
    try:
        secret = await client.get(SECRETS, name, namespace)
    except NotFound:
        return None
    if not secret.meta.owned_by(request.meta.uid):
        raise SecretRefusedError(
            f"Secret {namespace}/{name} exists and was not made for this request: delete it, or "
            "name another in spec.kubeconfigSecretRef"
        )
    return secret


def _new(request: Object, name: str, data: dict[str, str]) -> JSON:
    # Blocking the request's deletion would take a right on its finalizers.
    owner = msgspec.structs.replace(request.owner_reference(), block_owner_deletion=None)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": request.meta.namespace,
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "type": "Opaque",
        "data": data,
    }
