"""The embedded issuer's people and passwords."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from fairlead.portal import bounds
from fairlead.portal.identity.embedded import passwords as tries
from fairlead.portal.identity.embedded.passwords import (
    EmbeddedPerson,
    PasswordError,
    PasswordHash,
    People,
    TooManyTriesError,
    read_people,
)


EMPTY = PasswordHash(1 << 14, 8, 1, b"s" * 16, b"\0" * 32)
LINE = msgspec.structs.replace(EMPTY, digest=EMPTY.digest_of("correct horse")).line
ADA = EmbeddedPerson("ada", LINE, groups=("team-a",))


def test_a_line_holds_for_its_password_alone_and_is_another_each_time() -> None:
    line = PasswordHash.of("pässword").line
    assert line != PasswordHash.of("pässword").line
    assert "pässword" not in line
    parsed = PasswordHash.parse(f" {line}\n")
    assert parsed.matches("pässword")
    for other in ("passwörd", "", "p" * 2000):
        assert not parsed.matches(other)


def test_an_empty_password_has_no_hash() -> None:
    with pytest.raises(PasswordError, match="may not be empty"):
        PasswordHash.of("")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "secret",
        "bcrypt" + LINE[6:],
        LINE + ":x",
        LINE.replace("16384", "16385"),
        LINE.replace("16384", "1024"),
        LINE.replace("16384", "1073741824"),
        LINE.replace(":8:1:", ":8:0:"),
        LINE.replace(":8:1:", ":1000:1:"),
        LINE[:-8],
        "scrypt:x:8:1:AAAA:AAAA",
        "scrypt:16384:8:1:!:!",
    ],
)
def test_hashes_that_are_none_are_refused_without_being_shown(line: str) -> None:
    with pytest.raises(PasswordError, match="hash-password") as refused:
        PasswordHash.parse(line)
    assert "secret" not in str(refused.value)


def test_people_are_read_from_yaml_and_json() -> None:
    text = f"people:\n- {{name: ada, password: '{LINE}', groups: [team-a]}}\n"
    assert read_people(text) == [ADA]
    assert read_people(f'{{"people": [{{"name": "ada", "password": "{LINE}"}}]}}')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "wrong"),
        ("people: []", "is empty"),
        ("people: {", "is not valid YAML"),
        ("- x", "wrong"),
        ("people: [{name: ada}]", "password"),
        ("people: [{name: ada, password: geheim}]", "'ada': a password's hash has to be"),
        (f"people: [{{name: ada, password: '{LINE}', admin: true}}]", "admin"),
        (f"people: [{{name: '', password: '{LINE}'}}]", "empty, or given to two"),
        (
            f"people: [{{name: a, password: '{LINE}'}}, {{name: a, password: x}}]",
            "given to two people",
        ),
        (
            f"people: [{{name: a, subject: b, password: {LINE}}}, {{name: b, password: {LINE}}}]",
            "subject 'b'",
        ),
        (f"people: [{{name: a, groups: team, password: '{LINE}'}}]", "groups"),
        ("people: &a [*a]", "aliases"),
    ],
)
def test_files_that_are_wrong_are_told_what_without_a_secret(text: str, said: str) -> None:
    with pytest.raises(PasswordError, match=said) as refused:
        read_people(text)
    assert "geheim" not in str(refused.value)
    assert LINE not in str(refused.value)


async def test_an_unknown_name_costs_as_much_as_a_wrong_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work: list[tuple[int, int, int]] = []
    original = PasswordHash.matches

    def matches(self: PasswordHash, password: str) -> bool:
        work.append((self.cost, self.block, self.parallel))
        return original(self, password)

    monkeypatch.setattr(PasswordHash, "matches", matches)
    people = People([ADA])
    assert await people.find("ada", "wrong") is None
    assert await people.find("nobody", "wrong") is None
    assert await people.find("nobody", "correct horse") is None
    assert await people.find("ada", "correct horse") == ADA
    assert len(set(work)) == 1
    assert len(work) == 4


async def test_passwords_are_not_guessed_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TRIES", 3)
    people = People([ADA])
    for name in ("ada", "nobody"):
        found = await asyncio.gather(
            *(people.find(name, f"guess {n}") for n in range(6)), return_exceptions=True
        )
        assert found[:3] == [None] * 3
        assert all(isinstance(one, TooManyTriesError) for one in found[3:])
        # The right one is not taken either: else it would be found out after all.
        with pytest.raises(TooManyTriesError) as limited:
            await people.find(name, "correct horse")
        assert 0 < limited.value.seconds <= 300
    now = time.monotonic()
    monkeypatch.setattr(tries, "_ticks", lambda: now + 301)
    assert await people.find("ada", "correct horse") == ADA


async def test_passwords_of_many_names_are_not_guessed_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "TRIES_OF_ALL", 4)
    people = People([ADA])
    for _ in range(6):
        assert await people.find("ada", "correct horse") == ADA
    for number in range(4):
        assert await people.find(f"name {number}", "x") is None
    with pytest.raises(TooManyTriesError):
        await people.find("ada", "correct horse")


async def test_passwords_that_wait_for_their_check_count_among_those_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "TRIES_OF_ALL", 4)
    people = People([ADA])
    answers = await asyncio.gather(
        *(people.find(f"name {n}", "x") for n in range(12)), return_exceptions=True
    )
    assert answers[:4] == [None] * 4
    assert all(isinstance(answer, TooManyTriesError) for answer in answers[4:])
