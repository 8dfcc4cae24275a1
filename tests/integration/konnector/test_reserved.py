"""No claim, however wide, is about the ways to providers."""

from __future__ import annotations

import pytest
from tests.integration.konnector.conftest import binding_body, bound, until

from fairlead.api.kubebind import APISERVICEBINDINGBUNDLES
from fairlead.api.meta import Key
from fairlead.api.resource import CONFIGMAPS, SECRETS, Resource
from fairlead.client import Client
from fairlead.konnector.consumer import Consumer
from fairlead.konnector.sync.selection import Reserved


@pytest.mark.parametrize(
    ("resource", "key", "reserved"),
    [
        pytest.param(SECRETS, Key("kube-bind", "any"), True, id="konnectors-namespace"),
        pytest.param(CONFIGMAPS, Key("kube-bind", "any"), True, id="whatever-is-in-it"),
        pytest.param(SECRETS, Key("team", "way"), True, id="kubeconfig-elsewhere"),
        pytest.param(CONFIGMAPS, Key("team", "way"), False, id="another-kind-of-that-name"),
        pytest.param(SECRETS, Key("team", "other"), False, id="others-beside-it"),
        pytest.param(SECRETS, Key("shop", "way"), False, id="of-that-name-in-another-namespace"),
    ],
)
async def test_reserved(
    client: Client, consumer: Consumer, resource: Resource, key: Key, reserved: bool
) -> None:
    await bound(client, secret="way", namespace="team")
    await until(lambda: consumer.bindings.get("", "db"))
    assert Reserved(consumer.bindings, "kube-bind").has(resource, key) is reserved


async def test_the_kubeconfig_of_a_bundle_is_reserved_before_it_binds_anything(
    client: Client, consumer: Consumer
) -> None:
    body = {**binding_body(secret="way", namespace="team"), "kind": "APIServiceBindingBundle"}
    await client.create(APISERVICEBINDINGBUNDLES, body)
    await until(lambda: consumer.bundles.get("", "db"))
    reserved = Reserved(consumer.bindings, "kube-bind", consumer.bundles)
    assert reserved.has(SECRETS, Key("team", "way"))
    assert not reserved.has(SECRETS, Key("team", "other"))
