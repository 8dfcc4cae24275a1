"""POST /api/apply-binding: writes a binding into the consumer's cluster by its kubeconfig.

Off unless an operator allows it (S12). The kubeconfig is not trusted: it has to contain its
credentials, its server's address has to be allowed, and it is neither logged nor stored. Nothing
is created before the cluster has accepted the credentials. (kube-bind's handshake, section 4.)
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import web

from fairlead.api.addresses import refused_address
from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    APIServiceExport,
    APIServiceExportTemplate,
    BindingResponse,
    ExportRequestResponse,
    decode_binding_response,
    request_from_template,
)
from fairlead.api.kubebind.wire import ErrorCode
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES
from fairlead.client import (
    AddressRefused,
    ApiError,
    Caution,
    Client,
    ClientError,
    ClusterConfig,
    ConfigError,
    ConnectionFailed,
    Forbidden,
    RetryPolicy,
    Timeouts,
    Unauthorized,
    parse_kubeconfig,
)
from fairlead.client.clocks import certificate_clock
from fairlead.client.lookups import find
from fairlead.konnector.commands import presence
from fairlead.konnector.commands.bind import write_bundle
from fairlead.konnector.commands.names import bindings_by_name
from fairlead.konnector.commands.request import BindError, difference
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.portal import bounds
from fairlead.portal.handshake.bind import AskedBind, Bind, as_consumer
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.http.audit import audit
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal, bad_request, forbidden
from fairlead.portal.http.metrics import result_of
from fairlead.portal.http.requests import BIND_RESULT, read_json
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.portal.options import ServeOptions
from fairlead.runtime import Cluster


_TIMEOUTS = Timeouts(connect=5.0, read=10.0, watch_idle=10.0)
_RETRIES = RetryPolicy(attempts=2, budget=2.0)
_FAULTS = (
    *(ClientError, TimeoutError, msgspec.MsgspecError),
    *(AttributeError, LookupError, TypeError, ValueError),
)
"""Exceptions of a consumer's cluster that is unavailable, refuses, or answers nonsense."""


class ApplyingPatience(msgspec.Struct, frozen=True):
    """Longest waits, in seconds: for a new export in the cache, for reading, and for writing.

    The removal of written objects after a failure takes additional time.
    """

    known: float = 10.0
    look: float = 10.0
    write: float = 20.0


class _Body(msgspec.Struct, rename="camel"):
    """The used fields of the request."""

    consumer_kubeconfig: str = ""
    binding_name: str = ""
    host_aliases: list[str] | None = None


