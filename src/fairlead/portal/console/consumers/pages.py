"""The pages about consumers: their list, and each one with exports, conditions and actions."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from fairlead.api.decoding import field_message
from fairlead.api.kubebind import BINDER_NAME, APIServiceExport
from fairlead.api.meta import Object
from fairlead.client import ClientError
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.consumers.directory import GRANTED, Directory, KnownConsumer
from fairlead.portal.console.consumers.leases import LEASES_TOPIC, KbindConsumers
from fairlead.portal.console.pages.viewing import AskedPage, MissingError, Topics, View
from fairlead.portal.handshake.reviews import AccessReviews
from fairlead.portal.handshake.reviews import ReviewedAction as Review
from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import BrowserSession, Person
from fairlead.portal.model.lists import ListQuery, order, page_of
from fairlead.portal.model.thing import RANKS, STATES, ConditionRow, shown_conditions
from fairlead.provider.commands.revoke.inventory import Inventory
from fairlead.provider.commands.rotation.reconcile import silent, tells
from fairlead.provider.identity import GROUP_AUTHOR
from fairlead.provider.konnectors import is_original, unwatchable
from fairlead.provider.offer import record_of
from fairlead.provider.rights import cluster_names


class ConsumerList(View):
    """The page of all consumers, filtered by ?q= and ?state=.

    Args:
        directory: the consumers of v1alpha2; None where the cluster has none of its kinds.
        leases: those of kbind v2.
        access: admits people.
    """

    route = "/consumers"
    template = "consumers.html"

    def __init__(
        self, directory: Directory | None, leases: KbindConsumers, access: Access
    ) -> None:
        self._directory = directory
        self._leases = leases
        self._access = access

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Check that the person is an administrator; all of them see the same.

        Raises:
            MissingError: the person is no administrator.
        """
        await self._access.check(session, "list of consumers")
        return None

    def topics(self, scope: Any) -> Topics:
        """Return all consumers, "" for new ones, and the Leases of kbind v2."""
        names = self._directory.names() if self._directory is not None else ()
        return ("", LEASES_TOPIC, *names)

    async def values(self, scope: Any, asked_page: AskedPage) -> Mapping[str, Any]:
        """Return one page's consumers."""
        known = self._directory.all() if self._directory is not None else ()
        every = [*known, *self._leases.all()]
        query = ListQuery.of(asked_page.get)
        matches = [consumer for consumer in every if query.selects(consumer)]
        page = page_of(order(matches, query.sort, _KEYS, "name"), len(every), query)
        return {
            "page": page,
            "names": Counter(
                consumer.row.pretty_name or consumer.row.identity for consumer in every
            ),
            "wanted": query,
            "states": STATES,
            "problems": sorted(
                {one for consumer in every for one in consumer.row.not_counted.values()}
                | ({self._leases.problem} - {""})
            ),
        }


_KEYS: Final[Mapping[str, Callable[[KnownConsumer], Any]]] = {
    "name": lambda consumer: (consumer.row.title.lower(), consumer.row.namespace),
    "state": lambda consumer: RANKS[consumer.state],
    "heartbeat": lambda consumer: consumer.row.last_heartbeat_time,
    "exports": lambda consumer: -len(consumer.row.exports),
    "objects": lambda consumer: -consumer.row.objects,
}
"""Keys by which consumers are sorted: the worst states and the largest numbers come first."""


_ADMINISTRATORS: Final = (
    "Pages about consumers are for those who may list clusterbindings.kube-bind.io in all"
    " namespaces: ask the provider's administrators for ClusterRole fairlead-console-admin."
)


class Access:
    """Admits administrators to pages about consumers.

    Args:
        administers: whether a person may list ClusterBindings in all namespaces; raises Refusal
            for a name of Kubernetes' own, and ClientError where the API server refused or is
            unavailable.
        remedy: what helps who is none.
    """

    def __init__(
        self, administers: Callable[[Person], Awaitable[bool]], remedy: str = _ADMINISTRATORS
    ) -> None:
        self._administers = administers
        self._remedy = remedy

    async def check(self, session: BrowserSession, what: str) -> None:
        """Refuse people who are not administrators.

        Raises:
            MissingError: the person is none; the error says that ``what`` does not exist.
            Refusal: the person's name is Kubernetes' own.
            ClientError: the API server refused or is unavailable.
        """
        if not await self._administers(session.person):
            raise MissingError(f"There is no {what} for you", self._remedy)

    async def is_shown(self, session: BrowserSession) -> bool:
        """Whether the navigation shows the pages; False if the API server fails."""
        try:
            return await self._administers(session.person)
        except (ClientError, Refusal):
            return False


SignedIn = Callable[[str], Awaitable[float | None]]
"""Function that returns an author's last sign-in, in seconds since 1970, or None."""


async def _last_sign_in(signed_in: SignedIn, author: str) -> datetime | None:
    """Return when an author last signed in; None if unknown."""
    # A group does not sign in.
    if not author or author.startswith(GROUP_AUTHOR):
        return None
    try:
        time = await signed_in(author)
    except Refusal:
        # The session store is unavailable; the list is shown without it.
        return None
    return datetime.fromtimestamp(time, UTC) if time is not None else None


class ShownExport(msgspec.Struct, frozen=True):
    """An export as a page shows it; ``problem`` says why it is invalid."""

    name: str
    resources: tuple[str, ...] = ()
    scope: str = ""
    isolation: str = ""
    claims: tuple[str, ...] = ()
    conditions: tuple[ConditionRow, ...] = ()
    problem: str = ""


class Preview(msgspec.Struct, frozen=True):
    """An action on a consumer: its effects as a sentence with notes, and the command."""

    action: str
    title: str
    text: str
    command: str
    notes: tuple[str, ...] = ()


