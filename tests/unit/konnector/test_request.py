from __future__ import annotations

import pytest
from tests.support.kubebind import kube, resource

from fairlead.konnector.commands.request import BindError, obstacle


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(
            'the provider\'s API server refused: BoundSchema.kube-bind.io "pools.example.org" is '
            "invalid: spec.versions[0].additionalPrinterColumns[1]: Duplicate value",
            id="two columns of one name",
        ),
        pytest.param(
            "spec.resources[0]: pools.example.org cannot be exported: Expected `str` matching "
            "regex '^v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$' - at `$.versions[1].name`",
            id="a version of another form",
        ),
    ],
)
def test_a_former_provider_that_cannot_export_a_kind_is_not_waited_for(message: str) -> None:
    conditions = [{"type": "ExportsReady", "status": "False", "message": message}]
    status = {"phase": "Pending", "conditions": conditions}
    with pytest.raises(BindError, match="upgrade the provider"):
        obstacle(kube("APIServiceExportRequest", spec={"resources": [resource()]}, status=status))
