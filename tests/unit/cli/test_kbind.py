"""The flags of ``fairlead bind`` by kbind v2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner
from tests.unit.cli.test_odd_input import KUBECONFIG

from fairlead.cli import main
from fairlead.cli.kubebind.kbind import FLAGS, KbindFlags, parse_related


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("secrets/FromProvider", {"resource": "secrets", "direction": "FromProvider"}),
        (
            "configmaps/FromConsumer:a,b.c",
            {
                "resource": "configmaps",
                "direction": "FromConsumer",
                "selector": {"names": ["a", "b.c"]},
            },
        ),
        (
            "secrets/FromProvider:app=web,tier=",
            {
                "resource": "secrets",
                "direction": "FromProvider",
                "selector": {"labelSelector": {"matchLabels": {"app": "web", "tier": ""}}},
            },
        ),
        (
            "secrets/FromProvider:a,app=web",
            {
                "resource": "secrets",
                "direction": "FromProvider",
                "selector": {
                    "labelSelector": {"matchLabels": {"app": "web"}},
                    "names": ["a"],
                },
            },
        ),
    ],
)
def test_a_rule_about_related_objects_is_a_word(text: str, rule: Any) -> None:
    assert msgspec.to_builtins(parse_related(text)) == rule


@pytest.mark.parametrize("term", ["=x", "a b=x", "app=a b", "A"])
def test_a_selector_that_no_server_takes_is_refused(term: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_related(f"secrets/FromProvider:{term}")


def test_each_flag_has_its_name() -> None:
    assert list(FLAGS) == list(KbindFlags.__struct_fields__)


KUBECONFIG_FLAG = ("--provider-kubeconfig", "{kubeconfig}")
API = ("--api", "widgets.acme.io")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (API, "--connection, or give --provider-kubeconfig"),
        (("--connection", "a"), "by --api PLURAL.GROUP, or bind all by --all"),
        (("--connection", "a", *API, "--all"), "--all is about a Connection that"),
        ((*KUBECONFIG_FLAG, "--all"), "name the Connection by --connection"),
        ((*KUBECONFIG_FLAG, "--connection", "a", "--all", *API), "--all and --api exclude"),
        ((*KUBECONFIG_FLAG, "--connection", "a", "--all", "-n", "x"), "-n is about a binding"),
        (
            (*KUBECONFIG_FLAG, "--connection", "a", "--all", "--name", "b"),
            "--name: the binding of --all",
        ),
        (("--connection", "a", *API, "--pull-policy", "All"), "--pull-policy is about a Conn"),
        (("--connection", "a", *API, "--template", "b"), "--connection and --template exclude"),
        (("--connection", "a", *API, "--bundle"), "--connection and --bundle exclude"),
        (("https://a.example.org", *API), "--api and URL exclude"),
        (("-f", "{file}", "--bundle"), "--bundle has no meaning for a file of kbind v2"),
        (("-f", "{file}", "--name", "b"), "--name has no meaning for a file of kbind v2"),
        (("-f", "{file}", *API), "--api and -f exclude"),
        (("--with-kubeconfig",), "--with-kubeconfig needs --provider-kubeconfig or -f"),
        ((*KUBECONFIG_FLAG, *API, "--with-kubeconfig"), "--with-kubeconfig needs --dry-run"),
    ],
)
def test_flags_that_do_not_go_together_are_named(
    words: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = run(tmp_path, *words)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert message in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "--provider-kubeconfig: it is empty"),
        (KUBECONFIG.replace("token: x", "exec: {command: aws}"), "--provider-kubeconfig: "),
        (KUBECONFIG.replace("token: x", "tokenFile: /x"), "--provider-kubeconfig: "),
        ("{}", "--provider-kubeconfig: "),
    ],
    ids=["empty", "a program", "a file", "no kubeconfig"],
)
def test_a_kubeconfig_that_no_konnector_uses_is_refused(
    content: str, message: str, tmp_path: Path
) -> None:
    result = run(tmp_path, *KUBECONFIG_FLAG, *API, content=content)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.parametrize("whole", [True, False])
def test_a_plan_is_one_file_with_the_roles(whole: bool, tmp_path: Path) -> None:
    words = ["--dry-run=client", "-o", "yaml", *(["--with-kubeconfig"] if whole else [])]
    result = run(tmp_path, *KUBECONFIG_FLAG, *API, "-n", "shop", "--name", "b", *words)
    assert result.exit_code == 0, result.output
    bodies = list(yaml.safe_load_all(result.stdout))
    titles = [
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
        for body in bodies
    ]
    assert titles == [
        ("Connection", "", "acme.io"),
        ("Role", "shop", "kbind-konnector:shop:b"),
        ("RoleBinding", "shop", "kbind-konnector:shop:b"),
        ("ClusterRole", "", "kbind-konnector:shop:b"),
        ("ClusterRole", "", "kbind-edit:shop:b"),
        ("ClusterRole", "", "kbind-view:shop:b"),
        ("Binding", "shop", "b"),
        ("Secret", "kube-bind", "acme.io-kubeconfig"),
    ]
    assert ("data" in bodies[-1]) == whole


def test_a_plan_can_be_bound_from_its_file(tmp_path: Path) -> None:
    words = ["--dry-run=client", "-o", "yaml", "--with-kubeconfig"]
    plan = run(tmp_path, *KUBECONFIG_FLAG, *API, *words).stdout
    (tmp_path / "plan.yaml").write_text(plan)
    again = run(tmp_path, "-f", str(tmp_path / "plan.yaml"), *words)
    assert (again.exit_code, again.stdout) == (0, plan), again.output


def test_a_role_of_a_strangers_is_not_written(tmp_path: Path) -> None:
    words = ["--dry-run=client", "-o", "yaml", "--with-kubeconfig"]
    plan = run(tmp_path, *KUBECONFIG_FLAG, *API, *words).stdout
    (tmp_path / "plan.yaml").write_text(plan.replace("- patch", "- escalate", 1))
    again = run(tmp_path, "-f", str(tmp_path / "plan.yaml"), *words)
    assert (again.exit_code, again.stdout) == (1, "")
    assert "ClusterRole kbind-konnector-acme.io in the file is not a role that" in again.stderr


FILE = """
apiVersion: core.kbind.io/v1alpha1
kind: ClusterBinding
metadata: {name: a}
spec: {connectionRef: {name: a}, apis: [{name: widgets.acme.io}]}
"""


def run(folder: Path, *words: str, content: str = KUBECONFIG) -> Any:
    (folder / "provider").write_text(content)
    (folder / "consumer").write_text(KUBECONFIG)
    (folder / "file").write_text(FILE)
    places = {"kubeconfig": str(folder / "provider"), "file": str(folder / "file")}
    filled = [word.format(**places) for word in words]
    environ = {"KUBECONFIG": str(folder / "consumer")}
    return CliRunner(env=environ).invoke(main, ["bind", *filled])
