"""Access reviews: whether a person or a ServiceAccount may bind, read or delete."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple, Self

import msgspec

from fairlead.api.kubebind import APISERVICEEXPORTTEMPLATES, CLUSTERBINDINGS, GROUP
from fairlead.api.meta import JSON
from fairlead.api.resource import SUBJECTACCESSREVIEWS, Resource
from fairlead.client import Client
from fairlead.portal import bounds
from fairlead.portal.identity.sessions import Person, Prefixes


VERB = "bind"
"""Verb of the right to bind, on templates or on none, as kube-bind reviews it."""
_ACCOUNTS = "system:serviceaccounts"


class ReviewedAction(NamedTuple):
    """The resourceAttributes of a review; a name of "" stands for all objects."""

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def on(cls, resource: Resource, verb: str, namespace: str = "", name: str = "") -> Self:
        """Return an action on an object, or on all objects of a kind."""
        return cls(verb, resource.group, resource.version, resource.plural, namespace, name)


_Question = tuple[bytes, ReviewedAction]
"""Cache key: the hash of a user with their groups, and the action."""


class _Asker(NamedTuple):
    """A user and groups as reviews name them, with a short hash as the cache's key."""

    user: str
    groups: tuple[str, ...]
    hashed: bytes


class _Answer(NamedTuple):
    """An answer, and the time by the clock until which it is cached, in seconds."""

    allowed: bool
    until: float


class _Offer(NamedTuple):
    """The part of ``templates`` that a person may bind, until the first of the answers expires."""

    templates: tuple[str, ...]
    offered: frozenset[str]
    until: float


class _Status(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct, frozen=True):
    status: _Status = _Status()


