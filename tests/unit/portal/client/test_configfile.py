"""The file of servers and tokens, as the original's CLI has it."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.timestamps import moment
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.configfile import (
    ConfigFile,
    ConfigFileError,
    ConfiguredServer,
    Servers,
    StoredToken,
    expiry,
)


A, B = Address("https://a.example"), Address("https://b.example", "one")
ORIGINAL = {
    "apiVersion": "v1",
    "kind": "Config",
    "servers": {
        "https://a.example": {
            "url": "https://a.example",
            "accessToken": "t",
            "tokenType": "Bearer",
            "expiresAt": "2031-01-02T03:04:05.123456789+01:00",
        },
        "one@https://b.example": {
            "url": "https://b.example",
            "cluster": "one",
            "expiresAt": "0001-01-01T00:00:00Z",
        },
    },
    "current": "https://a.example",
}


def test_what_the_original_writes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(ORIGINAL))
    servers = ConfigFile(path).read()
    current = servers.current()
    assert current is not None
    assert current.address == A
    assert current.token is not None
    assert current.token.text == "t"
    assert current.token.expires == datetime(2031, 1, 2, 2, 4, 5, 123456, UTC)
    assert servers.find(B) == ConfiguredServer(B)
    assert servers.find(Address("https://b.example")) is None


def test_a_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / ".kube-bind" / "config")
    assert file.read().current() is None
    end = datetime(2031, 1, 1, tzinfo=UTC)
    file.change(lambda servers: servers.sign_in(ConfiguredServer(B, StoredToken("t", end), "ann")))
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700
    assert json.loads(file.path.read_text()) == {
        "apiVersion": "v1",
        "kind": "Config",
        "servers": {
            "one@https://b.example": {
                "url": "https://b.example",
                "accessToken": "t",
                "tokenType": "Bearer",
                "expiresAt": "2031-01-01T00:00:00Z",
                "cluster": "one",
                "username": "ann",
            }
        },
        "current": "one@https://b.example",
    }


def test_a_file_that_others_could_read_is_private_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(ORIGINAL))
    path.chmod(0o644)
    ConfigFile(path).change(lambda servers: servers.sign_out(A))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "accessToken" not in path.read_text()
    assert {one.name for one in tmp_path.iterdir()} == {"config", "config.lock"}


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "config", tmp_path / "config"
    real.parent.mkdir()
    real.write_text(json.dumps(ORIGINAL))
    link.symlink_to(real)
    ConfigFile(link).change(
        lambda servers: servers.sign_in(ConfiguredServer(B, StoredToken("new")))
    )
    assert link.is_symlink()
    assert "new" in real.read_text()


def test_either_order_of_a_key_is_the_same_server(tmp_path: Path) -> None:
    path = tmp_path / "config"
    servers = {"https://b.example@one": {"accessToken": "old", "mine": 1}}
    path.write_text(json.dumps({"servers": servers, "other": [1]}))
    file = ConfigFile(path)
    found = file.read().find(B)
    assert found is not None
    assert found.token == StoredToken("old")
    file.change(lambda known: known.sign_in(ConfiguredServer(B, StoredToken("new"))))
    document = json.loads(path.read_text())
    assert document["other"] == [1]
    assert document["current"] == "https://b.example@one"
    kept = document["servers"]["https://b.example@one"]
    assert (kept["accessToken"], kept["mine"], len(document["servers"])) == ("new", 1, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "is no config file"),
        ('{"kind": "Secret"}', "is no config file"),
        ('{"servers": 3}', "servers is no object"),
        ('{"servers": {"https://a.example": 3}}', "is no object"),
        ('{"servers": {"https://a.example": {"accessToken": 3}}}', "accessToken is no text"),
        (
            '{"servers": {"https://a.example": {"accessToken": "secret", "expiresAt": "soon"}}}',
            "expiresAt is no time",
        ),
    ],
)
def test_what_is_no_such_file_is_named_and_stays(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigFileError, match=message) as refused:
        ConfigFile(path).read().find(A)
    assert "secret" not in str(refused.value)
    assert path.read_text() == text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KNOWN = {"url", "cluster", "accessToken", "tokenType", "expiresAt", "username"}
FIELDS = st.dictionaries(
    st.text().filter(lambda one: one not in {*KNOWN, "certificateAuthority"}), VALUES, max_size=3
)
SECONDS = st.datetimes(
    min_value=datetime(1990, 1, 1),  # noqa: DTZ001  hypothesis wants none
    max_value=datetime(2200, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
).map(lambda one: one.replace(microsecond=0))


@given(
    st.sampled_from([A, B, Address("http://[::1]:8080/x", "root:org")]),
    st.text(min_size=1),
    st.none() | SECONDS,
    st.text(),
    FIELDS,
    FIELDS,
)
def test_what_is_kept_comes_back_and_what_is_unknown_stays(
    address: Address,
    token: str,
    expires: datetime | None,
    username: str,
    server: dict[str, Any],
    more: dict[str, Any],
) -> None:
    more = {key: value for key, value in more.items() if key not in {"servers", "current", "kind"}}
    raw = {**more, "servers": {address.key: {**server, "url": address.url}}}
    raw["servers"][address.key]["cluster"] = address.cluster
    servers = Servers(raw, "x")
    entry = ConfiguredServer(address, StoredToken(token, expires), username)
    servers.sign_in(entry)
    again = Servers(json.loads(json.dumps(servers.raw)), "x")
    assert again.current() == again.find(address) == entry
    assert {key: again.raw[key] for key in more} == more
    kept = again.raw["servers"][address.key]
    assert {key: kept[key] for key in server} == server
    again.sign_out(address)
    assert again.find(address) == ConfiguredServer(address)


def test_two_processes_at_once_lose_no_entry(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from fairlead.portal.client.addresses import Address
from fairlead.portal.client.configfile import ConfigFile, ConfiguredServer, StoredToken
file = ConfigFile(Path(sys.argv[1]))
sys.stdin.readline()
for number in range(40):
    address = Address(f"https://{sys.argv[2]}{number}.example")
    file.change(lambda servers: servers.sign_in(ConfiguredServer(address, StoredToken("t"))))
"""
    path = tmp_path / "config"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(path), name], stdin=subprocess.PIPE, text=True
        )
        for name in ("a", "b")
    ]
    for one in writers:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    for one in writers:
        one.communicate()
        assert one.returncode == 0
    assert len(ConfigFile(path).read().all()) == 80


def test_s6_a_token_is_over_when_the_server_said_so_and_five_minutes_early() -> None:
    end = expiry(3600)
    assert end is not None
    assert timedelta(minutes=59) < end - moment() <= timedelta(hours=1)
    token = StoredToken("secret", end)
    assert not token.expired(end - timedelta(minutes=5, seconds=1))
    assert token.expired(end - timedelta(minutes=5))
    assert not StoredToken("secret").expired(end)
    assert "secret" not in repr(token)


@pytest.mark.parametrize("told", [None, "", "soon", -1, 0, "nan", "inf", 10**30, {}])
def test_a_life_that_is_not_told_has_no_end(told: object) -> None:
    assert expiry(told) is None


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "config"
    path.write_text(json.dumps(ORIGINAL))

    def full(_self: Path, _target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        ConfigFile(path).change(lambda servers: servers.sign_out(A))
    assert json.loads(path.read_text()) == ORIGINAL
    assert {one.name for one in tmp_path.iterdir()} == {"config", "config.lock"}
