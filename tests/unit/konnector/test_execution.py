"""What the syncer remembers of a write: only what the provider made another thing of."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.ends import POLICY, both_ends

from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.status import Status, StatusDetails
from fairlead.client import limits
from fairlead.client.errors import api_error
from fairlead.konnector.policies.steps import Create, Delete, Pair, Replace, Settle
from fairlead.konnector.sync.ends import Executor
from fairlead.runtime.cache.expectations import Expectations


KEY = Key("shop", "creds")
TARGET = Key("abc-shop", "creds")


class Defaulting:
    """A provider that adds to what it is given."""

    def __init__(self, added: JSON) -> None:
        self._added = added

    async def create(self, _resource: Any, body: JSON, _namespace: str) -> Object:
        return object_from_dict({**body, **self._added})

    async def update(self, _resource: Any, body: JSON) -> Object:
        return object_from_dict({**body, **self._added})


def made(key: Key, **fields: Any) -> Object:
    metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": "1"}
    return object_from_dict(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
    )


def pair(provider: Object | None) -> Pair:
    return Pair(key=KEY, consumer=made(KEY, data={"a": "1"}), provider=provider, target=TARGET)


def converged(found: Pair) -> bool:
    return found.converged("provider", POLICY.outcome("provider", found))


BODY = made(TARGET, data={"a": "1"}).to_dict()


@pytest.mark.parametrize("step", [Create("provider", BODY), Replace("provider", BODY)], ids=type)
async def test_what_was_written_is_in_step_though_the_provider_added_to_it(
    step: Create | Replace,
) -> None:
    ends = both_ends(None, Defaulting({"immutable": False}))
    writing = Executor(ends, POLICY.outcome)
    after = await writing.carry_out(step, pair(None))
    assert after is not None
    assert converged(after)
    assert ends.provider.outcomes[KEY] == after.outcomes["provider"]
    other = after.having("provider", made(TARGET, data={"a": "1"}, immutable=True))
    assert not converged(other)


async def test_a_write_that_came_out_equal_ends_what_was_remembered() -> None:
    ends = both_ends(None, Defaulting({"immutable": False}))
    writing = Executor(ends, POLICY.outcome)
    defaulted = await writing.carry_out(Create("provider", BODY), pair(None))
    assert defaulted is not None
    equal = defaulted.having("provider", made(TARGET, data={"a": "1"}))
    settled = await writing.carry_out(Settle("provider"), equal)
    assert settled is not None
    assert converged(settled)
    assert not settled.outcomes
    assert not ends.provider.outcomes


async def test_a_write_to_what_no_watch_has_told_of_is_looked_at_again() -> None:
    """Its end would go unseen where the watch lists anew after it."""
    ends = both_ends(None, Defaulting({}))
    now = [0.0]
    ends.provider.expectations = Expectations(clock=lambda: now[0])
    await Executor(ends, POLICY.outcome).carry_out(Replace("provider", BODY), pair(None))
    assert ends.provider.expectations.overdue() == []
    now[0] += limits.LAG_SECONDS
    assert ends.provider.expectations.overdue() == [TARGET]


async def test_a_copy_that_is_found_before_a_watch_has_told_of_it_is_looked_at_again() -> None:
    """Its end would go unseen, too, where the watch lists anew after it."""
    ends = both_ends(None, Holding())
    now = [0.0]
    ends.provider.expectations = Expectations(clock=lambda: now[0])
    after = await Executor(ends, POLICY.outcome).carry_out(Create("provider", BODY), pair(None))
    assert after is not None
    assert after.provider is not None
    assert ends.provider.newest(TARGET) is not None
    now[0] += limits.LAG_SECONDS
    assert ends.provider.expectations.overdue() == [TARGET]


class Holding:
    """A provider that has an object already."""

    async def create(self, *_: Any) -> Object:
        raise api_error(Status("Failure", "it is there", "AlreadyExists", 409))

    async def get(self, *_: Any) -> Object:
        return made(TARGET, data={"a": "1"})


class Forgetting:
    """A provider that has an object no more once it was deleted."""

    async def delete(self, *_: Any, **__: Any) -> None:
        return

    async def get(self, _resource: Any, name: str, *_: Any) -> Object:
        raise api_error(Status("Failure", "not found", "NotFound", 404, StatusDetails(name=name)))


async def test_a_copy_that_no_watch_has_told_of_is_asked_for_after_its_deletion() -> None:
    writing = Executor(both_ends(None, Forgetting()), POLICY.outcome)
    after = await writing.carry_out(
        Delete("provider", TARGET, "uid"), pair(made(TARGET, data={"a": "1"}))
    )
    assert after is not None
    assert after.provider is None
    assert "provider" in after.gone
