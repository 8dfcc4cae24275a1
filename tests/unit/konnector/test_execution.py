"""What the syncer remembers of a write: only what the provider made another thing of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from fairlead.api.meta import JSON, Key, Object, OwnerReference, object_from_dict
from fairlead.api.resource import CONFIGMAPS
from fairlead.konnector.policies.isolation import Namespaced
from fairlead.konnector.policies.steps import CreateProvider, Settle, Sides, UpdateProvider
from fairlead.konnector.sync.execution import Ends, Executor


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


def executor(added: JSON) -> Executor:
    ends = Ends(
        consumer=cast("Any", None),
        provider=cast("Any", Defaulting(added)),
        consumer_resource=CONFIGMAPS,
        provider_resource=CONFIGMAPS,
        strategy=Namespaced("abc"),
        namespaces=cast("Any", SimpleNamespace()),
        export=OwnerReference("kube-bind.io/v1alpha2", "APIServiceExport", "db", "export-1"),
    )
    return Executor(ends, forbidden=lambda _: None)


def made(key: Key, **fields: Any) -> Object:
    metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": "1"}
    return object_from_dict(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}
    )


def sides(provider: Object | None, **fields: Any) -> Sides:
    return Sides(
        consumer=made(KEY, data={"a": "1"}, **fields),
        provider=provider,
        target=TARGET,
        cluster_namespace="abc",
    )


BODY = made(TARGET, data={"a": "1"}).to_dict()


@pytest.mark.parametrize("step", [CreateProvider(BODY), UpdateProvider(BODY)], ids=type)
async def test_what_was_written_is_in_step_though_the_provider_added_to_it(
    step: CreateProvider | UpdateProvider,
) -> None:
    writing = executor({"immutable": False})
    after = await writing.carry_out(KEY, step, sides(None))
    assert after is not None
    assert writing.compare(KEY, after).spec_converged
    other = sides(made(TARGET, data={"a": "1"}, immutable=True))
    assert not writing.compare(KEY, other).spec_converged


async def test_a_write_that_came_out_equal_ends_what_was_remembered() -> None:
    writing = executor({"immutable": False})
    defaulted = await writing.carry_out(KEY, CreateProvider(BODY), sides(None))
    assert defaulted is not None
    equal = sides(made(TARGET, data={"a": "1"}))
    await writing.carry_out(KEY, Settle(), equal)
    assert writing.compare(KEY, equal).spec_converged
    assert not writing.compare(KEY, defaulted).spec_converged
