from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from fairlead.api.flags import Flag, declarations, read


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
