"""What a client of a front door prepares before it asks."""

from __future__ import annotations

import pytest

from fairlead.portal.client.addresses import Address, FrontDoorError
from fairlead.portal.client.backend import BackendClient, Trust


def test_authorities_are_read_where_there_is_a_certificate_to_check() -> None:
    broken = Trust(b"no certificate")
    BackendClient(Address("http://127.0.0.1:8080"), trust=broken)
    with pytest.raises(FrontDoorError, match="--server-ca-file"):
        BackendClient(Address("https://127.0.0.1:8443"), trust=broken)
