"""Compose services: what a binding puts onto them, and the files that come of it."""

from __future__ import annotations

import base64
import copy
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.binding.objects import (
    SECRET_SERVICE,
    coreos_binding,
    database,
    secret,
    spec_binding,
)

from fairlead.api.meta import JSON
from fairlead.binding.options import BindingOptions
from fairlead.binding.outside.compose.files import FolderError, write
from fairlead.binding.outside.compose.override import Override, override
from fairlead.binding.outside.compose.project import Project, is_compose, project
from fairlead.binding.outside.documents import Document, DocumentError, collection
from fairlead.cli import main


WEB = {"services": {"web": {"image": "web"}}}


def read(*bodies: JSON) -> Project:
    return project([Document("compose.yaml", body) for body in bodies])


def bound(*bodies: JSON, compose: JSON = WEB) -> Override:
    given = [Document("b.yaml", copy.deepcopy(body)) for body in bodies]
    options = BindingOptions()
    return override(read(compose), collection(given, "ns"), options, "./secrets")


def service(found: Override, name: str = "web") -> JSON:
    assert found.problems == []
    body: JSON = found.body["services"][name]
    return body


def web(**fields: Any) -> JSON:
    return {"services": {"web": fields}}


def problem(*bodies: JSON, compose: JSON = WEB) -> str:
    (text,) = bound(*bodies, compose=compose).problems
    return text


def named(binding: JSON, name: str) -> JSON:
    binding["metadata"] |= {"name": name, "uid": name}
    return binding


def mounted(found: Override, name: str = "web") -> dict[str, bytes]:
    """The files in a container, by their paths."""
    files = {
        f"./secrets/{place}/{key}": value
        for place, content in found.files.items()
        for key, value in content.items()
    }
    sources = {secret: files[one["file"]] for secret, one in found.body["secrets"].items()}
    return {one["target"]: sources[one["source"]] for one in service(found, name)["secrets"]}


def test_each_entry_is_a_file_in_the_directory_of_the_specification() -> None:
    found = bound(secret(), spec_binding(service=SECRET_SERVICE, name="db"))
    assert mounted(found) == {"/bindings/db/type": b"postgresql", "/bindings/db/password": b"pw"}
    assert service(found)["environment"] == {"SERVICE_BINDING_ROOT": "/bindings"}


def test_a_folder_is_named_by_its_content_so_that_a_change_is_noticed() -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    (first,) = bound(secret(), binding).files
    (second,) = bound(secret(type="postgresql", password="new"), binding).files
    assert first != second
    assert first.startswith("sb-")


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        pytest.param({"SERVICE_BINDING_ROOT": "/etc/b/"}, "/etc/b/sb/type", id="map"),
        pytest.param(["SERVICE_BINDING_ROOT=//b"], "/b/sb/type", id="list"),
        pytest.param({"OTHER": 1, "EMPTY": None, "YES": True}, "/bindings/sb/type", id="none"),
    ],
)
def test_the_services_own_root_is_used(environment: Any, path: str) -> None:
    found = bound(
        secret(), spec_binding(service=SECRET_SERVICE), compose=web(environment=environment)
    )
    assert path in mounted(found)
    assert ("environment" in service(found)) is (path == "/bindings/sb/type")


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param(["SERVICE_BINDING_ROOT"], id="of the shell"),
        pytest.param({"SERVICE_BINDING_ROOT": "${R}"}, id="interpolated"),
        pytest.param({"SERVICE_BINDING_ROOT": "here"}, id="relative"),
    ],
)
def test_a_root_that_is_not_known_is_an_error(environment: Any) -> None:
    text = problem(
        secret(), spec_binding(service=SECRET_SERVICE), compose=web(environment=environment)
    )
    assert "Compose service web takes SERVICE_BINDING_ROOT from elsewhere" in text


def test_variables_have_their_values_which_compose_must_not_interpolate() -> None:
    binding = spec_binding(service=SECRET_SERVICE, env=[{"name": "PW", "key": "password"}])
    found = bound(secret(type="postgresql", password="a$b${c}\n'\""), binding)
    assert service(found)["environment"]["PW"] == "a$$b$${c}\n'\""
    whole = bound(secret(a="1", b="2"), database(), coreos_binding(bindAsFiles=False))
    # The original's default of a naming strategy, where all is in variables.
    assert service(whole)["environment"] == {"DATABASE_A": "1", "DATABASE_B": "2"}
    assert "secrets" not in whole.body


