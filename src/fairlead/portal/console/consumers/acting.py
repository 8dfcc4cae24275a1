"""The page of an action on a consumer: preview, form and progress."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from aiohttp import web

from fairlead.client import ClientError
from fairlead.portal.console.consumers.access import Access, check
from fairlead.portal.console.consumers.actions import (
    ACTIONS,
    TITLES,
    Actions,
    ActionWish,
    UndoneError,
    check_wish,
    preview,
)
from fairlead.portal.console.consumers.detail import gone
from fairlead.portal.console.consumers.directory import Directory
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View, asked_of
from fairlead.portal.console.visits.formtokens import Fields, FormTokens, field
from fairlead.portal.console.visits.site import Site
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import forbidden
from fairlead.portal.identity.sessions import BrowserSession
from fairlead.provider.namespaces import identity_of


_DOWNLOAD = "kubeconfig"
"""Action of the form that downloads a rotated kubeconfig."""
_MOST = 2000
"""Longest typed name of a consumer or an owner, in characters."""


class ActionPage(View):
    """The preview of an action on a consumer, its form, and the last one's progress."""

    route = "/consumers/{namespace}/{action}"
    template = "consumer_action.html"

    def __init__(
        self,
        directory: Directory,
        access: Access,
        actions: Actions,
        tokens: FormTokens | None = None,
    ) -> None:
        self._directory = directory
        self._access = access
        self._actions = actions
        self._tokens = tokens

    async def scope(self, session: BrowserSession, asked: AskedPage) -> Hashable:
        """Return cluster namespace and action; a revoked consumer keeps its revocation's page.

        Raises:
            MissingError: there is no such consumer or action, or the person is no administrator.
        """
        name, action = asked.name("namespace"), asked.name("action")
        await check(self._access, session, f"consumer {name}")
        # The constant of the same text, which has the type of an action.
        found = next((one for one in ACTIONS if one == action), None)
        if found is None:
            raise MissingError(
                f"There is no action {action}", f"The actions are {', '.join(ACTIONS)}."
            )
        done = self._actions.progress(name)
        if self._directory.consumer(name) is None and (done is None or done.action != found):
            raise gone(name)
        return name, found

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the consumer and of cluster-scoped objects."""
        return ("", str(scope[0]))

    async def values(self, scope: Any, asked: AskedPage) -> Mapping[str, Any]:
        """Return the preview as of now, and the last action's progress."""
        namespace, action = scope
        progress = self._actions.progress(namespace)
        return {
            "consumer": namespace,
            "action": action,
            "title": TITLES[action],
            "preview": preview(self._directory, action, namespace),
            "progress": progress if progress is not None and progress.action == action else None,
        }

    async def own(
        self, session: BrowserSession, scope: Any, asked: AskedPage
    ) -> Mapping[str, Any]:
        """Return the form tokens, if this person may do the action."""
        namespace, action = scope
        consumer = self._directory.consumer(namespace)
        found: dict[str, Any] = {"given": ActionWish(), "error": "", "seen": None, "unread": ""}
        found |= {"confirm": "", "token": "", "download": "", "identity": ""}
        if consumer is not None:
            found["identity"] = identity_of(consumer)
        if consumer is None or self._tokens is None:
            return found
        try:
            may = await self._actions.may(session, namespace)
            if action == "rotate":
                found["seen"] = await self._actions.tokens(namespace)
        except ClientError as error:
            return found | {"unread": str(error)}
        if action in may:
            found["token"] = self._tokens.token(session, _named(action, consumer.meta.uid))
        if action == "rotate" and action in may:
            found["download"] = self._tokens.token(session, _named(_DOWNLOAD, consumer.meta.uid))
        return found


