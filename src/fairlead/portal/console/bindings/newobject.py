"""A form for a new object of a bound kind: it produces YAML to copy, and creates nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.portal.console.authoring import Blank, TooMuchError, fields_of, read, start
from fairlead.portal.console.bindings.known import Consumers
from fairlead.portal.console.objects.sights import Sights
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, View, asked_of
from fairlead.portal.console.visits.site import Site
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.requests.bodies import FORM_TYPE, read_body
from fairlead.portal.identity.guard import SessionGuard
from fairlead.portal.identity.sessions import BrowserSession


class NewObjectPage(View):
    """The page of the form, blank or posted."""

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
        """Return the consumer, the binding and the kind."""
        return {
            "consumer": asked.name("namespace"),
            "name": asked.name("name"),
            "resource": scope,
            "kind": self.blank(scope).kind,
        }

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return the form, with defaults of the schema."""
        return {"form": start(self.blank(scope))}

    def blank(self, resource: str) -> Blank:
        """Return the kind and schema of the form.

        Raises:
            MissingError: the kind's schema is unknown.
        """
        kind, schema = self._consumers.kinds.get(resource), self._consumers.kinds.schema(resource)
        if kind is None or schema is None:
            raise MissingError(
                f"The fields of {resource} are not known",
                self._consumers.kinds.problem(resource),
            )
        found = kind.resource
        return Blank(found.api_version, found.kind, found.namespaced, schema)


class NewObjects:
    """Handles posted forms, and answers with the page and its YAML."""

    def __init__(self, view: NewObjectPage, site: Site, guard: SessionGuard) -> None:
        self._view = view
        self._site = site
        self._guard = guard

    def routes(self) -> list[web.RouteDef]:
        """Return the form's route."""
        return [web.post(self._view.route, self._posted)]

    async def _posted(self, request: web.Request) -> web.Response:
        session = await self._guard.session(request, content_type=FORM_TYPE)
        content = await read_body(request, content_type=FORM_TYPE)
        try:
            # Checked before the form is parsed, which is expensive.
            resource = await self._view.scope(session, asked_of(request))
            form = read(self._view.blank(resource), fields_of(content))
        except TooMuchError as error:
            raise Refusal(413, ErrorCode.BAD_REQUEST, str(error)) from None
        except MissingError as missing:
            return await self._site.missing(request, session, missing)
        status = 422 if form.problems else 200
        return await self._site.show(self._view, request, session, status=status, form=form)
