"""How many passes may be at work at a server at once, so that none of them stops the others.

A server that is dead, slow or hostile takes the time of whoever asks it. So each server has a
budget of passes of its own: one at first and after a pass that took long, more while it answers
quickly. Who finds the budget spent takes no worker meanwhile: the request is parked, and goes into
the queue again with a place kept for it once another pass has ended.

Tenants may name servers of their own, as many as they like. So the servers that the objects of
one namespace name have a common budget as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.meta import Object
from fairlead.api.postgresconnection import ServerRef
from fairlead.postgres.options import DEFAULT_WORKERS
from fairlead.runtime import Request


SLOW_SECONDS = 5.0
"""A pass that takes longer has its server work on one thing at a time."""
_AT_ONE_SERVER = 4
"""Passes at once while a server answers quickly."""
_OF_ONE_NAMESPACE = DEFAULT_WORKERS // 4
"""Passes at once with servers that the objects of one namespace name themselves."""


class Budget(NamedTuple):
    """What passes share; ``first`` passes at once at first and when it is slow, ``most`` else."""

    kind: str
    name: str
    first: int
    most: int


class _Spent:
    """The passes at work in one budget, and the requests that wait for one of them to end."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.used = 0
        self.parked: dict[Request, None] = {}


class Budgets:
    """The budgets that are spent from; ``enqueue`` has a parked request worked on."""

    def __init__(self, enqueue: Callable[[Request], None]) -> None:
        self._enqueue = enqueue
        self._spent: dict[Budget, _Spent] = {}
        self._held: dict[Request, list[Budget]] = {}

    def __len__(self) -> int:
        return len(self._spent)

    def enter(self, request: Request, budgets: Sequence[Budget]) -> bool:
        """Take a place in each budget; without one in all of them the request is parked.

        A place that was kept for it in a budget that is not asked for any more goes to the next.
        """
        held = self._held.pop(request, [])
        for budget in held:
            if budget not in budgets:
                self._release(budget)
        held = [budget for budget in held if budget in budgets]
        for budget in budgets:
            if budget in held:
                continue
            spent = self._spent.setdefault(budget, _Spent(budget.first))
            if spent.used >= spent.allowed:
                spent.parked[request] = None
                for kept in held:
                    self._release(kept)
                return False
            spent.parked.pop(request, None)
            spent.used += 1
            held.append(budget)
        if held:
            self._held[request] = held
        return True

    def leave(self, request: Request, *, slow: bool) -> None:
        """Give the places back, the first that wait come next."""
        for budget in self._held.pop(request, []):
            spent = self._spent[budget]
            spent.allowed = budget.first if slow else min(2 * spent.allowed, budget.most)
            self._release(budget)

    def _release(self, budget: Budget) -> None:
        spent = self._spent[budget]
        spent.used -= 1
        while spent.parked and spent.used < spent.allowed:
            request = next(iter(spent.parked))
            del spent.parked[request]
            spent.used += 1
            self._held.setdefault(request, []).append(budget)
            self._enqueue(request)
        if not spent.used and not spent.parked:
            # A server that was slow starts with one pass again, and so does any other.
            del self._spent[budget]


class _Connection(msgspec.Struct, rename="camel", frozen=True):
    server_ref: ServerRef | None = None
    existing_secret: str = ""
    existing_secret_namespace: str = ""
    host: str = ""
    port: int = 0


class _Spec(msgspec.Struct, frozen=True):
    connection: _Connection = _Connection()


class _Access(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


def budgets_of(access: Object | None) -> list[Budget]:
    """The budgets of a PostgresAccess; none for one that cannot be read, or is not there."""
    if access is None:
        return []
    try:
        connection = access.decode(_Access).spec.connection
    except msgspec.ValidationError:
        return []
    if connection.server_ref is not None:
        return [Budget("PostgresServer", connection.server_ref.name, 1, _AT_ONE_SERVER)]
    namespace = access.meta.namespace
    if connection.existing_secret:
        where = f"{connection.existing_secret_namespace}/{connection.existing_secret}"
    else:
        where = f"{connection.host}:{connection.port}"
    return [
        Budget("server", f"{namespace} {where}", 1, _AT_ONE_SERVER),
        Budget("namespace", namespace, _OF_ONE_NAMESPACE, _OF_ONE_NAMESPACE),
    ]
