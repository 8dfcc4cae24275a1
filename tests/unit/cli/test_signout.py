"""How `fairlead provider sign-out` is said."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fairlead.cli import main


ADA = "https://login.example.org/ada"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the person by --author ISSUER/SUB, or give --all"),
        (["--all", "--author", ADA], "name the person by --author"),
        (["--author", "ada"], "'ada' names neither a person nor a group"),
        (["--author", "group:oidc:team-a"], "groups have no sessions"),
        (
            ["--all", "--redis-addr", "redis"],
            "--redis-addr 'redis' is not an address: use host:port",
        ),
        (["--all", "--redis-tls"], "need --redis-addr"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["provider", "sign-out", *arguments])
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
