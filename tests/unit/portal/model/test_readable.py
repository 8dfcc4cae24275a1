"""What of an object's fields no page shows."""

from __future__ import annotations

import pytest

from fairlead.api.meta import JSON
from fairlead.portal.model.thing import HIDDEN, masked


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"colour": "blue", "count": 1}, None, id="plain"),
        pytest.param({"generatedSecret": "login"}, None, id="a-secrets-name"),
        pytest.param(
            {"password": {"secretRef": {"name": "a", "key": "b"}}}, None, id="a-reference"
        ),
        pytest.param({"password": "hunter2"}, {"password": HIDDEN}, id="a-password"),
        pytest.param(
            {"password": {"value": "hunter2"}}, {"password": {"value": HIDDEN}}, id="its-value"
        ),
        pytest.param({"apiKey": "x"}, {"apiKey": HIDDEN}, id="a-key"),
        pytest.param({"clientSecret": "x"}, {"clientSecret": HIDDEN}, id="a-clients-secret"),
        pytest.param({"tokens": ["x"]}, {"tokens": [HIDDEN]}, id="in-a-list"),
        pytest.param({"a": [{"Passwd": "x"}]}, {"a": [{"Passwd": HIDDEN}]}, id="deep"),
        pytest.param(
            {"uri": "postgresql://shop:hunter2@db/shop"},
            {"uri": f"postgresql://shop:{HIDDEN}@db/shop"},
            id="in-an-address",
        ),
    ],
)
def test_what_is_hidden(body: JSON, expected: JSON | None) -> None:
    assert masked(body) == (body if expected is None else expected)
