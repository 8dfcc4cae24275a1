"""Addresses that a browser may be sent to after sign-in."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.redirects import (
    ADDED,
    of_cli,
    of_page,
    with_parameters,
)
from fairlead.portal.options import ExternalURL


ROOT = ExternalURL.parse("https://bind.example.org")
BELOW = ExternalURL.parse("https://bind.example.org/fairlead")


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:38123/callback",
        "http://127.0.0.1:1",
        "http://127.0.0.1:65535/",
        "http://[::1]:8080/callback/s3cret",
        "http://localhost:8080/callback?secret=x&b=",
        "http://localhost:8080/a/../b?x=http://evil.example/",
        "http://localhost:8080?x=1",
    ],
)
def test_s2_a_program_on_the_same_machine_is_answered(url: str) -> None:
    assert of_cli(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://evil.example/x",
        "http://evil.example:80/",
        "javascript:alert(1)",
        "data:text/html,x",
        "//127.0.0.1:80/",
        "/callback",
        "https://127.0.0.1:8080/callback",
        "HTTP://127.0.0.1:8080/",
        "http://127.0.0.1/callback",
        "http://127.0.0.1:/callback",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:80x/",
        "http://127.0.0.1:٨٠/",
        "http://127.0.0.1.evil.example:80/",
        "http://127.0.0.1:80@evil.example/",
        "http://user@127.0.0.1:80/",
        "http://user:word@localhost:80/",
        "http://evil.example@127.0.0.1:80/",
        "http://127.0.0.1:80\\@evil.example/",
        "http://127.0.0.1:80#x",
        "http://127.0.0.1:80/callback#x",
        "http://127.0.0.1:80/call back",
        "http://127.0.0.1:80/\r\nSet-Cookie: a=b",
        "http://127.0.0.1:80/\n",
        "http://127.0.0.1:80/\t",
        "http://127.0.0.1:80/ä",
        "http://127.1:80/",
        "http://2130706433:80/",
        "http://127.0.0.2:80/",
        "http://0.0.0.0:80/",
        "http://[::ffff:127.0.0.1]:80/",
        "http://localhost.:80/",
        "http://LOCALHOST:80/",
        "http://127.0.0.1:80/" + "a" * 1024,
        *(f"http://127.0.0.1:80/?{name}=x" for name in sorted(ADDED)),
        "http://127.0.0.1:80/?a=b&%63ode=x",
    ],
)
def test_s2_no_other_place_gets_a_token(url: str) -> None:
    with pytest.raises(Refusal, match="redirect_url"):
        of_cli(url)


@pytest.mark.parametrize(
    ("url", "external", "led"),
    [
        ("/", ROOT, "https://bind.example.org/"),
        ("/resources?a=b", ROOT, "https://bind.example.org/resources?a=b"),
        ("https://bind.example.org/x", ROOT, "https://bind.example.org/x"),
        ("/fairlead", BELOW, "https://bind.example.org/fairlead"),
        ("/fairlead/x", BELOW, "https://bind.example.org/fairlead/x"),
        ("https://bind.example.org/fairlead/x", BELOW, "https://bind.example.org/fairlead/x"),
    ],
)
def test_s2_a_page_of_ours_is_led_back_to(url: str, external: ExternalURL, led: str) -> None:
    assert of_page(url, external) == led


@pytest.mark.parametrize("external", [ROOT, BELOW])
@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "https://bind.example.org",
        "https://evil.example/fairlead/",
        "http://bind.example.org/fairlead/",
        "https://bind.example.org.evil.example/fairlead/",
        "https://bind.example.org@evil.example/fairlead/",
        "https://bind.example.org:444/fairlead/",
        "https://bind.example.org//evil.example/",
        "//evil.example/fairlead/",
        "///evil.example/",
        "/\\evil.example/",
        "\\\\evil.example/",
        "javascript:alert(1)",
        "/fairlead/\t/evil.example",
        "/fairlead/x#y",
        "/fairlead/../x",
        "/fairlead/%2e%2e/x",
        "/fairlead/..%2fx",
        "/fairlead/..%5cx",
        "/fairlead/?session_id=x",
        "http://127.0.0.1:8080/",
    ],
)
def test_s2_a_page_elsewhere_is_not(url: str, external: ExternalURL) -> None:
    with pytest.raises(Refusal, match="redirect_url"):
        of_page(url, external)


@pytest.mark.parametrize("url", ["/", "/other", "/fairleadx", "/fairlead-evil/x"])
def test_another_application_of_the_same_host_is_elsewhere(url: str) -> None:
    with pytest.raises(Refusal, match="bind"):
        of_page(url, BELOW)


@given(st.text(), st.sampled_from(["", "/", "//", "http://127.0.0.1:80/", "/fairlead/"]))
def test_whatever_is_taken_leads_to_its_own_place(text: str, before: str) -> None:
    try:
        led = urlsplit(of_page(before + text, BELOW))
    except Refusal:
        pass
    else:
        assert (led.scheme, led.netloc) == ("https", "bind.example.org")
        assert led.path == "/fairlead" or led.path.startswith("/fairlead/")
    try:
        led = urlsplit(of_cli(before + text))
    except Refusal:
        return
    assert led.scheme == "http"
    assert led.hostname in {"127.0.0.1", "::1", "localhost"}
    assert led.username is None
    assert not led.fragment


def test_s20_what_the_client_put_into_its_address_is_kept() -> None:
    led = with_parameters("http://127.0.0.1:80/s3cret?x=1", {"code": "a b&c"})
    assert led.startswith("http://127.0.0.1:80/s3cret?x=1&")
    assert parse_qs(urlsplit(led).query) == {"x": ["1"], "code": ["a b&c"]}