class Applying:
    """Writes bindings into consumers' clusters."""

    def __init__(
        self,
        cluster: Cluster,
        options: ServeOptions,
        *,
        guard: SessionGuard,
        catalog: Catalog,
        ownership: Ownership,
        bind: Bind,
        refused: Callable[[str], str] | None = None,
        patience: ApplyingPatience | None = None,
    ) -> None:
        self._client: Client = cluster.client
        self._allowed = options.apply_binding
        self._guard = guard
        self._catalog = catalog
        self._ownership = ownership
        self._bind = bind
        self._refused = refused or partial(refused_address, networks=options.apply_networks)
        self._patience = patience or ApplyingPatience()
        self._exports = cluster.informer(APISERVICEEXPORTS, metadata_only=True)
        self._working: set[str] = set()

    def routes(self) -> list[web.RouteDef]:
        """Return the route, relative to the root."""
        return [web.post("/api/apply-binding", self.apply)]

    async def apply(self, request: web.Request) -> web.Response:
        """Write the binding of a name into the consumer's cluster."""
        session = await self._guard.session(request)
        if not self._allowed:
            raise forbidden(
                "this server accepts no kubeconfigs",
                details="bind in a terminal: fairlead bind --template NAME",
            )
        # Before the body is read: a refused request then costs little.
        count(request, session.person.author, "bind")
        body = await read_json(request, _Body)
        if body.host_aliases:
            raise bad_request("hostAliases: this server starts no konnector; leave it out")
        name = body.binding_name
        if not name or (errors := subdomain_errors(name)):
            raise bad_request(
                f"bindingName: {errors[0] if name else 'it is missing'}; use the one that "
                "POST /api/bind returned"
            )
        config = inline_cluster(body.consumer_kubeconfig)
        identity = request.query.get("consumer_id", "") or session.person.author
        # The person's own bind first: without one the server connects to no address for them.
        bind = await self._asked(session, name, identity)
        with self._turn(session.person):
            message = await self._applied(request, session, bind, config)
        response: JSON = {"konnectorDeployed": False, "bundleCreated": True, "message": message}
        return web.json_response(response)

    @contextmanager
    def _turn(self, person: Person) -> Iterator[None]:
        """Hold a slot for the block: one per person, and ``CLUSTERS_AT_ONCE`` for all people.

        Raises:
            Refusal: there is no free slot.
        """
        # A cluster that hangs holds a slot for all waits of its calls, so one person's may take
        # only one.
        author, working = person.author, self._working
        if author in working or len(working) >= bounds.CLUSTERS_AT_ONCE:
            raise Refusal(
                429,
                ErrorCode.BAD_REQUEST,
                "the server is writing into another cluster; wait until it is done",
                retry_after=5.0,
            )
        working.add(author)
        try:
            yield
        finally:
            working.discard(author)

    async def _applied(
        self,
        request: web.Request,
        session: BrowserSession,
        bind: AskedBind,
        config: ClusterConfig,
    ) -> str:
        """Check the cluster, bind, and write the binding; return the message for the person."""
        result = "done"
        # The client holds each socket to it, also where a name resolves to another address at
        # the second look (DNS rebinding).
        caution = Caution(refused=self._refused)
        try:
            async with Client(
                config,
                user_agent="fairlead-bind",
                timeouts=_TIMEOUTS,
                retries=_RETRIES,
                caution=caution,
            ) as consumer:
                await _looked_at(consumer, self._patience.look)
                response = await self._bind.bound(request, session.person, session.key, bind)
                bundle = await self._written(consumer, named_response(response))
                return await _told(consumer, bundle, self._patience.look)
        except Refusal as refusal:
            result = refusal.message
            request[BIND_RESULT] = result_of(refusal.status)
            raise
        except BaseException:
            # Also a cancellation: the audit line must not say done.
            result = "failed"
            raise
        finally:
            audit(
                "apply-binding",
                who=session.person.author,
                what=bind.template,
                result=result,
                request=request,
                identity=bind.identity,
                binding=bind.name,
                server=urlsplit(config.server).netloc,
            )

    async def _asked(self, session: BrowserSession, name: str, identity: str) -> AskedBind:
        """Return the bind of this name, with a template that the person may bind.

        Raises:
            Refusal: the bind does not exist, or is another person's.
        """
        export = await self._exported(session.person, identity, name)
        for template in sorted(
            await self._catalog.offered(session),
            # Most bindings have the name of their template: try that first.
            key=lambda obj: (obj.meta.name != name, obj.meta.name),
        ):
            if _brings(template, export):
                pretty = session.person.name or identity
                return AskedBind(template.meta.name, name, identity, pretty, page=True)
        raise forbidden(
            f"no template that you may bind offers the resources of {name}",
            reason=f"no right to a template of APIServiceExport {export.key}",
        )

    async def _exported(self, person: Person, identity: str, name: str) -> Object:
        try:
            async with asyncio.timeout(self._patience.known):
                while True:
                    owned = self._ownership.of(person, identity)
                    if owned is None:
                        raise forbidden(
                            "you may not bind for this cluster",
                            reason=f"identity {identity!r} is another's",
                        )
                    if owned.namespace and self._exports.get(owned.namespace, name):
                        export = await find(self._client, APISERVICEEXPORTS, name, owned.namespace)
                        if export is not None:
                            return export
                    # The cache gets a new export by its watch, a moment after the bind.
                    await asyncio.sleep(bounds.POLL_SECONDS)
        except TimeoutError:
            raise Refusal(
                404,
                ErrorCode.RESOURCE_NOT_FOUND,
                f"you have no bind named {name}: bind it by POST /api/bind first",
            ) from None

    async def _written(self, consumer: Client, response: BindingResponse) -> str:
        """Write everything, and remove it if that fails; return the bundle's name."""

        def reach(config: ClusterConfig) -> Client:
            # Only the token of a found kubeconfig is used: its server might be any address.
            way = as_consumer(self._client.config, config.token, config.namespace)
            return Client(way, user_agent="fairlead-serve")

        try:
            return await write_bundle(
                consumer, response, timeout=self._patience.write, reach=reach
            )
        except BindError as error:
            raise Refusal(409, ErrorCode.BAD_REQUEST, str(error)) from None
        except _FAULTS as error:
            ours = self._client.config.server
            # An error of the provider is no fault of the consumer's cluster, and is told as such.
            if isinstance(error, (ApiError, ConnectionFailed)) and error.server == ours:
                raise
            raise _failure(error) from None


