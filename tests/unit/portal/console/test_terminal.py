"""Terminals that wait: how they are named, and what they are sent."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from fairlead.api.kubebind import TemplateSpec
from fairlead.api.meta import JSON
from fairlead.portal.console.claims import at_consumer, at_provider
from fairlead.portal.console.offers.following import bundle
from fairlead.portal.console.pages.terminal import Terminal, encoded


@pytest.mark.parametrize(
    ("url", "host", "port", "source"),
    [
        ("http://127.0.0.1:4321/callback", "127.0.0.1", 4321, "http://127.0.0.1:4321"),
        ("http://localhost:1", "localhost", 1, "http://localhost:1"),
        ("http://[::1]:4321/x?y=z", "::1", 4321, "http:"),
    ],
)
def test_who_waits_is_named(url: str, host: str, port: int, source: str) -> None:
    terminal = Terminal(url, "s")
    assert (terminal.host, terminal.port, terminal.form_source) == (host, port, source)
    assert terminal.program == "kubectl bind"
    assert Terminal(url, "s", challenge="c").program == "fairlead bind"
    keys = {terminal.key, Terminal(url, "t").key, Terminal(url, "s", "c").key}
    assert len(keys) == 3


def test_parameters_are_added_and_the_address_is_kept() -> None:
    response = Terminal("http://127.0.0.1:1/x?own=1", "s&", "c=1").refused("not <today>")
    url = urlsplit(response.headers["Location"])
    assert (response.status, url.netloc, url.path) == (303, "127.0.0.1:1", "/x")
    assert parse_qs(url.query) == {
        "own": ["1"],
        "session_id": ["s&"],
        "consumer_id": ["c=1"],
        "error": ["access_denied"],
        "error_description": ["not <today>"],
    }


@pytest.mark.parametrize("length", range(1, 5))
def test_an_answer_is_base64url_with_padding(length: int) -> None:
    # Those bytes become + and / in the other alphabet.
    body = {"name": "\u00ff\u00fe\u00bf" * length + "x" * length}
    text = encoded(body)
    assert len(text) % 4 == 0
    assert not {"+", "/"} & set(text)
    assert msgspec.json.decode(base64.urlsafe_b64decode(text)) == body


def test_both_sides_are_told_what_is_allowed() -> None:
    spec = msgspec.convert(
        {
            "scope": "Namespaced",
            "resources": [
                {"group": "example.org", "resource": one, "versions": ["v1"]}
                for one in ("things", "planets")
            ],
            "permissionClaims": [
                {
                    "group": "",
                    "resource": "secrets",
                    "selector": {"namedResources": [{"name": one}]},
                }
                for one in ("a", "b")
            ],
        },
        TemplateSpec,
    )
    told = at_provider(spec, ["planets.example.org"])
    assert told[1].startswith("It may read, write and delete things.example.org in the namespaces")
    assert told[2].startswith(
        "It may read, write and delete all planets.example.org, also those of others"
    )
    # One sentence for each kind, however many claims there are.
    assert [one for one in told if "Secrets" in one] == told[3:4]
    mine = at_consumer(spec)
    assert "CustomResourceDefinitions things.example.org, planets.example.org" in mine[0]
    assert len([one for one in mine if "Secrets" in one]) == 1


def test_a_bundle_gives_rights_on_what_the_provider_calls_the_binding() -> None:
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://provider.example.org"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    resources = [{"group": "example.org", "resource": "things", "versions": ["v1"]}]
    response: JSON = {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "BindingResponse",
        "kubeconfig": base64.b64encode(msgspec.json.encode(kubeconfig)).decode(),
        "providerNamespace": "n",
        "bindingName": "db-x7",
        "requests": [
            {
                "apiVersion": "kube-bind.io/v1alpha2",
                "kind": "APIServiceExportRequest",
                "metadata": {"name": "db"},
                "spec": {"resources": resources},
            }
        ],
    }
    text = bundle(response).decode()
    assert "name: kube-bind-konnector-db-x7" in text
    assert "kind: APIServiceBindingBundle\nmetadata:\n  name: n\n" in text
    assert response["kubeconfig"] in text