def test_variables_of_a_client_are_put_together_since_compose_has_no_references() -> None:
    uri = "postgres://a:$(HOST)$b@db/?sslmode=verify-full"
    entries: Any = {"type": "postgresql", "uri": uri, "ca.crt": "CA"}
    login = secret(**entries)
    binding = spec_binding(
        service=SECRET_SERVICE, annotations={"servicebinding.io/client": "url=SHOP_URL"}
    )
    environment = service(bound(login, binding))["environment"]
    path = "/bindings/sb/ca.crt"
    assert environment["SHOP_URL"] == f"{uri.replace('$', '$$')}&sslrootcert={path}"
    taken = problem(login, binding, compose=web(environment={"SHOP_URL": "mine"}))
    assert "has a variable SHOP_URL that does not belong to this binding" in taken


@pytest.mark.parametrize(
    ("workload", "names"),
    [
        pytest.param({"name": "web"}, ["web"], id="name"),
        pytest.param({"selector": {"matchLabels": {"tier": "back"}}}, ["api", "job"], id="labels"),
        pytest.param(
            {"apiVersion": "v9", "kind": "Thing", "name": "api"}, ["api"], id="whatever kind"
        ),
        pytest.param({"name": "web", "containers": ["side"]}, ["web"], id="whatever containers"),
    ],
)
def test_services_are_found_as_workloads_are(workload: JSON, names: list[str]) -> None:
    compose = {
        "services": {
            "web": {"labels": {"tier": "front"}},
            "api": {"labels": ["tier=back"]},
            "job": {"labels": {"tier": "back"}},
        }
    }
    binding = spec_binding(service=SECRET_SERVICE, workload=workload)
    found = bound(secret(), binding, compose=compose)
    assert found.problems == []
    assert sorted(found.body["services"]) == names


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        pytest.param({"name": "x"}, "no Compose service is named x; there are: web", id="name"),
        pytest.param(
            {"selector": {"matchLabels": {"a": "b"}}},
            "no Compose service has the labels",
            id="labels",
        ),
        pytest.param(
            {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}},
            "the workload's label selector is wrong",
            id="selector",
        ),
    ],
)  # fmt: skip
def test_a_service_that_is_not_there_is_named(workload: JSON, text: str) -> None:
    assert text in problem(secret(), spec_binding(service=SECRET_SERVICE, workload=workload))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"volumes": ["data:/bindings/sb"]}, "at /bindings/sb that", id="volume"),
        pytest.param(
            {"volumes": [{"type": "bind", "source": "x", "target": "/bindings/sb/type"}]},
            "at /bindings/sb/type that does not belong to this binding",
            id="file in it",
        ),
        pytest.param({"tmpfs": "/bindings/sb/:size=1m"}, "at /bindings/sb that", id="tmpfs"),
        pytest.param(
            {"secrets": [{"source": "mine", "target": "/bindings/sb/x"}]},
            "at /bindings/sb/x that",
            id="secret",
        ),
        pytest.param(
            {"configs": [{"source": "bindings/sb"}]}, "at /bindings/sb that", id="config"
        ),
        pytest.param({"environment": ["PW"]}, "has a variable PW that does not", id="variable"),
    ],
)
def test_what_is_somebody_elses_is_in_the_way(fields: JSON, text: str) -> None:
    binding = spec_binding(service=SECRET_SERVICE, env=[{"name": "PW", "key": "password"}])
    assert text in problem(secret(), binding, compose=web(**fields))


def test_what_is_beside_or_above_is_not_in_the_way() -> None:
    compose = web(volumes=["v:/bindings", "/bindings/sbx"], secrets=["sb"], tmpfs=None)
    assert mounted(bound(secret(), spec_binding(service=SECRET_SERVICE), compose=compose))


def test_of_two_bindings_in_one_place_the_first_has_it() -> None:
    second = named(spec_binding(service=SECRET_SERVICE, name="db"), "second")
    first = named(spec_binding(service=SECRET_SERVICE, name="db"), "first")
    text = problem(secret(), second, first)
    assert text.startswith("b.yaml: ServiceBinding ns/second: Compose service web mounts")
    assert "ServiceBinding ns/first of servicebinding.io, which comes first" in text
    env = [{"name": "PW", "key": "password"}]
    one = named(spec_binding(service=SECRET_SERVICE, name="a", env=env), "one")
    two = named(spec_binding(service=SECRET_SERVICE, name="b", env=env), "two")
    assert "has a variable PW that belongs to ServiceBinding ns/one" in problem(secret(), one, two)


def test_several_bindings_of_both_apis_are_on_one_service() -> None:
    other = named(coreos_binding(), "other")
    binding = spec_binding(service=SECRET_SERVICE)
    found = bound(secret(), database(), other, binding)
    assert {path.rpartition("/")[0] for path in mounted(found)} == {
        "/bindings/sb",
        "/bindings/other",
    }
    assert found == bound(binding, database(), other, secret())


