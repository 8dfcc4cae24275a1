"""Whose a consumer may become."""

from __future__ import annotations

import pytest

from fairlead.provider.commands.handover import check_author


@pytest.mark.parametrize(
    ("text", "good"),
    [
        pytest.param("https://login.example.org/ada", True, id="person"),
        pytest.param("http://127.0.0.1:8080/oidc/ada", True, id="person-of-a-laptop"),
        pytest.param("group:oidc:team-a", True, id="group"),
        pytest.param("https://login.example.org", False, id="issuer-alone"),
        pytest.param("https://login.example.org/", False, id="issuer-with-slash"),
        pytest.param("group:", False, id="group-without-name"),
        pytest.param("ada", False, id="bare"),
        pytest.param("", False, id="empty"),
        pytest.param("group:a\n", False, id="line-break"),
    ],
)
def test_authors(text: str, good: bool) -> None:
    if good:
        assert check_author(text) == text
        return
    with pytest.raises(ValueError, match="ISSUER/SUB"):
        check_author(text)
