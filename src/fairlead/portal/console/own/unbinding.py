"""Unbinding by a form: preview, confirmation by name, and progress."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec
from aiohttp import web

from fairlead.api.kubebind import APISERVICEBINDINGS
from fairlead.api.meta import Key
from fairlead.client import Client, ClientError
from fairlead.client.lookups import find_custom, may
from fairlead.konnector.commands.unbind import Impact, impact, unbind
from fairlead.portal import bounds
from fairlead.portal.console.pages.live import Hub
from fairlead.portal.console.pages.looking import Looks
from fairlead.portal.console.pages.rendering import Pages
from fairlead.portal.console.pages.viewing import AskedPage, FormError, FormView, Topics, path_of
from fairlead.portal.console.sources.cluster import no_binding, unbinding_topic
from fairlead.portal.console.sources.look import SEEN_TOPIC
from fairlead.portal.console.visits.formtokens import FormTokens, field
from fairlead.portal.http.audit import audit
from fairlead.portal.http.errors import forbidden
from fairlead.portal.identity.sessions import BrowserSession


class UnbindingProgress(msgspec.Struct):
    """The progress of an unbinding."""

    name: str
    state: Literal["going", "done", "failed"] = "going"
    lines: list[str] = []
    problem: str = ""


class Unbindings:
    """Runs unbindings in the background, at most one per binding."""

    def __init__(self, client: Client, hub: Hub, looks: Looks) -> None:
        self._client = client
        self._hub = hub
        self._looks = looks
        self._known: dict[str, UnbindingProgress] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def of(self, name: str) -> UnbindingProgress | None:
        """Return the progress of a binding's unbinding; None without one."""
        return self._known.get(name)

    def start(self, name: str, *, orphan: bool) -> None:
        """Start to unbind, unless it is already running."""
        if name in self._tasks:
            return
        self._known.pop(name, None)
        self._known[name] = UnbindingProgress(name)
        for old in [one for one in self._known if one not in self._tasks][: -bounds.UNBINDINGS]:
            del self._known[old]
        self._tasks[name] = asyncio.create_task(self._unbind(name, orphan=orphan))

    def going(self, name: str) -> bool:
        """Whether a binding is being unbound."""
        return name in self._tasks

    async def close(self) -> None:
        """Cancel running unbindings; the konnector completes them."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _unbind(self, name: str, *, orphan: bool) -> None:
        running = self._known[name]

        def report(line: str) -> None:
            running.lines = [*running.lines, line][-bounds.PROGRESS_LINES :]
            self._changed(name)

        try:
            await unbind(self._client, name, orphan=orphan, progress=report)
        except ClientError as error:
            running.problem, running.state = str(error), "failed"
        except BaseException:
            running.problem, running.state = "it was interrupted; unbind it again", "failed"
            raise
        else:
            running.state = "done"
        finally:
            del self._tasks[name]
            self._looks.again(SEEN_TOPIC)
            self._changed(name)

    def _changed(self, name: str) -> None:
        self._hub.changed(unbinding_topic(name))


class UnbindPage(FormView):
    """The page of an unbinding: preview, form and progress."""

    route = "/bindings/{name}/unbind"
    template = "own/unbind.html"

    def __init__(
        self, client: Client, pages: Pages, unbindings: Unbindings, tokens: FormTokens
    ) -> None:
        self._client = client
        self._pages = pages
        self._unbindings = unbindings
        self._tokens = tokens

    async def scope(self, session: BrowserSession, page: AskedPage) -> str:
        """Return the binding's name.

        Raises:
            MissingError: the binding does not exist and was not unbound here.
            ClientError: the API server refused or is unavailable.
        """
        name = page.name("name")
        if self._unbindings.of(name) is None:
            binding = await find_custom(self._client, APISERVICEBINDINGS, name)
            if binding is None:
                raise no_binding(name)
        return name

    def topics(self, scope: Any) -> Topics:
        """Return the topic that changes with the progress of the unbinding."""
        return (unbinding_topic(scope),)

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the binding's name and the progress of its unbinding, None before the start."""
        unbinding = self._unbindings.of(scope)
        # A copy, for the task may change it before the page is rendered.
        copied = msgspec.structs.replace(unbinding) if unbinding is not None else None
        return {"name": scope, "progress": copied}

    async def own(self, session: BrowserSession, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the preview, whether the person may unbind, and the form."""
        allowed = await may(self._client, APISERVICEBINDINGS, "delete", Key("", scope))
        token = self._tokens.token(session, f"unbind/{scope}") if allowed else ""
        effects: Impact | None = None
        # Without the right to count them the page says so.
        with suppress(ClientError):
            effects = await impact(self._client, scope)
        return {
            "allowed": allowed,
            "token": token,
            "impact": effects,
            "typed": "",
            "orphan": False,
            "error": "",
        }

    async def submit(self, request: web.Request) -> web.Response:
        """Unbind, if the sender typed the binding's name.

        Raises:
            FormError: the name is another.
            Refusal: the form is invalid, or the sender may not unbind.
            ClientError: the API server refused or is unavailable.
        """
        name = request.match_info["name"]
        session, fields = await self._tokens.fields(request)
        typed, orphan = field(fields, "name", 300), field(fields, "copies") == "keep"
        await self._tokens.check(session, fields, f"unbind/{name}")
        if typed != name:
            error = f"Type {name} to unbind it; nothing was done."
            raise FormError(session, 422, error=error, typed=typed, orphan=orphan)
        # Asked before the task starts: its error would only be in the progress.
        if not await may(self._client, APISERVICEBINDINGS, "delete", Key("", name)):
            raise forbidden(f"you may not delete APIServiceBinding {name}: have that granted")
        who = session.person.author
        audit("unbind", who=who, what=name, result="begun", request=request, orphan=orphan)
        self._unbindings.start(name, orphan=orphan)
        return self._pages.redirect(path_of("bindings", name, "unbind"))
