"""Stripping managedFields: exactly that member goes, wherever it stands."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import decode_object
from fairlead.runtime.cache.store import strip_managed_fields


MANAGED = [{"manager": "kubectl", "fieldsV1": {"f:spec": {".": {}, 'k:{"name":"}],"}': {}}}}]


def body(metadata: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **rest}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"managedFields": MANAGED, "name": "a"}, id="first"),
        pytest.param({"name": "a", "managedFields": MANAGED, "uid": "u"}, id="middle"),
        pytest.param({"name": "a", "managedFields": MANAGED}, id="last"),
        pytest.param({"managedFields": MANAGED}, id="alone"),
        pytest.param({"name": "a", "managedFields": None}, id="null"),
        pytest.param({"name": "a"}, id="absent"),
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "spaced"])
@pytest.mark.parametrize("elsewhere", [{}, {"managedFields": MANAGED}], ids=["plain", "nested"])
def test_only_the_metadata_member_goes(
    metadata: dict[str, Any], separators: tuple[str, str], elsewhere: dict[str, Any]
) -> None:
    whole = {"data": elsewhere, **body(metadata), "spec": elsewhere}
    stripped = strip_managed_fields(
        decode_object(json.dumps(whole, separators=separators).encode())
    )
    del whole["metadata"]
    kept = {name: value for name, value in metadata.items() if name != "managedFields"}
    assert json.loads(stripped.raw) == {**whole, "metadata": kept}


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text() | st.just("managedFields"), inner)
        ),
        max_leaves=8,
    )
)
def test_whatever_the_rest_is_it_stays(rest: Any) -> None:
    whole = body({"name": "a", "managedFields": MANAGED}, spec=rest)
    stripped = strip_managed_fields(decode_object(json.dumps(whole).encode()))
    assert json.loads(stripped.raw) == body({"name": "a"}, spec=rest)
