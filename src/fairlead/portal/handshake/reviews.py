"""Who may bind which template, as the API server says."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, GROUP
from fairlead.api.meta import JSON
from fairlead.api.resource import SUBJECTACCESSREVIEWS
from fairlead.client import Client
from fairlead.portal.identity.people import Person, Prefixes


BELIEVED_SECONDS = 10.0
"""Seconds for which an answer of the API server is believed."""
VERB = "bind"
_MOST = 20_000
"""Answers that are remembered."""
_AT_ONCE = 16
"""Questions that are under way at the same time, those of all requests together."""
_CALL_SECONDS = 10.0

_Question = tuple[str, tuple[str, ...], str, str]
"""A user, their groups, and the resource and name that they would bind."""


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class Reviews:
    """Asks by SubjectAccessReviews, and remembers answers for a moment.

    The first question is kube-bind's own, of which ``kube-bind-oidc-user`` is the answer: the verb
    without any resource. Then come all templates, and one by its name.
    """

    def __init__(
        self, client: Client, prefixes: Prefixes, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._prefixes = prefixes
        self._clock = clock
        self._known: OrderedDict[_Question, tuple[bool, float]] = OrderedDict()
        self._asked: dict[_Question, asyncio.Task[bool]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def may(self, person: Person, template: str) -> bool:
        """Whether a person may bind a template.

        Raises:
            ClientError: the API server refused the question or is away; that is no yes.
            Refusal: the person's name is Kubernetes' own.
        """
        return await self._may_all(person) or await self._of(person, template)

    async def offered(self, person: Person, templates: Iterable[str]) -> frozenset[str]:
        """The templates that a person may bind.

        Raises:
            ClientError: the API server refused a question or is away.
            Refusal: the person's name is Kubernetes' own.
        """
        names = list(templates)
        if await self._may_all(person):
            return frozenset(names)
        answers = await asyncio.gather(*(self._of(person, name) for name in names))
        return frozenset(name for name, yes in zip(names, answers, strict=True) if yes)

    async def _may_all(self, person: Person) -> bool:
        return await self._allowed(person, "", "") or await self._of(person, "")

    async def _of(self, person: Person, template: str) -> bool:
        return await self._allowed(person, APISERVICEEXPORTTEMPLATES.plural, template)

    async def _allowed(self, person: Person, resource: str, name: str) -> bool:
        groups = tuple(sorted(self._prefixes.groups_of(person)))
        question = (self._prefixes.user(person), groups, resource, name)
        known = self._known.get(question)
        if known is not None and known[1] > self._clock():
            return known[0]
        task = self._asked.get(question)
        if task is None:
            # One question for all who wait for it; it outlives a client that goes.
            task = self._asked[question] = asyncio.create_task(self._ask(question))
            task.add_done_callback(lambda done: self._answered(question, done))
        return await asyncio.shield(task)

    async def _ask(self, question: _Question) -> bool:
        user, groups, resource, name = question
        attributes: JSON = {"verb": VERB, "group": GROUP}
        if resource:
            attributes |= {"version": APISERVICEEXPORTTEMPLATES.version, "resource": resource}
        if name:
            attributes["name"] = name
        body: JSON = {
            "apiVersion": SUBJECTACCESSREVIEWS.api_version,
            "kind": SUBJECTACCESSREVIEWS.kind,
            "metadata": {},
            "spec": {"user": user, "groups": list(groups), "resourceAttributes": attributes},
        }
        async with self._slots, asyncio.timeout(_CALL_SECONDS):
            answer = await self._client.create(SUBJECTACCESSREVIEWS, body)
        status = answer.decode(_Review).status
        return status.allowed and not status.denied

    def _answered(self, question: _Question, task: asyncio.Task[bool]) -> None:
        self._asked.pop(question, None)
        if task.cancelled() or task.exception() is not None:
            return
        self._known.pop(question, None)
        self._known[question] = (task.result(), self._clock() + BELIEVED_SECONDS)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
