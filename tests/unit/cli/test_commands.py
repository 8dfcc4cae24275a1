"""The command line itself: help, usage, and what it prints without a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from fairlead.cli import main
from fairlead.cli.crds import GROUPS, file_name, to_yaml
from fairlead.cli.kubebind.unbind import question
from fairlead.cli.options import write_private
from fairlead.konnector.commands.unbind import Impact


PROGRAMS = ["binding", "konnector", "postgres", "provider"]
EXPORT = "--export=postgresaccesses.access.k8s.delta10.nl"


def run(*arguments: str, stdin: str | None = None, **env: str) -> Result:
    return CliRunner().invoke(main, arguments, input=stdin, env=env)


def commands(command: click.Command, *path: str) -> Iterator[tuple[str, ...]]:
    """Every command and every group of commands."""
    yield path
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from commands(child, *path, name)


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=" ".join(("fairlead", *p))) for p in commands(main)]
)
def test_every_command_has_help_with_an_example(path: tuple[str, ...]) -> None:
    result = run(*path, "--help")
    assert result.exit_code == 0
    assert "Example" in result.output
    assert " ".join(("    fairlead", *path)) in result.output


def test_what_is_said_of_commands_that_are_not_imported_is_their_own_first_sentence() -> None:
    context = click.Context(main)
    for item in main.shell_complete(context, ""):
        command = main.get_command(context, item.value)
        assert command is not None
        assert item.help == command.get_short_help_str(200)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["nonsense"], "No such command 'nonsense'", id="command"),
        pytest.param(["bnd"], "No such command 'bnd'. Did you mean 'bind'?", id="nearly"),
        *(
            pytest.param(
                ["provider", "hand-over", *more, "--to", "group:a"],
                "name the consumers, or give --author for all of an owner",
                id=f"hand-over-{name}",
            )
            for name, more in (("none", []), ("both", ["shop", "--author", "group:b"]))
        ),
        pytest.param(["crds", "nonsense"], "'nonsense' is not one of", id="group"),
        pytest.param(["bind"], "name what to bind by one of these: -f FILE", id="no-source"),
        pytest.param(
            ["bind", "-f", "-", "--keep-copies", "--discard-copies"],
            "--keep-copies and --discard-copies exclude each other: give one of them",
            id="both",
        ),
        pytest.param(
            ["accept", "db", "--conversion-webhook", "a", "--remove-conversion-webhook", "b"],
            "--conversion-webhook and --remove-conversion-webhook exclude each other: give one",
            id="accept-and-remove",
        ),
        pytest.param(
            ["accept", "db", "--conversion-allow-cidr", "10.0.0.0/8"],
            "--conversion-allow-cidr needs --conversion-webhook",
            id="network-without-webhook",
        ),
        pytest.param(
            ["bind", "--conversion-webhook", "a", "--conversion-allow-cidr", "0.0.0.0/0"],
            "would let the provider choose any address",
            id="every-network",
        ),
        pytest.param(
            ["bind", "-f", "-", "--timeout", "soon"], "'soon' is not a duration", id="time"
        ),
        pytest.param(
            ["user-roles", "a", "b", "--resource", "x.example.org"], "needs one BINDING", id="two"
        ),
        pytest.param(
            ["user-roles", "a", "--resource", "deployments.apps"],
            "'deployments.apps' is not the PLURAL.GROUP of a kind that a provider may offer",
            id="kind-of-kubernetes",
        ),
        pytest.param(
            ["konnector", "run", "--local-key", "a b"],
            "--local-key 'a b' is not KEY, PREFIX/* or KEY=VALUE",
            id="local-key",
        ),
        pytest.param(
            ["konnector", "run", "--crossing-key", "/*"],
            "--crossing-key '/*' is not KEY, PREFIX/* or KEY=VALUE",
            id="crossing-key",
        ),
        pytest.param(
            ["konnector", "run", "--protocols", "v1alpha2,v3"],
            "--protocols: 'v3' is not one of v1alpha2, v2",
            id="protocol",
        ),
        pytest.param(
            ["manifests", "konnector", "--protocols", ","],
            "--protocols: name at least one of v1alpha2, v2",
            id="protocols",
        ),
        pytest.param(["demo", "--json", "--keep"], "exclude each other", id="json-and-keep"),
        pytest.param(
            ["uninstall", "binding", "--helm-release", "a/b"],
            "--helm-release needs --prepare",
            id="release-without-prepare",
        ),
        pytest.param(["manifests", "konnector", EXPORT], "for provider only", id="export"),
        pytest.param(
            ["manifests", "serve", "--external-address", "https://h"],
            "for provider only",
            id="address",
        ),
        pytest.param(
            ["manifests", "konnector", "--invitations"], "for provider only", id="invitations"
        ),
        pytest.param(
            ["provider", "revoke", "a", "--yes", "--timeout", "soon"],
            "not a duration",
            id="revoke",
        ),
        pytest.param(["manifests", "binding", "--exported"], "for postgres only", id="exported"),
        pytest.param(
            ["manifests", "konnector", "--no-user-roles"], "for postgres only", id="user-roles"
        ),
        pytest.param(["sandbox", "run", "deployment"], "not KIND/NAME", id="workload"),
        pytest.param(["sandbox", "run", "service/x"], "has no pod template", id="kind"),
        pytest.param(["sandbox", "up", "--dir", "x", "--cluster", "a/b"], "file name", id="path"),
        pytest.param(
            ["provider", "run", "--isolation", "nothing"],
            "isolation 'nothing' is unknown: use prefixed, namespaced or none",
            id="isolation",
        ),
        pytest.param(
            ["provider", "run", "--schema-sync-interval", "1s"],
            "too short: the minimum is 10s",
            id="schema-sync-interval",
        ),
        pytest.param(
            ["provider", "invite", "a", "--template", "t", "-o", "f", "--external-address", "h:1"],
            "has to be a URL",
            id="address",
        ),
        pytest.param(
            ["provider", "invite", "a", "--template", "t", "-o", "no-such-folder/f"],
            "folder no-such-folder does not exist",
            id="output",
        ),
        pytest.param(
            [
                "provider",
                "invite",
                "a",
                "--template",
                "t",
                "-o",
                "f",
                "--namespace-prefix",
                "Shop_",
            ],
            "namespace prefix 'Shop_'",
            id="prefix",
        ),
        pytest.param(
            [
                "provider",
                "invite",
                "a",
                "--template",
                "t",
                "-o",
                "f",
                "--namespace-prefix",
                "a" * 31,
            ],
            "at most 30",
            id="long-prefix",
        ),
        pytest.param(
            ["provider", "invite", "a", "--template", "t", "-o", "f", "--pretty-name", " "],
            "pretty name is empty",
            id="pretty-name",
        ),
        pytest.param(
            [
                "provider",
                "invite",
                "a",
                "--template",
                "t",
                "-o",
                "f",
                "--external-ca-file",
                __file__,
            ],
            "--external-ca-file: ",
            id="external-ca",
        ),
        pytest.param(
            ["provider", "invite", "a", "-o", "f"], "Missing option '--template'", id="template"
        ),
        pytest.param(
            ["provider", "invite", "a", "--template", "t"], "Missing option '-o'", id="no-output"
        ),
        *(
            pytest.param(
                ["provider", "invite", "a", "--template", "t", "-o", "f", *words],
                f"{words[0]} belongs to --protocol v2",
                id=f"v1alpha2{words[0]}",
            )
            for words in (
                ("--api", "widgets.example.org"),
                ("--namespace", "shop"),
                ("--existing-namespaces",),
                ("--whole-cluster",),
                ("--related", "secrets/FromProvider"),
                ("--konnector-namespace", "kube-bind"),
            )
        ),
        *(
            pytest.param(
                ["provider", "invite", "a", "--protocol", "v2", *words],
                f"{words[0]} belongs to --protocol v1alpha2",
                id=f"v2{words[0]}",
            )
            for words in (
                ("--template", "t"),
                ("--identity", "a"),
                ("--namespace-prefix", "a"),
                ("--pretty-name", "a"),
            )
        ),
        pytest.param(
            ["provider", "invite", "a", "--protocol", "v3"], "'v3' is not one of", id="protocol"
        ),
        pytest.param(
            ["provider", "invite", "a", "--protocol", "v2", "--related", "pods/FromProvider"],
            "'pods/FromProvider' is not one of",
            id="related",
        ),
        pytest.param(
            ["provider", "invite", "a", "--protocol", "v2", "-o", "no-such-folder/f"],
            "folder no-such-folder does not exist",
            id="v2-output",
        ),
        pytest.param(
            ["provider", "rotate", "a", "-o", "no-such-folder/f"],
            "folder no-such-folder does not exist",
            id="rotate-output",
        ),
        pytest.param(
            ["provider", "invite", "", "--template", "t", "-o", "f"], "NAME is empty", id="nobody"
        ),
        pytest.param(
            ["provider", "invite", " shop", "--template", "t", "-o", "f"],
            "NAME ' shop' has to be lower-case letters",
            id="a space in front",
        ),
        pytest.param(
            ["provider", "invite", "Shop Team!", "--template", "t", "-o", "f"],
            "at most 253: use shop-team; for a consumer that is known as 'Shop Team!', give "
            "shop-team --identity 'Shop Team!'",
            id="a name with a blank",
        ),
        pytest.param(
            *(
                ["provider", "invite", "a", "--identity", "a\x1b", "--template", "t", "-o", "f"],
                "cannot be seen",
            ),
            id="an identity that cannot be seen",
        ),
        pytest.param(
            ["provider", "run", "--external-address", "h:1"], "has to be a URL", id="run-address"
        ),
        pytest.param(
            ["binding", "run", "--health-probe-bind-address", "nonsense"],
            "write host:port",
            id="listen",
        ),
        *(
            pytest.param(["konnector", "run", *arguments], message, id=f"konnector-{name}")
            for name, arguments, message in [
                ("server-address", ["--server-address", "8090"], "write host:port"),
                (
                    "two-addresses",
                    ["--server-address", ":1", "--health-probe-bind-address", ":1"],
                    "give one of them",
                ),
                (
                    "polling-no-duration",
                    ["--provider-polling-interval", "often"],
                    "--provider-polling-interval: 'often' is not a duration",
                ),
                (
                    "polling-too-often",
                    ["--provider-polling-interval", "999ms"],
                    "--provider-polling-interval: 999ms is too short: the minimum is 1s",
                ),
                (
                    "no-size",
                    ["--provider-answer-limit", "much"],
                    "--provider-answer-limit: 'much' is not a size: use for example 64Mi",
                ),
                (
                    "small-size",
                    ["--provider-objects-limit", "1000Ki"],
                    "--provider-objects-limit: 1000Ki is too small: the minimum is 1Mi",
                ),
            ]
        ),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, "Traceback" in result.output) == (2, False)
    assert message in result.output


@pytest.mark.parametrize(("isolation", "warned"), [("", True), ("none", False)])
def test_an_empty_isolation_means_none_and_warns(
    isolation: str, *, warned: bool, tmp_path: Path
) -> None:
    missing = str(tmp_path / "missing.kubeconfig")
    result = run("provider", "run", "--isolation", isolation, "--kubeconfig", missing)
    assert result.exit_code == 1
    assert ("--isolation is empty, which means none" in result.stderr) is warned


@pytest.mark.parametrize("command", [["bind", "-f", "-"], ["konnector", "run"]])
@pytest.mark.parametrize(
    ("kubeconfig", "message"),
    [
        pytest.param(None, "missing.kubeconfig", id="no-file"),
        pytest.param("][", "kubeconfig", id="no-yaml"),
        pytest.param("kind: Config\ncurrent-context: a\n", "a", id="no-context"),
        pytest.param(
            "current-context: a\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
            "contexts: [{name: a, context: {cluster: c}}]\n",
            "127.0.0.1:9",
            id="unreachable",
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_line(
    command: list[str], kubeconfig: str | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "missing.kubeconfig"
    if kubeconfig is not None:
        path.write_text(kubeconfig)
    response = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindingResponse",
        "kubeconfig": "",
        "requests": [],
    }
    result = run(*command, "--kubeconfig", str(path), stdin=json.dumps(response))
    lines = [line for line in result.output.splitlines() if line.startswith("Error: ")]
    assert (result.exit_code, len(lines)) == (1, 1), result.output
    assert "Traceback" not in result.output
    assert "unexpected" not in lines[0]
    if command[0] == "konnector":
        assert message in lines[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "it is empty", id="empty"),
        pytest.param("{", "it is not valid YAML", id="no-json"),
        pytest.param('{"kind": "Secret", "apiVersion": "v1"}', "BindingResponse", id="other-kind"),
    ],
)
def test_what_is_no_invitation_is_refused(text: str, message: str) -> None:
    result = run("bind", "-f", "-", stdin=text)
    assert result.exit_code == 1
    assert result.output.startswith("Error: standard input: ")
    assert message in result.output
    assert "unexpected" not in result.output


@pytest.mark.parametrize("group", [None, *GROUPS])
def test_crds_are_printed_as_yaml(group: str | None) -> None:
    result = run("crds", *([group] if group else []))
    documents = list(yaml.safe_load_all(result.output))
    assert documents
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}
    assert "&id" not in result.output


@pytest.mark.parametrize("group", [None, *GROUPS])
def test_rules_are_left_out_where_an_old_server_refuses_them(group: str | None) -> None:
    whole = run("crds", *([group] if group else [])).output
    result = run("crds", "--without-rules", *([group] if group else [])).output
    assert "x-kubernetes-validations" not in result
    assert not result.startswith("#")
    assert whole.startswith("# For Kubernetes 1.23") == ("x-kubernetes-validations:" in whole)
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(whole)]
    assert [document["metadata"]["name"] for document in yaml.safe_load_all(result)] == names


def test_the_crds_in_the_repository_are_those_of_the_types() -> None:
    folder = Path(__file__).parents[3] / "config" / "crd"
    expected = {file_name(crd): to_yaml([crd]) for make in GROUPS.values() for crd in make()}
    found = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    assert found == expected, "config/crd is stale: make crds"


def rules_of(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        yield from document.get("rules") or []


@pytest.mark.parametrize("program", PROGRAMS)
def test_manifests_have_no_wildcard_and_no_way_to_more_rights(program: str) -> None:
    extra = [EXPORT] if program == "provider" else []
    documents = list(yaml.safe_load_all(run("manifests", program, *extra).output))
    kinds = {document["kind"] for document in documents}
    assert {"Namespace", "ServiceAccount", "ClusterRole", "Deployment"} <= kinds
    for rule in rules_of(documents):
        words = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not {"*", "escalate", "bind", "impersonate"} & set(words), rule


def test_rights_of_people_are_printed_without_a_cluster() -> None:
    result = run("user-roles", "db", "--resource", "things.example.org", KUBECONFIG="/nowhere")
    roles = list(yaml.safe_load_all(result.output))
    assert [role["metadata"]["name"] for role in roles] == [
        "kube-bind-edit-db",
        "kube-bind-view-db",
    ]
    assert [rule["resources"] for rule in rules_of(roles)] == 2 * [["things"]]


def test_an_exported_operator_labels_its_crd_and_lends_its_rights() -> None:
    documents = list(yaml.safe_load_all(run("manifests", "postgres", "--exported").output))
    (deployment,) = (d for d in documents if d["kind"] == "Deployment")
    assert "--exported" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    lent = "rbac.kube-bind.io/aggregate-to-provider"
    assert any(lent in d["metadata"].get("labels", {}) for d in documents)


def test_people_get_rights_on_accesses_alone_and_only_if_the_owner_wants() -> None:
    """What PostgresServers and Controllers say is the platform team's."""
    aggregate = "rbac.authorization.k8s.io/aggregate-to-"
    found = {}
    for flags in ((), ("--no-user-roles",)):
        documents = list(yaml.safe_load_all(run("manifests", "postgres", *flags).output))
        for document in documents:
            labels = document["metadata"].get("labels", {})
            if targets := [one.removeprefix(aggregate) for one in labels if aggregate in one]:
                found[flags, *targets] = document["rules"]
    assert {key: [rule["resources"] for rule in rules] for key, rules in found.items()} == {
        ((), "edit", "admin"): [["postgresaccesses"]],
        ((), "view"): [["postgresaccesses"]],
    }
    assert found[(), "view"][0]["verbs"] == ["get", "list", "watch"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_commands_in_the_manifests_exist_and_keep_to_the_namespace(program: str) -> None:
    output = run("manifests", program, "--namespace", "elsewhere").output
    (deployment,) = (d for d in yaml.safe_load_all(output) if d["kind"] == "Deployment")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    context = main.make_context("fairlead", list(arguments), resilient_parsing=False)
    group = main.get_command(context, arguments[0])
    assert isinstance(group, click.Group)
    parsed = group.commands["run"].make_context("run", list(arguments[2:]))
    assert parsed.params["namespace"] == "elsewhere"
    assert parsed.params["leader_elect"] is True
    leases = [
        name
        for rule in rules_of(list(yaml.safe_load_all(output)))
        if "leases" in rule["resources"]
        for name in rule.get("resourceNames", [])
    ]
    assert leases == [parsed.params["lease_name"]]


def test_private_files_stay_private_over_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("a longer text of before")
    path.chmod(0o644)
    write_private(path, "secret")
    assert path.read_text() == "secret"
    assert path.stat().st_mode & 0o777 == 0o600


def test_one_name_for_several_requests_is_wrong_usage(tmp_path: Path) -> None:
    spec = {"resources": [{"group": "example.org", "resource": "things"}]}
    version = {"apiVersion": "kube-bind.io/v1alpha2"}
    request = {**version, "kind": "APIServiceExportRequest", "spec": spec}
    requests = [{**request, "metadata": {"name": name}} for name in ("db", "queue")]
    invitation = tmp_path / "invitation.json"
    invitation.write_text(json.dumps({**version, "kind": "BindingResponse", "requests": requests}))
    result = run("bind", "-f", str(invitation), "--name", "mine")
    assert result.exit_code == 2
    assert "this one has several: db, queue" in result.output


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Impact(0, 0), "0 objects here and 0 copies on the provider"),
        (Impact(1, 1), "1 object here and 1 copy on the provider"),
        (Impact(100, 97), "100 objects here and 97 copies on the provider"),
        (None, "all its objects here and their copies on the provider"),
    ],
)
def test_what_unbinding_asks(found: Impact | None, expected: str) -> None:
    assert question("db", found) == f"Unbinding db deletes {expected}. Go on?"
