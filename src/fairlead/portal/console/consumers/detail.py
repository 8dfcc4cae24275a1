"""One consumer: what it has, how it stands, and what can be done about it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import msgspec

from fairlead.api.kubebind import APIServiceExport, ClusterBinding
from fairlead.api.kubebind.conditions import Condition
from fairlead.api.meta import Object
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.model import State
from fairlead.client import ClientError
from fairlead.portal.console.claims import in_words
from fairlead.portal.console.consumers.access import Access, check
from fairlead.portal.console.consumers.actions import ACTIONS, TITLES, Actions, preview
from fairlead.portal.console.consumers.directory import GRANTED, Directory
from fairlead.portal.console.consumers.listing import SignedIn, last_sign_in
from fairlead.portal.console.consumers.standing import export_conditions, helps_of
from fairlead.portal.console.viewing import Asked, MissingError, Topics, View
from fairlead.portal.handshake.reviews import Action as Review
from fairlead.portal.identity.sessions import Session
from fairlead.provider.konnectors import is_original, unwatchable
from fairlead.provider.rights import cluster_names


class ShownCondition(msgspec.Struct, frozen=True):
    """A condition as a page shows it."""

    type: str
    status: str
    state: State
    reason: str
    message: str
    since: str
    helps: str


class ShownExport(msgspec.Struct, frozen=True):
    """An export as a page shows it; ``problem`` is why it cannot be read."""

    name: str
    resources: tuple[str, ...] = ()
    scope: str = ""
    isolation: str = ""
    claims: tuple[str, ...] = ()
    conditions: tuple[ShownCondition, ...] = ()
    problem: str = ""


class ConsumerPage(View):
    """A consumer by its cluster namespace."""

    route = "/consumers/{namespace}"
    template = "consumer.html"

    def __init__(
        self, directory: Directory, access: Access, actions: Actions, signed_in: SignedIn
    ) -> None:
        self._directory = directory
        self._access = access
        self._actions = actions
        self._signed_in = signed_in

    async def scope(self, session: Session, asked: Asked) -> Hashable:
        """The cluster namespace.

        Raises:
            MissingError: it is no consumer's, or the person is no administrator.
        """
        name = asked.name("namespace")
        await check(self._access, session, f"consumer {name}")
        if self._directory.consumer(name) is None:
            raise gone(name)
        return name

    def topics(self, scope: Any) -> Topics:
        """The consumer's own objects, and what is in no namespace."""
        return ("", str(scope))

    async def values(self, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """All that is known of the consumer, and what would go with each action."""
        binding = self._directory.binding(scope)
        granted, unasked = await self._granted(scope, binding)
        known = self._directory.one(scope, granted)
        if known is None:
            raise gone(scope)
        status = _status(binding)
        return {
            "row": known.row,
            "author": known.author,
            "standing": known.standing,
            "faults": known.faults,
            "signed_in": await last_sign_in(self._signed_in, known.author),
            "interval": status.status.heartbeat_interval if status is not None else "",
            "conditions": shown(status.status.conditions if status is not None else []),
            "exports": [_export(one) for one in self._directory.exports(scope)],
            "namespaces": [one.meta.name for one in self._directory.provider_namespaces(scope)],
            "copies": self._directory.copies(scope),
            "unasked": unasked,
            "previews": [
                (one, TITLES[one], preview(self._directory, one, scope)) for one in ACTIONS
            ],
            "progress": self._actions.progress(scope),
        }

    async def own(self, session: Session, scope: Any, asked: Asked) -> Mapping[str, Any]:
        """The consumer's tokens, as far as they can be seen."""
        try:
            return {"tokens": await self._actions.tokens(scope), "unread": ""}
        except ClientError as error:
            return {"tokens": None, "unread": str(error)}

    async def _granted(self, name: str, binding: Object | None) -> tuple[frozenset[str], str]:
        """ClusterRoleBindings that stand for what kube-bind's konnector may watch everywhere.

        What stands in them is asked for by a review of its login; of others nothing is asked. With
        it comes why it could not be asked.
        """
        if binding is None or not is_original(binding):
            return GRANTED, ""
        found: set[str] = set()
        try:
            for export in self._directory.exports(name):
                for role, kinds in _watched(export).items():
                    for group, plural in kinds:
                        review = Review("list", group, "", plural)
                        if not await self._access.login_may(name, review):
                            break
                    else:
                        found.add(role)
        except ClientError as error:
            return GRANTED, f"what its konnector may watch cannot be asked: {error}"
        return frozenset(found), ""


def gone(name: str) -> MissingError:
    """That there is no consumer of a name."""
    return MissingError(
        f"There is no consumer {name}",
        "It was revoked, or never was one. The list of consumers has those that there are.",
    )


def shown(conditions: Iterable[Condition]) -> tuple[ShownCondition, ...]:
    """Conditions as a page shows them, by their types."""
    return tuple(
        ShownCondition(
            one.type,
            one.status,
            state_of(one),
            one.reason,
            one.message,
            one.last_transition_time,
            helps_of(one),
        )
        for one in sorted(conditions, key=lambda one: one.type)
    )


def _status(binding: Object | None) -> ClusterBinding | None:
    try:
        return binding.decode(ClusterBinding) if binding is not None else None
    except msgspec.ValidationError:
        return None


def _export(export: Object) -> ShownExport:
    try:
        spec = export.decode(APIServiceExport).spec
    except msgspec.ValidationError as error:
        return ShownExport(export.meta.name, problem=f"it is not valid: {error}")
    return ShownExport(
        export.meta.name,
        tuple(" ".join([one.name, ", ".join(one.versions)]).strip() for one in spec.resources),
        spec.informer_scope,
        spec.isolation,
        tuple(in_words(spec.permission_claims)),
        shown(export_conditions(export)),
    )


def _watched(export: Object) -> Mapping[str, list[tuple[str, str]]]:
    """What kube-bind's konnector watches in all namespaces, by the role that would let it."""
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