class AccessReviews:
    """Checks rights by SubjectAccessReviews, and caches each answer for ``believed`` seconds.

    A bind is allowed by one of three reviews, in this order: kube-bind's own, which has the verb
    without a resource; the verb on all templates; the verb on the template's name.
    """

    def __init__(
        self,
        client: Client,
        prefixes: Prefixes,
        *,
        clock: Callable[[], float] = time.monotonic,
        believed: float = bounds.REVIEW_SECONDS,
    ) -> None:
        self._client = client
        self._seconds = believed
        self._prefixes = prefixes
        self._clock = clock
        self._known: OrderedDict[_Question, _Answer] = OrderedDict()
        self._offers: OrderedDict[bytes, _Offer] = OrderedDict()
        self._asked: dict[_Question, asyncio.Task[_Answer]] = {}
        self._slots = asyncio.Semaphore(bounds.REVIEWS_AT_ONCE)

    async def may(self, person: Person, template: str) -> bool:
        """Whether the person may bind the template.

        Raises:
            ClientError: the API server refused or is unavailable; deny then.
            Refusal: the person's name begins with ``system:``.
        """
        asker = self._asker(person)
        return (await self._every(asker)).allowed or (await self._of(asker, template)).allowed

    async def allows(self, person: Person, action: ReviewedAction) -> bool:
        """Whether the person may do the action.

        Raises:
            ClientError: the API server refused or is unavailable; deny then.
            Refusal: the person's name begins with ``system:``.
        """
        return (await self._answer(self._asker(person), action)).allowed

    async def administers(self, person: Person) -> bool:
        """Whether the person is an administrator: may list ClusterBindings in all namespaces.

        Raises:
            ClientError: the API server refused or is unavailable; deny then.
            Refusal: the person's name begins with ``system:``.
        """
        return await self.allows(person, ReviewedAction.on(CLUSTERBINDINGS, "list"))

    async def allows_account(self, namespace: str, name: str, action: ReviewedAction) -> bool:
        """Whether the ServiceAccount may do the action.

        Raises:
            ClientError: the API server refused or is unavailable; deny then.
        """
        # The groups that Kubernetes gives to each ServiceAccount.
        groups = (_ACCOUNTS, f"{_ACCOUNTS}:{namespace}", "system:authenticated")
        asker = _hashed(f"system:serviceaccount:{namespace}:{name}", groups)
        return (await self._answer(asker, action)).allowed

    async def offered(self, person: Person, templates: tuple[str, ...]) -> frozenset[str]:
        """Return the templates that a person may bind.

        Raises:
            ClientError: the API server refused or is unavailable.
            Refusal: the person's name begins with ``system:``.
        """
        asker = self._asker(person)
        offer = self._offers.get(asker.hashed)
        if offer is not None and offer.until > self._clock() and offer.templates == templates:
            return offer.offered
        fresh = await self._offer(asker, templates)
        self._offers.pop(asker.hashed, None)
        self._offers[asker.hashed] = fresh
        if len(self._offers) > bounds.OFFERS_CACHED:
            self._offers.popitem(last=False)
        return fresh.offered

    async def _offer(self, asker: _Asker, templates: tuple[str, ...]) -> _Offer:
        every = await self._every(asker)
        if every.allowed:
            return _Offer(templates, frozenset(templates), every.until)
        answers = await asyncio.gather(*(self._of(asker, name) for name in templates))
        named = zip(templates, answers, strict=True)
        return _Offer(
            templates,
            frozenset(name for name, answer in named if answer.allowed),
            min([every.until, *(answer.until for answer in answers)]),
        )

    def _asker(self, person: Person) -> _Asker:
        user = self._prefixes.user(person)
        # A review adds no groups: rights of system:authenticated do not count for people of an
        # issuer.
        return _hashed(user, tuple(sorted(self._prefixes.groups_of(person))))

    async def _every(self, asker: _Asker) -> _Answer:
        # The review of kube-bind, which has the group and no resource: its role
        # kube-bind-oidc-user allows it.
        verb = await self._answer(asker, ReviewedAction(VERB, GROUP))
        if verb.allowed:
            return verb
        every = await self._of(asker, "")
        # Both reviews were needed for this answer, so it ends with the first of them.
        return every._replace(until=min(verb.until, every.until))

    async def _of(self, asker: _Asker, template: str) -> _Answer:
        return await self._answer(
            asker, ReviewedAction.on(APISERVICEEXPORTTEMPLATES, VERB, name=template)
        )

    async def _answer(self, asker: _Asker, action: ReviewedAction) -> _Answer:
        question = (asker.hashed, action)
        answer = self._known.get(question)
        if answer is not None and answer.until > self._clock():
            return answer
        task = self._asked.get(question)
        if task is None:
            # Concurrent requests share one review, which goes on if one of them is canceled.
            task = self._asked[question] = asyncio.create_task(self._ask(asker, action))
            task.add_done_callback(lambda done: self._answered(question, done))
        # Without the shield one canceled request would cancel the review of all others.
        return await asyncio.shield(task)

    async def _ask(self, asker: _Asker, action: ReviewedAction) -> _Answer:
        attributes = {key: value for key, value in action._asdict().items() if value}
        body: JSON = {
            "apiVersion": SUBJECTACCESSREVIEWS.api_version,
            "kind": SUBJECTACCESSREVIEWS.kind,
            "metadata": {},
            "spec": {
                "user": asker.user,
                "groups": list(asker.groups),
                "resourceAttributes": attributes,
            },
        }
        async with self._slots, asyncio.timeout(bounds.CALL_SECONDS):
            # Cached from the start of the review: the right may change before its answer.
            begun = self._clock()
            review = (await self._client.create(SUBJECTACCESSREVIEWS, body)).decode(_Review)
        # The API never sets both. If a server does, the denial counts.
        allowed = review.status.allowed and not review.status.denied
        return _Answer(allowed, begun + self._seconds)

    def _answered(self, question: _Question, task: asyncio.Task[_Answer]) -> None:
        self._asked.pop(question, None)
        # A failure is not cached: the next request asks again.
        if task.cancelled() or task.exception() is not None:
            return
        self._known.pop(question, None)
        self._known[question] = task.result()
        if len(self._known) > bounds.REVIEWS_CACHED:
            self._known.popitem(last=False)


def _hashed(user: str, groups: tuple[str, ...]) -> _Asker:
    return _Asker(user, groups, sha256(msgspec.json.encode((user, groups))).digest())
