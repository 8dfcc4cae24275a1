"""The page that follows a new binding: the provider's steps and the konnector's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
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
from fairlead.api.meta import Object
from fairlead.api.reasons.model import State
from fairlead.api.reasons.verdict import condition_state, remedy_of
from fairlead.portal.console.offers.clusters import Clusters
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import segment
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.console.visits.formtokens import FormTokens
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.runtime import Cluster


_PROVIDERS = frozenset({PERMISSIONS_GRANTED, PROVIDER_IN_SYNC})
"""Conditions of an export that the provider's controllers write."""
_PROVIDER = "The provider"


class FollowedStep(msgspec.Struct, frozen=True):
    """A step of a binding, with its state."""

    title: str
    state: State
    about: str = ""
    helps: str = ""
    since: str = ""


class BoundPage(View):
    """The page of a new binding until it is Ready."""

    route = "/bind/{template}/{namespace}/{name}"
    template = "bound.html"

    def __init__(
        self, cluster: Cluster, hub: Hub, *, clusters: Clusters, tokens: FormTokens
    ) -> None:
        self._clusters = clusters
        self._tokens = tokens
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)
        self._connections = hub.informer(cluster, CLUSTERBINDINGS)

    @staticmethod
    def at(template: str, namespace: str, name: str) -> str:
        """Return the path of a binding's page."""
        return f"/bind/{segment(template)}/{segment(namespace)}/{segment(name)}"

    @staticmethod
    def action(file: str, path: str) -> str:
        """Return the action that a file's form token is valid for."""
        return f"{file} of {path}"

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return the cluster's name, its namespace, and the binding's name.

        Raises:
            MissingError: the namespace is not the person's.
        """
        namespace, name = asked.name("namespace"), asked.name("name")
        found = self._clusters.get(session.person, namespace)
        odd = subdomain_errors(name) or subdomain_errors(asked.name("template"))
        if found is None or odd:
            raise MissingError(
                f"There is no binding {name} of yours in {namespace}",
                "It no longer exists, or is another person's.",
            )
        return found.name, namespace, name

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the cluster namespace and of cluster-scoped objects."""
        return ("", scope[1])

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the steps, and the first that is not done."""
        cluster, namespace, name = scope
        export = self._exports.get(namespace, name)
        known = list(_conditions(export, APIServiceExport))
        theirs = [one for one in known if one.type in _PROVIDERS]
        connection = self._connections.get(namespace, CLUSTER_BINDING_NAME)
        konnector = _conditions(connection, ClusterBinding)
        steps = [
            *(_steps(_PROVIDER, export, theirs) if theirs else [_exported(export)]),
            *_steps("The konnector in your cluster", connection, konnector),
            *_bound(export, [one for one in known if one.type not in _PROVIDERS]),
        ]
        return {
            "cluster": cluster,
            "binding": name,
            "space": namespace,
            "chosen": asked.name("template"),
            "steps": steps,
            "waits": next((one for one in steps if one.state != "ok"), None),
        }

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return the form tokens of the files."""
        _, namespace, name = scope
        path = self.at(asked.name("template"), namespace, name)
        files = ("bundle", "response")
        tokens = {one: self._tokens.token(session, self.action(one, path)) for one in files}
        return {"tokens": tokens, "error": ""}


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
    found: Object | None, kind: type[APIServiceExport | ClusterBinding]
) -> Iterable[KubeBindCondition]:
    try:
        return found.decode(kind).status.conditions if found is not None else ()
    except msgspec.ValidationError as error:
        return [KubeBindCondition(READY, "False", reason="Invalid", message=str(error))]


def _bound(export: Object | None, conditions: list[KubeBindCondition]) -> Iterator[FollowedStep]:
    if all(one.type != CONNECTED for one in conditions):
        # Without Connected, Ready may be true though no konnector has seen the binding.
        yield FollowedStep("The binding", "waiting", "No konnector has bound it yet.")
        return
    yield from _steps("The binding", export, conditions)


def _steps(
    title: str, found: Object | None, conditions: Iterable[KubeBindCondition]
) -> Iterator[FollowedStep]:
    """Yield a step per condition of an object that is not ok, or one step if all are."""
    known = list(conditions)
    ready = next((one for one in known if one.type == READY), None)
    states = [(condition_state(found, one), one) for one in known] if found is not None else []
    wrong = [(state, one) for state, one in states if state is not None and state != "ok"]
    # Ready repeats the message of another condition.
    finer = [pair for pair in wrong if pair[1].type != READY] or wrong
    if not known:
        yield FollowedStep(title, "waiting", "No konnector has reported yet.")
    for state, one in finer:
        yield FollowedStep(
            title,
            state,
            ": ".join(part for part in (one.reason, one.message) if part),
            # Who binds a service reads it, and has the consumer's cluster.
            remedy_of(one.reason, one.message, place="consumer"),
            one.last_transition_time or "",
        )
    if known and not finer:
        since = (ready.last_transition_time or "") if ready is not None else ""
        yield FollowedStep(title, "ok", "", "", since)
