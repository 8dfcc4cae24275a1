from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from fairlead.api.flags import Flag, declarations, parse_seconds, read


class Inner(msgspec.Struct):
    """Options in options.

    Attributes:
        size: Size of it, which goes on
            in the next line.
    """

    size: Annotated[int, Flag("--inner-size", parse=abs)] = 3


class Outer(msgspec.Struct):
    """Options.

    Attributes:
        keys: First key.
        second_key: Second key.
    """

    keys: Annotated[tuple[str, ...], Flag("--first-key"), Flag("--second-key")]
    inner: Inner | None = None
    port: int = 8080


def test_each_flag_is_declared_by_a_field_and_a_text() -> None:
    assert [(flag.name, flag.help, flag.default) for flag in declarations(Outer)] == [
        ("first_key", "First key.", None),
        ("second_key", "Second key.", None),
        ("inner_size", "Size of it, which goes on in the next line.", 3),
    ]
    values = {"first_key": ("a",), "second_key": ("b",), "inner_size": -4, "port": 1}
    assert read(Outer, values) == Outer(("a",), Inner(4), 1)


def test_a_flag_without_a_text_is_refused() -> None:
    def manifests(named: Annotated[str, Flag()], forgotten: Annotated[str, Flag()]) -> None:
        """Return them.

        Args:
            named: its text.
        """

    with pytest.raises(KeyError, match="forgotten"):
        list(declarations(manifests))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param("90s", 90.0, id="seconds"),
        pytest.param("2m", 120.0, id="minutes"),
        pytest.param("1h", 3600.0, id="hours"),
        pytest.param("250ms", 0.25, id="milliseconds"),
        pytest.param("1.5", 1.5, id="bare"),
        pytest.param("1h30m", 5400.0, id="compound"),
    ],
)
def test_a_duration_is_read_as_its_seconds(text: str, seconds: float) -> None:
    assert parse_seconds("--timeout", text) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "nan", "inf", "2d", "1e400", "²"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"--timeout: .* is not a duration"):
        parse_seconds("--timeout", text)


@pytest.mark.parametrize("text", ["0", "0s", "0m0s"])
def test_no_time_is_too_short_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match=f"--timeout: {text} is too short: give more than 0"):
        parse_seconds("--timeout", text)
