"""Binding on a page: the form with the granted rights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from fairlead.api.kubebind import APIServiceExportTemplate
from fairlead.api.label_names import subdomain_errors
from fairlead.client import ClientError
from fairlead.portal import bounds
from fairlead.portal.console.claims import at_consumer, at_provider
from fairlead.portal.console.offers.catalogue import Clusters, TemplatePage
from fairlead.portal.console.offers.following import BoundPage, logged
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.terminal import Terminal, Terminals, encoded
from fairlead.portal.console.pages.viewing import AskedPage, FormError, FormView
from fairlead.portal.console.visits.formtokens import FormTokens, field
from fairlead.portal.handshake.bind import AskedBind, Bind, Consents, problem_of
from fairlead.portal.handshake.catalog import Catalog
from fairlead.portal.http.bounds import count
from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.headers import PRIVATE
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.runtime import Cluster


NEW = "new"
"""Value of the field ``cluster`` for a new cluster."""
_FINAL = frozenset({403, 404, 409})
"""Statuses of refusals that a retry cannot change, so the terminal is told at once."""


class GivenForm(msgspec.Struct, frozen=True):
    """The form's values; ``cluster`` is a known cluster's namespace, or ``new``."""

    name: str
    cluster: str = NEW
    identity: str = ""
    title: str = ""


class BindPage(TemplatePage, FormView):
    """The form that binds a template, for a cluster or for a waiting terminal."""

    route = "/bind/{name}"
    template = "bind.html"

    def __init__(
        self,
        cluster: Cluster,
        hub: Hub,
        offers: Catalog,
        *,
        pages: Pages,
        clusters: Clusters,
        tokens: FormTokens,
        terminals: Terminals,
        binds: Bind,
        consents: Consents,
    ) -> None:
        super().__init__(cluster, hub, offers, clusters=clusters)
        self._pages = pages
        self._tokens = tokens
        self._terminals = terminals
        self._binds = binds
        self._consents = consents

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the template's resources and the rights that a binding grants."""
        values = await super().values(scope, page)
        template = self._offers.template(scope)
        assert template is not None  # noqa: S101  the line above has raised else
        spec = template.decode(APIServiceExportTemplate).spec
        everywhere = [one.name for one in values["resources"] if one.scope == "Cluster"]
        sides = {
            "provider_side": at_provider(spec, everywhere),
            "consumer_side": at_consumer(spec),
        }
        return {**values, **sides}

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the form's token, the person's clusters and the initial values."""
        clusters = self._clusters.of(session.person)
        first = clusters[0].namespace if clusters else NEW
        return {
            **await super().own(session, scope, page),
            "token": self._tokens.token(session, f"bind/{scope}"),
            "clusters": clusters,
            "by_identity": {one.identity: one for one in clusters},
            "given": GivenForm(name=scope, cluster=first),
            "error": "",
            "wrong": "",
        }

    async def submit(self, request: web.Request) -> web.Response:
        """Bind, and redirect to the waiting terminal or to the binding's page.

        Raises:
            FormError: a field is invalid, or the bind is refused.
            Refusal: the form is another site's or malformed.
        """
        session, fields = await self._tokens.fields(request)
        template = request.match_info["name"]
        given = GivenForm(
            name=field(fields, "name"),
            cluster=field(fields, "cluster") or NEW,
            identity=field(fields, "identity"),
            title=field(fields, "title"),
        )
        terminal = self._terminals.waiting(request)
        try:
            await self._tokens.check(session, fields, f"bind/{template}")
        except Refusal as refusal:
            raise _again(session, given, refusal.message, refusal.status) from None
        # Another tab may have replaced the cookie: credentials go only to the terminal that the
        # person saw.
        if field(fields, "terminal") != (terminal.key if terminal else ""):
            text = (
                "the terminal that this page named no longer waits, or another one does: check"
                " below which one waits, and send the form again"
            )
            raise _again(session, given, text, web.HTTPConflict.status_code)
        bind = self._asked(session, template, given, terminal)
        try:
            if terminal is None:
                return await self._follow(request, session, bind)
            response = await self._answer(request, session, bind, terminal)
        except (Refusal, ClientError, TimeoutError) as error:
            failure = logged(error)
            if terminal is None or failure.status not in _FINAL:
                raise _again(session, given, failure.message, failure.status) from None
            response = terminal.refused(failure.message)
        response.headers.update(PRIVATE)
        self._terminals.forget(response)
        return response

    async def _answer(
        self, request: web.Request, session: BrowserSession, bind: AskedBind, terminal: Terminal
    ) -> web.Response:
        """Redirect to the terminal with a code, or with the whole BindingResponse."""
        if terminal.challenge:
            code = await self._consents.agree(session, bind, terminal.challenge)
            return terminal.answered({"code": code})
        # kube-bind's CLI sends no challenge, and takes the answer only from the query.
        count(request, session.person.author, "bind")
        response = await self._binds.bound(request, session.person, session.key, bind)
        return terminal.answered({"binding_response": encoded(response)})

    async def _follow(
        self, request: web.Request, session: BrowserSession, bind: AskedBind
    ) -> web.Response:
        """Bind, and redirect to the page that shows its progress."""
        count(request, session.person.author, "bind")
        response = await self._binds.bound(request, session.person, session.key, bind)
        namespace, name = response["providerNamespace"], response["bindingName"]
        with suppress(TimeoutError):
            async with asyncio.timeout(bounds.BOUND_SECONDS):
                # The page needs the new namespace, which the cache gets by its watch.
                while self._clusters.get(session.person, namespace) is None:  # noqa: ASYNC110
                    await asyncio.sleep(bounds.POLL_SECONDS)
        return self._pages.redirect(BoundPage.at(bind.template, namespace, name))

    def _asked(
        self,
        session: BrowserSession,
        template: str,
        given: GivenForm,
        terminal: Terminal | None,
    ) -> AskedBind:
        """Check a form's values, and return the bind.

        Raises:
            FormError: a field is invalid.
        """
        person = session.person
        if errors := subdomain_errors(given.name):
            raise _again(session, given, f"Name: {errors[0]}.", wrong="name")
        clusters = self._clusters.of(person)
        identity = terminal.consumer if terminal is not None else ""
        cluster = next((one for one in clusters if one.identity == identity), None)
        if not identity and given.cluster != NEW:
            cluster = next((one for one in clusters if one.namespace == given.cluster), None)
            if cluster is None:
                text = "Cluster: it is no longer yours. Choose another."
                raise _again(session, given, text, wrong="cluster")
        if cluster is not None:
            identity, title = cluster.identity, cluster.name
        else:
            identity = identity or given.identity
            title = given.title or person.name or identity
        for name, label, value in (
            ("identity", "Identity of the cluster", identity),
            ("title", "Name for people", title),
        ):
            if problem := problem_of(value):
                raise _again(session, given, f"{label}: it {problem}.", wrong=name)
        return AskedBind(template, given.name, identity, title, page=terminal is None)


def _again(
    session: BrowserSession, given: GivenForm, error: str, status: int = 422, wrong: str = ""
) -> FormError:
    """Return the error that shows the form again; ``wrong`` is the name of the invalid field."""
    return FormError(session, status, given=given, error=error, wrong=wrong)
