from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.unit.client.kubeconfigs import as_json, kubeconfig

from fairlead.client import ClusterConfig, ConfigError, Impersonation, parse_kubeconfig


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class TestParse:
    """A self-contained kubeconfig becomes a ClusterConfig."""

    def test_server_and_token(self) -> None:
        config = parse_kubeconfig(kubeconfig())
        assert config == ClusterConfig("https://example.org:6443", token="s3cret", context="here")

    def test_json_is_taken_as_well(self) -> None:
        assert parse_kubeconfig(as_json(kubeconfig())) == parse_kubeconfig(kubeconfig())

    def test_namespace_of_the_context(self) -> None:
        assert parse_kubeconfig(kubeconfig(context={"namespace": "shop"})).namespace == "shop"

    def test_namespace_is_left_to_the_caller(self) -> None:
        assert parse_kubeconfig(kubeconfig()).namespace == ""

    def test_another_context_than_the_current(self) -> None:
        contexts = [
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "c", "namespace": "far"}},
        ]
        config = parse_kubeconfig(kubeconfig(contexts=contexts), context="there")
        assert (config.context, config.namespace, config.token) == ("there", "far", "")

    def test_trailing_slash_of_the_server(self) -> None:
        data = kubeconfig(cluster={"server": "https://rancher.example/k8s/clusters/c-1/"})
        assert parse_kubeconfig(data).server == "https://rancher.example/k8s/clusters/c-1"

    @pytest.mark.parametrize(
        ("field", "value", "attribute", "expected"),
        [
            pytest.param(
                "certificate-authority-data",
                encoded("PEM"),
                "certificate_authority",
                b"PEM",
                id="authority",
            ),
            pytest.param(
                "certificate-authority-data",
                encoded("PEM" * 40)[:60] + "\n" + encoded("PEM" * 40)[60:],
                "certificate_authority",
                b"PEM" * 40,
                id="base64-in-lines",
            ),
            pytest.param("tls-server-name", "kube", "tls_server_name", "kube", id="server-name"),
            pytest.param(
                "insecure-skip-tls-verify", True, "insecure_skip_tls_verify", True, id="insecure"
            ),
            pytest.param(
                "proxy-url", "http://proxy:3128", "proxy_url", "http://proxy:3128", id="proxy"
            ),
            pytest.param(
                "disable-compression", True, "disable_compression", True, id="compression"
            ),
        ],
    )
    def test_cluster_field(self, field: str, value: Any, attribute: str, expected: object) -> None:
        assert getattr(parse_kubeconfig(kubeconfig(cluster={field: value})), attribute) == expected

    def test_client_certificate(self) -> None:
        user = {"client-certificate-data": encoded("crt"), "client-key-data": encoded("key")}
        config = parse_kubeconfig(kubeconfig(user=user))
        assert (config.client_certificate, config.client_key) == (b"crt", b"key")

    def test_password(self) -> None:
        config = parse_kubeconfig(kubeconfig(user={"username": "joe", "password": "pw"}))
        assert (config.username, config.password) == ("joe", "pw")

    def test_impersonation(self) -> None:
        user = {
            "token": "t",
            "as": "jane",
            "as-groups": ["devs"],
            "as-uid": "17",
            "as-user-extra": {"reason": ["a", "b"]},
        }
        assert parse_kubeconfig(kubeconfig(user=user)).impersonation == Impersonation(
            "jane", ("devs",), "17", {"reason": ("a", "b")}
        )


