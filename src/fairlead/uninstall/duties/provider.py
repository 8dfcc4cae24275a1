"""The provider's duties: consumers, their namespaces, and the rights that it maintains."""

from __future__ import annotations

import shlex
from collections.abc import Collection

from fairlead.api.kubebind import (
    APISERVICENAMESPACES,
    BINDER_NAME,
    FINALIZER_NAMESPACE,
    APIServiceNamespace,
)
from fairlead.api.meta import Object
from fairlead.api.reasons.verdict import Judgement
from fairlead.api.remains import count, named
from fairlead.api.timestamps import moment
from fairlead.client.lookups import list_all
from fairlead.provider.commands.overview import ConsumerRow, age, consumers
from fairlead.uninstall.duties.base import Duties, having, judged, standing
from fairlead.uninstall.findings import Use


_AGAIN = ", as soon as the controllers run again (apply `fairlead manifests provider`)"


class ProviderDuties(Duties):
    """Consumers, and APIServiceNamespaces that wait for the controllers."""

    async def uses(self) -> list[Use]:
        """Return each consumer, and the held objects of one that is being revoked."""
        namespaces = await self._namespaces()
        rows = await consumers(self._client)
        if not (namespaces or rows):
            return []
        again = await self._again(_AGAIN)
        going = await self._removal.going()
        # A consumer whose namespace is going is being revoked already.
        uses = [_consumer(row, again) for row in rows if row.namespace not in going]
        return uses + ([_held_use(one, going) for one in namespaces] if again else [])

    async def orphan(self) -> None:
        """Release APIServiceNamespaces without the controllers; provider namespaces stay."""
        namespaces = await self._namespaces()
        if await self._removal.let_go(APISERVICENAMESPACES, namespaces, FINALIZER_NAMESPACE):
            self._removal.progress(f"let go {named(namespaces)}: their namespaces stay")

    async def _namespaces(self) -> list[Object]:
        listed = await list_all(self._client, APISERVICENAMESPACES)
        # One that is not being deleted belongs to a consumer, which is a use of its own.
        return having([one for one in listed if one.meta.deleting], FINALIZER_NAMESPACE)


def _consumer(row: ConsumerRow, again: str) -> Use:
    beats = age(row.last_heartbeat_time, moment())
    heard = f"its konnector was heard {beats} ago" if beats else "its konnector was never heard"
    verdict = Judgement(row.state, row.reason, row.message)
    exports, objects = count(len(row.exports), "export"), count(row.objects, "object")
    return Use(
        what=f"consumer {row.title} has {exports} and {objects}; {heard}{judged(verdict)}",
        remedy=f"`fairlead provider revoke {shlex.quote(row.namespace)}` takes it away{again}",
        option="force",
        breaks=(
            f"consumer {row.title} loses the rights of ClusterRole {BINDER_NAME}: nothing of it "
            f"is synchronized any more, it cannot unbind, and its namespaces are never deleted; "
            f"{objects} stay here"
        ),
    )


def _held_use(service_namespace: Object, going: Collection[str]) -> Use:
    namespace = service_namespace.decode(APIServiceNamespace).status.namespace
    consumer = service_namespace.meta.namespace
    stays = f"; for it {consumer} stays in Terminating"
    return Use(
        what=(
            f"APIServiceNamespace {service_namespace.key} is being deleted"
            + standing(
                service_namespace,
                f"the provider to delete its namespace {namespace or ''}".rstrip(),
            )
            + (stays if consumer in going else "")
        ),
        remedy=f"`fairlead provider revoke {shlex.quote(consumer)}` takes all away{_AGAIN}",
        option="orphan",
        breaks=f"namespace {namespace or '(none)'} stays with all that is in it",
    )
