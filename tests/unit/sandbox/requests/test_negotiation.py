from __future__ import annotations

import pytest

from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.requests.bodies import decode_body
from fairlead_sandbox.requests.negotiation import Accept, negotiate


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        pytest.param("application/json", Accept(), id="json"),
        pytest.param("*/*", Accept(), id="anything"),
        pytest.param("", Accept(), id="nothing-said"),
        pytest.param(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            Accept("table"),
            id="kubectl",
        ),
        pytest.param(
            "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
            Accept("table", "v1beta1"),
            id="old-kubectl",
        ),
        pytest.param(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
            Accept(),
            id="unknown-version-falls-back",
        ),
        pytest.param(
            "application/vnd.kubernetes.protobuf,application/json", Accept(), id="protobuf-first"
        ),
        pytest.param(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Accept("metadata"),
            id="metadata",
        ),
    ],
)
def test_the_first_form_that_can_be_written_is_taken(header: str, expected: Accept) -> None:
    assert negotiate(header) == expected


@pytest.mark.parametrize("header", ["application/vnd.kubernetes.protobuf", "text/html"])
def test_other_forms_are_refused(header: str) -> None:
    with pytest.raises(StatusError) as found:
        negotiate(header)
    assert found.value.code == 406


@pytest.mark.parametrize(
    ("kind", "body", "code"),
    [
        pytest.param("text/plain", b"{}", 415, id="format"),
        pytest.param("application/json", b"{", 400, id="broken-json"),
        pytest.param("application/json", b"[]", 400, id="no-object"),
        pytest.param("application/yaml", b"a: [", 400, id="broken-yaml"),
        pytest.param("application/yaml", b"!!python/name:os.system x", 400, id="unsafe-yaml"),
        pytest.param("application/yaml", b"[" * 100_000, 400, id="deep-yaml"),
        pytest.param("application/yaml", b"a: &a [x]\nb: [*a, *a]", 400, id="yaml-aliases"),
        pytest.param("application/yaml", b"\xff", 400, id="no-utf-8"),
        pytest.param("application/yaml", b"? [a]\n: b", 400, id="yaml-keys"),
    ],
)
def test_unreadable_bodies_are_refused(kind: str, body: bytes, code: int) -> None:
    with pytest.raises(StatusError) as found:
        decode_body(kind, body, "ConfigMap")
    assert found.value.code == code


def test_yaml_becomes_what_json_has() -> None:
    body = b"day: 2020-01-01\nnumber: 3.0\n2: two\n"
    found = decode_body("application/yaml", body, "ConfigMap")
    assert found == {"day": "2020-01-01", "number": 3, "2": "two"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'{"a":3.0}', "3", id="whole"),
        pytest.param(b'{"a":1e3}', "1000", id="exponent"),
        pytest.param(b'{"a":-2.5}', "-2.5", id="fraction"),
        pytest.param(b'{"a":1e22}', "1e+22", id="large"),
    ],
)
def test_whole_numbers_are_integers(text: bytes, expected: str) -> None:
    assert str(decode_body("application/json", text, "X")["a"]) == expected


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(StatusError, match="out of range"):
        decode_body("application/json", b'{"a":1e400}', "X")
