"""In which order, and in how many pieces, what a role owns is dropped."""

from __future__ import annotations

import pytest

from fairlead.postgres.database.plans.pieces import (
    CatalogObject,
    Dependence,
    OwnedObject,
    RoleEstate,
    cut,
    plan_pieces,
)


def thing(number: int) -> CatalogObject:
    return CatalogObject(1, number)


def estate(kinds: str, *dependences: tuple[int, int], held: tuple[int, ...] = ()) -> RoleEstate:
    """Objects numbered from 0 with two locks each; the first of a pair needs the other."""
    words = {"t": "TABLE", "v": "VIEW", "f": "ROUTINE", "?": ""}
    return RoleEstate(
        objects=tuple(OwnedObject(thing(n), words[kind], 2) for n, kind in enumerate(kinds)),
        dependences=tuple(
            Dependence(thing(later), thing(on), CatalogObject(9, 10 * later + on))
            for later, on in dependences
        ),
        held_objects=frozenset(map(thing, held)),
    )


def listed(group: tuple[str, tuple[CatalogObject, ...]]) -> str:
    kind, things = group
    return f"{kind.lower()}:{','.join(str(one.oid) for one in things)}"


def shown(pieces: tuple[tuple[tuple[str, tuple[CatalogObject, ...]], ...], ...]) -> list[str]:
    return [" ".join(map(listed, piece)) for piece in pieces]


@pytest.mark.parametrize(
    ("given", "pieces", "carriers"),
    [
        pytest.param(estate(""), [], [], id="nothing"),
        pytest.param(estate("ttttt"), ["table:0,1", "table:2,3", "table:4"], [], id="by-size"),
        pytest.param(
            estate("tvv", (1, 0), (2, 1)), ["view:2,1", "table:0"], [], id="dependents-first"
        ),
        pytest.param(
            estate("tvf", (1, 0), (1, 2)), ["view:1 table:0", "routine:2"], [], id="two-kinds"
        ),
        pytest.param(estate("tt", (0, 1), (1, 0)), ["table:1,0"], [], id="circle-of-one-kind"),
        pytest.param(
            estate("ttt", (0, 1), (1, 2), (2, 0)), [], [1, 12, 20], id="circle-that-is-too-large"
        ),
        pytest.param(estate("tf", (0, 1), (1, 0)), [], [1, 10], id="circle-of-two-kinds"),
        pytest.param(estate("ttt", (1, 0), held=(1,)), ["table:2"], [], id="below-what-is-older"),
        pytest.param(estate("t?t", (1, 0)), ["table:2"], [], id="below-another-kind"),
    ],
)
def test_pieces(given: RoleEstate, pieces: list[str], carriers: list[int]) -> None:
    plan = plan_pieces(given, bound=4)
    assert (shown(plan.pieces), [one.oid for one in plan.carriers]) == (pieces, carriers)


def test_a_long_chain_is_no_recursion() -> None:
    chain = estate("v" * 3000, *((number, number + 1) for number in range(2999)))
    order = [
        one.oid for piece in plan_pieces(chain, 100).pieces for _, some in piece for one in some
    ]
    assert order == list(range(3000))


def test_an_object_above_the_bound_is_a_piece_by_itself() -> None:
    objects = [OwnedObject(thing(0), "TABLE", 99), OwnedObject(thing(1), "TABLE", 1)]
    assert shown(cut(objects, 4)) == ["table:0", "table:1"]
