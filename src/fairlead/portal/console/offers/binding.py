"""Binding on a page: the form with the granted rights, and its submission."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import structlog
from aiohttp import web

from fairlead.api.kubebind import APIServiceExportTemplate
from fairlead.api.label_names import subdomain_errors
from fairlead.client import ClientError
from fairlead.portal.console.claims import at_consumer, at_provider
from fairlead.portal.console.offers.bundles import bundle
from fairlead.portal.console.offers.catalogue import TemplatePage
from fairlead.portal.console.offers.clusters import Clusters
from fairlead.portal.console.offers.following import BoundPage
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.terminal import Terminal, Terminals, encoded
from fairlead.portal.console.pages.viewing import AskedPage
from fairlead.portal.console.visits.formtokens import Fields, FormTokens, field
from fairlead.portal.console.visits.site import Site
from fairlead.portal.handshake.bind import AskedBind, Bind, problem_of
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.handshake.consents import Consents
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal, bad_request, refusal_of
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.runtime import Cluster


NEW = "new"
"""Value of the field ``cluster`` for a new cluster."""
_SEEN_SECONDS = 5.0
"""Longest wait for a new binding in the caches, in seconds."""
_LOOK_AGAIN_SECONDS = 0.05
"""Interval between looks for a new binding in the caches, in seconds."""
_FINAL = frozenset({403, 404, 409})
"""Statuses of refusals that a retry cannot change, so the terminal is told at once."""
_log = structlog.get_logger(logger_name="fairlead.portal.console")
_FILES = ("bundle", "response")
"""Values of the field ``file``: manifests for kubectl, or a BindingResponse for the command."""


class GivenForm(msgspec.Struct, frozen=True):
    """The form's values; ``cluster`` is a known cluster's namespace, or ``new``."""

    name: str
    cluster: str = NEW
    identity: str = ""
    title: str = ""


class WrongFieldError(ValueError):
    """A field of the form is invalid; ``field`` is its name, the text has the remedy."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(text)
        self.field = field


class BindPage(TemplatePage):
    """The form that binds a template."""

    route = "/bind/{name}"
    template = "bind.html"

    def __init__(
        self,
        cluster: Cluster,
        hub: Hub,
        offers: Catalog,
        *,
        clusters: Clusters,
        tokens: FormTokens,
    ) -> None:
        super().__init__(cluster, hub, offers, clusters=clusters)
        self._tokens = tokens

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the template's resources and the rights that a binding grants."""
        values = await super().values(scope, asked)
        found = self._offers.template(scope)
        assert found is not None  # noqa: S101  the line above has raised else
        spec = found.decode(APIServiceExportTemplate).spec
        everywhere = [one.name for one in values["resources"] if one.scope == "Cluster"]
        sides = {
            "provider_side": at_provider(spec, everywhere),
            "consumer_side": at_consumer(spec),
        }
        return {**values, **sides}

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return the form's token, the person's clusters and the initial values."""
        clusters = self._clusters.of(session.person)
        first = clusters[0].namespace if clusters else NEW
        return {
            **await super().own(session, scope, asked),
            "token": self._tokens.token(session, action(scope)),
            "clusters": clusters,
            "by_identity": {one.identity: one for one in clusters},
            "given": GivenForm(name=scope, cluster=first),
            "error": "",
            "wrong": "",
        }


def action(template: str) -> str:
    """Return the action that a template's form token is valid for."""
    return f"bind/{template}"


