from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.kinds.protobuf import ProtobufError, UnknownKindError, decode
from fairlead_sandbox.requests.bodies import decode_body


# What kube-apiserver 1.20 answers for a RoleBinding and a Lease.
ROLE_BINDING = (
    "azhzAAorChxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxEgtSb2xlQmluZGluZxK5AgrcAQoCYjQSABoBeCIA"
    "KiRiZjc1NTU2OS0wNWEzLTRiZmUtYjNjYi04NGVhMjY3MTU3YjYyAzQyNjgAQggI18GD2AYQAHoAigGUAQoNUHl0"
    "aG9uLXVybGxpYhIGVXBkYXRlGhxyYmFjLmF1dGhvcml6YXRpb24uazhzLmlvL3YxIggI18GD2AYQADIIRmllbGRz"
    "VjE6SQpHeyJmOnJvbGVSZWYiOnsiZjphcGlHcm91cCI6e30sImY6a2luZCI6e30sImY6bmFtZSI6e319LCJmOnN1"
    "YmplY3RzIjp7fX0SKAoEVXNlchIZcmJhYy5hdXRob3JpemF0aW9uLms4cy5pbxoDYm9iIgAaLgoZcmJhYy5hdXRo"
    "b3JpemF0aW9uLms4cy5pbxILQ2x1c3RlclJvbGUaBGJvYnMaACIA"
)
LEASE = (
    "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRKUAgr8AQoCcGISABoHZGVmYXVsdCIAKiRhOGJm"
    "M2VmMi0xNGZmLTQ2ODQtOTlkMC1kYjMxYTdlOGQ3YzgyAzYxMDgAQggIxs6D2AYQAHoAigGuAQoNUHl0aG9uLXVy"
    "bGxpYhIGVXBkYXRlGhZjb29yZGluYXRpb24uazhzLmlvL3YxIggIxs6D2AYQADIIRmllbGRzVjE6aQpneyJmOnNw"
    "ZWMiOnsiZjpob2xkZXJJZGVudGl0eSI6e30sImY6bGVhc2VEdXJhdGlvblNlY29uZHMiOnt9LCJmOmxlYXNlVHJh"
    "bnNpdGlvbnMiOnt9LCJmOnJlbmV3VGltZSI6e319fRITCgAQDyILCIDy1soGEICU7zooABoAIgA="
)
RBAC = "rbac.authorization.k8s.io"


def test_a_role_binding() -> None:
    body = decode(base64.b64decode(ROLE_BINDING))
    assert (body["apiVersion"], body["kind"]) == (f"{RBAC}/v1", "RoleBinding")
    assert body["metadata"]["name"] == "b4"
    assert body["metadata"]["namespace"] == "x"
    assert body["subjects"] == [{"kind": "User", "apiGroup": RBAC, "name": "bob"}]
    assert body["roleRef"] == {"apiGroup": RBAC, "kind": "ClusterRole", "name": "bobs"}


def test_times_and_empty_pointers() -> None:
    assert decode(base64.b64decode(LEASE))["spec"] == {
        "holderIdentity": "",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.123456Z",
        "leaseTransitions": 0,
    }