class ConsumerPage(View):
    """The page of a consumer, by its cluster namespace."""

    route = "/consumers/{namespace}"
    template = "consumer.html"

    def __init__(
        self, directory: Directory, access: Access, reviews: AccessReviews, signed_in: SignedIn
    ) -> None:
        self._directory = directory
        self._access = access
        self._reviews = reviews
        self._signed_in = signed_in

    async def scope(self, session: BrowserSession, page: AskedPage) -> Hashable:
        """Return the cluster namespace.

        Raises:
            MissingError: the consumer does not exist, or the person is no administrator.
        """
        name = page.name("namespace")
        await self._access.check(session, f"consumer {name}")
        if self._directory.consumer(name) is None:
            raise _gone(name)
        return name

    def topics(self, scope: Any) -> Topics:
        """Return the topics of the consumer and of cluster-scoped objects."""
        return ("", str(scope))

    async def values(self, scope: Any, page: AskedPage) -> Mapping[str, Any]:
        """Return the consumer's details, and the preview of each action."""
        binding = self._directory.binding(scope)
        granted, unasked = await self._granted(scope, binding)
        consumer = self._directory.get(scope, granted)
        if consumer is None:
            raise _gone(scope)
        return {
            "consumer": consumer,
            "row": consumer.row,
            "answer": consumer.answer,
            "signed_in": await _last_sign_in(self._signed_in, consumer.author),
            "conditions": shown_conditions(binding) if binding is not None else (),
            "exports": [_export(one) for one in self._directory.exports(scope)],
            "namespaces": self._directory.provider_namespaces(scope),
            "copies": self._directory.copies(scope),
            "unasked": unasked,
            "previews": _previews(self._directory, consumer),
        }

    async def _granted(self, name: str, binding: Object | None) -> tuple[frozenset[str], str]:
        """Return the names of ClusterRoleBindings whose rights the konnector has, and a problem.

        Only kube-bind's konnector needs these rights. They are checked by SubjectAccessReviews of
        its ServiceAccount, since this program may not read ClusterRoleBindings. The problem says
        why a review failed, "" if none did.
        """
        if binding is None or not is_original(binding):
            return GRANTED, ""
        names: set[str] = set()
        try:
            for export in self._directory.exports(name):
                for role, kinds in _watched(export).items():
                    for group, plural in kinds:
                        review = Review("list", group, "", plural)
                        if not await self._reviews.allows_account(name, BINDER_NAME, review):
                            break
                    else:
                        names.add(role)
        except ClientError as error:
            return GRANTED, f"its konnector's rights cannot be read: {error}"
        return frozenset(names), ""


def _export(export: Object) -> ShownExport:
    try:
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError as error:
        return ShownExport(export.meta.name, problem=f"it is not valid: {field_message(error)}")
    return ShownExport(
        export.meta.name,
        tuple(" ".join([one.name, ", ".join(one.versions)]).strip() for one in spec.resources),
        spec.informer_scope,
        spec.isolation,
        tuple(in_words(spec.permission_claims)),
        shown_conditions(export),
    )


def _watched(export: Object) -> Mapping[str, list[tuple[str, str]]]:
    """Return the kinds that kube-bind's konnector watches in all namespaces.

    The key is the name of the ClusterRoleBinding that allows the watch.
    """
    try:
        names = set(unwatchable(export, lambda _: False))
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError:
        return {}
    exported, claimed = cluster_names(export.key)
    return {
        exported: [one.group_resource for one in spec.resources if one.name in names],
        claimed: [one.group_resource for one in spec.permission_claims if one.name in names],
    }


def _previews(directory: Directory, consumer: KnownConsumer) -> list[Preview]:
    """Return the effects of each action by the caches."""
    row, namespace = consumer.row, consumer.row.namespace
    command = "fairlead provider {} " + shlex.quote(namespace)
    inventory = Inventory(
        row.identity,
        namespace,
        len(row.exports),
        len(directory.provider_namespaces(namespace)),
        row.objects,
    )
    begun = ("Its revocation has begun: revoke it again to continue.",) if row.deleting else ()
    nothing_goes = "no object, export or namespace is deleted"
    valid = (
        "Anyone who has its present kubeconfig can still use it:"
        f" `fairlead provider rotate {namespace}` ends that."
    )
    return [
        Preview(
            "rotate",
            "Give it a new token",
            f"{row.identity} ({namespace}) gets a new token, which its konnector fetches by"
            f" itself; {nothing_goes}",
            command.format("rotate"),
            (_moves(directory.binding(namespace)),),
        ),
        Preview(
            "hand-over",
            "Hand it over",
            f"{row.identity} ({namespace}) belongs to {consumer.author or 'no author'}, and will"
            f" belong to the person you name; {nothing_goes}",
            command.format("hand-over") + " --to ISSUER/SUB",
            (valid,),
        ),
        Preview(
            "revoke", "Revoke it", inventory.text(keep_data=False), command.format("revoke"), begun
        ),
    ]


def _moves(binding: Object | None) -> str:
    """Return a sentence on whether the konnector will take over a new token and report it."""
    if binding is None:
        return "It has no ClusterBinding: invite it again first."
    if record_of(binding).revoked:
        return "It is being revoked, and gets no new token."
    if is_original(binding) or not tells(binding):
        text = silent(binding)
        return (
            f"Both tokens stay valid, for {text}: check that its heartbeat continues, then delete"
            " the old token with --finish."
        )
    return (
        "Its konnector reports which credentials it uses: the old token is deleted once it uses"
        " the new one."
    )


def _gone(name: str) -> MissingError:
    return MissingError(
        f"There is no consumer {name}",
        "It was revoked, or never existed. See the list of consumers.",
    )
