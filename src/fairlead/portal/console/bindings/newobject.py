"""An example of a bound kind, to copy and to apply in the consumer's cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.portal.console.bindings.known import Consumers
from fairlead.portal.console.examples import example
from fairlead.portal.console.objects.sights import Sights
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, View
from fairlead.portal.identity.sessions import BrowserSession


class NewObjectPage(View):
    """The page of the example."""

    route = "/bindings/{namespace}/{name}/new/{resource}"
    template = "newobject.html"

    def __init__(self, consumers: Consumers, sights: Sights) -> None:
        self._consumers = consumers
        self._sights = sights

    async def scope(self, session: BrowserSession, asked: AskedPage) -> str:
        """Return the kind as ``plural.group``.

        Raises:
            MissingError: the person may not see the binding, or it has no such kind.
        """
        consumer, name = asked.name("namespace"), asked.name("name")
        resource = asked.name("resource")
        export = self._consumers.export(consumer, name)
        sight = await self._sights.one(session.person, consumer, ())
        kinds = self._consumers.read(export).kinds if export is not None else ()
        if consumer not in sight.consumers or resource not in kinds:
            raise MissingError(
                f"There is no kind {resource} in a binding {name} for you",
                "Your bindings tell which kinds they have.",
            )
        return resource

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the binding, the kind and the example.

        Raises:
            MissingError: the kind's schema is unknown.
        """
        kinds = self._consumers.kinds
        kind, schema = kinds.get(scope), kinds.schema(scope)
        if kind is None or schema is None:
            raise MissingError(f"The fields of {scope} are not known", kinds.problem(scope))
        resource = kind.resource
        consumer = asked.name("namespace")
        return {
            "consumer": consumer,
            "name": asked.name("name"),
            "cluster": self._consumers.title(consumer),
            "resource": resource,
            "file": f"{resource.kind.lower()}.yaml",
            "example": example(
                schema,
                api_version=resource.api_version,
                kind=resource.kind,
                namespaced=resource.namespaced,
            ),
        }
