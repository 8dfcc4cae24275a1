"""Examples of the console, applied to an API server that has the kinds."""

from __future__ import annotations

import pytest
import yaml
from tests.integration.portal.handshake.conftest import _quiet, admin, plane
from tests.support.crossing import FOLDER, samples

from fairlead.api import postgresaccess
from fairlead.api.definitions import crd_schema, crd_spec
from fairlead.api.meta import JSON, object_from_dict
from fairlead.api.servicebinding import spec as servicebinding
from fairlead.client import Client
from fairlead.portal.console.examples import example
from fairlead.runtime import install_crds


__all__ = ["_quiet", "admin", "plane"]
CRDS = {
    crd["metadata"]["name"]: crd
    for crd in (
        *postgresaccess.crds(),
        *servicebinding.crds(),
        *(sample.crd for sample in samples(FOLDER)),
    )
}


@pytest.mark.parametrize("name", CRDS)
async def test_an_example_is_accepted(admin: Client, name: str) -> None:
    crd: JSON = CRDS[name]
    # The sandbox calls no webhooks that convert.
    plain = crd | {"spec": crd["spec"] | {"conversion": {"strategy": "None"}}}
    await install_crds(admin, [plain])
    stored = object_from_dict(crd)
    definition = crd_spec(stored)
    for version in definition.served:
        resource = definition.resource(version)
        written = example(
            crd_schema(stored, version),
            api_version=resource.api_version,
            kind=resource.kind,
            namespaced=resource.namespaced,
        )
        body = yaml.safe_load(written)
        body["metadata"]["name"] = f"example-{version}"
        await admin.create(resource, body)