def binary(**entries: bytes) -> JSON:
    body = secret()
    body["data"] = {
        name.replace("__", "/"): base64.b64encode(value).decode()
        for name, value in entries.items()
    }
    return body


def test_files_are_bytes_and_variables_are_texts() -> None:
    body = binary(type=b"x", key=b"\xff\x00")
    found = bound(body, spec_binding(service=SECRET_SERVICE))
    assert mounted(found)["/bindings/sb/key"] == b"\xff\x00"
    binding = spec_binding(service=SECRET_SERVICE, env=[{"name": "K", "key": "key"}])
    assert "entry 'key' of the binding is not text" in problem(body, binding)
    binding["spec"]["env"] = [{"name": "A=B", "key": "type"}]
    assert "cannot have a variable 'A=B'" in problem(body, binding)


@pytest.mark.parametrize("key", ["../x", "..", ".", "a/b", "..x", "", "a\nb"])
def test_no_key_leads_out_of_the_folder(key: str) -> None:
    body = secret()
    body["data"][key] = ""
    with pytest.raises(DocumentError, match=r"Secret s1: data: .* is not a valid key of a Secret"):
        bound(body, spec_binding(service=SECRET_SERVICE))
    mapping = [{"name": key or "..", "value": "x"}]
    found = bound(secret(), database(), coreos_binding(mappings=mapping))
    assert found.problems
    assert found.files == {}


@pytest.mark.parametrize("name", ["../x", "..", "a/b", "A", "a\n"])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    for body in (named(spec_binding(), name), secret(name)):
        with pytest.raises(DocumentError, match=r"metadata\.name: .* is not a name"):
            bound(body)


def test_a_name_of_a_secret_has_no_place_in_compose() -> None:
    application = {"name": "web", "bindingPath": {"secretPath": "spec.x"}}
    text = problem(secret(), database(), coreos_binding(application=application))
    assert "remove spec.application.bindingPath.secretPath" in text


def test_a_secret_of_the_project_is_not_replaced() -> None:
    binding = spec_binding(service=SECRET_SERVICE)
    (place,) = bound(secret(), binding).files
    compose = {**WEB, "secrets": {f"{place}.type": {"file": "x"}}}
    with pytest.raises(DocumentError, match=f"secrets.{place}.type: a binding needs"):
        bound(secret(), binding, compose=compose)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        pytest.param(
            {"services": []}, "compose.yaml: services: it must be an object", id="services"
        ),
        pytest.param(
            {"services": {"a": 1}}, "services.a: a service must be an object", id="service"
        ),
        pytest.param(
            {"services": {1: {}}}, "services: it must be an object with names", id="name"
        ),
        pytest.param(web(environment=3), "services.web.environment: it must", id="environment"),
        pytest.param(
            web(environment=[3]), "services.web.environment[0]: it must be a text", id="env"
        ),
        pytest.param(
            web(environment={"A": []}), "services.web.environment.A: it must", id="value"
        ),
        pytest.param(web(volumes=[3]), "services.web.volumes[0]: it must be a text", id="volume"),
        pytest.param(
            web(volumes=[{"target": 3}]), "services.web.volumes[0]: it must", id="target"
        ),
        pytest.param(web(volumes=3), "services.web.volumes: it must be a list", id="volumes"),
    ],
)
def test_what_is_no_compose_file_is_named_with_its_field(body: JSON, text: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(body)
    assert text in str(caught.value)


def test_several_files_are_one_project() -> None:
    both = read(web(environment={"A": "1"}), web(environment=["B=2"]), {"services": None})
    assert both.services["web"].environment == {"A": "1", "B": "2"}
    assert is_compose(Document("f", WEB))
    assert not is_compose(Document("f", {**WEB, "kind": "List"}))


def modes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in [folder, *folder.rglob("*")]
    }


def test_secrets_are_in_a_folder_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(folder, "services: {}\n", {"db-01234567": {"type": b"x"}})
    assert modes(folder) == {
        ".": 0o700,
        ".gitignore": 0o600,
        "compose.yaml": 0o600,
        "db-01234567": 0o700,
        # Containers have users of their own.
        "db-01234567/type": 0o444,
    }
    assert (folder / ".gitignore").read_text().splitlines()[-1] == "*"


