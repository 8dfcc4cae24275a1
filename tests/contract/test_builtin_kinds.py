"""Built-in kinds beyond those that Fairlead itself uses: what is kept, completed and refused."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead.client import Client, Invalid


GROUP = "networking.k8s.io"
INGRESSES = Resource(GROUP, "v1", "ingresses", "Ingress")
INGRESSCLASSES = Resource(GROUP, "v1", "ingressclasses", "IngressClass", namespaced=False)
SERVICE: JSON = {"service": {"name": "web", "port": {"number": 80}}}


def ingress(**spec: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": spec}


def path(**more: Any) -> JSON:
    return {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": SERVICE, **more}]}}


async def test_an_ingress_keeps_what_its_kind_has(client: Client, namespace: str) -> None:
    rule = {"host": "a.example.org", **path(odd=1)}
    body = ingress(bogus=1, defaultBackend=SERVICE, rules=[rule, {"host": "*.b.org"}])
    made = (await client.create(INGRESSES, body, namespace)).to_dict()
    assert made["spec"] == {
        "defaultBackend": SERVICE,
        "rules": [{"host": "a.example.org", **path()}, {"host": "*.b.org"}],
    }
    assert made["status"] == {"loadBalancer": {}}
    assert made["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({}, "spec: Invalid value: .*either `defaultBackend` or `rules`", id="empty"),
        pytest.param(
            {"rules": [path(pathType=None)]},
            r"paths\[0\].pathType: Required value: pathType must be specified",
            id="path type",
        ),
        pytest.param(
            {"rules": [path(pathType="Odd")]},
            r'pathType: Unsupported value: "Odd": supported values: "Exact", "Impl',
            id="odd path type",
        ),
        pytest.param(
            {"rules": [path(path="x")]},
            r'rules\[0\].http.paths\[0\].path: Invalid value: "x": must be an absolute path',
            id="relative",
        ),
        pytest.param(
            {"rules": [path(path="/a/../b")]}, r"must not contain '/../'", id="dots in the path"
        ),
        pytest.param(
            {"rules": [path(backend={})]},
            r'paths\[0\].backend: Invalid value: "": resource or service backend is required',
            id="no backend",
        ),
        pytest.param(
            {"rules": [{"http": {"paths": []}}]},
            r"spec.rules\[0\].http.paths: Required value$",
            id="no paths",
        ),
        pytest.param(
            {"rules": [{"host": "1.2.3.4"}]}, "must be a DNS name, not an IP address", id="address"
        ),
        pytest.param(
            {"rules": [{"host": "*"}]}, "a wildcard DNS-1123 subdomain must start", id="wildcard"
        ),
        pytest.param(
            {"defaultBackend": {"service": {"name": "a"}}},
            "spec.defaultBackend: Required value: port name or number is required",
            id="no port",
        ),
        pytest.param(
            {"defaultBackend": {"service": {"name": "a", "port": {"number": 80_000}}}},
            "port.number: Invalid value: 80000: must be between 1 and 65535, inclusive",
            id="port number",
        ),
        pytest.param(
            {"defaultBackend": {"service": {"name": "a", "port": {"name": "A_"}}}},
            r"port.name: Invalid value: \"A_\": must contain only alpha-numeric characters",
            id="port name",
        ),
        pytest.param(
            {"defaultBackend": SERVICE, "tls": [{"hosts": ["A_"]}]},
            r'spec.tls\[0\].hosts\[0\]: Invalid value: "A_": a lowercase RFC 1123 subdomain',
            id="TLS host",
        ),
    ],
)
async def test_an_ingress_that_makes_no_sense_is_refused(
    client: Client, namespace: str, spec: JSON, text: str
) -> None:
    with pytest.raises(Invalid, match=text):
        await client.create(INGRESSES, ingress(**spec), namespace)


async def test_the_controller_of_an_ingress_class_stays(client: Client, namespace: str) -> None:
    name = f"{namespace}-class"
    parameters = {"apiGroup": "example.org", "kind": "Settings", "name": "a"}
    spec = {"controller": "example.org/proxy", "bogus": 1, "parameters": parameters}
    body: JSON = {"metadata": {"name": name}, "spec": spec}
    made = (await client.create(INGRESSCLASSES, body)).to_dict()
    change: JSON = {"spec": {"controller": "a.b/c"}}
    try:
        assert made["spec"] == {"controller": "example.org/proxy", "parameters": parameters}
        with pytest.raises(Invalid, match=r'"a\.b/c": field is immutable'):
            await client.merge_patch(INGRESSCLASSES, name, "", change)
    finally:
        await client.delete(INGRESSCLASSES, name)
    body["spec"] = {"controller": "proxy"}
    with pytest.raises(Invalid, match=r"spec.controller: .* must be a domain-prefixed path"):
        await client.create(INGRESSCLASSES, body)
