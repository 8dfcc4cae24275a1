"""Sealing, and keys that an administrator gives."""

from __future__ import annotations

import base64
import time

import msgspec
import pytest

from fairlead.portal.identity.keys import Sealing, flag_keys, local_keys
from fairlead.portal.options import parse_cookie_keys


class Value(msgspec.Struct):
    text: str


def key(size: int, byte: str = "a") -> str:
    return base64.b64encode(byte.encode() * size).decode()


def flags(signing: list[str], encryption: list[str]) -> Sealing:
    return Sealing(flag_keys(parse_cookie_keys(tuple(signing), tuple(encryption))))


@pytest.mark.parametrize(
    ("signing", "encryption", "said"),
    [
        ([key(32)], [key(32)], ""),
        ([key(64)], [key(16)], ""),
        ([key(64)], [], ""),
        ([key(32, "b"), key(32)], [key(24), key(24)], ""),
        ([], [key(32)], "--cookie-signing-key for each"),
        ([key(31)], [key(32)], "--cookie-signing-key has 31 bytes"),
        # The original looks at the signing key in the encryption key's place.
        ([key(32)], [key(64)], "--cookie-encryption-key has 64 bytes"),
        ([key(32)], ["sesame!"], "--cookie-encryption-key is not base64"),
    ],
)
def test_s19_both_keys_of_flags_are_checked_and_used(
    signing: list[str], encryption: list[str], said: str
) -> None:
    if not said:
        sealing = flags(signing, encryption)
        sealed = sealing.seal("test", Value("x"))
        assert sealing.open("test", sealed, Value, seconds=60) == Value("x")
        return
    with pytest.raises(ValueError, match=said):
        flags(signing, encryption)


def test_s19_each_of_the_two_keys_counts() -> None:
    sealed = flags([key(32)], [key(32)]).seal("test", Value("x"))
    for other in (flags([key(32, "b")], [key(32)]), flags([key(32)], [key(32, "b")])):
        assert other.open("test", sealed, Value, seconds=60) is None


def test_keys_of_flags_rotate_and_the_former_ones_open_still() -> None:
    old = flags([key(32)], [key(32)])
    new = flags([key(32, "b"), key(32)], [key(32, "b"), key(32)])
    assert new.open("test", old.seal("test", Value("x")), Value, seconds=60) == Value("x")
    assert old.open("test", new.seal("test", Value("x")), Value, seconds=60) is None


def test_what_was_sealed_opens_for_its_purpose_time_and_keys_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sealing = Sealing(local_keys())
    sealed = sealing.seal("test", Value("geheim"))
    assert "geheim" not in sealed
    assert b"geheim" not in base64.urlsafe_b64decode(sealed + "==")
    assert sealing.open("other", sealed, Value, seconds=60) is None
    assert Sealing(local_keys()).open("test", sealed, Value, seconds=60) is None
    for forged in ("", "x", sealed[:-4], sealed[:40] + "A" + sealed[41:], "ä", sealed * 2):
        assert sealing.open("test", forged, Value, seconds=60) is None
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert sealing.open("test", sealed, Value, seconds=60) is None
