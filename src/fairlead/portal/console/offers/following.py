"""The page that follows a new binding: the provider's steps and the konnector's; and its files."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import structlog
import yaml
from aiohttp import web

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
    APIServiceExport,
    ClusterBinding,
)
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    PERMISSIONS_GRANTED,
    PROVIDER_IN_SYNC,
    READY,
    KubeBindCondition,
)
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import condition_state, remedy_of
from fairlead.client import ClientError
from fairlead.konnector.commands.rehearsal import planned
from fairlead.portal.console.offers.catalogue import Clusters
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import segment
from fairlead.portal.console.pages.viewing import (
    AskedPage,
    FormError,
    FormView,
    MissingError,
    Topics,
)
from fairlead.portal.console.visits.formtokens import FormTokens, field
from fairlead.portal.handshake.applying import named_response
from fairlead.portal.handshake.bind import AskedBind, Bind
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal, bad_request, refusal_of
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.runtime import Cluster


_PROVIDERS = frozenset({PERMISSIONS_GRANTED, PROVIDER_IN_SYNC})
"""Conditions of an export that the provider's controllers write."""
_PROVIDER = "The provider"
_FILES = {
    "bundle": ("binding-bundle.yaml", "application/yaml"),
    "response": ("binding-response.json", "application/json"),
}
"""Name and type of the files: manifests for kubectl, and a BindingResponse for the command."""
_log = structlog.get_logger(logger_name="fairlead.portal.console")


class FollowedStep(msgspec.Struct, frozen=True):
    """A step of a binding, with its state."""

    title: str
    state: State
    about: str = ""
    helps: str = ""
    since: str = ""


class BoundPage(FormView):
    """The page of a new binding until it is Ready, with files that bind it."""

    route = "/bind/{template}/{namespace}/{name}"
    template = "bound.html"

    def __init__(
        self, cluster: Cluster, hub: Hub, *, clusters: Clusters, tokens: FormTokens, binds: Bind
    ) -> None:
        self._clusters = clusters
        self._binds = binds
        self._tokens = tokens
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)

    @staticmethod
    def at(template: str, namespace: str, name: str) -> str:
        """Return the path of a binding's page."""
        return f"/bind/{segment(template)}/{segment(namespace)}/{segment(name)}"

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the cluster's name, its namespace, and the binding's name.

        Raises:
            MissingError: the namespace is not the person's.
        """
        namespace, name = page.name("namespace"), page.name("name")
        cluster = self._clusters.get(session.person, namespace)
        odd = subdomain_errors(name) or subdomain_errors(page.name("template"))
        if cluster is None or odd:
            raise MissingError(
                f"There is no binding {name} of yours in {namespace}",
                "It no longer exists, or is another person's.",
            )
        return cluster.name, namespace, name

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the cluster namespace and of cluster-scoped objects."""
        return ("", scope[1])

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the steps, and the first that is not done."""
        cluster, namespace, name = scope
        export = self._exports.get(namespace, name)
        conditions = list(_conditions(export, APIServiceExport))
        theirs = [one for one in conditions if one.type in _PROVIDERS]
        connection = self._connections.get(namespace, CLUSTER_BINDING_NAME)
        konnector = _conditions(connection, ClusterBinding)
        steps = [
            *(_steps(_PROVIDER, export, theirs) if theirs else [_exported(export)]),
            *_steps("The konnector in your cluster", connection, konnector),
            *_bound(export, [one for one in conditions if one.type not in _PROVIDERS]),
        ]
        return {
            "cluster": cluster,
            "binding": name,
            "space": namespace,
            "chosen": page.name("template"),
            "steps": steps,
            "waits": next((one for one in steps if one.state != "ok"), None),
        }

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the form tokens of the files."""
        _, namespace, name = scope
        path = self.at(page.name("template"), namespace, name)
        tokens = {one: self._tokens.token(session, f"{one} of {path}") for one in _FILES}
        return {"tokens": tokens, "error": ""}

    async def submit(self, request: web.Request) -> web.Response:
        """Answer with a file with credentials, which is generated and not stored.

        Raises:
            FormError: the person has lost the right, or the bind is refused.
            Refusal: the form is not from this page.
            ClientError: the API server refused or is unavailable.
        """
        session, fields = await self._tokens.fields(request)
        template, namespace, name = map(
            request.match_info.__getitem__, ("template", "namespace", "name")
        )
        format_ = field(fields, "file")
        cluster = self._clusters.get(session.person, namespace)
        if cluster is None or format_ not in _FILES:
            raise bad_request("there is no such file here: load the page again")
        try:
            path = self.at(template, namespace, name)
            await self._tokens.check(session, fields, f"{format_} of {path}")
            count(request, session.person.author, "bind")
            bind = AskedBind(template, name, cluster.identity, cluster.name, page=True)
            response = await self._binds.bound(request, session.person, session.key, bind)
        except (Refusal, ClientError, TimeoutError) as error:
            refusal = logged(error)
            raise FormError(session, refusal.status, error=refusal.message) from None
        file, media = _FILES[format_]
        content = (
            bundle(response)
            if format_ == "bundle"
            else msgspec.json.format(msgspec.json.encode(response), indent=2)
        )
        disposition = {"Content-Disposition": f"attachment; filename={file}"}
        return web.Response(body=content, content_type=media, headers={**PRIVATE, **disposition})


