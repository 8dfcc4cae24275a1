from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from fairlead.cli.errors import explain, explained
from fairlead.client.errors import refusal
from fairlead.demo.steps import StoryError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        pytest.param(StoryError("the role is\n missing"), "the role is missing", id="ours"),
        pytest.param(
            ExceptionGroup("x", [StoryError("first"), StoryError("second")]), "first", id="group"
        ),
        pytest.param(
            FileNotFoundError(2, "No such file or directory", "/no/file"),
            "/no/file: No such file or directory",
            id="file",
        ),
        pytest.param(
            ModuleNotFoundError("No module named 'cryptography'", name="cryptography.x509"),
            "cryptography is not installed: in Fairlead's repository, uv tool install --force "
            "'.[demo]' (or pipx install) brings what this command needs",
            id="extra",
        ),
        pytest.param(
            ModuleNotFoundError("No module named 'jinja2'", name="jinja2"),
            "jinja2 is not installed: in Fairlead's repository, uv tool install --force "
            "'.[serve]' (or pipx install) brings what this command needs",
            id="extra of pages",
        ),
        pytest.param(
            ModuleNotFoundError("No module named 'wheel'", name="wheel"),
            "unexpected ModuleNotFoundError: No module named 'wheel' (--debug shows where)",
            id="module",
        ),
        pytest.param(
            ValueError("odd"), "unexpected ValueError: odd (--debug shows where)", id="unexpected"
        ),
        pytest.param(
            ValueError(), "unexpected ValueError: no message (--debug shows where)", id="silent"
        ),
    ],
)
def test_every_error_is_one_line(error: Exception, line: str) -> None:
    assert explain(error) == line


def _prompt(error: BaseException) -> click.Abort:
    abort = click.Abort()
    abort.__context__ = error
    return abort


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(KeyboardInterrupt(), 130, id="ctrl-c"),
        pytest.param(_prompt(KeyboardInterrupt()), 130, id="ctrl-c-at-a-prompt"),
        pytest.param(_prompt(EOFError()), 1, id="no-answer"),
    ],
)
def test_who_ends_a_command_finds_the_exit_code_of_shells(error: BaseException, code: int) -> None:
    @click.command
    def command() -> None:
        with explained():
            raise error

    result = CliRunner().invoke(command)
    assert (result.exit_code, result.stderr) == (code, "Aborted!\n")


@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        pytest.param("Unauthorized", "renew its token", id="unauthorized"),
        pytest.param("Forbidden", "ask an administrator to grant it", id="forbidden"),
    ],
)
def test_what_the_server_refuses_has_a_remedy(reason: str, remedy: str) -> None:
    error = refusal(reason, "no")
    assert explain(error).startswith("no")
    assert remedy in explain(error)


def test_errors_become_click_errors_with_exit_code_1() -> None:
    with pytest.raises(click.ClickException, match="the reason") as caught, explained():
        raise StoryError("the reason")
    assert caught.value.exit_code == 1


def test_usage_errors_stay_what_they_are() -> None:
    with pytest.raises(click.UsageError) as caught, explained():
        raise click.UsageError("wrong")
    assert caught.value.exit_code == 2


def test_debug_lets_errors_through() -> None:
    with pytest.raises(StoryError), explained(debug=True):
        raise StoryError("the reason")


def test_nothing_is_said_when_nobody_reads_on() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "fairlead", "crds"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")
