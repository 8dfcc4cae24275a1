"""What a binding waits for after a page has made it: the provider, the konnector, both."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from fairlead.api.kubebind import (
    APISERVICEEXPORTS,
    APIServiceExport,
    ClusterBinding,
)
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    PERMISSIONS_GRANTED,
    PROVIDER_IN_SYNC,
    READY,
    Condition,
)
from fairlead.api.label_names import subdomain_errors
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.kubebind import KUBE_BIND
from fairlead.api.reasons.model import State
from fairlead.portal.console.clusters import Clusters
from fairlead.portal.console.formtokens import FormTokens
from fairlead.portal.console.live import Hub
from fairlead.portal.console.rendering import segment
from fairlead.portal.console.viewing import Asked, MissingError, Topics, View
from fairlead.portal.identity.sessions import Session
from fairlead.runtime import Cluster


_PROVIDERS = frozenset({PERMISSIONS_GRANTED, PROVIDER_IN_SYNC})
"""Conditions of an export that the provider's own controllers write."""
_PROVIDER = "The provider"


class Step(msgspec.Struct, frozen=True):
    """A part of the way, and how it stands."""

    title: str
    state: State
    about: str = ""
    helps: str = ""
    since: str = ""


class BoundPage(View):
    """One binding that a page has made, until it is Ready."""

    route = "/bind/{template}/{namespace}/{name}"
    template = "bound.html"

    def __init__(
        self, cluster: Cluster, hub: Hub, *, clusters: Clusters, tokens: FormTokens
    ) -> None:
        self._clusters = clusters
        self._tokens = tokens
        self._exports = hub.informer(cluster, APISERVICEEXPORTS)

    @staticmethod
    def at(template: str, namespace: str, name: str) -> str:
        """The path of the page of a binding."""
        return f"/bind/{segment(template)}/{segment(namespace)}/{segment(name)}"

    @staticmethod
    def action(file: str, path: str) -> str:
        """What the token of the form of a file is for."""
        return f"{file} of {path}"

    async def scope(self, session: Session, asked: Asked) -> Hashable:
        """The cluster as it is called, its namespace, and the binding's name.

        Raises:
            MissingError: the namespace is not the person's.
        """
        namespace, name = asked.name("namespace"), asked.name("name")
        found = self._clusters.get(session.person, namespace)
        odd = subdomain_errors(name) or subdomain_errors(asked.name("template"))
        if found is None or odd:
            raise MissingError(
                f"There is no binding {name} of yours in {namespace}",
                "It is not there any more, or it is another person's.",
            )
        return found.title, namespace, name

    def topics(self, scope: Any) -> Topics:
        """The cluster namespace, and whether it is there."""
        return ("", scope[1])

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """The parts of the way, and the first that is not done."""
        cluster, namespace, name = scope
        known = list(self._conditions(namespace, name))
        theirs = [one for one in known if one.type in _PROVIDERS]
        steps = [
            *(_steps(_PROVIDER, theirs) if theirs else [self._exported(namespace, name)]),
            *_steps("The konnector in your cluster", self._connection(namespace)),
            *_bound([one for one in known if one.type not in _PROVIDERS]),
        ]
        return {
            "cluster": cluster,
            "binding": name,
            "space": namespace,
            "chosen": asked.name("template"),
            "steps": steps,
            "waits": next((one for one in steps if one.state != "ok"), None),
        }

    async def own(self, session: Session, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """The forms of the files."""
        _, namespace, name = scope
        path = self.at(asked.name("template"), namespace, name)
        files = ("bundle", "response")
        tokens = {one: self._tokens.token(session, self.action(one, path)) for one in files}
        return {"tokens": tokens, "error": ""}

    def _exported(self, namespace: str, name: str) -> Step:
        title = _PROVIDER
        if self._exports.get(namespace, name) is not None:
            return Step(title, "ok", "It exports what was asked for.")
        return Step(
            title,
            "waiting",
            "It has not exported yet what was asked for.",
            "wait a moment; where that lasts, ask the provider's team",
        )

    def _connection(self, namespace: str) -> Iterable[Condition]:
        found = self._clusters.connection(namespace)
        try:
            return found.decode(ClusterBinding).status.conditions if found is not None else ()
        except msgspec.ValidationError as error:
            return [Condition(READY, "False", reason="Invalid", message=str(error))]

    def _conditions(self, namespace: str, name: str) -> Iterable[Condition]:
        found = self._exports.get(namespace, name)
        try:
            return found.decode(APIServiceExport).status.conditions if found is not None else ()
        except msgspec.ValidationError as error:
            return [Condition(READY, "False", reason="Invalid", message=str(error))]


def _bound(conditions: list[Condition]) -> Iterator[Step]:
    """What the konnector says of a binding."""
    if all(one.type != CONNECTED for one in conditions):
        # Ready can be true by the provider's word alone.
        yield Step("The binding", "waiting", "No konnector has bound it yet.")
        return
    yield from _steps("The binding", conditions)


def _steps(title: str, conditions: Iterable[Condition]) -> Iterator[Step]:
    """What is wrong with a part; one step where nothing is, or nothing is known."""
    known = list(conditions)
    ready = next((one for one in known if one.type == READY), None)
    wrong = [one for one in known if state_of(one) != "ok"]
    # Ready repeats another one's words.
    finer = [one for one in wrong if one.type != READY] or wrong
    if not known:
        yield Step(title, "waiting", "No konnector has said anything of it yet.")
    for one in finer:
        yield Step(
            title,
            state_of(one),
            ": ".join(part for part in (one.reason, one.message) if part),
            KUBE_BIND.helps(one.reason),
            one.last_transition_time or "",
        )
    if known and not finer:
        since = (ready.last_transition_time or "") if ready is not None else ""
        yield Step(title, "ok", "", "", since)
