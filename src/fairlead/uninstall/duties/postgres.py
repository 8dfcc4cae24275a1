"""The PostgresAccess operator's duties: roles in databases, which only the operator drops."""

from __future__ import annotations

import shlex

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresaccess import FINALIZER, POSTGRESACCESSES, PostgresAccess
from fairlead.api.remains import count, named
from fairlead.client.lookups import list_all
from fairlead.uninstall.duties.base import Duties, having, remedy_for, standing
from fairlead.uninstall.findings import Use


_AGAIN = ", as soon as the operator runs again (apply `fairlead manifests postgres`)"


class PostgresDuties(Duties):
    """PostgresAccesses that the operator has reconciled; records of roles are left to people."""

    async def uses(self) -> list[Use]:
        """Return the accesses whose role exists or may exist."""
        accesses = await self._accesses()
        if not accesses:
            return []
        again = await self._again(_AGAIN)
        going = await self._removal.going()
        return [_use(one, going, again) for one in accesses]

    async def orphan(self) -> None:
        """Leave all roles in their databases; accesses stay, or go if they were being deleted."""
        accesses = await self._accesses()
        if number := await self._removal.let_go(POSTGRESACCESSES, accesses, FINALIZER):
            self._removal.progress(
                f"let go {named(accesses)}: {count(number, 'role')} stay in PostgreSQL"
            )

    async def _accesses(self) -> list[Object]:
        return having(await list_all(self._client, POSTGRESACCESSES), FINALIZER)


def _use(obj: Object, going: set[str], again: str) -> Use:
    role, policy, where = _role(obj)
    key = obj.meta.key
    what = f"PostgresAccess {key} has {role}{where}"
    what += standing(obj, "the operator to remove it")
    if key.namespace in going:
        what += f"; for it {key.namespace} stays in Terminating"
    place = f"-n {shlex.quote(key.namespace)} {shlex.quote(key.name)}"
    command = f"kubectl delete {POSTGRESACCESSES.group_resource} {place}"
    return Use(
        what=what,
        remedy=remedy_for(obj, f"`{command}` deletes it{policy}{again}"),
        option="orphan",
        breaks=f"{role}{where} stays with its login and all its rights, without an owner",
    )


def _role(obj: Object) -> tuple[str, str, str]:
    """Return the role, the policy for its removal, and its server, as far as the access tells."""
    try:
        access = obj.decode(PostgresAccess)
    except msgspec.ValidationError:
        return "a role", "", ""
    connection = access.spec.connection
    server = connection.server_ref.name if connection.server_ref else ""
    # The status comes first: it names the server that answered, and the spec may have changed
    # since.
    host = (access.status.server.host if access.status.server else "") or connection.host or ""
    where = f" on PostgresServer {server}" if server else f" at {host}" if host else ""
    policy = f", and its role as cleanupPolicy {access.spec.cleanup_policy} says"
    return f"role {access.status.username or access.spec.username}", policy, where