def logged(error: Refusal | ClientError | TimeoutError) -> Refusal:
    """Return the refusal of a failed bind, and log why."""
    if not isinstance(error, Refusal):
        error = refusal_of(error)
        _log.error("a bind failed", reason=error.reason)
    elif error.reason:
        _log.info("not bound", reason=error.reason)
    return error


def bundle(response: JSON) -> bytes:
    """Return the manifests for the consumer's cluster as YAML, with credentials.

    They are the kubeconfig, the konnector's rights, limited to the resources of the response, and
    a bundle, which binds all exports of the provider to this cluster.
    """
    documents: list[JSON] = []
    for planned_object in planned(named_response(response)):
        match planned_object["kind"]:
            case "Secret":
                secret = {"data": {KUBECONFIG_NAME: response["kubeconfig"]}}
                documents.append(planned_object | secret)
            case APISERVICEBINDINGS.kind:
                documents.append(
                    {
                        "apiVersion": API_VERSION,
                        "kind": APISERVICEBINDINGBUNDLES.kind,
                        "metadata": {"name": response["providerNamespace"]},
                        "spec": planned_object["spec"],
                    }
                )
            case _:
                documents.append(planned_object)
    return yaml.safe_dump_all(documents, sort_keys=False).encode()


def _exported(export: Object | None) -> FollowedStep:
    if export is not None:
        return FollowedStep(_PROVIDER, "ok", "It exports the requested resources.")
    return FollowedStep(
        _PROVIDER,
        "waiting",
        "It has not exported the requested resources yet.",
        "wait a moment; if that does not help, ask the provider's team",
    )


def _conditions(
    obj: Object | None, kind: type[APIServiceExport | ClusterBinding]
) -> Iterable[KubeBindCondition]:
    try:
        return obj.decode(kind).status.conditions if obj is not None else ()
    except msgspec.ValidationError as error:
        return [KubeBindCondition(READY, "False", reason="Invalid", message=field_message(error))]


def _bound(export: Object | None, conditions: list[KubeBindCondition]) -> Iterator[FollowedStep]:
    if all(one.type != CONNECTED for one in conditions):
        # Without Connected, Ready may be true though no konnector has seen the binding.
        yield FollowedStep("The binding", "waiting", "No konnector has bound it yet.")
        return
    yield from _steps("The binding", export, conditions)


def _steps(
    title: str, obj: Object | None, conditions: Iterable[KubeBindCondition]
) -> Iterator[FollowedStep]:
    """Yield a step per condition of an object that is not ok, or one step if all are."""
    present = list(conditions)
    ready = next((one for one in present if one.type == READY), None)
    states = [(condition_state(obj, one), one) for one in present] if obj is not None else []
    wrong = [(state, one) for state, one in states if state is not None and state != "ok"]
    # Ready repeats the message of another condition.
    finer = [pair for pair in wrong if pair[1].type != READY] or wrong
    if not present:
        yield FollowedStep(title, "waiting", "No konnector has reported yet.")
    for state, step in finer:
        yield FollowedStep(
            title,
            state,
            ": ".join(part for part in (step.reason, step.message) if part),
            # Who binds a service reads it, and has the consumer's cluster.
            remedy_of(step.reason, step.message, place="consumer"),
            step.last_transition_time or "",
        )
    if present and not finer:
        since = (ready.last_transition_time or "") if ready is not None else ""
        yield FollowedStep(title, "ok", "", "", since)
