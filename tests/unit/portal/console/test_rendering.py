"""Filters of templates."""

from __future__ import annotations

import pytest

from fairlead.portal.console.pages.rendering import code


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
