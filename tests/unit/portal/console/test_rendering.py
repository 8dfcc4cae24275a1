"""Filters of templates."""

from __future__ import annotations

import pytest

from fairlead.portal.console.pages.rendering import code, dotted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("run `kubectl get pods` there", "run <code>kubectl get pods</code> there"),
        ("`<b>` and <i>", "<code>&lt;b&gt;</code> and &lt;i&gt;"),
        # What never ends is no command.
        ("it`s <b>", "it`s &lt;b&gt;"),
        ("", ""),
    ],
)
def test_what_stands_between_backticks_is_code(text: str, expected: str) -> None:
    assert code(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("buckets.example.org", "buckets.|example.|org", id="a-kind"),
        pytest.param("DatabaseSyncFailed: it is.", "Database|Sync|Failed: it is.", id="a-reason"),
        pytest.param("Secret shop/orders-login", "Secret shop/|orders-login", id="an-object"),
        pytest.param("v1.2.3 <b>", "v1.2.3 &lt;b&gt;", id="a-version"),
    ],
)
def test_lines_end_inside_names_where_a_part_ends(text: str, expected: str) -> None:
    assert dotted(text) == expected.replace("|", "<wbr>")
