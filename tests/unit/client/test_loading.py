from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.client.kubeconfigs import kubeconfig

from fairlead.client import ClusterConfig, ConfigError
from fairlead.client.loading import find_config, in_cluster_config


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    (folder / ".kube").mkdir(parents=True)
    return folder


def load(
    home: Path, kubeconfig: str | None = None, context: str | None = None, **given: Any
) -> Any:
    return find_config(
        kubeconfig,
        context,
        environ={"HOME": str(home)} | given.get("environ", {}),
        service_account=given.get("service_account", home / "none"),
    )


def write(path: Path, server: str, **parts: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(kubeconfig(cluster={"server": server} | parts.pop("cluster", {}), **parts))
    return path


class TestPlaces:
    """Where a kubeconfig is looked for, in order."""

    def test_named_file_goes_first(self, home: Path) -> None:
        named = write(home / "named", "https://named:1")
        environ = {"KUBECONFIG": str(write(home / "env", "https://env:1"))}
        assert load(home, str(named), environ=environ).server == "https://named:1"

    def test_environment_goes_before_home(self, home: Path) -> None:
        write(home / ".kube/config", "https://home:1")
        environ = {"KUBECONFIG": str(write(home / "env", "https://env:1"))}
        assert load(home, environ=environ).server == "https://env:1"

    @pytest.mark.parametrize("value", [None, "", ":"], ids=["unset", "empty", "only-separator"])
    def test_home_without_environment(self, home: Path, value: str | None) -> None:
        write(home / ".kube/config", "https://home:1")
        environ = {} if value is None else {"KUBECONFIG": value}
        assert load(home, environ=environ).server == "https://home:1"

    def test_home_goes_before_the_pod(self, home: Path) -> None:
        write(home / ".kube/config", "https://home:1")
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        assert load(home, environ=environ).server == "https://home:1"

    def test_a_pod_without_a_home(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="automountServiceAccountToken"):
            load(home, environ={"HOME": "", "KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    @pytest.mark.parametrize(
        ("host", "inside"),
        [
            pytest.param("10.96.0.1", True, id="Service"),
            pytest.param("fd00::1", True, id="Service of IPv6"),
            pytest.param("100.64.0.1", True, id="shared network"),
            pytest.param("shop.hcp.example.com", False, id="the cloud's name"),
            pytest.param("8.8.8.8", False, id="public address"),
        ],
    )
    def test_who_reaches_the_server_of_a_pod(
        self, tmp_path: Path, host: str, *, inside: bool
    ) -> None:
        for name in ("ca.crt", "token", "namespace"):
            (tmp_path / name).write_text(name)
        config = in_cluster_config({"KUBERNETES_SERVICE_HOST": host}, tmp_path)
        assert config.only_inside is inside
        assert not replace(config, context="admin").only_inside

    def test_a_file_where_a_folder_is_meant(self, home: Path) -> None:
        (home / "file").touch()
        with pytest.raises(ConfigError, match="names no file that exists"):
            load(home, environ={"KUBECONFIG": str(home / "file" / "config")})

    def test_a_folder_where_a_file_is_meant(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
            load(home, environ={"KUBECONFIG": str(home)})

    def test_default_namespace(self, home: Path) -> None:
        write(home / ".kube/config", "https://home:1")
        assert load(home).namespace == "default"

    @pytest.mark.parametrize(
        ("kubeconfig", "environ", "message"),
        [
            pytest.param(
                "/missing", {}, "kubeconfig /missing cannot be read: No such", id="named"
            ),
            pytest.param(
                None,
                {"KUBECONFIG": "/a:/b"},
                "names no file that exists: /a, /b",
                id="environment",
            ),
            pytest.param(None, {}, "set --kubeconfig or KUBECONFIG", id="nothing"),
        ],
    )
    def test_nothing_found(
        self, home: Path, kubeconfig: str | None, environ: dict[str, str], message: str
    ) -> None:
        with pytest.raises(ConfigError, match=message):
            load(home, kubeconfig, environ=environ)

    def test_unknown_context_names_what_there_is(self, home: Path) -> None:
        write(home / ".kube/config", "https://home:1")
        with pytest.raises(ConfigError, match=r"has no context 'prod' \(it has here\)"):
            load(home, context="prod")

    def test_a_broken_file_is_named(self, home: Path) -> None:
        (home / ".kube/config").write_text("{")
        with pytest.raises(ConfigError, match=r"\.kube/config is not valid YAML"):
            load(home)

    def test_aliases_are_welcome_in_ones_own_file(self, home: Path) -> None:
        text = kubeconfig().decode() + "extensions: &x []\nmore: *x\n"
        (home / ".kube/config").write_text(text)
        assert load(home).token == "s3cret"


class TestMerge:
    """The first file to say something wins, entry by entry."""

    @pytest.fixture
    def listed(self, home: Path) -> dict[str, str]:
        first = home / "first"
        first.write_bytes(
            kubeconfig(
                cluster={"server": "https://first:1"},
                contexts=[{"name": "a", "context": {"cluster": "c", "user": "u"}}],
                current_context="",
            )
        )
        second = home / "second"
        second.write_bytes(
            kubeconfig(
                cluster={"server": "https://second:1", "tls-server-name": "second"},
                contexts=[{"name": "b", "context": {"cluster": "c", "user": "other"}}],
                users=[{"name": "other", "user": {"token": "other"}}],
                current_context="b",
            )
        )
        return {"KUBECONFIG": f"{first}:{home / 'missing'}:{second}:{first}"}

    def test_first_current_context_that_is_set(self, home: Path, listed: dict[str, str]) -> None:
        assert load(home, environ=listed).context == "b"

    def test_entries_come_whole_from_the_first(self, home: Path, listed: dict[str, str]) -> None:
        config = load(home, environ=listed)
        assert (config.server, config.tls_server_name) == ("https://first:1", "")

    def test_entries_of_later_files_are_added(self, home: Path, listed: dict[str, str]) -> None:
        assert load(home, environ=listed).token == "other"

    def test_context_from_the_command_line(self, home: Path, listed: dict[str, str]) -> None:
        assert load(home, context="a", environ=listed).token == "s3cret"


class TestFiles:
    """File references of the user's own kubeconfig."""

    def test_relative_to_the_file_that_names_them(self, home: Path) -> None:
        user = {
            "client-certificate": "pki/tls.crt",
            "client-key": "pki/tls.key",
            "tokenFile": "tok",
        }
        path = write(
            home / "deep/config",
            "https://h:1",
            cluster={"certificate-authority": "../ca.crt"},
            user=user,
        )
        (home / "ca.crt").write_text("ca")
        (home / "deep/pki").mkdir()
        (home / "deep/pki/tls.crt").write_text("crt")
        (home / "deep/pki/tls.key").write_text("key")
        config = load(home, str(path))
        assert config.certificate_authority == b"ca"
        assert (config.client_certificate, config.client_key) == (b"crt", b"key")
        assert config.token_file == str(home / "deep/tok")

    def test_data_goes_before_a_file(self, home: Path) -> None:
        cluster = {"certificate-authority": "/missing", "certificate-authority-data": "Y2E="}
        path = write(home / "config", "https://h:1", cluster=cluster)
        assert load(home, str(path)).certificate_authority == b"ca"

    def test_a_missing_file_is_named(self, home: Path) -> None:
        path = write(home / "config", "https://h:1", cluster={"certificate-authority": "ca.crt"})
        with pytest.raises(ConfigError, match=r"certificate-authority in .*home/ca\.crt: No such"):
            load(home, str(path))

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            pytest.param("aws", "aws", id="on-path"),
            pytest.param("./bin/login", "{home}/bin/login", id="relative"),
            pytest.param("/opt/login", "/opt/login", id="absolute"),
        ],
    )
    def test_exec_command(self, home: Path, command: str, expected: str) -> None:
        exec_ = {"command": command, "apiVersion": "client.authentication.k8s.io/v1"}
        plugin = load(
            home, str(write(home / "c", "https://h:1", user={"exec": exec_}))
        ).exec_plugin
        assert plugin.command == expected.format(home=home)

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            pytest.param({"apiVersion": "v1"}, "apiVersion 'v1': supported are", id="version"),
            pytest.param(
                {"apiVersion": "client.authentication.k8s.io/v1alpha1"},
                "supported are",
                id="alpha",
            ),
            pytest.param({"interactiveMode": "Always"}, "needs a terminal", id="interactive"),
            pytest.param({"command": ""}, "has no command", id="no-command"),
        ],
    )
    def test_unusable_exec(self, home: Path, fields: dict[str, str], message: str) -> None:
        exec_ = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"} | fields
        path = write(home / "c", "https://h:1", user={"exec": exec_})
        with pytest.raises(ConfigError, match=message):
            load(home, str(path))


