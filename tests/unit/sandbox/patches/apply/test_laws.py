"""What holds for any object: sets of fields, what differs, what is laid over what."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.meta import JSON
from fairlead_sandbox.patches.apply import managers, paths
from fairlead_sandbox.patches.apply.managers import FieldManager
from fairlead_sandbox.patches.apply.shapes import DEDUCED
from fairlead_sandbox.patches.apply.walk import changes, fields, merge, remove


NAMES = st.sampled_from("abc")
LEAVES = st.one_of(st.integers(0, 2), st.booleans(), st.text("xy", max_size=1), st.just([1]))
VALUES: Any = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=6
)
OBJECTS: Any = st.dictionaries(NAMES, VALUES, max_size=3)
ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"'])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=8)
ME = FieldManager("me", "Apply", "v1")


@given(PATHS)
def test_a_set_comes_back_from_its_form(chosen: paths.Paths) -> None:
    assert paths.decode(paths.encode(chosen)) == chosen


@given(OBJECTS)
def test_nothing_differs_from_itself(value: JSON) -> None:
    assert not any(changes(DEDUCED, value, merge(DEDUCED, value, value)))


@given(OBJECTS, OBJECTS)
def test_what_differs_one_way_differs_the_other_way(old: JSON, new: JSON) -> None:
    there, back = changes(DEDUCED, old, new), changes(DEDUCED, new, old)
    assert (there.added, there.modified, there.removed) == (
        back.removed,
        back.modified,
        back.added,
    )


@given(OBJECTS, OBJECTS)
def test_laying_over_twice_is_once_and_has_all_asked_for(live: JSON, config: JSON) -> None:
    once = merge(DEDUCED, live, config)
    assert merge(DEDUCED, once, config) == once
    assert fields(DEDUCED, config) <= fields(DEDUCED, once)


@given(OBJECTS)
def test_taking_all_away_leaves_nothing(value: JSON) -> None:
    assert remove(DEDUCED, value, fields(DEDUCED, value)) == {}


@given(OBJECTS, OBJECTS, OBJECTS)
def test_a_second_configuration_leaves_what_it_alone_would_leave(
    live: JSON, first: JSON, second: JSON
) -> None:
    once, owners = managers.applied(DEDUCED, live, first, {}, ME, "t", force=True)
    both, _ = managers.applied(DEDUCED, once, second, owners, ME, "t", force=True)
    left = changes(DEDUCED, both, merge(DEDUCED, both, second))
    assert not any(left)
    own = fields(DEDUCED, first) - fields(DEDUCED, second)
    within = {path[:length] for path in fields(DEDUCED, second) for length in range(len(path))}
    assert not (own - within) & fields(DEDUCED, both)
