"""autoBind: the ClusterBinding of all that a Connection's provider offers.

It has the Connection's name and is controller-owned by it; another one of that name is never
written. It grows with the offers. An API leaves it only once the provider has no CRD of that name
any more: with an API go its copies, and a label that is taken off, or one look that misses an API,
is no reason for that. Source: kbind v2, but for when it shrinks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from fairlead.api.kbind import (
    API_VERSION,
    CLUSTERBINDINGS,
    ClusterBinding,
    Connection,
    ConnectionStatus,
)
from fairlead.api.kbind.names import (
    API_NOT_EXPORTED,
    AUTO_BIND_FAILING,
    FORBIDDEN,
    FOREIGN_CLUSTERBINDING,
    LABEL_MANAGED,
    PENDING,
    TOO_MANY_APIS,
)
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS
from fairlead.client import Client
from fairlead.client.errors import AlreadyExists, ApiError, Conflict, Forbidden, NotFound
from fairlead.konnector import bounds
from fairlead.konnector.v2.conditions import ReportedConditions
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.providers import ConnectedProvider
from fairlead.runtime import Informer, commit


class AutoBindFault(msgspec.Struct, frozen=True):
    """Reason and message of APIs that autoBind does not bind, or keeps though they are gone."""

    reason: str
    message: str


class AutoBindPlan(msgspec.Struct, frozen=True):
    """The write of the managed ClusterBinding that is next, and what to tell.

    ``missing`` are the APIs that it has and the provider does not offer. ``fault`` is None where
    nothing is wrong; it counts only if ``settled``.
    """

    action: Literal["", "create", "change", "delete"] = ""
    body: JSON | None = None
    missing: tuple[str, ...] = ()
    fault: AutoBindFault | None = None
    settled: bool = True


def plan_auto_bind(
    connection: Object,
    binding: Object | None,
    offered: Collection[str] | None,
    gone: Collection[str] | None,
) -> AutoBindPlan:
    """Return the write of a Connection's managed ClusterBinding that is next.

    Args:
        connection: the Connection.
        binding: the ClusterBinding of its name, None without one.
        offered: names of the APIs that the provider offers; None while the Connection is not
            ready.
        gone: of the APIs that are bound and not offered, those that the provider does not have
            any more; None while that is not known.
    """
    parsed = connection.decode(Connection)
    is_ours = binding is not None and is_managed(binding, connection)
    if connection.meta.deleting or not parsed.spec.auto_bind:
        if binding is not None and is_ours and not binding.meta.deleting:
            return AutoBindPlan("delete")
        return AutoBindPlan()
    if binding is not None and not is_ours:
        return AutoBindPlan(fault=_foreign(connection.meta.name))
    if offered is None or (binding is not None and binding.meta.deleting):
        return AutoBindPlan(settled=False)
    bound = _bound(binding)
    missing = sorted(bound - set(offered))
    remaining = [name for name in missing if name not in (gone or ())]
    # One that binds nothing is none, and with it would go every CRD and object.
    if not offered and not remaining:
        remaining = missing
    staying = [*remaining, *bound.intersection(offered)]
    # What is bound already makes no room for another one: its copies would go.
    added = sorted(set(offered) - bound)[: max(0, bounds.AUTO_BOUND_APIS - len(staying))]
    names = sorted([*staying, *added])
    fault = None
    if remaining:
        fault = _without_offer(connection.meta.name, remaining, alone=not offered)
    elif len(names) < len(offered):
        fault = _beyond(len(offered))
    settled = gone is not None or not missing
    if binding is None:
        body = _created(connection, names) if names else None
        return AutoBindPlan("create" if names else "", body, fault=fault)
    body = _changed(binding, connection.meta.name, names)
    action: Literal["", "change"] = "change" if body != binding.to_dict() else ""
    return AutoBindPlan(action, body, tuple(missing), fault, settled)


def _bound(binding: Object | None) -> set[str]:
    if binding is None:
        return set()
    return {api.name for api in binding.decode(ClusterBinding).spec.apis}


def is_managed(binding: Object, connection: Object) -> bool:
    """Whether a ClusterBinding is the managed one of a Connection: by name, and by its uid."""
    owner = binding.meta.controller()
    return (
        binding.meta.name == connection.meta.name
        and owner is not None
        and (owner.kind, owner.uid) == (connection.kind, connection.meta.uid)
    )


def _beyond(count: int) -> AutoBindFault:
    return AutoBindFault(
        TOO_MANY_APIS,
        f"the provider offers {count} APIs, and autoBind binds at most "
        f"{bounds.AUTO_BOUND_APIS}: bind the others with a ClusterBinding of another name",
    )


def _foreign(name: str) -> AutoBindFault:
    return AutoBindFault(
        FOREIGN_CLUSTERBINDING,
        f"ClusterBinding {name} does not belong to this Connection, so autoBind does not "
        "change it: delete it, and autoBind creates its own, or set spec.autoBind to false",
    )


def _without_offer(name: str, apis: Sequence[str], *, alone: bool) -> AutoBindFault:
    end = f"delete ClusterBinding {name}" if alone else f"take it out of ClusterBinding {name}"
    shown = ", ".join(apis[: bounds.NAMED])
    more = f" and {len(apis) - bounds.NAMED} more" if len(apis) > bounds.NAMED else ""
    return AutoBindFault(
        API_NOT_EXPORTED,
        f"the provider no longer offers {shown}{more}, and ClusterBinding {name} keeps it, "
        "since to unbind an API deletes its copies: ask the provider's team to offer it again, "
        f"or, to unbind it, {end}",
    )


def _created(connection: Object, apis: Sequence[str]) -> JSON:
    # Without blockOwnerDeletion, since that needs a right on the Connection's finalizers. The
    # Connection's own finalizer has its deletion wait.
    owner = OwnerReference(
        connection.api_version,
        connection.kind,
        connection.meta.name,
        connection.meta.uid,
        controller=True,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": CLUSTERBINDINGS.kind,
        "metadata": {
            "name": connection.meta.name,
            "labels": {LABEL_MANAGED: "true"},
            "ownerReferences": [msgspec.to_builtins(owner)],
        },
        "spec": {
            "connectionRef": {"name": connection.meta.name},
            "apis": [{"name": name} for name in apis],
        },
    }


def _changed(binding: Object, connection: str, apis: Sequence[str]) -> JSON:
    """Return the managed ClusterBinding as it should be; what others have added stays."""
    body = binding.to_dict()
    body["metadata"] = {
        **body["metadata"],
        "labels": {**binding.meta.labels, LABEL_MANAGED: "true"},
    }
    spec = {**body["spec"], "connectionRef": {"name": connection}}
    # Another order, or a name that is there twice, makes no difference.
    if {api["name"] for api in spec["apis"]} != set(apis):
        spec["apis"] = [{"name": name} for name in apis]
    body["spec"] = spec
    return body


def with_auto_bind(
    status: ConnectionStatus, plan: AutoBindPlan, generation: int, *, now: str
) -> ConnectionStatus:
    """Return a status with the condition about autoBind, which is there during a fault alone."""
    if not plan.settled:
        return status
    conditions = ReportedConditions(status.conditions, generation, now)
    if plan.fault is not None:
        conditions.set(AUTO_BIND_FAILING, "True", plan.fault.reason, plan.fault.message)
    else:
        conditions.remove(AUTO_BIND_FAILING)
    return msgspec.structs.replace(status, conditions=conditions.all)


class MissingAPIs:
    """Watches the CRDs of APIs that are bound and not offered, each by its name.

    An API is gone once the provider answers that it has no CRD of the name, and is still the
    cluster that it was. ``changed`` is called when :attr:`gone` has changed.
    """

    def __init__(self, provider: ConnectedProvider, changed: Callable[[], None]) -> None:
        self._gone: frozenset[str] | None = frozenset()
        self._provider = provider
        self._changed = changed
        self._names: frozenset[str] = frozenset()
        self._crds: dict[str, Informer] = {}
        self._dirty = asyncio.Event()

    @property
    def gone(self) -> frozenset[str] | None:
        """APIs that the provider does not have any more; None while that is not known."""
        return self._gone and self._gone & self._absent()

    def look_for(self, names: Collection[str]) -> None:
        """Watch these CRDs, and no others."""
        if frozenset(names) != self._names:
            self._names = frozenset(names)
            self._gone = None if names else frozenset()
            self._dirty.set()

    async def run(self) -> None:
        """Work until cancelled.

        Raises:
            ClientError: the provider does not tell which cluster it is.
        """
        try:
            while True:
                self._dirty.clear()
                await self._follow()
                await self._settle()
                await self._dirty.wait()
        finally:
            await self._follow(frozenset())

    async def _follow(self, names: frozenset[str] | None = None) -> None:
        names = self._names if names is None else names
        for name in sorted(self._crds.keys() - names):
            await self._crds.pop(name).close()
        for name in sorted(names - self._crds.keys()):
            crds = self._crds[name] = self._provider.cluster.informer(
                CUSTOMRESOURCEDEFINITIONS, fields=f"metadata.name={name}"
            )
            crds.subscribe(lambda _delta: self._dirty.set())
            crds.listen(self._dirty.set)

    async def _settle(self) -> None:
        names = self._names
        if not all(crds.has_synced for crds in self._crds.values()):
            return
        gone = self._absent()
        if gone and await cluster_uid(self._provider.client) != self._provider.remote_uid:
            return
        # What has come while the provider was asked is not gone.
        gone &= self._absent()
        if names == self._names and gone != self._gone:
            self._gone = gone
            self._changed()

    def _absent(self) -> frozenset[str]:
        return frozenset(name for name, crds in self._crds.items() if not crds.list())


class AutoBinder:
    """Writes the managed ClusterBindings of all Connections.

    ``changed`` is called with the name of a Connection that is to be looked at again.
    """

    def __init__(self, client: Client, bindings: Informer, changed: Callable[[str], None]) -> None:
        self._client = client
        self._bindings = bindings
        self._changed = changed
        self._missing: dict[str, tuple[ConnectedProvider, MissingAPIs]] = {}

    async def settle(
        self,
        connection: Object,
        provider: ConnectedProvider | None,
        offered: Collection[str] | None,
    ) -> tuple[AutoBindPlan, ApiError | None]:
        """Write what is next for a Connection; return what to tell, and what refused the write.

        Args:
            connection: the Connection.
            provider: its provider; None where a missing API cannot be proved gone.
            offered: names of the APIs that are offered, None while the Connection is not ready.

        Raises:
            Conflict: the ClusterBinding has changed; a look on the newer one is due.
        """
        name = connection.meta.name
        binding = self._bindings.get("", name)
        missing = self._missing_at(name, provider)
        gone = missing.gone if missing is not None else frozenset[str]()
        plan = plan_auto_bind(connection, binding, offered, gone)
        if provider is not None and plan.missing and missing is None:
            missing = MissingAPIs(provider, lambda: self._changed(name))
            self._missing[name] = (provider, missing)
            provider.syncers.start(f"missing APIs of {name}", missing)
            plan = msgspec.structs.replace(plan, settled=False)
        if missing is not None:
            missing.look_for(plan.missing)
        try:
            await self._write(plan, binding)
        except Conflict:
            # Its status, which is no event here, is newer than the cache.
            raise
        except ApiError as error:
            reason = FORBIDDEN if isinstance(error, Forbidden) else PENDING
            message = f"this cluster refuses ClusterBinding {name}: {error.message}"
            fault = AutoBindFault(reason, message)
            return msgspec.structs.replace(plan, fault=fault, settled=True), error
        return plan, None

    def forget(self, name: str) -> None:
        """Drop what is remaining of a Connection that is gone."""
        self._missing.pop(name, None)

    def _missing_at(self, name: str, provider: ConnectedProvider | None) -> MissingAPIs | None:
        """Return the work on a provider that goes on; it ends with the link to the provider."""
        former, missing = self._missing.get(name, (None, None))
        if former is provider:
            return missing
        if missing is not None:
            # What was found before the Connection fell has to be found again.
            missing.look_for(())
        return None

    async def _write(self, plan: AutoBindPlan, binding: Object | None) -> None:
        client = self._client
        # Where the cache is behind, its event brings the next look.
        with suppress(AlreadyExists, NotFound):
            if plan.action == "create":
                await client.create(CLUSTERBINDINGS, plan.body or {})
            elif plan.action == "change" and binding is not None:
                await commit(client, CLUSTERBINDINGS, binding, plan.body or {})
            elif plan.action == "delete" and binding is not None:
                # Only unchanged: a user may take it over at this moment.
                await client.delete(
                    CLUSTERBINDINGS,
                    binding.meta.name,
                    uid=binding.meta.uid,
                    resource_version=binding.meta.resource_version,
                )