class TestInCluster:
    """A Pod's own identity."""

    @pytest.fixture
    def account(self, tmp_path: Path) -> Path:
        folder = tmp_path / "serviceaccount"
        folder.mkdir()
        for name, content in {"ca.crt": "ca", "token": "tok\n", "namespace": "ns\n"}.items():
            (folder / name).write_text(content)
        return folder

    @pytest.mark.parametrize(
        ("host", "server"),
        [
            pytest.param("10.0.0.1", "https://10.0.0.1:6443", id="ipv4"),
            pytest.param("fd00::1", "https://[fd00::1]:6443", id="ipv6"),
        ],
    )
    def test_address_and_identity(self, home: Path, account: Path, host: str, server: str) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
        assert load(home, environ=environ, service_account=account) == ClusterConfig(
            server,
            namespace="ns",
            certificate_authority=b"ca",
            token="tok",
            token_file=str(account / "token"),
            context="in-cluster",
            trusted=True,
        )

    def test_without_a_mounted_token(self, home: Path) -> None:
        with pytest.raises(ConfigError, match="automountServiceAccountToken"):
            load(home, environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"})

    def test_has_no_contexts(self, home: Path, account: Path) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
        with pytest.raises(ConfigError, match="there is no context 'prod'"):
            load(home, context="prod", environ=environ, service_account=account)
