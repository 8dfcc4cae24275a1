"""What the flags of ``fairlead provider serve`` become."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fairlead.cli import main
from fairlead.cli.kubebind import serve
from fairlead.cli.running import RunOptions
from fairlead.portal import app
from fairlead.portal.options import CookieKeys, PersonClaims, ServeOptions
from fairlead.runtime import Manager


ISSUER = ("--oidc-issuer-url", "https://login.example.org", "--oidc-issuer-client-id", "fairlead")


class Started:
    """What would have been run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.namespace = ""
        self.shared: RunOptions | None = None
        self.options: ServeOptions | None = None
        monkeypatch.setattr(serve, "run_program", self._run_program)
        monkeypatch.setattr(app, "run_all", self._run_all)

    def _run_program(
        self, _name: str, namespace: str, shared: RunOptions, _install: Any, build: Any
    ) -> None:
        self.namespace, self.shared = namespace, shared
        with pytest.raises(StopIteration):
            build(Manager(), None).send(None)

    async def _run_all(self, _manager: Any, _cluster: Any, options: ServeOptions) -> None:
        self.options = options


def invoke(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(main, ["provider", "serve", *arguments], env=env)


def start(
    monkeypatch: pytest.MonkeyPatch, *arguments: str, **env: str
) -> tuple[ServeOptions, str]:
    started = Started(monkeypatch)
    result = invoke(*arguments, **env)
    assert result.exit_code == 0, result.output
    assert started.options is not None
    assert started.shared is not None
    assert not started.shared.leader_elect, "all replicas serve at once"
    assert not started.shared.install_crds
    return started.options, result.stderr


def test_what_little_has_to_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    options, said = start(monkeypatch, *ISSUER)
    assert not said
    assert options.external_url.absolute("/") == "http://127.0.0.1:8080/"
    assert (options.host, options.port) == ("127.0.0.1", 8080)
    assert options.oidc.callback_url == "http://127.0.0.1:8080/api/callback"
    assert options.oidc.scopes == ("openid", "profile", "email", "groups")
    assert (options.oidc.username_prefix, options.oidc.groups_prefix) == ("oidc:", "oidc:")
    assert options.oidc.claims == PersonClaims()
    assert options.token_expiry == 3600
    assert options.cookie_keys == ()
    assert options.redis is None
    assert not options.original_authors
    assert not options.apply_binding
    assert options.apply_networks == ()


def test_what_can_be_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    signing = base64.b64encode(b"s" * 32).decode()
    options, said = start(
        monkeypatch,
        *(*ISSUER, "--external-url", "https://bind.example.org/fairlead"),
        *("--listen-address", "0.0.0.0:8443", "--trusted-proxies", "10.0.0.0/8,192.0.2.1"),
        *("--tls-cert-file", str(file), "--tls-key-file", str(file)),
        *("--oidc-ca-file", str(file), "--oidc-scopes", "openid,groups"),
        *("--oidc-username-prefix", "", "--oidc-groups-prefix", "g:"),
        *("--oidc-groups-claim", "roles", "--oidc-most-groups", "5000"),
        *("--token-expiry", "12h", "--cookie-signing-key", signing),
        *("--redis-addr", "redis:6379", "--redis-tls", "--namespace", "elsewhere"),
        *("--consumers-per-person", "3", "--original-authors"),
        *("--allow-apply-binding", "--apply-binding-allow-cidr", "10.1.0.0/16,fd00:1::/32"),
        *("--requests-per-address", "0", "--requests-per-person", "2", "--pretty-name", "Us"),
        OIDC_CLIENT_SECRET="issued",
        REDIS_PASSWORD="password",
    )
    assert not said
    assert options.oidc.callback_url == "https://bind.example.org/fairlead/api/callback"
    assert options.oidc.client_secret == "issued"
    assert options.oidc.ca_file == file
    assert options.oidc.scopes == ("openid", "groups")
    assert (options.oidc.username_prefix, options.oidc.groups_prefix) == ("", "g:")
    assert options.oidc.claims == PersonClaims(groups="roles", most_groups=5000)
    assert len(options.trusted_proxies) == 2
    assert options.token_expiry == 12 * 3600
    assert options.cookie_keys == (CookieKeys(b"s" * 32),)
    assert options.redis is not None
    assert (options.redis.host, options.redis.password, options.redis.tls) == (
        *("redis", "password"),
        True,
    )
    assert (options.namespace, options.consumers_per_person) == ("elsewhere", 3)
    assert options.original_authors
    assert options.apply_binding
    assert [str(one) for one in options.apply_networks] == ["10.1.0.0/16", "fd00:1::/32"]
    assert options.limits.per_address.per_second == 0
    assert (options.limits.per_person.per_second, options.limits.per_person.burst) == (2, 8)


def test_another_claim_may_own_what_people_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    options, said = start(monkeypatch, *ISSUER, "--oidc-subject-claim", "oid")
    assert not said
    assert options.oidc.claims == PersonClaims(subject="oid")


def test_the_embedded_issuer_needs_people_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    people = tmp_path / "people"
    people.write_text("x")
    embedded = ("--oidc-type", "embedded", "--oidc-people-file", str(people))
    options, _ = start(monkeypatch, *embedded)
    assert options.oidc.issuer_url == "http://127.0.0.1:8080/oidc"
    beyond = (*embedded, "--external-url", "https://x.org", "--listen-address", ":8080")
    once = "--embedded-issuer-beyond-loopback"
    assert invoke(*beyond, once).exit_code == 2
    options, _ = start(monkeypatch, *beyond, once, once)
    assert options.oidc.beyond_loopback


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--oidc-allowed-groups", "a"), "grant nothing here"),
        (("--oidc-allowed-users", "a"), "fairlead manifests serve"),
        (("--isolation", "prefixed"), "--isolation has no effect here"),
        (("--external-address", "https://x:6443"), "give it to `fairlead provider run`"),
    ],
)
def test_flags_of_the_original_that_do_nothing_here_are_warned_about(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    _, warned = start(monkeypatch, *ISSUER, *arguments)
    assert warned.startswith("warning: ")
    assert said in warned


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--oidc-issuer-url is missing"),
        (ISSUER[:2], "--oidc-issuer-client-id is missing"),
        ((*ISSUER, "--listen-address", "8080"), "--listen-address: '8080' is not an address"),
        ((*ISSUER, "--listen-address", ":8080"), "--external-url is missing"),
        (
            (*ISSUER, "--listen-address", ":8080", "--external-url", "http://127.0.0.1:8080"),
            "may not travel in plain http",
        ),
        ((*ISSUER, "--external-url", "bind.example.org"), "--external-url 'bind.example.org'"),
        ((*ISSUER, "--external-url", "http://bind.example.org"), "make it https"),
        ((*ISSUER, "--tls-cert-file", __file__), "--tls-key-file go together"),
        ((*ISSUER, "--token-expiry", "soon"), "--token-expiry 'soon' is not a duration"),
        ((*ISSUER, "--cookie-signing-key", "c2VjcmV0"), "--cookie-signing-key has 6 bytes"),
        ((*ISSUER, "--trusted-proxies", "0.0.0.0/0"), "let every client say who it is"),
        (
            (*ISSUER, "--allow-apply-binding", "--apply-binding-allow-cidr", "::/0"),
            "would let people choose any address for this server to connect to",
        ),
        (
            (*ISSUER, "--apply-binding-allow-cidr", "10.0.0.0/8"),
            "--apply-binding-allow-cidr needs --allow-apply-binding",
        ),
        ((*ISSUER, "--redis-addr", "redis"), "--redis-addr 'redis' is not an address"),
        ((*ISSUER, "--oidc-groups-prefix", "system:"), "--oidc-groups-prefix 'system:'"),
        ((*ISSUER, "--pretty-name", " "), "--pretty-name is empty"),
        (("--oidc-type", "embedded"), "needs --oidc-people-file"),
    ],
)
def test_wrong_usage_exits_with_2_and_names_the_flag(
    arguments: tuple[str, ...], said: str
) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output
    assert "c2VjcmV0" not in result.output
