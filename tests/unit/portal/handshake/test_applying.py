"""Which kubeconfigs of consumers are taken (S12)."""

from __future__ import annotations

import base64
import ssl

import aiohttp
import pytest
import yaml
from aiohttp.client_reqrep import ConnectionKey

from fairlead.api.meta import JSON
from fairlead.client import ConnectionFailed
from fairlead.portal import bounds
from fairlead.portal.handshake.applying import _failure, inline_cluster
from fairlead.portal.http.errors import Refusal


TOKEN = "not-for-any-eyes"
PEM = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()


def written(cluster: JSON, user: JSON) -> str:
    server = {"server": "https://api.example.org:6443"}
    text = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": server | cluster}],
            "users": [{"name": "it", "user": user}],
        }
    )
    return base64.b64encode(text.encode()).decode()


def test_inline_credentials_over_https_are_taken() -> None:
    found = inline_cluster(written({"certificate-authority-data": PEM}, {"token": TOKEN}))
    assert (found.server, found.token) == ("https://api.example.org:6443", TOKEN)
    pair = {"client-certificate-data": PEM, "client-key-data": PEM}
    assert inline_cluster(written({}, pair)).client_certificate


S12: dict[str, tuple[JSON, JSON]] = {
    "no https address": ({"server": "http://api.example.org"}, {"token": TOKEN}),
    "insecure-skip-tls-verify": ({"insecure-skip-tls-verify": True}, {"token": TOKEN}),
    "proxy-url": ({"proxy-url": "http://proxy.example.org"}, {"token": TOKEN}),
    "file in certificate-authority": ({"certificate-authority": "/ca"}, {"token": TOKEN}),
    "file in client-certificate": ({}, {"token": TOKEN, "client-certificate": "/crt"}),
    "file in client-key": ({}, {"token": TOKEN, "client-key": "/key"}),
    "file in tokenFile": ({}, {"token": TOKEN, "tokenFile": "/token"}),
    "runs a command": ({}, {"token": TOKEN, "exec": {"command": "sh", "apiVersion": "v1"}}),
    "auth-provider": ({}, {"token": TOKEN, "auth-provider": {"name": "gcp"}}),
    "impersonation": ({}, {"token": TOKEN, "as": "admin"}),
    "username and password": ({}, {"token": TOKEN, "username": "a", "password": TOKEN}),
    "neither a token nor": ({}, {}),
    "user, query or fragment": ({"server": "https://a:b@api.example.org"}, {"token": TOKEN}),
}


@pytest.mark.parametrize("problem", S12)
def test_s12_all_else_is_refused(problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        inline_cluster(written(*S12[problem]))
    assert refused.value.status == 400
    assert TOKEN not in f"{refused.value.message} {refused.value.details} {refused.value.reason}"


@pytest.mark.parametrize(
    ("encoded", "problem"),
    [
        ("", "it is missing"),
        ("%%%", "base64"),
        ("YQ", "base64"),
        ("-_==", "base64"),
        ("bm8=", "not a kubeconfig"),
        (base64.b64encode(b"\xff\xfe").decode(), "cannot be used"),
        (base64.b64encode(b"a: &a [*a, *a]").decode(), "cannot be used"),
        (base64.b64encode(b"#" * (bounds.KUBECONFIG_BYTES + 3)).decode(), "larger than"),
    ],
)
def test_what_is_no_kubeconfig_is_told_so(encoded: str, problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as refused:
        inline_cluster(encoded)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("code", "says"),
    [
        pytest.param(9, "by the clock of this server", id="not-yet"),
        pytest.param(10, "by the clock of this server", id="expired"),
        pytest.param(19, "not from the kubeconfig's CA", id="another authority"),
    ],
)
def test_a_certificate_of_another_time_is_a_matter_of_clocks(code: int, says: str) -> None:
    refused = ssl.SSLCertVerificationError(1, "certificate verify failed")
    refused.verify_code = code
    key = ConnectionKey("h", 443, True, True, None, None, None)
    failed = ConnectionFailed("cannot reach https://h")
    failed.__cause__ = aiohttp.ClientConnectorCertificateError(key, refused)
    assert says in str(_failure(failed))