class ActionForms:
    """Handles the forms of these pages, and the download of a rotated kubeconfig."""

    def __init__(
        self,
        directory: Directory,
        actions: Actions,
        tokens: FormTokens,
        pages: Pages,
        site: Site,
        page: ActionPage,
    ) -> None:
        self._directory = directory
        self._actions = actions
        self._tokens = tokens
        self._pages = pages
        self._site = site
        self._page = page

    def routes(self) -> list[web.RouteDef]:
        """Return the forms' routes."""
        return [
            web.post(ActionPage.route, self.begin),
            web.post("/consumers/{namespace}/rotate/kubeconfig", self.deliver),
        ]

    async def begin(self, request: web.Request) -> web.Response:
        """Start a form's action, and redirect to its progress.

        Raises:
            Refusal: the form is not this session's, or the person has no right.
            ClientError: the API server refused or is unavailable.
        """
        session, fields = await self._tokens.fields(request)
        asked = asked_of(request)
        try:
            # The person may have lost the right to see consumers since the form was shown.
            await self._page.scope(session, asked)
        except MissingError as missing:
            return await self._site.missing(request, session, missing)
        namespace = asked.name("namespace")
        action = next(one for one in ACTIONS if one == asked.name("action"))
        consumer = self._directory.consumer(namespace)
        if consumer is None:
            return await self._site.missing(request, session, gone(namespace))
        await self._tokens.check(session, fields, _named(action, consumer.meta.uid))
        if action not in await self._actions.may(session, namespace):
            raise forbidden(f"you may not {action} {namespace}: ask the provider's administrators")
        wish = _wish(fields)
        known = self._directory.one(namespace)
        try:
            _check_name(field(fields, "confirm", _MOST), identity_of(consumer), namespace)
            check_wish(action, wish, known.author if known is not None else "")
            self._actions.begin(session, action, consumer, wish)
        except (ValueError, UndoneError) as error:
            return await self._site.show(
                self._page, request, session, status=422, error=str(error), given=wish
            )
        who = session.person.author
        audit(action, who=who, what=identity_of(consumer), result="begun", request=request)
        location = self._pages.path(asked.path)
        return web.Response(status=303, headers={"Location": location})

    async def deliver(self, request: web.Request) -> web.Response:
        """Answer with the kubeconfig of a rotation, once, to the session that started it.

        Raises:
            Refusal: the form is not this session's.
            ClientError: the API server refused or is unavailable.
        """
        session, fields = await self._tokens.fields(request)
        namespace = asked_of(request).name("namespace")
        consumer = self._directory.consumer(namespace)
        if consumer is None:
            return await self._site.missing(request, session, gone(namespace))
        await self._tokens.check(session, fields, _named(_DOWNLOAD, consumer.meta.uid))
        if "rotate" not in await self._actions.may(session, namespace):
            raise forbidden(f"you may not rotate {namespace}: ask the provider's administrators")
        try:
            content = await self._actions.deliver(session, namespace)
        except UndoneError as error:
            return await self._site.missing(request, session, MissingError(str(error)))
        who, what = session.person.author, identity_of(consumer)
        audit("kubeconfig", who=who, what=what, result="done", request=request)
        disposition = f'attachment; filename="{namespace}.kubeconfig"'
        headers = {"Cache-Control": "no-store", "Content-Disposition": disposition}
        return web.Response(body=content, content_type="application/yaml", headers=headers)


def _named(action: str, uid: str) -> str:
    """Return the action of a form's token; after a new namespace of the same name it is void."""
    return f"consumer/{action}/{uid}"


def _wish(fields: Fields) -> ActionWish:
    flags = {name: bool(field(fields, name)) for name in ("finish", "keep_data", "force")}
    return ActionWish(to=field(fields, "to", _MOST), **flags)


def _check_name(typed: str, identity: str, namespace: str) -> None:
    """Check that the typed name confirms the action.

    Raises:
        ValueError: the name is another.
    """
    if typed not in {identity.strip(), namespace}:
        raise ValueError(f"to confirm, type the consumer's name: {identity}")