class BindForms:
    """Handles the forms of :class:`BindPage` and :class:`BoundPage`."""

    def __init__(
        self,
        pages: Pages,
        site: Site,
        page: BindPage,
        bound: BoundPage,
        *,
        clusters: Clusters,
        tokens: FormTokens,
        terminals: Terminals,
        binds: Bind,
        consents: Consents,
    ) -> None:
        self._pages = pages
        self._site = site
        self._page = page
        self._bound_page = bound
        self._clusters = clusters
        self._tokens = tokens
        self._terminals = terminals
        self._binds = binds
        self._consents = consents

    def routes(self) -> list[web.RouteDef]:
        """Return the forms' routes."""
        return [
            web.post(self._page.route, self.bind),
            web.post(self._bound_page.route, self.download),
        ]

    async def bind(self, request: web.Request) -> web.Response:
        """Bind, and redirect to the waiting terminal or to the binding's page.

        Raises:
            Refusal: the form is another site's or malformed.
        """
        session, fields = await self._tokens.fields(request)
        template = request.match_info["name"]
        given = _given(fields)
        terminal = self._terminals.waiting(request)
        try:
            await self._tokens.check(session, fields, action(template))
            # Another tab may have replaced the cookie: credentials go only to the terminal that
            # the person saw.
            if field(fields, "terminal") != (terminal.key if terminal else ""):
                raise _another_terminal()
            asked = self._asked(session.person, template, given, terminal)
        except WrongFieldError as error:
            return await self._again(request, session, given, str(error), 422, error.field)
        except Refusal as refusal:
            return await self._again(request, session, given, refusal.message, refusal.status)
        try:
            if terminal is None:
                return await self._follow(request, session, asked)
            response = await self._answer(request, session, asked, terminal)
        except (Refusal, ClientError, TimeoutError) as error:
            said = _said(error)
            if terminal is None or said.status not in _FINAL:
                return await self._again(request, session, given, said.message, said.status)
            response = terminal.refused(said.message)
        response.headers.update(PRIVATE)
        self._terminals.forget(response)
        return response

    async def download(self, request: web.Request) -> web.Response:
        """Answer with a file with credentials, which is generated and not stored.

        Raises:
            Refusal: the form is not from this page, or the person has lost the right.
            ClientError: the API server refused or is unavailable.
        """
        session, fields = await self._tokens.fields(request)
        names = request.match_info
        wanted = field(fields, "file")
        known = self._clusters.get(session.person, names["namespace"])
        if known is None or wanted not in _FILES:
            raise bad_request("there is no such file here: load the page again")
        try:
            path = BoundPage.at(names["template"], names["namespace"], names["name"])
            await self._tokens.check(session, fields, self._bound_page.action(wanted, path))
            count(request, session.person.author, "bind")
            asked = AskedBind(
                names["template"], names["name"], known.identity, known.name, page=True
            )
            response = await self._binds.bound(request, session.person, session.key, asked)
        except (Refusal, ClientError, TimeoutError) as error:
            said = _said(error)
            return await self._site.show(
                self._bound_page, request, session, status=said.status, error=said.message
            )
        if wanted == "bundle":
            return _file("binding-bundle.yaml", "application/yaml", bundle(response))
        text = msgspec.json.format(msgspec.json.encode(response), indent=2)
        return _file("binding-response.json", "application/json", text)

    async def _answer(
        self, request: web.Request, session: BrowserSession, asked: AskedBind, terminal: Terminal
    ) -> web.Response:
        """Redirect to the terminal with a code, or with the whole BindingResponse."""
        if terminal.challenge:
            code = await self._consents.agree(session, asked, terminal.challenge)
            return terminal.answered({"code": code})
        # kube-bind's CLI sends no challenge, and takes the answer only from the query.
        count(request, session.person.author, "bind")
        found = await self._binds.bound(request, session.person, session.key, asked)
        return terminal.answered({"binding_response": encoded(found)})

    async def _follow(
        self, request: web.Request, session: BrowserSession, asked: AskedBind
    ) -> web.Response:
        """Bind, and redirect to the page that shows its progress."""
        count(request, session.person.author, "bind")
        found = await self._binds.bound(request, session.person, session.key, asked)
        namespace, name = found["providerNamespace"], found["bindingName"]
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_SECONDS):
                # The page needs the new namespace, which the cache gets by its watch.
                while self._clusters.get(session.person, namespace) is None:  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return self._pages.redirect(BoundPage.at(asked.template, namespace, name))

    def _asked(
        self, person: Person, template: str, given: GivenForm, terminal: Terminal | None
    ) -> AskedBind:
        """Check a form's values, and return the bind.

        Raises:
            WrongFieldError: a field is invalid.
        """
        if errors := subdomain_errors(given.name):
            raise WrongFieldError("name", f"Name: {errors[0]}.")
        clusters = self._clusters.of(person)
        identity = terminal.consumer if terminal is not None else ""
        known = next((one for one in clusters if one.identity == identity), None)
        if not identity and given.cluster != NEW:
            known = next((one for one in clusters if one.namespace == given.cluster), None)
            if known is None:
                raise WrongFieldError("cluster", "Cluster: it is no longer yours. Choose another.")
        if known is not None:
            identity, title = known.identity, known.name
        else:
            identity = identity or given.identity
            title = given.title or person.name or identity
        for name, label, value in (
            ("identity", "Identity of the cluster", identity),
            ("title", "Name for people", title),
        ):
            if problem := problem_of(value):
                raise WrongFieldError(name, f"{label}: it {problem}.")
        return AskedBind(template, given.name, identity, title, page=terminal is None)

    async def _again(
        self,
        request: web.Request,
        session: BrowserSession,
        given: GivenForm,
        error: str,
        status: int,
        wrong: str = "",
    ) -> web.Response:
        return await self._site.show(
            self._page, request, session, status=status, given=given, error=error, wrong=wrong
        )


def _said(error: Refusal | ClientError | TimeoutError) -> Refusal:
    """Return the refusal of a failed bind, and log why."""
    if isinstance(error, Refusal):
        if error.reason:
            _log.info("not bound", reason=error.reason)
        return error
    refusal = refusal_of(error)
    _log.error("a bind failed", reason=refusal.reason)
    return refusal


def _given(fields: Fields) -> GivenForm:
    return GivenForm(
        name=field(fields, "name"),
        cluster=field(fields, "cluster") or NEW,
        identity=field(fields, "identity"),
        title=field(fields, "title"),
    )


def _another_terminal() -> Refusal:
    refusal = bad_request(
        "the terminal that this page named no longer waits, or another one does: see below"
        " which, and send the form again"
    )
    refusal.status = web.HTTPConflict.status_code
    return refusal


def _file(name: str, content_type: str, content: bytes) -> web.Response:
    disposition = {"Content-Disposition": f"attachment; filename={name}"}
    return web.Response(
        body=content, content_type=content_type, headers={**PRIVATE, **disposition}
    )
