"""Built-in kinds beyond those that Fairlead itself uses: what is kept, completed and refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.tiers import today

from fairlead.api.meta import JSON
from fairlead.api.resource import CONFIGMAPS, DEPLOYMENTS, JOBS, Resource
from fairlead.client import Client, Invalid


GROUP = "networking.k8s.io"
INGRESSES = Resource(GROUP, "v1", "ingresses", "Ingress")
INGRESSCLASSES = Resource(GROUP, "v1", "ingressclasses", "IngressClass", namespaced=False)
POD: JSON = {"containers": [{"name": "c", "image": "i"}]}
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


@today("parameters without a scope")
async def test_the_controller_of_an_ingress_class_stays(client: Client, namespace: str) -> None:
    name = f"{namespace}-class"
    parameters = {"apiGroup": "example.org", "kind": "Settings", "name": "a"}
    spec = {"controller": "example.org/proxy", "bogus": 1, "parameters": parameters}
    body: JSON = {"metadata": {"name": name}, "spec": spec}
    made = (await client.create(INGRESSCLASSES, body)).to_dict()
    change: JSON = {"spec": {"controller": "a.b/c"}}
    try:
        assert made["spec"]["parameters"] == {**parameters, "scope": "Cluster"}
        assert made["spec"].keys() == {"controller", "parameters"}
        with pytest.raises(Invalid, match=r'"a\.b/c": field is immutable'):
            await client.merge_patch(INGRESSCLASSES, name, "", change)
    finally:
        await client.delete(INGRESSCLASSES, name)
    body["spec"] = {"controller": "proxy"}
    with pytest.raises(Invalid, match=r"spec.controller: .* must be a domain-prefixed path"):
        await client.create(INGRESSCLASSES, body)


NETWORKPOLICIES = Resource(GROUP, "v1", "networkpolicies", "NetworkPolicy")


def policy(**spec: Any) -> JSON:
    return {"metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {"podSelector": {}, "policyTypes": ["Ingress"]}, id="empty"),
        pytest.param(
            {"podSelector": {}, "bogus": 1, "egress": [{"ports": [{"port": 80}]}]},
            {
                "podSelector": {},
                "policyTypes": ["Ingress", "Egress"],
                "egress": [{"ports": [{"protocol": "TCP", "port": 80}]}],
            },
            id="egress",
        ),
    ],
)
async def test_a_network_policy_is_completed(
    client: Client, namespace: str, spec: JSON, expected: JSON
) -> None:
    made = (await client.create(NETWORKPOLICIES, policy(**spec), namespace)).to_dict()
    assert made["spec"] == expected
    assert "status" not in made
    assert made["metadata"]["generation"] == 1


def from_peers(*peers: JSON) -> JSON:
    return {"podSelector": {}, "ingress": [{"from": list(peers)}]}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param(
            {"podSelector": {"matchLabels": {"a b": ""}}},
            r'spec.podSelector.matchLabels: Invalid value: "a b": name part must consist',
            id="label",
        ),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            r"matchExpressions\[0\].values: Required value: must be specified when `operator` is",
            id="values",
        ),
        pytest.param(
            {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Odd"}]}},
            r'operator: Invalid value: "Odd": not a valid selector operator',
            id="operator",
        ),
        pytest.param(from_peers({}), r"from\[0\]: Required value: must specify a peer", id="peer"),
        pytest.param(
            from_peers({"ipBlock": {"cidr": "x"}}),
            '"x": must be a valid CIDR value',
            id="no CIDR",
            marks=today('"x": not a valid CIDR'),
        ),
        pytest.param(
            from_peers({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}}),
            r"except\[0\]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
            id="except",
        ),
        pytest.param(
            from_peers({"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}),
            r"from\[0\]: Forbidden: may not specify both ipBlock and another peer",
            id="both",
        ),
        pytest.param(
            {"podSelector": {}, "ingress": [{"ports": [{"port": 80_000, "protocol": "X"}]}]},
            'protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP", .*80000',
            id="port",
        ),
        pytest.param(
            {"podSelector": {}, "policyTypes": ["Odd"]},
            r'policyTypes\[0\]: Unsupported value: "Odd": supported values: "Ingress", "Egress"',
            id="type",
        ),
    ],
)
async def test_a_network_policy_that_makes_no_sense_is_refused(
    client: Client, namespace: str, spec: JSON, text: str
) -> None:
    with pytest.raises(Invalid, match=text):
        await client.create(NETWORKPOLICIES, policy(**spec), namespace)


@pytest.mark.parametrize("member", ["data", "binaryData"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        pytest.param("..a", "must not start with '..'", id="dots first"),
        pytest.param("...", "must not start with '..'", id="dots alone"),
        pytest.param("..", "must not be '..'", id="parent"),
        pytest.param(".", "must not be '.'", id="self"),
        pytest.param("a" * 254, "must be no more than 253 ", id="long"),
        pytest.param("a b", "a valid config key must consist of alphanumeric", id="blank"),
    ],
)
async def test_a_key_that_is_no_file_name_is_refused(
    client: Client, namespace: str, member: str, key: str, text: str
) -> None:
    body: JSON = {"metadata": {"name": "a"}, member: {key: "eA=="}}
    with pytest.raises(Invalid) as found:
        await client.create(CONFIGMAPS, body, namespace)
    assert f'{member}[{key}]: Invalid value: "{key}": {text}' in found.value.message


async def test_keys_may_begin_with_one_dot(client: Client, namespace: str) -> None:
    data = {".a": "1", "a..": "2"}
    made = await client.create(CONFIGMAPS, {"metadata": {"name": "a"}, "data": data}, namespace)
    assert made.to_dict()["data"] == data


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"parallelism": 1, "completions": 1}, id="neither"),
        pytest.param({"completions": 3}, {"parallelism": 1, "completions": 3}, id="completions"),
        pytest.param({"parallelism": 3}, {"parallelism": 3}, id="work queue"),
        pytest.param({"parallelism": 1}, {"parallelism": 1}, id="one worker"),
        pytest.param(
            {"parallelism": None, "completions": None},
            {"parallelism": 1, "completions": 1},
            id="null",
        ),
    ],
)
async def test_a_job_has_completions_unless_it_is_a_work_queue(
    client: Client, namespace: str, given: JSON, expected: JSON
) -> None:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    body: JSON = {"metadata": {"name": "a"}, "spec": {**given, "template": template}}
    spec = (await client.create(JOBS, body, namespace)).to_dict()["spec"]
    assert {
        name: spec[name] for name in ("parallelism", "completions") if name in spec
    } == expected


async def test_a_scale_has_the_whole_selector(client: Client, namespace: str) -> None:
    labels = {"c": "1", "e": "x", "in": "a", "one": "v"}
    expressions = [
        {"key": "not", "operator": "NotIn", "values": ["z", "y"]},
        {"key": "in", "operator": "In", "values": ["b", "a"]},
        {"key": "one", "operator": "In", "values": ["v"]},
        {"key": "e", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    spec = {
        "selector": {"matchLabels": {"c": "1"}, "matchExpressions": expressions},
        "template": {"metadata": {"labels": labels}, "spec": POD},
    }
    await client.create(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec}, namespace)
    path = f"{DEPLOYMENTS.path(namespace)}/a/scale"
    scale = msgspec.json.decode(await client.request("GET", path))
    assert scale["status"]["selector"] == "c=1,!d,e,in in (a,b),not notin (y,z),one in (v)"