def test_what_containers_may_run_with_stays_until_the_next_time(tmp_path: Path) -> None:
    def run(place: str) -> list[str]:
        write(tmp_path, f"file: ./out/{place}/type\n", {place: {"type": b"x"}})
        return sorted(path.name for path in tmp_path.iterdir() if path.is_dir())

    assert run("db-00000001") == ["db-00000001"]
    assert run("db-00000002") == ["db-00000001", "db-00000002"]
    assert run("db-00000003") == ["db-00000002", "db-00000003"]
    assert run("db-00000003") == ["db-00000003"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    for name in ("compose.yaml", ".gitignore", "notes"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(FolderError, match="has files that this command did not write"):
            write(folder, "x", {})
        assert [path.name for path in folder.iterdir()] == [name]
    (tmp_path / "link").symlink_to(tmp_path / "notes")
    with pytest.raises(FolderError, match="is not a folder"):
        write(tmp_path / "link", "x", {})


def test_what_an_interrupted_run_left_is_no_obstacle(tmp_path: Path) -> None:
    write(tmp_path, "x", {"db-00000001": {"type": b"x"}})
    (tmp_path / "compose.yaml").unlink()
    (tmp_path / "db-00000001" / ".type.new").write_text("hal")
    write(tmp_path, "x", {"db-00000001": {"type": b"y"}})
    assert [path.name for path in (tmp_path / "db-00000001").iterdir()] == ["type"]
    assert (tmp_path / "db-00000001" / "type").read_bytes() == b"y"


def command(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["binding", "compose", *map(str, arguments)], input=stdin)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    compose, bindings = tmp_path / "compose.yaml", tmp_path / "bindings.yaml"
    text = "x: &x {image: web}\nservices: {web: {<<: *x}, db: {image: postgres}}\n"
    compose.write_text(text)
    env = [{"name": "PW", "key": "password"}]
    binding = spec_binding(service=SECRET_SERVICE, env=env)
    bindings.write_text(yaml.safe_dump_all([secret(type="t", password="s3cret"), binding]))
    return compose, bindings


def test_the_command_writes_what_compose_needs(files: tuple[Path, Path]) -> None:
    compose, bindings = files
    result = command("-f", compose, "-f", bindings)
    assert result.exit_code == 0
    folder = compose.parent / ".service-bindings"
    written = yaml.safe_load((folder / "compose.yaml").read_text())
    assert written["services"]["web"]["environment"]["PW"] == "s3cret"
    # Compose takes paths from the folder of its first file on.
    paths = [compose.parent / one["file"] for one in written["secrets"].values()]
    assert sorted(path.read_text() for path in paths) == ["s3cret", "t"]
    shown = yaml.safe_load(result.stdout)
    assert shown["services"]["web"]["environment"] == {
        "PW": "<redacted>",
        "SERVICE_BINDING_ROOT": "/bindings",
    }
    assert "s3cret" not in result.output
    assert "./.service-bindings/compose.yaml" in result.stderr
    assert command("-f", bindings, "-f", compose).stdout == result.stdout
    assert "s3cret" in command("-f", compose, "-f", bindings, "--show-secrets").stdout


def test_a_dry_run_writes_nothing(files: tuple[Path, Path]) -> None:
    compose, bindings = files
    result = command("-f", "-", "-f", bindings, "--dry-run", stdin=compose.read_text())
    assert result.exit_code == 0
    assert "/bindings/sb/type" in result.stdout
    assert sorted(path.name for path in compose.parent.iterdir()) == [
        "bindings.yaml",
        "compose.yaml",
    ]


def test_another_folder_is_named_as_compose_finds_it(
    files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    compose, bindings = files
    folder = tmp_path_factory.mktemp("else") / "out"
    result = command("-f", compose, "-f", bindings, "-o", folder)
    secrets = yaml.safe_load(result.stdout)["secrets"].values()
    assert all(Path(one["file"]).is_relative_to(folder) for one in secrets)


def test_where_a_binding_fails_nothing_is_written(files: tuple[Path, Path]) -> None:
    compose, bindings = files
    compose.write_text("services: {other: {}}")
    result = command("-f", compose, "-f", bindings)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "ServiceBinding ns/sb: no Compose service is named web" in result.stderr
    assert not (compose.parent / ".service-bindings").exists()


def test_without_a_compose_file_the_usage_is_wrong(files: tuple[Path, Path]) -> None:
    result = command("-f", files[1])
    assert result.exit_code == 2
    assert "none of the files is a Compose file" in result.stderr


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(
    field=st.sampled_from(["environment", "labels", "volumes", "tmpfs", "secrets", "configs"]),
    value=JSONS,
    whole=st.booleans(),
)
def test_whatever_a_compose_file_has_is_bound_or_explained(
    field: str, value: Any, whole: bool
) -> None:
    compose = {"services": {"web": value}} if whole else web(**{field: value})
    try:
        found = bound(secret(), spec_binding(service=SECRET_SERVICE), compose=compose)
    except DocumentError as error:
        found = Override({}, {}, [str(error)])
    assert found.problems or mounted(found)
    assert not any("defect of Fairlead" in text for text in found.problems)
