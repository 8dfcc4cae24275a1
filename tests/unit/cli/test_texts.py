from __future__ import annotations

import msgspec
import pytest

from fairlead.cli.errors import explain
from fairlead.cli.texts import plain, printable, say, to_json
from fairlead.konnector.commands.request import BindError


STEERING = "a\x1b]0;title\x07 b\x1b[2J c\x9b31m d\u202ee"
PLAIN = "a?]0;title? b?[2J c?31m d?e"


def test_nothing_that_steers_a_terminal_is_printed() -> None:
    assert printable(STEERING) == PLAIN
    assert plain(f"  {STEERING}\n\tf ") == f"{PLAIN} f"


def test_what_a_provider_says_steers_nothing_in_errors_and_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert explain(BindError(f"the provider refused: {STEERING}")) == (
        f"the provider refused: {PLAIN}"
    )
    say(f"the provider waits: {STEERING}")
    assert capsys.readouterr().err == f"the provider waits: {PLAIN}\n"


def test_json_says_the_same_in_characters_that_can_be_printed() -> None:
    document = {"text": f"{STEERING}\U000e0001\u00e4\n", "list": [1, None]}
    text = to_json(document)
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "\u00e4" in text
    assert msgspec.json.decode(text) == document
