"""POST /api/bind: declares a bind, awaits the provider's controllers, and passes the answer on.

The server has no right to create credentials. It creates a BindableResourcesRequest in its own
namespace; `fairlead provider run` answers in a Secret beside it, as it answers an invitation.
Both are deleted as soon as the answer has been read. (kube-bind's handshake, section 3.)
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web

from fairlead.api.conditions import Condition
from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    APIServiceExportRequest,
    APIServiceExportTemplate,
    BindableResourcesRequest,
    BindableResourcesRequestStatus,
    ExportRequestSpec,
    request_from_template,
)
from fairlead.api.kubebind.wire import ErrorCode
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import SECRETS
from fairlead.client import (
    AlreadyExists,
    Client,
    ClientError,
    ClusterConfig,
    Forbidden,
    parse_kubeconfig,
)
from fairlead.client.lookups import find
from fairlead.konnector.commands.request import in_vain
from fairlead.portal import bounds
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.ownership import OwnedNamespace, Ownership
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.http.audit import audit
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal, bad_request, forbidden, refusal_of
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.http.metrics import result_of
from fairlead.portal.http.requests import BIND_RESULT, read_json
from fairlead.portal.identity.codes import Codes
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession, Person, SessionStore
from fairlead.portal.options import ServeOptions
from fairlead.provider.controllers.bindableresources.reconcile import (
    ANNOTATION_MOST_CONSUMERS,
    IDENTITY_TAKEN,
    RESPONSE_KEY,
    TEMPLATE_NOT_FOUND,
    TOO_MANY_CONSUMERS,
)
from fairlead.runtime import Cluster, Delta


class _Consent(msgspec.Struct, frozen=True):
    """A consent: the bind, and the session that it was given in."""

    session: str
    asked: AskedBind


class Consents:
    """Makes codes for consents, and binds when they are redeemed.

    Only the consent is stored, so that a terminal that was closed gets no credentials.
    """

    def __init__(self, bind: Bind, store: SessionStore) -> None:
        self._bind = bind
        self._store = store
        self._codes = Codes(store)

    async def agree(self, session: BrowserSession, bind: AskedBind, challenge: str) -> str:
        """Return a code for the program that has the challenge's verifier.

        Raises:
            Refusal: the person may not bind this, or the store is unavailable.
            ClientError: the API server refused or is unavailable.
        """
        await self._bind.check(session.person, bind)
        grant = msgspec.json.encode(_Consent(session.key, bind)).decode()
        return await self._codes.make(session.person, challenge, grant)

    async def redeem(self, request: web.Request, person: Person, grant: str) -> web.Response:
        """Bind what the person consented to, and answer with a BindingResponse.

        Raises:
            Refusal: the session has ended, the right was revoked, or the bind is refused.
            ClientError: the API server refused or is unavailable.
        """
        consent = msgspec.json.decode(grant, type=_Consent)
        # A sign-out between the consent and its redemption withdraws the consent.
        if await self._store.get(consent.session, kind="session") is None:
            audit("bind", who=person.author, what="code", result="refused", request=request)
            raise bad_request("the person who agreed to this has signed out: start again")
        count(request, person.author, "bind")
        response = await self._bind.bound(request, person, consent.session, consent.asked)
        return web.json_response(response, headers=PRIVATE)


def as_consumer(server: ClusterConfig, token: str, namespace: str = "") -> ClusterConfig:
    """Return the configuration of our API server with a consumer's token.

    Args:
        server: address and CA; its credentials are not used.
        token: the consumer's token.
        namespace: the consumer's cluster namespace.
    """
    return ClusterConfig(
        server=server.server,
        namespace=namespace,
        certificate_authority=server.certificate_authority,
        tls_server_name=server.tls_server_name,
        insecure_skip_tls_verify=server.insecure_skip_tls_verify,
        proxy_url=server.proxy_url,
        token=token,
    )


async def request_export(server: ClusterConfig, answer: JSON, request: JSON) -> str:
    """Make sure that the consumer's namespace has a request, and return its name.

    An existing request with the same spec that leads to an export is reused. If the name is
    taken by another, the new name begins with it.

    Args:
        server: address and CA of the provider; its credentials are not used.
        answer: the consumer's BindingResponse.
        request: an APIServiceExportRequest with its name.

    Raises:
        ClientError: the API server refused or is unavailable.
        TimeoutError: the API server does not answer, or the consumer gets no rights.
    """
    config = as_consumer(server, parse_kubeconfig(base64.b64decode(answer["kubeconfig"])).token)
    namespace: str = answer["providerNamespace"]
    async with Client(config) as consumer, asyncio.timeout(bounds.GRANT_SECONDS):
        while True:
            try:
                return await _requested(consumer, namespace, request)
            except Forbidden:
                # The API server's authorizer learns of a new RoleBinding by a watch.
                await asyncio.sleep(bounds.POLL_SECONDS)


async def _requested(consumer: Client, namespace: str, request: JSON) -> str:
    name: str = request["metadata"]["name"]
    try:
        created = await consumer.create(APISERVICEEXPORTREQUESTS, request, namespace)
    except AlreadyExists:
        spec = msgspec.convert(request["spec"], ExportRequestSpec)
        for obj in (await consumer.list(APISERVICEEXPORTREQUESTS, namespace)).items:
            is_named = obj.meta.name == name or obj.meta.name.startswith(f"{name}-")
            if is_named and _asks_for(obj, spec) and not await in_vain(consumer, obj):
                return obj.meta.name
        # As kube-bind does: a taken name gets a suffix.
        another = request | {"metadata": {"generateName": f"{name}-"}}
        created = await consumer.create(APISERVICEEXPORTREQUESTS, another, namespace)
    return created.meta.name


def _asks_for(request: Object, wish: ExportRequestSpec) -> bool:
    try:
        spec = request.decode(APIServiceExportRequest).spec
    except msgspec.ValidationError:
        return False
    return spec == wish and not request.meta.deleting


_TTL = "3m"
"""Time after which the provider deletes an answered request, if the replica that made it has died.

