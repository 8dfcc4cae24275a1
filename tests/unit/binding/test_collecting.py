"""The stages that collect: one row for each way a stage can end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.binding.cluster import KINDS, FakeCluster, content
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    conditions,
    coreos_binding,
    crd,
    database,
    deployment,
    message,
    meta,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.reads import FailureCode, ListAll, Lookup, Read, ReadFailure


FOUND = ("True", "DataCollected")
PROMISE = {"servicebinding.io/provisioned-service": "true"}


def reconciled(binding: JSON, *objects: JSON, fail: tuple[str, FailureCode] | None = None) -> JSON:
    cluster = FakeCluster(objects=[deployment(), *objects])
    if fail:
        cluster.refuse = lambda read: refusal(read, *fail)
    cluster.reconcile(binding)
    return binding


def refusal(read: Read, target: str, code: FailureCode) -> ReadFailure | None:
    resource = "" if isinstance(read, Lookup) else read.resource.plural
    name = read.kind if isinstance(read, Lookup) else getattr(read, "name", "")
    return ReadFailure(code, f"{target} {code}") if target in {resource, name} else None


@pytest.mark.parametrize(
    ("objects", "fail", "collection", "available"),
    [
        pytest.param(
            [database(), secret()], None, FOUND, ("True", "ResolvedBindingSecret"), id="bound"
        ),
        pytest.param(
            [],
            None,
            ("False", "ErrorReadingServices"),
            ("False", "ServiceNotFound"),
            id="no service",
        ),
        pytest.param(
            [database()],
            ("Database", "NoMatch"),
            ("False", "ErrorReadingServices"),
            ("False", "ServiceNotFound"),
            id="no such kind",
        ),
        pytest.param(
            [database()],
            ("databases", "Forbidden"),
            ("False", "ErrorReadingServices"),
            ("False", "ServiceForbidden"),
            id="service forbidden",
        ),
        pytest.param(
            [database()],
            ("databases", "Error"),
            ("False", "ErrorReadingServices"),
            ("False", "ErrorReadingServices"),
            id="service unreadable",
        ),
        pytest.param(
            [database(binding=None)],
            None,
            FOUND,
            ("Unknown", "ServiceMissingBinding"),
            id="service without binding",
        ),
        pytest.param(
            [database(binding="")],
            None,
            FOUND,
            ("Unknown", "ServiceMissingBinding"),
            id="service with an empty name",
        ),
        pytest.param(
            [database()],
            None,
            ("False", "ErrorReadingSecret"),
            ("False", "ErrorReadingSecret"),
            id="secret has not arrived",
        ),
        pytest.param(
            [database(), secret()],
            ("secrets", "Forbidden"),
            ("False", "ErrorReadingSecret"),
            ("False", "ErrorReadingSecret"),
            id="secret forbidden",
        ),
        pytest.param(
            [{**database(), "status": {"binding": "s1"}}],
            None,
            ("False", "ErrorReadingBinding"),
            ("Unknown", "ServiceMissingBinding"),
            id="binding is not an object",
        ),
        pytest.param(
            [{**database(), "status": {"binding": None}}],
            None,
            ("False", "ErrorReadingBinding"),
            ("Unknown", "ServiceMissingBinding"),
            id="binding is null",
        ),
        pytest.param(
            [{**database(), "status": {"binding": {"name": 1}}}],
            None,
            ("False", "ErrorReadingBinding"),
            ("Unknown", "ServiceMissingBinding"),
            id="name is no string",
        ),
        pytest.param(
            [database(binding=None), crd(annotations=PROMISE)],
            None,
            ("False", "ErrorReadingBinding"),
            ("Unknown", "ServiceMissingBinding"),
            id="CRD promises a binding",
        ),
        pytest.param(
            [database(binding=None), crd(labels=PROMISE)],
            None,
            ("False", "ErrorReadingBinding"),
            ("Unknown", "ServiceMissingBinding"),
            id="CRD promises it with the specification's label",
        ),
        pytest.param(
            [database(binding=None)],
            ("databases.x.io", "Error"),
            ("False", "ErrorReadingCRD"),
            ("Unknown", "ErrorReadingCRD"),
            id="CRD unreadable",
        ),
    ],
)
def test_provisioned_services(
    objects: list[JSON],
    fail: tuple[str, FailureCode] | None,
    collection: tuple[str, str],
    available: tuple[str, str] | None,
) -> None:
    found = conditions(reconciled(spec_binding(), *objects, fail=fail))
    assert found["CollectionReady"] == collection
    assert found.get("ServiceAvailable") == available
    assert (found["Ready"][0] == "True") is (available == ("True", "ResolvedBindingSecret"))


@pytest.mark.parametrize(
    ("service", "objects", "text"),
    [
        pytest.param(
            None, [database(binding=None)], "Database ns/db has no Secret in", id="service"
        ),
        pytest.param(
            SECRET_SERVICE,
            [{**secret(), "data": None}],
            "Secret ns/s1 has no data yet",
            id="empty Secret",
        ),
    ],
)
def test_a_service_without_data_is_waited_for_whatever_the_binding_adds(
    service: JSON | None, objects: list[JSON], text: str
) -> None:
    cluster = FakeCluster(objects=[deployment(), *objects])
    binding = spec_binding(service=service, type="mysql")
    cluster.reconcile(binding)
    assert conditions(binding)["InjectionReady"] == ("False", "NoBindingData")
    for type_ in ("Ready", "ServiceAvailable"):
        assert text in message(binding, type_)
    assert cluster.get("deployments", "web") == deployment()


def test_a_secret_that_has_not_arrived_is_named_and_nothing_is_projected() -> None:
    cluster = FakeCluster(objects=[deployment(), database()])
    binding = spec_binding()
    made = cluster.reconcile(binding)
    for type_ in ("Ready", "ServiceAvailable", "CollectionReady"):
        text = message(binding, type_)
        assert 'secrets "s1" not found' in text
        assert "ns/s1" in text
        assert "Database ns/db" in text
        assert "has not arrived yet" in text
    assert cluster.get("deployments", "web") == deployment()
    assert "binding" not in binding["status"]
    assert not made.flow.transient


@pytest.mark.parametrize(
    ("fail", "transient"),
    [
        pytest.param(None, False, id="missing: a watch tells"),
        pytest.param(("databases", "Forbidden"), True, id="forbidden: nothing tells"),
        pytest.param(("databases", "Error"), True, id="broken: nothing tells"),
    ],
)
def test_what_no_watch_announces_is_looked_at_again(
    fail: tuple[str, FailureCode] | None, transient: bool
) -> None:
    cluster = FakeCluster(objects=[])
    if fail:
        cluster.refuse = lambda read: refusal(read, *fail)
    assert cluster.reconcile(spec_binding()).flow.transient is transient


@pytest.mark.parametrize(
    ("binding", "objects", "waiting"),
    [
        pytest.param({}, [], True, id="no service"),
        pytest.param(
            {"service": {"apiVersion": "y.io/v1", "kind": "Queue", "name": "q"}},
            [],
            True,
            id="its kind is not served",
        ),
        pytest.param({}, [database(binding=None)], True, id="it names no Secret"),
        pytest.param(
            {},
            [
                database(binding=None),
                crd(annotations={"servicebinding.io/provisioned-service": "true"}),
            ],
            True,
            id="it names no Secret, which its CRD promises",
        ),
        pytest.param({}, [database()], True, id="its Secret has not come"),
        pytest.param(
            {"service": SECRET_SERVICE, "workload": {"name": "later"}},
            [secret()],
            True,
            id="no workload",
        ),
        pytest.param(
            {"service": SECRET_SERVICE, "workload": {"selector": {"matchLabels": {"a": "b"}}}},
            [secret()],
            True,
            id="no workload that matches",
        ),
        pytest.param(
            {},
            [
                database(binding=None),
                crd(annotations={"service.binding/host": "path={.status.host}"}),
            ],
            True,
            id="a path of its status that is not there",
        ),
        pytest.param(
            {},
            [{**database(), "status": {"binding": {"name": 5}}}],
            False,
            id="its Secret's name is a number",
        ),
        pytest.param(
            {
                "service": SECRET_SERVICE,
                "workload": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            },
            [secret()],
            False,
            id="a selector that is wrong",
        ),
        pytest.param(
            {"service": SECRET_SERVICE},
            [{**secret(), "data": {"type": "%"}}],
            False,
            id="a Secret that is no base64",
        ),
    ],
)
def test_what_has_not_come_yet_is_told_from_what_is_wrong(
    binding: JSON, objects: list[JSON], waiting: bool
) -> None:
    cluster = FakeCluster(objects=[deployment(), *objects])
    made = cluster.reconcile(spec_binding(**binding))
    assert made.flow.error
    assert (made.flow.waiting, made.flow.transient) == (waiting, False)


@pytest.mark.parametrize(
    ("secrets", "expected"),
    [
        pytest.param([secret("s1", a="1")], {"a": "1"}, id="one"),
        pytest.param([secret("s1", a="1"), secret("s2", a="2")], {"a": "2"}, id="the later wins"),
        pytest.param(
            [secret("s1", a="1", annotations={"service.binding/b": "x"}), secret("s2", c="3")],
            {"b": "x", "c": "3"},
            id="an annotated one does not hide the next",
        ),
    ],
)
def test_direct_secrets(secrets: list[JSON], expected: dict[str, str]) -> None:
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": body["metadata"]["name"]}
        for body in secrets
    ]
    cluster = FakeCluster(objects=[deployment(), *secrets])
    binding = coreos_binding(services=services, bindAsFiles=True)
    cluster.reconcile(binding)
    assert content(cluster.get("secrets", binding["status"]["secret"])) == expected


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param(
            {"binding": {"name": 5}}, "5 is of the type int64, expected string", id="number"
        ),
        pytest.param(
            {"binding": {"name": ["s1"]}},
            "[s1] is of the type []interface {}, expected string",
            id="list",
        ),
        pytest.param(
            {"binding": {"name": {"a": 1}}},
            "map[a:1] is of the type map[string]interface {}, expected string",
            id="object",
        ),
        pytest.param(
            {"binding": {"name": ["x" * 300]}}, f"[{'x' * 199}... is of the type", id="long"
        ),
        pytest.param(
            {"binding": True},
            "true is of the type bool, expected map[string]interface{}",
            id="bool",
        ),
    ],
)
def test_a_name_that_is_none_is_shown_with_its_value(status: JSON, text: str) -> None:
    binding = reconciled(spec_binding(), {**database(), "status": status})
    assert f".status.binding.name accessor error: {text}" in message(binding, "CollectionReady")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        pytest.param(["a", 5, {"b": [1]}], "but we got [a 5 map[b:[1]]]", id="each by its value"),
        pytest.param(["x" * 300] * 2, f"but we got [{'x' * 200}... {'x' * 200}...]", id="long"),
        pytest.param([0] * 12, "but we got [0 0 0 0 0 0 0 0 0 0] and 2 more", id="many"),
    ],
)
def test_values_that_are_too_many_are_shown(found: list[Any], text: str) -> None:
    service = database(binding=None, found=found)
    path = "path={.spec.found[*]},elementType=map"
    service["metadata"]["annotations"] = {"service.binding": path}
    binding = reconciled(spec_binding(), service)
    assert text in message(binding, "CollectionReady")


def test_bytes_stay_as_they_are() -> None:
    body = secret("s1", type="x")
    body["data"]["key"] = "/wD+"
    cluster = FakeCluster(objects=[deployment(), body])
    binding = spec_binding(service=SECRET_SERVICE, provider="p")
    cluster.reconcile(binding)
    made = cluster.get("secrets", binding["status"]["binding"]["name"])
    assert made["data"]["key"] == "/wD+"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({"service.binding/host": "path={.spec.host}"}, {"host": "h"}, id="path"),
        pytest.param({"service.binding/host": "fixed"}, {"host": "fixed"}, id="constant"),
        pytest.param(
            {"service.binding": "path={.spec.map},elementType=map"}, {"a": "1"}, id="generic map"
        ),
        pytest.param(
            {"service.binding/no": "path={.spec.none},optional=true", "service.binding/x": "y"},
            {"x": "y"},
            id="optional",
        ),
        pytest.param(
            {"service.binding/p": "path={.spec.ref},objectType=Secret,sourceKey=password"},
            {"p": "pw"},
            id="entry of a Secret",
        ),
        pytest.param(
            {"service.binding/p": "path={.spec.host},elementType=bad"},
            "InvalidAnnotation",
            id="bad element type",
        ),
        pytest.param(
            {"service.binding/p": "path={.spec.none}"}, "ErrorReadingBinding", id="missing path"
        ),
        pytest.param({"service.binding/p": "path={.spec.null}"}, "ValueNotFound", id="null"),
        pytest.param(
            {"service.binding/p": "path={.spec.gone},objectType=Secret"},
            "ErrorReadingBinding",
            id="missing Secret",
        ),
    ],
)
def test_definitions(annotations: dict[str, str], expected: Any) -> None:
    body = database(binding=None, host="h", map={"a": 1}, ref="s1", gone="nope", null=None)
    body["metadata"]["annotations"] = annotations
    cluster = FakeCluster(objects=[deployment(), body, secret("s1", password="pw")])
    binding = coreos_binding(bindAsFiles=True)
    cluster.reconcile(binding)
    if isinstance(expected, str):
        assert conditions(binding)["CollectionReady"] == ("False", expected)
    else:
        assert content(cluster.get("secrets", binding["status"]["secret"])) == expected


def test_annotations_of_the_object_win_over_those_of_its_crd_key_by_key() -> None:
    body = database(binding=None)
    body["metadata"]["annotations"] = {"service.binding/a": "object"}
    defaults = crd(annotations={"service.binding/a": "crd", "service.binding/b": "crd"})
    cluster = FakeCluster(objects=[deployment(), body, defaults])
    binding = coreos_binding(bindAsFiles=True)
    cluster.reconcile(binding)
    made = content(cluster.get("secrets", binding["status"]["secret"]))
    assert made == {"a": "object", "b": "crd"}


@pytest.mark.parametrize(
    "path", ["{.data.password},elementType=map", "{.data[?(@.x)]}", "{.data.password[?(@.x)]}"]
)
def test_what_does_not_fit_a_secret_is_not_quoted(path: str) -> None:
    body = secret("s1", annotations={"service.binding/x": f"path={path}"})
    body["data"]["password"] = "czNjcmV0"
    binding = reconciled(spec_binding(service=SECRET_SERVICE), body)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorReadingBinding")
    assert "czNjcmV0" not in str(binding["status"])


@pytest.mark.parametrize(
    ("naming", "files", "expected"),
    [
        pytest.param("", True, "password", id="files: as they are"),
        pytest.param("", False, "DATABASE_PASSWORD", id="environment: upper case"),
        pytest.param("none", False, "password", id="none"),
        pytest.param("lowercase", False, "password", id="lowercase"),
        pytest.param("uppercase", True, "DATABASE_PASSWORD", id="uppercase"),
        pytest.param(
            "{{ .service.name }}_{{ .name | title }}", True, "db_Password", id="template"
        ),
        pytest.param("{{ if .name }}x{{ end }}", True, "x", id="condition"),
        pytest.param("{{ json .name }}", True, None, id="no json"),
        pytest.param("{{ range 1000000 }}{{ end }}", True, None, id="without end"),
        pytest.param("{{ .name | nope }}", True, None, id="unknown function"),
    ],
)
def test_naming(naming: str, files: bool, expected: str | None) -> None:
    cluster = FakeCluster(objects=[deployment(), database(), secret("s1", password="pw")])
    binding = coreos_binding(namingStrategy=naming, bindAsFiles=files)
    cluster.reconcile(binding)
    if expected is None:
        assert conditions(binding)["CollectionReady"] == ("False", "NamingStrategyError")
        assert cluster.get("deployments", "web") == deployment()
    else:
        assert list(content(cluster.get("secrets", binding["status"]["secret"]))) == [expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("{{ .password }}@{{ .db.spec.host }}", "pw@h", id="item and service"),
        pytest.param("{{ json .db.spec }}", '{"host":"h"}', id="json"),
        pytest.param("{{ .nothing }}", "<no value>", id="missing"),
        pytest.param("{{ range .db.spec }}{{ . }}{{ end }}", "h", id="range"),
        pytest.param("{{ range .password }}{{ end }}", None, id="a password is not shown"),
    ],
)
def test_mappings(value: str, expected: str | None) -> None:
    service = {"group": "x.io", "version": "v1", "kind": "Database", "name": "db", "id": "db"}
    body = database(host="h")
    cluster = FakeCluster(objects=[deployment(), body, secret("s1", password="pw")])
    binding = coreos_binding(
        services=[service], mappings=[{"name": "URI", "value": value}], bindAsFiles=False
    )
    cluster.reconcile(binding)
    if expected is None:
        assert conditions(binding)["Ready"] == ("False", "ProcessingError")
        assert "range can't iterate over a value of type string" in message(binding, "Ready")
    else:
        made = content(cluster.get("secrets", binding["status"]["secret"]))
        assert made == {"DATABASE_PASSWORD": "pw", "URI": expected}


@pytest.mark.parametrize(
    ("values", "bound"),
    [
        pytest.param(["{{ range 9000 }}{{ end }}"] * 20, "100000 steps", id="steps"),
        pytest.param(["{{/*" + "x" * 70_000 + "*/}}"] * 2, "131072 characters", id="length"),
        pytest.param(['{{ printf "%600000d" 1 }}'] * 2, "1048576 bytes", id="output"),
    ],
)
def test_mappings_share_the_bounds(values: list[str], bound: str) -> None:
    mappings = [{"name": f"M{place}", "value": value} for place, value in enumerate(values)]
    cluster = FakeCluster(objects=[deployment(), database(), secret("s1", password="pw")])
    binding = coreos_binding(mappings=mappings)
    cluster.reconcile(binding)
    assert conditions(binding)["Ready"] == ("False", "ProcessingError")
    assert bound in message(binding, "Ready")


def test_names_share_the_bounds_and_have_some_steps_of_their_own() -> None:
    keys = {f"key{number}": "eA==" for number in range(2_000)}
    objects = [deployment(), database(), {**secret("s1"), "data": keys}]
    cheap = coreos_binding(namingStrategy="{{ range 60 }}{{ end }}X{{ .name }}", bindAsFiles=True)
    cluster = FakeCluster(objects=objects)
    cluster.reconcile(cheap)
    assert len(content(cluster.get("secrets", cheap["status"]["secret"]))) == len(keys)
    dear = coreos_binding(namingStrategy="{{ range 9000 }}{{ end }}{{ .name }}", bindAsFiles=True)
    FakeCluster(objects=objects).reconcile(dear)
    assert conditions(dear)["CollectionReady"] == ("False", "NamingStrategyError")
    assert "templates take more than 100000 steps" in message(dear, "CollectionReady")


def test_owned_resources_are_collected_where_they_are_wanted() -> None:
    owner = {"apiVersion": "x.io/v1", "kind": "Database", "name": "db", "uid": "uid-db"}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    config = {**kind, "metadata": meta("c", ownerReferences=[owner]), "data": {"k": "v"}}
    other = {**kind, "metadata": meta("d"), "data": {"foreign": "v"}}
    cluster = FakeCluster(objects=[deployment(), database(binding=None), config, other])
    binding = coreos_binding(detectBindingResources=True, bindAsFiles=True)
    cluster.reconcile(binding)
    assert content(cluster.get("secrets", binding["status"]["secret"])) == {"k": "v"}
    asked = cluster.process(binding).reader.snapshot.reads
    # Routes are served by few clusters: they are looked up, and listed where they are.
    assert any(isinstance(read, Lookup) and read.plural == "routes" for read in asked)
    assert not any(
        isinstance(read, ListAll) and read.resource.plural == "routes" for read in asked
    )
    assert conditions(binding)["CollectionReady"] == FOUND

    cluster.denied = [{"resource": "configmaps"}]
    binding["metadata"]["annotations"]["servicebinding.io/requester"] = '{"username": "bob"}'
    cluster.reconcile(binding)
    assert "cannot read configmap c in namespace" in message(binding, "CollectionReady")

    served = FakeCluster(
        {**KINDS, "route.openshift.io/v1/Route": "routes"}, cluster.of(*KINDS.values())
    )
    route = {"apiVersion": "route.openshift.io/v1", "kind": "Route", "spec": {"host": "h"}}
    served.set({**route, "metadata": meta("r", ownerReferences=[owner])})
    anew = coreos_binding(detectBindingResources=True, bindAsFiles=True)
    served.reconcile(anew)
    assert content(served.get("secrets", anew["status"]["secret"])) == {"host": "h", "k": "v"}


def test_an_entry_that_is_hidden_by_another_services_is_said() -> None:
    services = [
        {"group": "x.io", "version": "v1", "kind": "Database", "name": name, "id": name}
        for name in ("one", "two")
    ]
    objects = [database(name, binding=f"s-{name}") for name in ("one", "two")]
    secrets = [secret("s-one", type="t", host="a"), secret("s-two", port="1", host="b")]
    cluster = FakeCluster(objects=[deployment(), *objects, *secrets])
    binding = coreos_binding(services=services, bindAsFiles=True)
    cluster.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == FOUND
    told = "entry host of Database one is hidden by the entry of the same name of Database two"
    assert message(binding, "CollectionReady") == told
    assert message(binding, "Ready") == told
    assert content(cluster.get("secrets", binding["status"]["secret"]))["host"] == "b"


def test_more_than_a_secret_holds_is_said_before_anything_is_written() -> None:
    services = [
        {"group": "", "version": "v1", "kind": "Secret", "name": name}
        for name in ("s-one", "s-two")
    ]
    large: dict[str, Any] = {"x": "x" * 600 * 1024}
    secrets = [secret("s-one", **large), secret("s-two", y=large["x"])]
    cluster = FakeCluster(objects=[deployment(), *secrets])
    binding = coreos_binding(services=services, bindAsFiles=True)
    cluster.reconcile(binding)
    assert conditions(binding)["CollectionReady"] == ("False", "ErrorPersistingSecret")
    assert "more than 1048576 bytes" in message(binding, "Ready")
    assert "InjectionReady" not in conditions(binding)
    assert cluster.get("deployments", "web") == deployment()