def number(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def part(field: int, value: bytes | str | float) -> bytes:
    if isinstance(value, float):
        return number(field << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return number(field << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(field << 3 | 2) + number(len(data)) + data


def envelope(version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + part(1, part(1, version) + part(2, kind)) + part(2, raw)


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        pytest.param(
            "Secret",
            part(2, part(1, "k") + part(2, b"\x00\x01")) + part(3, "Opaque") + part(5, 1),
            {"data": {"k": "AAE="}, "type": "Opaque", "immutable": True},
            id="bytes in a map",
        ),
        pytest.param(
            "ConfigMap",
            part(1, part(1, "n") + part(11, part(1, "a") + part(2, "")) + part(14, "f")),
            {"metadata": {"name": "n", "labels": {"a": ""}, "finalizers": ["f"]}},
            id="empty values of maps stay",
        ),
        pytest.param(
            "ConfigMap",
            part(99, "later") + b"\x9d\x06\x01\x02\x03\x04" + part(4, 0),
            {"immutable": False},
            id="unknown fields",
        ),
        pytest.param(
            "ConfigMap", part(1, part(8, b"")), {"metadata": {}}, id="a time that is not set"
        ),
    ],
)
def test_fields(kind: str, raw: bytes, expected: Any) -> None:
    assert decode(envelope("v1", kind, raw)) == {"apiVersion": "v1", "kind": kind, **expected}


def test_delete_options_of_any_group() -> None:
    raw = part(1, 2**64 - 1) + part(2, part(1, "u")) + part(4, "Foreground")
    body = decode(envelope("apps/v1", "DeleteOptions", raw))
    assert body["gracePeriodSeconds"] == -1
    assert body["preconditions"] == {"uid": "u"}
    assert body["propagationPolicy"] == "Foreground"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="json"),
        pytest.param(b"k8s\x00\x0a\xff", id="cut"),
        pytest.param(b"k8s\x00\xff\xff", id="number without end"),
        pytest.param(b"k8s\x00" + b"\x0b", id="wire type"),
        pytest.param(envelope("v1", "ConfigMap", part(1, 5)), id="number for a message"),
        pytest.param(envelope("v1", "Secret", part(5, b"x")), id="message for a number"),
        pytest.param(envelope("v1", "Secret", part(3, b"\xff")), id="not UTF-8"),
        pytest.param(
            envelope("v1", "Secret", part(1, part(8, part(1, 2**62)))), id="time out of range"
        ),
    ],
)
def test_broken_bodies(body: bytes) -> None:
    with pytest.raises(ProtobufError):
        decode(body)


def test_every_cut_of_a_body_is_told() -> None:
    whole = base64.b64decode(ROLE_BINDING)
    for size in range(len(whole)):
        try:
            decode(whole[:size])
        except ProtobufError:
            continue


def test_other_kinds_are_not_understood() -> None:
    with pytest.raises(UnknownKindError, match="Ingress in v1"):
        decode(envelope("v1", "Ingress", b""))


@pytest.mark.parametrize(
    ("body", "code"), [(envelope("v1", "Ingress", b""), 415), (b"k8s\x00\x0a\xff", 400)]
)
def test_answers(body: bytes, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        decode_body("application/vnd.kubernetes.protobuf", body, "Pod")
    assert caught.value.code == code


def test_kinds_with_inlined_and_special_types() -> None:
    resources = part(1, part(1, "cpu") + part(2, part(1, "100m")))
    probe = part(1, part(2, part(2, part(1, 1) + part(3, "http"))))
    container = part(1, "c") + part(8, resources) + part(10, probe) + part(18, 0)
    volume = part(1, "v") + part(2, part(2, b""))
    body = decode(envelope("v1", "Pod", part(2, part(1, volume) + part(2, container))))
    assert body["spec"] == {
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [
            {
                "name": "c",
                "resources": {"limits": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"port": "http"}},
            }
        ],
    }


def test_schemas() -> None:
    free = part(30, part(1, 1)) + part(8, part(1, '{"a": 1}')) + part(44, part(1, "self == 1"))
    listed = part(24, part(1, part(5, "string"))) + part(9, 1.5)
    properties = part(29, part(1, "a") + part(2, free)) + part(29, part(1, "b") + part(2, listed))
    version = part(1, "v1") + part(4, part(1, properties))
    crd = part(2, part(7, version))
    version_ = "apiextensions.k8s.io/v1"
    body = decode(envelope(version_, "CustomResourceDefinition", crd))
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"] == {
        "a": {
            "additionalProperties": True,
            "default": {"a": 1},
            "x-kubernetes-validations": [{"rule": "self == 1"}],
        },
        "b": {"items": {"type": "string"}, "maximum": 1.5},
    }
