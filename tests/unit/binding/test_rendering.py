"""Rendering: what the controller would write, from manifests alone."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.binding.cluster import FakeCluster
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    coreos_binding,
    crd,
    database,
    deployment,
    meta,
    pod,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.documents import Document, DocumentError, collection, documents
from fairlead.binding.outside.rendering import Rendering, render
from fairlead.cli import main


CREATED = "2026-01-01T00:00:00Z"


def bare(*bodies: JSON) -> list[JSON]:
    """As people write them: without what a server adds."""
    found = copy.deepcopy(list(bodies))
    for body in found:
        for field in ("uid", "namespace", "generation"):
            body["metadata"].pop(field, None)
    return found


def rendering(*bodies: JSON, namespace: str = "ns", **options: Any) -> Rendering:
    given = [Document(f"file-{number}", copy.deepcopy(body)) for number, body in enumerate(bodies)]
    return render(collection(given, namespace), BindingOptions(**options))


def command(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["binding", "render", *arguments], input=stdin)


def stream(*bodies: JSON) -> str:
    return yaml.safe_dump_all(bodies)


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param(spec_binding(service=SECRET_SERVICE), id="direct Secret"),
        pytest.param(spec_binding(type="mysql", name="dir"), id="intermediate Secret"),
        pytest.param(spec_binding(env=[{"name": "PW", "key": "password"}]), id="variable"),
        pytest.param(spec_binding(workload={"selector": {}}), id="selector"),
        pytest.param(coreos_binding(bindAsFiles=False), id="coreos: variables"),
        pytest.param(coreos_binding(mappings=[{"name": "x", "value": "{{.type}}"}]), id="mapping"),
        pytest.param(coreos_binding(namingStrategy="uppercase"), id="naming"),
    ],
)
def test_it_is_what_the_pipeline_writes_in_a_cluster(binding: JSON) -> None:
    # The labels keep an emptied selector from being left out.
    objects = [secret(), database(), deployment(labels={"app": "web"})]
    cluster = FakeCluster(objects=objects)
    cluster.reconcile(copy.deepcopy(binding))
    found = {(body["kind"], body["metadata"]["name"]): body for body in cluster.of("secrets")}
    found |= {("Deployment", "web"): cluster.get("deployments", "web")}
    result = rendering(*objects, binding)
    assert result.problems == []
    assert any(body["kind"] == "Deployment" for body in result.objects)
    for body in result.objects:
        wanted = found[body["kind"], body["metadata"]["name"]]
        if body["kind"] == "Secret":
            assert body["data"] == wanted["data"]
            assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-sb"
        else:
            assert body == wanted


def test_nothing_that_was_made_up_for_an_object_is_printed() -> None:
    bodies = bare(secret(), database(), deployment(), spec_binding(type="mysql"))
    generated, workload = rendering(*bodies, namespace="else").objects
    assert list(generated["metadata"]) == ["name"]
    assert workload["metadata"] == {"name": "web", "labels": {}}
    assert "memory:" not in json.dumps([generated, workload])


def test_the_order_of_files_is_of_no_account() -> None:
    first = spec_binding(service=SECRET_SERVICE)
    second = coreos_binding()
    second["metadata"] |= {"name": "other", "uid": "other"}
    bodies = [secret(), database(), deployment("web"), deployment("a"), first, second]
    assert rendering(*bodies) == rendering(*reversed(bodies))
    names = [body["metadata"]["name"] for body in rendering(*bodies).objects]
    assert names == ["web"]


def test_of_two_bindings_in_one_place_the_one_created_first_has_it() -> None:
    late, early = spec_binding(name="dir"), spec_binding(name="dir", service=SECRET_SERVICE)
    for binding, name, second in ((late, "a", "2"), (early, "b", "1")):
        binding["metadata"] |= {"name": name, "uid": name}
        binding["metadata"]["creationTimestamp"] = CREATED.replace("00Z", f"0{second}Z")
    other = secret("s2")
    late["spec"]["service"] = {"apiVersion": "v1", "kind": "Secret", "name": "s2"}
    result = rendering(late, early, secret(), other, deployment())
    (problem,) = result.problems
    assert problem.startswith("file-0: ServiceBinding ns/a: Deployment ns/web has a volume dir")
    assert "ServiceBinding ns/b of servicebinding.io, which was created first" in problem
    (volume,) = pod(result.objects[0])["volumes"]
    assert volume["secret"] == {"secretName": "s1"}


@pytest.mark.parametrize(
    ("bodies", "problem"),
    [
        pytest.param(
            [deployment(), spec_binding(service=SECRET_SERVICE)],
            'file-1: ServiceBinding ns/sb: secrets "s1" not found: spec.service asks for it',
            id="no service",
        ),
        pytest.param(
            [secret(), spec_binding(service=SECRET_SERVICE)],
            'file-1: ServiceBinding ns/sb: cannot find application resources for the given '
            'reference: deployments.apps "web" not found',
            id="no workload",
        ),
        pytest.param(
            [spec_binding(service={"apiVersion": "q.io/v1", "kind": "Queue", "name": "q"})],
            'file-0: ServiceBinding ns/sb: no matches for kind "Queue" in version "q.io/v1": give',
            id="unknown kind",
        ),
        pytest.param(
            [spec_binding(name="..")], "spec.name becomes a directory", id="contradiction"
        ),
        pytest.param(
            [spec_binding(env=[{"name": "A"}])],
            "file-0: ServiceBinding ns/sb: spec.env[0].key: it is required",
            id="field",
        ),
        pytest.param(
            [coreos_binding(services=[{"group": "", "version": "v1", "kind": "Secret",
                                       "name": "s", "namespace": "other"}])],
            "spec.services[0].namespace is not the binding's own",
            id="other namespace",
        ),
    ],
)  # fmt: skip
def test_a_binding_that_cannot_be_projected_is_named_with_its_field(
    bodies: list[JSON], problem: str
) -> None:
    (text,) = rendering(*bodies).problems
    assert problem in text


@pytest.mark.parametrize(
    ("bodies", "problem"),
    [
        pytest.param([{"kind": "Secret"}], "file-0: Secret: apiVersion: it must", id="version"),
        pytest.param([{"apiVersion": "v1"}], "file-0: object: kind: it must", id="kind"),
        pytest.param(
            [{"apiVersion": "v1", "kind": "Secret", "metadata": {}}],
            "file-0: Secret: metadata.name: an object needs a name",
            id="name",
        ),
        pytest.param(
            [{"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": 1}}}],
            "file-0: X x: metadata.labels[*]: it must be a string, not an integer",
            id="label",
        ),
        pytest.param(
            [{"apiVersion": "v1", "kind": "X", "metadata": 3}],
            "file-0: X: metadata: it must be an object, not an integer",
            id="metadata",
        ),
        pytest.param(
            [{**spec_binding(), "spec": {**spec_binding()["spec"], "enw": []}}],
            "spec.enw: there is no such field; did you mean env?",
            id="unknown field",
        ),
        pytest.param(
            [{**coreos_binding(), "spec": {**coreos_binding()["spec"], "aplication": {}}}],
            "spec.aplication: there is no such field; did you mean application?",
            id="unknown field of the other API",
        ),
        pytest.param(
            [secret(), secret()],
            "file-1: Secret s1: metadata.name: another Secret has this name, too",
            id="twice",
        ),
        pytest.param(
            [{**secret(), "stringData": {"a": 1}}],
            "file-0: Secret s1: stringData: it must be an object whose values are texts",
            id="number in a Secret",
        ),
        pytest.param(
            [{**crd(), "spec": {"group": "x.io"}}],
            "CustomResourceDefinition databases.x.io: spec.names: it is required",
            id="CRD",
        ),
    ],
)
def test_what_is_no_object_is_named_with_its_field(bodies: list[JSON], problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        rendering(*bodies)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: [", "f.yaml: it is not valid YAML: ", id="no YAML"),
        pytest.param("- 1", "f.yaml: it is not an object", id="list"),
        pytest.param("kind: A\n---\n5", "f.yaml, document 2: it is not an object", id="second"),
        pytest.param("kind: List\nitems: [4]", "f.yaml, items[0]: it is not an object", id="item"),
        pytest.param("[" * 200, "f.yaml: it is nested more than 100", id="deep"),
        pytest.param(
            "a0: &a0 [x,x]\n"
            + "".join(
                f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
            ),
            "f.yaml: it has more than 1000000 values",
            id="bomb",
        ),
        pytest.param("a: !!python/name:os.system x", "f.yaml: it is not valid YAML", id="tag"),
    ],
)  # fmt: skip
def test_what_is_no_manifest_is_named_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        list(documents("f.yaml", text))
    assert str(caught.value).startswith(problem)


def test_a_copy_with_the_uid_of_what_it_was_copied_from_is_refused() -> None:
    copied = spec_binding()
    copied["metadata"]["name"] = "copy"
    with pytest.raises(DocumentError, match=r"ServiceBinding ns/sb: metadata\.uid: file-1: Serv"):
        rendering(spec_binding(), copied)


def test_lists_aliases_and_empty_documents_are_read() -> None:
    text = "---\n---\nkind: List\nitems:\n- &a {kind: A}\n- *a\n---\nkind: B\ndate: 2026-01-01\n"
    found = [one.body for one in documents("f", text)]
    assert found == [{"kind": "A"}, {"kind": "A"}, {"kind": "B", "date": "2026-01-01"}]


def test_a_custom_resource_is_found_by_what_its_crd_says() -> None:
    definition = crd()
    definition["spec"] = {
        "group": "x.io",
        "names": {"plural": "dbs", "kind": "Database"},
        "scope": "Cluster",
        "versions": [{"name": "v1"}],
    }
    service = {"group": "x.io", "version": "v1", "resource": "dbs", "name": "db"}
    binding = coreos_binding(services=[service])
    service_body = database()
    del service_body["metadata"]["namespace"]
    result = rendering(definition, service_body, secret(), deployment(), binding)
    # Its kind is known, and has no namespaces.
    assert "spec.services[0] is Database db, which is in no namespace" in result.problems[0]


REDIS = {
    "apiVersion": "redis.redis.opstreelabs.in/v1beta1",
    "kind": "Redis",
    "metadata": meta("cache"),
    "spec": {"kubernetesConfig": {"redisSecret": {"name": "s1"}}},
}
REDIS_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "redis.redis.redis.opstreelabs.in"},
    "spec": {
        "group": "redis.redis.opstreelabs.in",
        "names": {"plural": "redis", "kind": "Redis"},
        "versions": [{"name": "v1beta1"}],
    },
}
CACHE = {key: REDIS[key] for key in ("apiVersion", "kind")} | {"name": "cache"}
CACHES = {"group": "redis.redis.opstreelabs.in", "version": "v1beta1", "kind": "Redis"}


@pytest.mark.parametrize(
    "binding",
    [
        pytest.param(spec_binding(service=CACHE), id="nothing else is bound"),
        pytest.param(
            coreos_binding(
                services=[
                    {"group": "", "version": "v1", "kind": "Secret", "name": "s1"},
                    {**CACHES, "name": "cache"},
                ]
            ),
            id="something else is",
        ),
    ],
)
def test_a_kind_with_built_in_definitions_needs_its_crd(binding: JSON) -> None:
    beside = spec_binding(service=SECRET_SERVICE)
    beside["metadata"] |= {"name": "beside", "uid": "beside"}
    bodies = [secret(), deployment(), REDIS, binding, beside]
    (problem,) = rendering(*bodies).problems
    assert problem.startswith("file-3: ServiceBinding ns/sb: ")
    assert "a Redis of redis.redis.opstreelabs.in offers, but its CRD" in problem
    assert problem.endswith("give the CRD, too")
    assert rendering(*bodies, REDIS_CRD).problems == []


def test_a_secret_of_somebody_else_under_the_generated_name_is_left_alone() -> None:
    binding = spec_binding(type="mysql")
    bodies = [secret(), database(), deployment(), binding]
    (name,) = [one["metadata"]["name"] for one in rendering(*bodies).objects if "data" in one]
    result = rendering(*bodies, secret(name, mine="1"))
    assert result.objects == []
    assert "does not belong to this binding" in result.problems[0]


def test_what_is_marked_twice_or_with_nothing_changes_like_any_other() -> None:
    odd = deployment()
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x"}
    odd["metadata"] |= {"annotations": {"": "", "x": ""}, "ownerReferences": [owner, owner]}
    result = rendering(secret(), odd, spec_binding(service=SECRET_SERVICE))
    assert (len(result.objects), result.problems) == (1, [])


def test_hundreds_of_bindings_cost_what_they_are() -> None:
    bodies: list[JSON] = [secret()]
    for number in range(300):
        binding = spec_binding(workload={"name": f"web-{number}"}, service=SECRET_SERVICE)
        binding["metadata"] |= {"name": f"b-{number:03}", "uid": f"u-{number}"}
        bodies += [deployment(f"web-{number}"), binding]
    result = rendering(*bodies)
    assert (len(result.objects), result.problems) == (300, [])


def test_the_command_hides_values_unless_they_are_asked_for(tmp_path: Path) -> None:
    texts = {"type": "postgresql", "password": "s3cret"}
    service = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s1"}}
    (tmp_path / "b.yaml").write_text(stream({**service, "stringData": texts}))
    bodies = bare(deployment(), spec_binding(service=SECRET_SERVICE, type="mysql"))
    (tmp_path / "a.json").write_text(json.dumps({"kind": "List", "items": bodies}))
    (tmp_path / "kustomization.yaml").write_text("resources: [b.yaml]")
    (tmp_path / "README.md").write_text("no manifest")
    hidden = command("-f", str(tmp_path))
    assert hidden.exit_code == 0
    shown, workload = yaml.safe_load_all(hidden.stdout)
    assert shown["data"] == {"type": "<redacted>", "password": "<redacted>"}
    assert pod(workload)["volumes"][0]["secret"]["secretName"] == shown["metadata"]["name"]
    whole = command("-f", str(tmp_path), "--show-secrets")
    made, _ = yaml.safe_load_all(whole.stdout)
    assert base64.b64decode(made["data"]["password"]) == b"s3cret"
    encoded = base64.b64encode(b"s3cret").decode()
    assert "s3cret" not in hidden.output
    assert encoded not in hidden.output


def test_folders_in_folders_are_read_on_demand(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    bodies = [secret(), deployment(), spec_binding(service=SECRET_SERVICE)]
    (tmp_path / "in" / "a.yml").write_text(stream(*bodies))
    assert "there is no *.yaml" in command("-f", str(tmp_path)).stderr
    assert "/bindings/sb" in command("-R", "-f", str(tmp_path)).stdout


def test_where_something_is_wrong_that_alone_is_printed() -> None:
    good, bad = spec_binding(service=SECRET_SERVICE), spec_binding(workload={"name": "gone"})
    bad["metadata"] |= {"name": "bad", "uid": "bad"}
    result = command("-f", "-", stdin=stream(secret(), database(), deployment(), good, bad))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: standard input, document 5: ServiceBinding ns/bad: ")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        pytest.param([], 2, "Missing option '-f'", id="no file"),
        pytest.param(["-f", "nowhere"], 1, "Error: nowhere: No such file", id="not there"),
        pytest.param(["-f", "-", "x"], 2, "unexpected extra argument", id="argument"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, message: str) -> None:
    result = command(*arguments)
    assert result.exit_code == code
    assert message in result.stderr


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    result = command("-f", str(tmp_path / "a.yaml"))
    assert result.exit_code == 1
    assert "a.yaml: it is not UTF-8 text" in result.stderr
    piped = CliRunner().invoke(main, ["binding", "render", "-f", "-"], input=b"\xff")
    assert "standard input: it is not UTF-8 text" in piped.stderr


def test_without_bindings_nothing_is_printed() -> None:
    result = command("-f", "-", stdin=stream(secret()))
    assert (result.exit_code, result.output) == (0, "")


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)
PATHS = st.sampled_from(
    [
        (0, "data"),
        (0, "stringData"),
        (0, "metadata", "annotations"),
        (1, "status"),
        (1, "status", "binding", "name"),
        (1, "metadata", "annotations"),
        (2, "spec", "template"),
        (2, "spec", "template", "spec", "volumes"),
        (2, "spec", "template", "spec", "containers"),
        (2, "metadata"),
        (2, "metadata", "annotations"),
        (3, "spec"),
        (3, "spec", "versions"),
        (4, "spec"),
        (4, "spec", "workload"),
        (4, "spec", "env"),
        (4, "status"),
        (4, "status", "conditions"),
        (4, "metadata", "annotations"),
        (4, "metadata", "name"),
        (5, "spec", "services"),
        (5, "spec", "mappings"),
        (5, "spec", "namingStrategy"),
        (5, "status"),
    ]
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(path=PATHS, value=JSONS)
def test_whatever_a_manifest_has_is_rendered_or_explained(path: Any, value: Any) -> None:
    number, *fields, last = path
    definition = {**crd(), "spec": {"group": "x.io", "versions": [{"name": "v1"}]}}
    definition["spec"]["names"] = {"kind": "Database", "plural": "databases"}
    other = coreos_binding(mappings=[{"name": "x", "value": "y"}])
    other["metadata"] |= {"name": "other", "uid": "other"}
    bodies = [secret(), database(), deployment(), definition, spec_binding(), other]
    body: Any = bodies[number]
    for field in fields:
        body = body.setdefault(field, {})
    body[last] = value
    try:
        result = rendering(*bodies)
    except DocumentError as error:
        result = Rendering([], [str(error)])
    json.dumps(result.objects)
    assert all(text.startswith("file-") for text in result.problems)
    assert not any("defect of Fairlead" in text for text in result.problems)
