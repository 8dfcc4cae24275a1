"""What is written down of an exchange, and that nothing is which lets anyone in."""

from __future__ import annotations

import json

import msgspec
from hack.interop.recording import recorded


SERVER = "http://127.0.0.1:4711"
SECRET = "not-for-any-eyes"


def test_shapes_are_kept_and_secrets_are_not() -> None:
    query = (
        f"redirect_url=http://127.0.0.1:5/callback/{SECRET}&session_id={SECRET}&client_type=cli"
    )
    asked = {"Authorization": f"Bearer {SECRET}", "User-Agent": "one", "Cookie": SECRET}
    body = {"kubeconfig": SECRET, "code": "BAD_REQUEST", "items": [{"uid": SECRET, "count": 1}]}
    content = json.dumps(body | {"url": f"{SERVER}/api", "managedFields": [SECRET]}).encode()
    told = {
        "Location": f"http://127.0.0.1:5/callback?access_token={SECRET}&expires_in=60",
        "Set-Cookie": f"kept-0123456789abcdef={SECRET}; Path=/",
        "Date": "today",
    }
    found = recorded(
        SERVER,
        ("POST", f"/api/bind?{query}", asked, json.dumps({"code": SECRET}).encode()),
        (200, told, content),
    )
    text = msgspec.json.encode(found).decode()
    assert SECRET not in text
    assert SERVER not in text
    assert found.by == "cli"
    assert found.request.query == {
        "redirect_url": "http://127.0.0.1:<port>/callback/<secret>",
        "session_id": "<session>",
        "client_type": "cli",
    }
    assert found.request.headers == {"Authorization": "Bearer <token>", "User-Agent": "one"}
    assert found.request.body == {"code": "<code>"}
    assert found.answer.headers == {
        "Location": "http://127.0.0.1:<port>/callback",
        "Set-Cookie": "kept-<random>=<cookie>",
    }
    assert found.answer.location == {"access_token": "<token>", "expires_in": "60"}
    assert found.answer.body == {
        "kubeconfig": "<kubeconfig>",
        "code": "BAD_REQUEST",
        "items": [{"uid": "<uid>", "count": 1}],
        "url": "<server>/api",
        "managedFields": [],
    }


def test_short_texts_are_kept_and_pages_are_not() -> None:
    for content, kept in ((b"pong", "pong"), (b"<html>" * 9, "<text>"), (b"", None)):
        found = recorded(SERVER, ("GET", "/api/ping", {}, b""), (200, {}, content))
        assert found.answer.body == kept
