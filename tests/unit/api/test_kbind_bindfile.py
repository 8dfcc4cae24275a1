"""A file that binds by kbind v2 is read whole, and by its contents told from an invitation."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from fairlead.api.kbind import RelatedResource
from fairlead.api.kbind.bindfile import is_kbind_file, kubeconfig_of, read_bind_file
from fairlead.api.kbind.files import binding, connection, kubeconfig_secret
from fairlead.api.kbind.rights import cluster_binding_roles
from fairlead.api.meta import JSON


SECRET = kubeconfig_secret("acme", b"kubeconfig", namespace="kube-bind")
CONNECTION = connection("acme", namespace="kube-bind")
BINDING = binding("acme", ["widgets.acme.io"], connection="acme")
PLACED = binding("acme", ["widgets.acme.io"], connection="acme", namespace="shop")
ROLE = cluster_binding_roles("acme", ["widgets.acme.io"])[0]
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-bind"}}
INVITATION: JSON = {"apiVersion": "kube-bind.io/v1alpha2", "kind": "BindingResponse"}


def stream(*objects: Any) -> bytes:
    return yaml.safe_dump_all(objects).encode()


def listed(*objects: JSON) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


@pytest.mark.parametrize("write", [stream, listed], ids=["documents", "a list"])
def test_a_file_has_secrets_connections_bindings_and_roles(write: Any) -> None:
    data = write(NAMESPACE, BINDING, SECRET, CONNECTION, ROLE, PLACED)
    assert is_kbind_file(data)
    file = read_bind_file(data)
    assert (file.secrets, file.connections) == ([SECRET], [CONNECTION])
    assert (file.bindings, file.roles) == ([BINDING, PLACED], [json.loads(json.dumps(ROLE))])
    assert file.secret_of(CONNECTION) == SECRET
    assert file.secret_of(connection("other", namespace="kube-bind")) is None


@pytest.mark.parametrize(
    "data",
    [stream(INVITATION), stream(SECRET), b"", b"{", b"- a\n- b\n"],
    ids=["an invitation", "a Secret", "nothing", "no YAML", "no objects"],
)
def test_another_file_is_none_of_kbind_v2(data: bytes) -> None:
    assert not is_kbind_file(data)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {**BINDING, "kind": "Job", "apiVersion": "batch/v1"},
            "Job acme (batch/v1) does not belong",
        ),
        ({**BINDING, "metadata": {}}, "a ClusterBinding in it has no metadata.name"),
        ({**BINDING, "metadata": {"name": "a", "namespace": 1}}, "metadata.namespace is not text"),
        ("text", "something other than objects"),
        ({**BINDING, "spec": {}}, "ClusterBinding acme: "),
        (
            {**BINDING, "spec": {**BINDING["spec"], "api": []}},
            "ClusterBinding acme: spec.api: there is no such field; did you mean apis?",
        ),
        ({**PLACED, "metadata": {"name": "acme"}}, "Binding acme has no metadata.namespace"),
        (
            {**CONNECTION, "spec": {**CONNECTION["spec"], "schema": {"pullPolicy": "Some"}}},
            "Connection acme: ",
        ),
        (CONNECTION, "Connection acme is in it twice"),
    ],
)
def test_a_wrong_object_is_named(body: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_bind_file(stream(CONNECTION, body))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("secret", "kubeconfig"),
    [
        (SECRET, b"kubeconfig"),
        ({**SECRET, "stringData": {"kubeconfig": "newer"}}, b"newer"),
        ({**SECRET, "data": {"other": "eA=="}}, b""),
        ({**SECRET, "data": {"kubeconfig": "%"}}, b""),
    ],
    ids=["data", "stringData", "another key", "no base64"],
)
def test_a_kubeconfig_is_read_as_an_api_server_reads_it(secret: JSON, kubeconfig: bytes) -> None:
    assert kubeconfig_of(CONNECTION, secret) == kubeconfig


def test_the_objects_of_files_are_read_again() -> None:
    rule = RelatedResource(resource="secrets", direction="FromProvider")
    body = binding("b", ["x.y"], connection="c", conflict_policy="Adopt", related=[rule])
    assert read_bind_file(stream(body)).bindings == [body]