def inline_cluster(encoded: str) -> ClusterConfig:
    """Parse a kubeconfig that contains its own credentials.

    Raises:
        Refusal: the kubeconfig is malformed, or refers to files, proxies or other users.
    """
    if not encoded:
        raise _unusable("it is missing")
    # Base64 takes 4 characters for 3 bytes.
    if len(encoded) > bounds.KUBECONFIG_BYTES * 4 // 3 + 4:
        raise _unusable(f"it is larger than {bounds.KUBECONFIG_BYTES} bytes")
    try:
        # It refuses paths of files, exec plugins and auth providers: the first would read files of
        # this server, and the others run commands on it (S12).
        config = parse_kubeconfig(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        raise _unusable("it has to be base64 of the standard alphabet") from None
    except ConfigError as error:
        raise _unusable(str(error)) from None
    wrong = {
        "server is no https address": not config.server.startswith("https://"),
        "insecure-skip-tls-verify is not taken": config.insecure_skip_tls_verify,
        "proxy-url is not taken": bool(config.proxy_url),
        "impersonation (as) is not taken": config.impersonation is not None,
        "username and password are not taken": bool(config.username or config.password),
        "there is neither a token nor a client certificate": not (
            config.token or config.client_certificate
        ),
    }
    for problem, message in wrong.items():
        if message:
            raise _unusable(problem)
    return config


def _unusable(problem: str) -> Refusal:
    return bad_request(
        f"consumerKubeconfig cannot be used: {problem[:300]}",
        details="it has to have an https server with its CA, and a token or client certificate "
        "in itself",
    )


async def _looked_at(consumer: Client, seconds: float) -> None:
    """Check that the cluster accepts the credentials, before the provider creates any.

    Raises:
        Refusal: the cluster does not answer or refuses.
    """
    try:
        async with asyncio.timeout(seconds):
            await find(consumer, NAMESPACES, DEFAULT_NAMESPACE)
            await bindings_by_name(consumer)
    except _FAULTS as error:
        raise _failure(error) from None


def _brings(template: Object, export: Object) -> bool:
    """Whether the export has what a bind of the template requests."""
    try:
        spec = export.decode(APIServiceExport).spec
        expected = request_from_template(
            template.decode(APIServiceExportTemplate).spec, name=export.meta.name
        )
        request = msgspec.convert(expected, ExportRequestResponse)
    except msgspec.ValidationError:
        return False
    return not difference(request, export, spec.resources, spec.permission_claims)


def named_response(response: JSON) -> BindingResponse:
    """Decode the answer to a bind by a page, with its request renamed to the binding's name."""
    decoded = decode_binding_response(msgspec.json.encode(response))
    (request,) = decoded.requests
    renamed = msgspec.structs.replace(request.metadata, name=decoded.binding_name)
    request = msgspec.structs.replace(request, metadata=renamed)
    return msgspec.structs.replace(decoded, requests=[request])


async def _told(consumer: Client, bundle: str, seconds: float) -> str:
    """Return a message with the written bundle and the next step in the cluster."""
    said = f"APIServiceBindingBundle {bundle} was created with all its objects"
    try:
        async with asyncio.timeout(seconds):
            traces = await presence.read_traces(consumer, DEFAULT_NAMESPACE)
    except TimeoutError:
        return said
    if traces.lease is not None or traces.deployment is not None:
        return f"{said}; a konnector is installed in the cluster"
    return (
        f"{said}; no konnector was found in the cluster: apply the manifests of "
        "/api/konnector-manifests"
    )


def _failure(error: Exception) -> Refusal:
    """Return the refusal for a failure of the consumer's cluster, without its message."""
    reason = type(error).__name__
    if isinstance(error, ClientError):
        reason += f": {error}"
    match error:
        case TimeoutError():
            return _away(504, "the consumer's cluster did not answer in time", reason)
        case ConfigError():
            return _unusable(str(error))
        case Unauthorized():
            return _refused("the consumer's cluster does not accept these credentials", reason)
        case Forbidden():
            return _refused(
                "the credentials have too few rights in the consumer's cluster: binding needs "
                "those of an administrator",
                reason,
            )
        case ApiError() if error.code < 500:
            return _refused("the consumer's cluster refused a write", reason)
        case ApiError():
            return _away(502, "the consumer's cluster failed; try again", reason)
        case ConnectionFailed():
            match error.__cause__:
                case TimeoutError():
                    return _away(504, "the consumer's cluster did not answer in time", reason)
                case (
                    aiohttp.ClientConnectorDNSError()
                    | aiohttp.ClientConnectorError(os_error=AddressRefused())
                ):
                    # Alike, so that the answer does not say which names there are inside.
                    return Refusal(
                        400,
                        ErrorCode.BAD_REQUEST,
                        "consumerKubeconfig cannot be used: this server may not connect to its "
                        "server's address",
                        details="bind in a terminal: fairlead bind --template NAME",
                        reason=reason,
                    )
                case aiohttp.ClientConnectorCertificateError() as cause if certificate_clock(
                    cause.certificate_error
                ):
                    return _refused(
                        "the certificate of the consumer's cluster is not valid yet, or no more, "
                        "by the clock of this server",
                        reason,
                    )
                case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
                    return _refused(
                        "the certificate of the consumer's cluster is not from the kubeconfig's "
                        "CA, or is for another name",
                        reason,
                    )
                case OSError():
                    return _away(502, "the consumer's cluster cannot be reached", reason)
    return _away(502, "the consumer's cluster gave no usable answer", reason)


def _refused(message: str, reason: str) -> Refusal:
    return Refusal(422, ErrorCode.BAD_REQUEST, message, reason=reason)


def _away(status: int, message: str, reason: str) -> Refusal:
    return Refusal(status, ErrorCode.CLUSTER_CONNECTION_FAILED, message, reason=reason)
