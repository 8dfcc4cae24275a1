"""How `fairlead provider sign-out` is said."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from fairlead.cli import main


ADA = "https://login.example.org/ada"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say who is signed out: --author ISSUER/SUB, or --all"),
        (["--all", "--author", ADA], "say who is signed out"),
        (["--author", "ada"], "'ada' is neither a person nor a group"),
        (["--author", "group:oidc:team-a"], "groups have no sessions"),
        (["--all", "--namespace", "No Name"], "--namespace: 'No Name' is no name"),
        (["--all", "--redis-addr", "redis"], "--redis-addr 'redis' is no address: say host:port"),
        (["--all", "--redis-tls"], "need --redis-addr"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["provider", "sign-out", *arguments])
    assert (result.exit_code, message in result.stderr) == (2, True), result.output
