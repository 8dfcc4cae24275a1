"""Odd input of all commands: each is refused by its flag, with exit code 2, and writes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from _pytest.mark import ParameterSet
from click.testing import CliRunner
from tests.support.waiting import SECONDS

from fairlead.cli import main
from fairlead.cli.frontdoor.kubectl_bind import main as kubectl_bind
from fairlead.cli.kubebind.kbind import RELATED, TARGET
from fairlead.cli.options import (
    API_NAME,
    BINDING_NAME,
    DURATION,
    IMAGE,
    NAMESPACE,
    NAMESPACED_NAME,
    OBJECT_NAME,
)


CHECKED = {
    BINDING_NAME: ("Foo Bar", "binding/", "widget/shop/a", "binding/shop/a/b"),
    NAMESPACE: ("Foo Bar", "a.b", "a" * 64),
    OBJECT_NAME: ("Foo Bar", "a/b", "-a"),
    NAMESPACED_NAME: ("app", "Foo/app", "a.b/app", "shop/", "/app"),
    API_NAME: (
        "widgets",
        "widgets.",
        ".example.org",
        "Widgets.example.org",
        "a/b.example.org",
        "",
    ),
    DURATION: ("0s", "-1m", "soon"),
    IMAGE: ("", "foo bar"),
    TARGET: ("", "Foo Bar", "-a", "binding/a", "connection/a/b", "pod/a", "clusterbinding/A"),
    RELATED: ("", "secrets", "pods/FromProvider", "secrets/Up", "secrets/FromProvider:A B"),
}
NAMES_OF_NO_OBJECT = {
    # Text for people, and names of hosts.
    "--pretty-name",
    "--webhooks-host",
    # Looked up in a kubeconfig, among consumers, roles or clusters of a front door, and missed
    # there by a message of its own.
    "--context",
    "name",
    "names",
    "--cluster",
    "--role",
    # Written by nobody: flags of the original without effect.
    "--provider-kubeconfig-secret-name",
    # Parsed as a whole; tests of their own refuse what is wrong.
    "target",
    "workload",
    "--container",
}
"""Parameters whose values name something, and which no type of this module's checks."""


def leaves(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from leaves(child, (*path, name))


KUBECONFIG = """
current-context: a
contexts: [{name: a, context: {cluster: a, user: a}}]
clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: a, user: {token: x}}]
"""
"""A kubeconfig of a server that does not listen."""
PROGRAMS = {"fairlead": main, "kubectl-bind": kubectl_bind}
PARAMETERS = [
    (program, path, parameter)
    for program, group in PROGRAMS.items()
    for path, command in leaves(group, ())
    for parameter in command.params
]


def odd_values() -> Iterator[ParameterSet]:
    for program, path, parameter in PARAMETERS:
        flag = parameter.opts[-1] if isinstance(parameter, click.Option) else ""
        for value in CHECKED.get(parameter.type, ()):
            where = " ".join((program, *path, flag or f"{parameter.name}"))
            yield pytest.param(program, path, flag, value, id=f"{where} {value[:10]!r}")


@pytest.mark.parametrize(("program", "path", "flag", "value"), list(odd_values()))
def test_an_odd_value_is_refused_by_its_flag_before_anything_is_done(
    program: str, path: tuple[str, ...], flag: str, value: str
) -> None:
    words = [f"{flag}={value}"] if flag else ["--", value]
    if path[-1:] == ("manifests",):
        words = ["konnector", *words]
    result = CliRunner().invoke(PROGRAMS[program], [*path, *words])
    # Code 2 of `postgres plan` says that statements would run.
    assert result.exit_code == (1 if path == ("postgres", "plan") else 2), result.output
    assert (flag or "Invalid value") in result.stderr
    assert repr(value) in result.stderr or f"{value} is too short" in result.stderr
    assert result.stdout == ""


def test_each_parameter_that_names_an_object_is_checked() -> None:
    unchecked = {
        parameter.opts[-1] if isinstance(parameter, click.Option) else str(parameter.name)
        for _, _, parameter in PARAMETERS
        if parameter.type is click.STRING
        and (
            parameter.metavar in {"NAME", "NAMESPACE", "BINDING", "KIND/NAME", "NAMESPACE/NAME"}
            or "name" in str(parameter.name)
        )
    }
    others = {one for one in unchecked if "server-name" in one or "claim" in one or "redis" in one}
    prefixes = {one for one in unchecked if "prefix" in one or "requesters" in one}
    assert unchecked - others - prefixes - NAMES_OF_NO_OBJECT == set()


def test_an_empty_name_is_refused_where_the_default_is_none() -> None:
    result = CliRunner().invoke(main, ["konnector", "run", "--namespace", ""])
    assert result.exit_code == 2
    assert "--namespace" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("binding", "render"),
        ("binding", "compose"),
        ("postgres", "plan"),
        ("bind",),
        ("deploy",),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("content", ["", "\n \n"], ids=["empty", "blank"])
def test_an_empty_file_is_named(words: tuple[str, ...], content: str, tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(content)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    result = CliRunner(env={"KUBECONFIG": str(kubeconfig)}).invoke(main, [*words, "-f", str(file)])
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"{file}: it is empty" in result.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_standard_stream_ends_no_command(closed: str, tmp_path: Path) -> None:
    # A socket that got the number of a standard stream would end the process (libuv).
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    program = f"{sys.executable} -m fairlead cluster-identity --kubeconfig {kubeconfig}"
    ended = subprocess.run(
        ["sh", "-c", f"{program} {closed}"],
        check=False,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 1
    assert b"Traceback" not in ended.stderr
