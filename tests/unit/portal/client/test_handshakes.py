"""What can be said of signing in and of the page without a server."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.api.kubebind import new_binding_response
from fairlead.portal.client.addresses import Address, FrontDoorError, StrangeAnswer
from fairlead.portal.client.handshakes import (
    Proof,
    authorize_url,
    decode_page_response,
    with_query,
)


def provider(url: Any, method: str = "OAuth2CodeGrant") -> dict[str, Any]:
    grant = {"authenticatedURL": url}
    return {"authenticationMethods": [{"method": method, "oauth2CodeGrant": grant}]}


@pytest.mark.parametrize(
    ("url", "server", "expected"),
    [
        ("http://a.example/api/authorize", "http://a.example", "http://a.example/api/authorize"),
        ("http://a.example/api/authorize", "https://a.example", "https://a.example/api/authorize"),
        ("https://b.example/x?y=z#f", "https://a.example", "https://b.example/x?y=z"),
    ],
)
def test_people_sign_in_where_the_server_says(url: str, server: str, expected: str) -> None:
    assert authorize_url(provider(url), Address(server)) == expected


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"authenticationMethods": None},
        {"authenticationMethods": ["x"]},
        provider("http://a.example", method="Other"),
        provider(None),
        provider("javascript:alert(1)"),
        provider("file:///etc/passwd"),
        provider("https://user@a.example"),
        provider("https://a.example/a b"),
        provider("https://[a"),
        provider("-o/etc/passwd"),
    ],
)
def test_a_way_in_that_no_browser_may_go_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(StrangeAnswer):
        authorize_url(document, Address("https://a.example"))


def test_a_secure_server_does_not_send_people_to_an_open_one() -> None:
    with pytest.raises(FrontDoorError, match="without https"):
        authorize_url(provider("http://b.example/x"), Address("https://a.example"))


def test_what_we_ask_replaces_what_the_address_had() -> None:
    url = "http://a.example/x?cluster_id=&session_id=other&keep=1&client_type=ui"
    made = with_query(url, {"session_id": "ours", "client_type": "cli"})
    assert parse_qs(urlsplit(made).query) == {
        "keep": ["1"],
        "session_id": ["ours"],
        "client_type": ["cli"],
    }


def test_s14_the_challenge_is_of_a_verifier_that_stays_here() -> None:
    one, other = Proof(), Proof()
    assert one.verifier != other.verifier
    assert 43 <= len(one.verifier) <= 128
    digest = hashlib.sha256(one.verifier.encode()).digest()
    assert base64.urlsafe_b64decode(one.challenge + "=") == digest
    assert one.verifier not in str(one.parameters)


@given(st.binary(max_size=200), st.booleans(), st.booleans(), st.booleans())
def test_both_alphabets_are_read_with_and_without_padding(
    kubeconfig: bytes, safe: bool, padded: bool, blanks: bool
) -> None:
    document = new_binding_response(
        kubeconfig=kubeconfig, requests=[], provider_namespace="n", identity="é?>~"
    )
    # Text outside ASCII makes both signs that differ.
    data = json.dumps(document, ensure_ascii=False).encode()
    text = (base64.urlsafe_b64encode if safe else base64.b64encode)(data).decode()
    text = text if padded else text.rstrip("=")
    text = text.replace("+", " ") if blanks else text
    assert decode_page_response(text).kubeconfig == kubeconfig


@pytest.mark.parametrize("text", ["a", "!!!!", "e30=", "bm90IGpzb24=", "====", "é"])
def test_what_is_no_response_is_refused(text: str) -> None:
    with pytest.raises(StrangeAnswer, match="binding_response"):
        decode_page_response(text)
