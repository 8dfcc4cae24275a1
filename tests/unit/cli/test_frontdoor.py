"""The commands of the front door without a server: usage, words, browsers, tables."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from fairlead.cli import main, shells
from fairlead.cli.errors import explain
from fairlead.cli.frontdoor import kubectl_bind
from fairlead.cli.frontdoor.browser import opener
from fairlead.cli.frontdoor.sources import in_namespace


PLUGIN = kubectl_bind.main
URL = "https://a.example"


def run(command: click.Command, home: Path, *arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(command, arguments, input=stdin, env={"HOME": str(home)})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["login"], "no server is known"),
        (["login", "a.example"], "has to be an address such as"),
        (["login", "https://user:hidden@a.example"], "may have no user"),
        (["login", URL, "--server", "https://b.example"], "URL and --server name two servers"),
        (["templates", "--server", f"one@{URL}", "--cluster", "two"], "names cluster 'one'"),
        (["templates", "-o", "wide"], "'wide' is not one of"),
        (["bind", URL, "--template", "x"], "name what to bind by one of these"),
        (["bind", URL, "--dry-run", "client"], "does not work with a provider's page"),
        (["bind", "-f", "-", "--bundle", "--dry-run", "server"], "what a bundle would bind"),
        (["bind", "-f", "-", "--remote-kubeconfig", "-"], "need --request"),
        (["bind", "--request", "-"], "--request needs -f, or --remote-kubeconfig"),
        (["bind", "--request", "-", "--remote-kubeconfig-name", "a"], "--request needs -f"),
        (["bind", "--request", "-", "--remote-kubeconfig", "-"], "cannot both be read"),
        (["deploy"], "the BindingResponse is missing"),
        (["deploy", "-f", "-", "--secret", "a/b"], "the BindingResponse is missing"),
        (["deploy", "--secret", "answer"], "'answer' is not NAMESPACE/NAME"),
        (["deploy", "--secret", "a/b/c"], "is not NAMESPACE/NAME"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    result = run(main, tmp_path, *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
    assert "hidden" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no server is known"),
        (["login"], "no server is known"),
        (["nonsense"], "No such command 'nonsense'"),
        (["apiservice"], "name what to bind: --template-name NAME"),
        (["apiservice", "a", "--template-name", "t", "--name", "b"], "two names, a and b"),
        (["apiservice", "-f", "-"], "--request needs -f, or --remote-kubeconfig"),
        (["--dry-run", URL], "does not work with a provider's page"),
        (["-d", URL], "does not work with a provider's page"),
        (["deploy"], "the BindingResponse is missing"),
        (["templates", "--nonsense"], "No such option"),
    ],
)
def test_the_plugin_has_honest_exit_codes(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    result = run(PLUGIN, tmp_path, *arguments)
    assert (result.exit_code, message in result.stderr) == (2, True), result.output


@pytest.mark.parametrize("name", ["templates", "collections", "whoami"])
def test_who_is_not_signed_in_is_told_how(name: str, tmp_path: Path) -> None:
    result = run(main, tmp_path, name, "--server", f"one@{URL}")
    told = f"Error: you are not signed in to {URL}: fairlead login {URL} --cluster one\n"
    assert (result.exit_code, result.stderr) == (1, told)


@pytest.mark.parametrize(
    ("words", "arranged"),
    [
        ([], ["url"]),
        ([URL], ["url", URL]),
        (["--skip-browser", URL], ["url", "--skip-browser", URL]),
        (["--context", "login", URL], ["url", "--context", "login", URL]),
        (["--context=x", "login", URL], ["login", "--context=x", URL]),
        (["--kubeconfig", "f", "-v", "6", "deploy"], ["deploy", "--kubeconfig", "f", "-v", "6"]),
        (["apiservice", "-d"], ["apiservice", "--dry-run=client"]),
        (["apiservice", "--dry-run=false"], ["apiservice", "--dry-run=none"]),
        (["apiservice", "--dry-run=server"], ["apiservice", "--dry-run=server"]),
        (["nonsense", "x"], ["nonsense", "x"]),
    ],
)
def test_flags_of_the_plugin_may_stand_before_its_command(
    words: list[str], arranged: list[str]
) -> None:
    assert isinstance(PLUGIN, kubectl_bind._Plugin)
    assert PLUGIN.arranged(words) == arranged


@pytest.mark.parametrize("name", sorted(PLUGIN.commands))
def test_every_command_of_the_plugin_has_help_with_an_example(name: str, tmp_path: Path) -> None:
    result = run(PLUGIN, tmp_path, name, "--help")
    assert result.exit_code == 0
    assert "    kubectl bind" in result.output


def test_kubectl_completes_the_plugin(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-bind", "deploy", "--sec"])
    shells.kubectl_complete_bind()
    assert "--secret-key" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["kubectl_complete-bind", ""])
    shells.kubectl_complete_bind()
    lines = capsys.readouterr().out.splitlines()
    names = [line.partition("\t")[0] for line in lines]
    assert {"apiservice", "login", "templates", "deploy"} <= set(names)
    assert "url" not in names
    assert lines[-1] == ":4"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_the_plugin(shell: str, tmp_path: Path) -> None:
    result = run(main, tmp_path, "completion", shell)
    assert "kubectl-bind" in result.output
    assert "_KUBECTL_BIND_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({}, "linux", []),
        ({"DISPLAY": ":0"}, "linux", ["xdg-open"]),
        ({"WAYLAND_DISPLAY": "w"}, "linux", ["xdg-open"]),
        ({}, "darwin", ["open"]),
        ({"BROWSER": "firefox -P 'my own':w3m"}, "linux", ["firefox", "-P", "my own"]),
        ({"BROWSER": "'"}, "linux", []),
    ],
)
def test_which_browser_opens(environ: dict[str, str], platform: str, expected: list[str]) -> None:
    assert opener(environ, platform) == expected


def test_another_namespace_in_a_kubeconfig() -> None:
    text = b"current-context: a\ncontexts: [{name: a, context: {cluster: c}}, {name: b}]\n"
    assert b"namespace: mine" in in_namespace(text, "mine")
    for broken in (b"", b"][", b"contexts: 3", b"a: &x 1\nb: *x"):
        assert in_namespace(broken, "mine") == broken


def test_errors_of_the_front_door_are_one_line_of_their_own() -> None:
    from fairlead.portal.client.addresses import Unreachable

    assert explain(Unreachable("a.example\nis away")) == "a.example is away"
