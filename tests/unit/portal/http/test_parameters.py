from __future__ import annotations

from urllib.parse import quote, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairlead.portal.http.errors import Refusal
from fairlead.portal.http.requests import parse_query
from fairlead.portal.options import Limits


LIMITS = Limits(parameter=100, parameters=5)
printable = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", {}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("&&a=1&", {"a": "1"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=b+c%20d%2Be", {"a": "b c d+e"}),
        ("a=%C3%A4", {"a": "ä"}),
        ("a;b=1", {"a;b": "1"}),
    ],
)
def test_what_is_read(query: str, found: dict[str, str]) -> None:
    assert parse_query(query, LIMITS) == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        pytest.param("a=1&a=1", "given twice", id="doubled"),
        pytest.param("a=1&%61=2", "given twice", id="doubled in another spelling"),
        pytest.param("a=" + "x" * 101, "too long", id="oversized"),
        pytest.param("&".join(f"a{n}" for n in range(6)), "more than 5", id="too many"),
        pytest.param("a=%ff", "UTF-8", id="no UTF-8"),
        pytest.param("a=%C0%AF", "UTF-8", id="an overlong slash"),
        pytest.param("a=%ED%A0%80", "UTF-8", id="half of a surrogate pair"),
        pytest.param("a=%", "UTF-8", id="half an escape"),
        pytest.param("a=%2", "UTF-8", id="two thirds of an escape"),
        pytest.param("a=%u0041", "UTF-8", id="JavaScript's escape"),
        pytest.param("a=ä", "UTF-8", id="not escaped"),
        pytest.param("a=%00", "printable", id="a zero byte"),
        pytest.param("a=b%0d%0aSet-Cookie:x", "printable", id="a line break"),
        pytest.param("a=%7f", "printable", id="a delete"),
        pytest.param("a=%C2%85", "printable", id="a control character of Latin 1"),
        pytest.param("a=1#b", "fragment", id="a fragment"),
    ],
)
def test_what_two_programs_could_read_in_two_ways_is_refused(query: str, said: str) -> None:
    with pytest.raises(Refusal, match=said) as refused:
        parse_query(query, LIMITS)
    assert refused.value.status == 400


@given(st.dictionaries(printable, printable, max_size=5))
def test_whatever_is_encoded_comes_back(values: dict[str, str]) -> None:
    wanted = {name: value for name, value in values.items() if name or value}
    assert parse_query(urlencode(wanted), LIMITS) == wanted
    assert parse_query("&".join(f"{quote(k)}={quote(v)}" for k, v in wanted.items()), LIMITS) == (
        wanted
    )


@given(st.text(max_size=200))
@example("a=%d8%00")
def test_any_query_is_read_or_refused(query: str) -> None:
    status, found = 200, {}
    try:
        found = parse_query(query, LIMITS)
    except Refusal as refusal:
        status = refusal.status
    assert status in {200, 400}
    assert all(len(value) <= LIMITS.parameter for value in found.values())