class TestRefuse:
    """What is wrong is said in one line that names the field and quotes no value."""

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            pytest.param(b"\xff\xfe", "is not UTF-8", id="binary"),
            pytest.param(b"a: [", "is not valid YAML", id="broken"),
            pytest.param(b"a: 1\n---\nb: 1\n", "is not valid YAML", id="two-documents"),
            pytest.param(b"a: \x07", "unacceptable character", id="control-character"),
            pytest.param(
                b"- a",
                "is not a kubeconfig: object: it must be an object, not a list",
                id="a-list",
            ),
            pytest.param(b"just text", "is not a kubeconfig", id="text"),
            pytest.param(b"", "has no contexts: it is empty, or not a kubeconfig", id="empty"),
            pytest.param(b"kind: Pod", "has no contexts", id="another-kind"),
            pytest.param(b"a: &x [1]\nb: *x", "has YAML aliases", id="alias"),
            pytest.param(b"[" * 100_000, "is nested more than 64 levels", id="deep-flow"),
            pytest.param(b"- " * 5_000, "is nested more than 64 levels", id="deep-block"),
            pytest.param(b"x" * (1 << 20) + b"x", "is larger than", id="huge"),
            pytest.param(b"a: !!python/object/apply:os.getcwd []", "not valid YAML", id="tag"),
            pytest.param(
                kubeconfig(current_context=""),
                "has no current-context: set current-context (it has here)",
                id="no-current-context",
            ),
            pytest.param(
                kubeconfig(current_context="gone"),
                "has no context 'gone' (it has here)",
                id="unknown-context",
            ),
            pytest.param(kubeconfig(contexts=None), "(it has none)", id="no-contexts"),
            pytest.param(
                kubeconfig(context={"cluster": ""}), "names no cluster", id="context-no-cluster"
            ),
            pytest.param(
                kubeconfig(context={"cluster": "x"}), "has no cluster 'x'", id="unknown-cluster"
            ),
            pytest.param(kubeconfig(context={"user": "x"}), "has no user 'x'", id="unknown-user"),
            pytest.param(kubeconfig(cluster={"server": ""}), "has no server", id="no-server"),
            pytest.param(
                kubeconfig(cluster={"server": "example.org:6443"}),
                "server in the kubeconfig is not a URL of the form https://host:port",
                id="no-scheme",
            ),
            pytest.param(
                kubeconfig(cluster={"server": "file:///etc/passwd"}),
                "is not a URL",
                id="file-scheme",
            ),
            pytest.param(
                kubeconfig(cluster={"server": "https://h:port"}), "is not a URL", id="bad-port"
            ),
            pytest.param(
                kubeconfig(cluster={"server": "https://a b"}), "is not a URL", id="space-in-server"
            ),
            pytest.param(
                kubeconfig(cluster={"server": "https://joe:s3cret@h:1"}),
                "server in the kubeconfig has a user",
                id="user-in-server",
            ),
            pytest.param(
                kubeconfig(cluster={"server": "https://h:1/x?y="}), "query", id="query-in-server"
            ),
            pytest.param(
                kubeconfig(cluster={"server": "https://a/\r\nX: y"}),
                "line break or control",
                id="line-break-in-server",
            ),
            pytest.param(
                kubeconfig(cluster={"proxy-url": "socks5://p:1"}),
                "proxy-url in the kubeconfig names a SOCKS proxy",
                id="socks",
            ),
            pytest.param(
                kubeconfig(cluster={"certificate-authority-data": "%%%"}),
                "certificate-authority-data in the kubeconfig is not base64",
                id="authority-base64",
            ),
            pytest.param(
                kubeconfig(
                    cluster={
                        "certificate-authority-data": "YQ==",
                        "insecure-skip-tls-verify": True,
                    }
                ),
                "has both insecure-skip-tls-verify and certificate-authority",
                id="insecure-with-authority",
            ),
            pytest.param(
                kubeconfig(user={"client-certificate-data": "YQ=="}),
                "one of client-certificate and client-key",
                id="certificate-without-key",
            ),
            pytest.param(
                kubeconfig(user={"client-key-data": "YQ=="}),
                "one of client-certificate and client-key",
                id="key-without-certificate",
            ),
            pytest.param(
                kubeconfig(user={"token": "a\nb"}), "token in the kubeconfig", id="token-lines"
            ),
            pytest.param(
                kubeconfig(user={"token": 7}),
                "users[0].user.token: it must be a string, not an integer",
                id="token-number",
            ),
            pytest.param(
                kubeconfig(user={"as-groups": ["a"]}), "without as", id="groups-without-as"
            ),
            pytest.param(
                kubeconfig(user={"as": "a\r\nb"}), "as in the kubeconfig", id="header-injection"
            ),
            pytest.param(
                kubeconfig(user={"as": "a", "as-user-extra": {"k": ["v\n"]}}),
                "as-user-extra in the kubeconfig",
                id="extra-injection",
            ),
        ],
    )
    def test_bad_input(self, data: bytes, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            parse_kubeconfig(data)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "s3cret" not in str(caught.value)

    def test_an_unused_broken_user_does_no_harm(self) -> None:
        users = [
            {"name": "u", "user": {"token": "t"}},
            {"name": "other", "user": {"exec": {"command": "x", "apiVersion": "v1"}}},
        ]
        assert parse_kubeconfig(kubeconfig(users=users)).token == "t"


class TestBoundary:
    """A kubeconfig from a Secret reaches neither our files nor our shell."""

    @pytest.mark.parametrize(
        ("cluster", "user", "named"),
        [
            pytest.param({"certificate-authority": "/etc/passwd"}, None, "certificate-authority"),
            pytest.param(
                {"certificate-authority": "/x", "certificate-authority-data": "YQ=="},
                None,
                "certificate-authority",
                id="authority-beside-data",
            ),
            pytest.param({}, {"tokenFile": "/var/run/token"}, "tokenFile"),
            pytest.param(
                {}, {"tokenFile": "/var/run/token", "token": "t"}, "tokenFile", id="token-beside"
            ),
            pytest.param({}, {"client-certificate": "/tls.crt"}, "client-certificate"),
            pytest.param({}, {"client-key": "/tls.key"}, "client-key"),
            pytest.param(
                {},
                {
                    "client-certificate-data": "YQ==",
                    "client-key-data": "YQ==",
                    "client-key": "relative.key",
                },
                "client-key",
                id="key-beside-data",
            ),
            pytest.param(
                {},
                {"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}},
                "exec",
            ),
            pytest.param(
                {},
                {"token": "t", "exec": {"command": "sh"}},
                "exec",
                id="exec-beside-token",
            ),
            pytest.param({}, {"auth-provider": {"name": "oidc"}}, "auth-provider"),
            pytest.param(
                {},
                {
                    "auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/sh"}},
                    "token": "t",
                },
                "auth-provider",
                id="provider-beside-token",
            ),
        ],
    )
    def test_refused(self, cluster: dict[str, Any], user: dict[str, Any], named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            parse_kubeconfig(kubeconfig(cluster=cluster, user=user))

    def test_repr_shows_no_secret(self) -> None:
        user = {
            "token": "tok-secret",
            "username": "joe",
            "password": "pw-secret",
            "client-certificate-data": encoded("crt-secret"),
            "client-key-data": encoded("key-secret"),
        }
        data = kubeconfig(user=user, cluster={"proxy-url": "http://a:proxy-secret@p:1"})
        assert "secret" not in repr(parse_kubeconfig(data))