The Secret with the answer belongs to the request.
"""
_UI_IDENTITY = "ui-identity"
"""Identity that kube-bind's page sends for a cluster without one: the person is meant."""
_REFUSED = "you may not bind this template for this cluster"
"""Refusal without a right; it does not reveal whether a template or an identity exists."""


class _Name(msgspec.Struct):
    name: str = ""


class _Identity(msgspec.Struct, rename="camel"):
    identity: str = ""
    pretty_name: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    template_ref: _Name = msgspec.field(default_factory=_Name)
    cluster_identity: _Identity = msgspec.field(default_factory=_Identity)


class _Body(msgspec.Struct):
    """The used fields of a BindableResourcesRequest; others are ignored."""

    metadata: _Name = msgspec.field(default_factory=_Name)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class AskedBind(msgspec.Struct, frozen=True):
    """A checked request for a bind: ``name`` is the request's and the binding's."""

    template: str
    name: str
    identity: str
    pretty_name: str
    page: bool = False


class Bind:
    """Binds for signed-in people, and reports their exports."""

    name = "bind"

    def __init__(
        self,
        cluster: Cluster,
        options: ServeOptions,
        *,
        guard: SessionGuard,
        reviews: AccessReviews,
        catalog: Catalog,
        ownership: Ownership,
        seconds: float = bounds.ANSWER_SECONDS,
    ) -> None:
        self._client: Client = cluster.client
        self._options = options
        self._limit = options.consumers_per_person
        self._guard = guard
        self._reviews = reviews
        self._catalog = catalog
        self._ownership = ownership
        self._seconds = seconds
        self._requests = cluster.informer(BINDABLERESOURCESREQUESTS, namespace=options.namespace)
        self._requests.subscribe(self._heard)
        self._exports = cluster.informer(APISERVICEEXPORTS, metadata_only=True)
        self._waiting: dict[Key, asyncio.Future[BindableResourcesRequestStatus]] = {}
        # One lock per person; it goes when no bind of theirs holds it or waits for it.
        self._slots: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def routes(self) -> list[web.RouteDef]:
        """Return the routes, relative to the root."""
        return [
            web.post("/api/bind", self.bind),
            web.get("/api/consumer-status", self.consumer_status),
        ]

    async def run(self) -> None:
        """Refuse waiting binds when the server stops: its watch would not see their answers."""
        try:
            await asyncio.Event().wait()
        finally:
            for coming in self._waiting.values():
                if not coming.done():
                    coming.set_exception(
                        Refusal(
                            503,
                            ErrorCode.CLUSTER_CONNECTION_FAILED,
                            "this server is being stopped; try again",
                            retry_after=1.0,
                        )
                    )

    async def bind(self, request: web.Request) -> web.Response:
        """Answer with a BindingResponse for the body's template and cluster."""
        session = await self._guard.session(request)
        # Counted before the body is read, so that a limited client costs little.
        count(request, session.person.author, "bind")
        body = await read_json(request, _Body)
        bind = _asked(body, request, session.person)
        return web.json_response(await self.bound(request, session.person, session.key, bind))

    async def bound(
        self, request: web.Request, person: Person, session: str, bind: AskedBind
    ) -> JSON:
        """Bind for a person; return the BindingResponse, which contains credentials.

        Args:
            request: the HTTP request, for audit and metrics.
            person: the person who binds.
            session: the key of their session.
            bind: the checked request.

        Raises:
            Refusal: the person has no right, or the provider does not answer or refuses.
            ClientError: the API server refused or is unavailable.
        """
        try:
            response = await self._bound(person, session, bind)
        except Exception as error:
            refusal = error if isinstance(error, Refusal) else refusal_of(error)
            request[BIND_RESULT] = result_of(refusal.status)
            raise
        request[BIND_RESULT] = "done"
        audit(
            "bind",
            who=person.author,
            what=bind.template,
            result="done",
            request=request,
            identity=bind.identity,
            namespace=response["providerNamespace"],
        )
        return response

    async def check(self, person: Person, bind: AskedBind) -> None:
        """Check that a person may bind a template for a cluster, without writing anything.

        Raises:
            Refusal: the person has no right, or the template does not exist.
            ClientError: the API server refused or is unavailable.
        """
        await self._check_right(person, bind.template)
        await self._template(bind.template)
        self._owned(person, bind.identity)

    async def consumer_status(self, request: web.Request) -> web.Response:
        """Answer whether the consumer of ``consumer_id``, or of the person, has exports."""
        session = await self._guard.session(request)
        identity = request.query.get("consumer_id", "") or session.person.author
        owned = self._ownership.of(session.person, identity)
        if owned is None or not owned.namespace:
            return web.json_response({"connected": False})
        names = sorted(one.meta.name for one in self._exports.list(owned.namespace))
        response: JSON = {"connected": bool(names), "namespace": owned.namespace}
        return web.json_response(response | ({"exports": names} if names else {}))

    async def _bound(self, person: Person, session: str, bind: AskedBind) -> JSON:
        """Check the right, have the controllers answer, and return the BindingResponse."""
        # The right first: without it the answer must not reveal whether the template exists.
        await self._check_right(person, bind.template)
        template = await self._template(bind.template)
        # One bind per person at a time: the controllers work on a person's requests in turn, and
        # a queue of one person's must not hold up the others.
        async with self._slots.setdefault(person.author, asyncio.Lock()):
            # Checked again: the right may have been revoked while waiting for the lock.
            await self._check_right(person, bind.template)
            owned = self._owned(person, bind.identity)
            # The controllers enforce this number exactly; the server's cache may lag.
            most = max(0, self._limit - self._ownership.count_original(person))
            answer = await self._answered(bind, owned, most)
        response: JSON = {
            "kind": "BindingResponse",
            "apiVersion": API_VERSION,
            # kube-bind's command fails without this member, and reads neither of the two values.
            "authentication": {"oauth2CodeGrant": {"sid": session[:16], "id": person.author}},
            "kubeconfig": answer["kubeconfig"],
            "requests": [
                request_from_template(
                    template.decode(APIServiceExportTemplate).spec, name=bind.name
                )
            ],
            "providerNamespace": answer["providerNamespace"],
        }
        if bind.page:
            request = response["requests"][0]
            name = await request_export(self._client.config, response, request)
            response["bindingName"] = name
        return response

    async def _template(self, name: str) -> Object:
        template = self._catalog.template(name)
        if template is None:
            # The cache may lag behind a new template.
            template = await find(self._client, APISERVICEEXPORTTEMPLATES, name)
        if template is None:
            raise _no_template(name)
        return template

    async def _check_right(self, person: Person, template: str) -> None:
        if not await self._reviews.may(person, template):
            reason = f"no right to bind template {template}"
            raise forbidden(_REFUSED, details=person.remark, reason=reason)

    def _owned(self, person: Person, identity: str) -> OwnedNamespace:
        """Return author and namespace of an identity that is the person's or new.

        Raises:
            Refusal: the identity is another person's, or the quota is reached.
        """
        owned = self._ownership.of(person, identity)
        if owned is None:
            reason = f"identity {identity!r} is another's"
            raise forbidden(_REFUSED, details=person.remark, reason=reason)
        if not owned.namespace and self._ownership.count(person) >= self._limit:
            raise _too_many(self._limit)
        return owned

    async def _answered(self, bind: AskedBind, owned: OwnedNamespace, most: int) -> JSON:
        """Return the provider's BindingResponse, which contains credentials.

        Raises:
            Refusal: the provider does not answer or refuses.
            ClientError: the API server refused or is unavailable.
        """
        async with self._declared(bind, owned, most) as (key, coming):
            try:
                async with asyncio.timeout(self._seconds):
                    status = await coming
            except TimeoutError:
                raise Refusal(
                    503,
                    ErrorCode.CLUSTER_CONNECTION_FAILED,
                    "the provider has not answered yet; try again",
                    reason=f"no answer to {key}: does `fairlead provider run` work, with the "
                    "rights of `fairlead manifests provider --invitations`?",
                    retry_after=5.0,
                ) from None
            if status.phase == "Failed":
                raise _failure(status, bind.template, self._limit)
            ref = status.kubeconfig_secret_ref
            if ref is None:
                raise RuntimeError(f"{key} has succeeded but names no Secret")
            async with asyncio.timeout(bounds.CALL_SECONDS):
                secret = await self._client.get(SECRETS, ref.name, key.namespace)
            encoded = secret.to_dict().get("data", {}).get(ref.key, "")
            answer: JSON = msgspec.json.decode(base64.b64decode(encoded))
            return answer

    @asynccontextmanager
    async def _declared(
        self, bind: AskedBind, owned: OwnedNamespace, most: int
    ) -> AsyncIterator[tuple[Key, asyncio.Future[BindableResourcesRequestStatus]]]:
        """Create a request, and delete it at the end, also if the bind is canceled."""
        name = f"fairlead-bind-{secrets.token_hex(8)}"
        key = Key(self._options.namespace, name)
        body: JSON = {
            "apiVersion": API_VERSION,
            "kind": BINDABLERESOURCESREQUESTS.kind,
            "metadata": {
                "name": name,
                "namespace": key.namespace,
                "annotations": {ANNOTATION_MOST_CONSUMERS: str(most)},
            },
            "spec": {
                "templateRef": {"name": bind.template},
                "clusterIdentity": {
                    "identity": bind.identity,
                    "prettyName": bind.pretty_name,
                },
                "author": owned.author,
                "kubeconfigSecretRef": {"name": name, "key": RESPONSE_KEY},
                "ttlAfterFinished": _TTL,
            },
        }
        # Before the request is created: its answer may come before the call returns.
        coming = self._waiting[key] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(bounds.CALL_SECONDS):
                await self._client.create(BINDABLERESOURCESREQUESTS, body)
            yield key, coming
        finally:
            del self._waiting[key]
            # The deadline of the HTTP request or the end of the server may cancel this task; the
            # shield lets the deletion finish, for the Secret holds credentials.
            await asyncio.shield(asyncio.create_task(self._take_away(key)))

    async def _take_away(self, key: Key) -> None:
        """Delete a request and its answer; what fails is left to :data:`_TTL`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(bounds.CALL_SECONDS):
                # Garbage collection would delete the Secret too, but later.
                deletions = (
                    self._client.delete(resource, key.name, key.namespace)
                    for resource in (BINDABLERESOURCESREQUESTS, SECRETS)
                )
                for error in await asyncio.gather(*deletions, return_exceptions=True):
                    if error is not None and not isinstance(error, ClientError):
                        raise error

    def _heard(self, delta: Delta) -> None:
        coming = self._waiting.get(delta.object.key)
        if coming is None or coming.done() or delta.new is None:
            return
        status = _status(delta.new)
        if status is not None and status.phase != "Pending":
            coming.set_result(status)


def _asked(body: _Body, request: web.Request, person: Person) -> AskedBind:
    """Check a body, and return the request.

    Raises:
        Refusal: a field is missing or cannot be used.
    """
    template = body.spec.template_ref.name
    if not template or subdomain_errors(template):
        raise bad_request("spec.templateRef.name has to be the name of a template")
    name = body.metadata.name or template
    if errors := subdomain_errors(name):
        raise bad_request(f"metadata.name cannot be the name of a binding: {errors[0]}")
    identity = body.spec.cluster_identity.identity
    page = identity == _UI_IDENTITY
    consumer = request.query.get("consumer_id", "")
    if page:
        # A page has no cluster of its own: consumer_id names that of the terminal that sent the
        # person.
        identity = consumer or person.author
    elif consumer and consumer != identity:
        # kube-bind lets the query win, and so binds for another cluster than the body names (S1).
        raise bad_request(
            "consumer_id and spec.clusterIdentity.identity name two clusters: give one of them"
        )
    pretty = body.spec.cluster_identity.pretty_name or person.name or identity
    for field, value in (("identity", identity), ("prettyName", pretty)):
        if problem := problem_of(value):
            raise bad_request(f"spec.clusterIdentity.{field} {problem}")
    return AskedBind(template, name, identity, pretty, page)


def problem_of(text: str) -> str:
    """Return why a text cannot be an identity or a display name, "" if it can."""
    if not text or text != text.strip() or not text.isprintable():
        return "is missing, or has characters that are not printable"
    return (
        f"is longer than {bounds.IDENTITY_CHARACTERS} characters"
        if len(text) > bounds.IDENTITY_CHARACTERS
        else ""
    )


def _status(request: Object) -> BindableResourcesRequestStatus | None:
    try:
        return request.decode(BindableResourcesRequest).status
    except msgspec.ValidationError:
        return None


def _failure(status: BindableResourcesRequestStatus, template: str, limit: int) -> Refusal:
    """Return the refusal for a request that the provider's controllers refused."""
    conditions = msgspec.convert(status.conditions, list[Condition])
    ready = next((one for one in conditions if one.type == "Ready"), None)
    reason = ready.reason if ready is not None else ""
    said = ready.message if ready is not None else "no condition says why"
    if reason == TEMPLATE_NOT_FOUND:
        return _no_template(template)
    if reason == IDENTITY_TAKEN:
        # Another person was faster, or this server's cache lags.
        return forbidden(_REFUSED, reason=said)
    if reason == TOO_MANY_CONSUMERS:
        return _too_many(limit, said)
    # The identity is being revoked, or the cluster issues no tokens. The provider's message names
    # its namespaces and objects, so it is only logged.
    return Refusal(
        409,
        ErrorCode.INTERNAL_ERROR,
        "the provider could not bind this; its log says why",
        reason=f"{reason}: {said}",
    )


def _too_many(limit: int, reason: str = "") -> Refusal:
    return forbidden(
        f"you have {limit} consumer clusters already, and may have no more: ask the provider to "
        "revoke an unused one",
        reason=reason or f"quota of {limit} consumers",
    )


def _no_template(name: str) -> Refusal:
    return Refusal(404, ErrorCode.RESOURCE_NOT_FOUND, f"there is no template {name}")
