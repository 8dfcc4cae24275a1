# ruff: noqa: ASYNC240  the files are small and local
from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from fairlead.client import ClusterConfig, ConfigError, ExecPlugin, limits
from fairlead.client.credentials import Credential, FileToken, PluginCredential, credential_source


V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"


class Clock:
    """Time that a test moves."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class TestChoice:
    """Which credential a config means."""

    @pytest.mark.parametrize(
        ("config", "authorization"),
        [
            pytest.param(ClusterConfig("s"), "", id="anonymous"),
            pytest.param(ClusterConfig("s", token="t"), "Bearer t", id="token"),
            pytest.param(
                ClusterConfig("s", username="joe", password="pw"), "Basic am9lOnB3", id="password"
            ),
            pytest.param(
                ClusterConfig("s", token="t", exec_plugin=ExecPlugin("/missing")),
                "Bearer t",
                id="token-before-plugin",
            ),
            pytest.param(
                ClusterConfig("s", token="t", token_file="/missing"),
                "Bearer t",
                id="token-when-the-file-is-missing",
            ),
        ],
    )
    async def test_authorization(self, config: ClusterConfig, authorization: str) -> None:
        credential = await credential_source(config).current()
        assert credential == Credential(authorization)

    async def test_nothing_better_than_a_static_one(self) -> None:
        source = credential_source(ClusterConfig("s", token="t"))
        assert await source.refresh(await source.current()) is None

    def test_repr_shows_nothing(self) -> None:
        assert "secret" not in repr(Credential("Bearer secret", b"secret", b"secret"))


class TestFileToken:
    """A token that somebody else rotates."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "token"
        path.write_text("one\n")
        return path

    async def test_goes_before_the_token_beside_it(self, path: Path) -> None:
        assert (await FileToken(str(path), "other").current()).authorization == "Bearer one"

    @pytest.mark.parametrize(
        ("seconds", "expected"),
        [(limits.TOKEN_SECONDS - 1, "Bearer one"), (limits.TOKEN_SECONDS, "Bearer two")],
    )
    async def test_is_read_again_after_a_while(
        self, path: Path, seconds: float, expected: str
    ) -> None:
        clock = Clock(1000.0)
        token = FileToken(str(path), clock=clock)
        await token.current()
        path.write_text("two")
        clock.now += seconds
        assert (await token.current()).authorization == expected

    async def test_is_read_at_once_when_refused(self, path: Path) -> None:
        token = FileToken(str(path), clock=Clock(1000.0))
        refused = await token.current()
        path.write_text("two")
        assert await token.refresh(refused) == Credential("Bearer two")
        assert (await token.current()).authorization == "Bearer two"

    async def test_refused_and_unchanged(self, path: Path) -> None:
        token = FileToken(str(path))
        assert await token.refresh(await token.current()) is None

    @pytest.mark.parametrize("fault", ["gone", "empty"])
    async def test_the_last_one_serves_while_the_file_is_unusable(
        self, path: Path, fault: str
    ) -> None:
        clock = Clock(1000.0)
        token = FileToken(str(path), clock=clock)
        await token.current()
        if fault == "gone":
            path.unlink()
        else:
            path.write_text("")
        clock.now += limits.TOKEN_SECONDS
        assert (await token.current()).authorization == "Bearer one"

    async def test_never_read(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"token file .* cannot be read: FileNotFoundError"):
            await FileToken(str(tmp_path / "missing")).current()

    async def test_several_lines(self, path: Path) -> None:
        path.write_text("sec\nret")
        with pytest.raises(ConfigError, match="more than one line") as caught:
            await FileToken(str(path)).current()
        assert "sec" not in str(caught.value).replace(str(path), "")


class Plugin:
    """An exec plugin that prints what it is told, and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "plugin"
        self.path.write_text(
            "#!/bin/sh\n"
            f'echo run >>"{folder}/runs"\n'
            f'printf %s "$KUBERNETES_EXEC_INFO" >"{folder}/info"\n'
            f'printf %s "$EXTRA $*" >"{folder}/extra"\n'
            f'cat "{folder}/output"\n'
            f'exit "$(cat "{folder}/code")"\n'
        )
        self.path.chmod(0o700)
        self.answer(token="one")

    def answer(self, *, api_version: str = V1, code: int = 0, **status: str) -> None:
        body = {"apiVersion": api_version, "kind": "ExecCredential", "status": status}
        self.print(json.dumps(body), code)

    def print(self, output: str, code: int = 0) -> None:
        (self.folder / "output").write_text(output)
        (self.folder / "code").write_text(str(code))

    @property
    def runs(self) -> int:
        return len((self.folder / "runs").read_text().splitlines())

    def config(self, **fields: object) -> ClusterConfig:
        plugin = ExecPlugin(str(self.path), **fields)  # type: ignore[arg-type]
        return ClusterConfig("https://h:1", certificate_authority=b"ca", exec_plugin=plugin)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


class TestPlugin:
    """Exec plugins run when they must, and not more often."""

    @pytest.mark.parametrize("version", [V1, V1BETA1])
    async def test_token(self, plugin: Plugin, version: str) -> None:
        plugin.answer(api_version=version, token="one")
        source = credential_source(plugin.config(api_version=version))
        assert (await source.current()).authorization == "Bearer one"

    async def test_certificate(self, plugin: Plugin) -> None:
        plugin.answer(clientCertificateData="crt", clientKeyData="key")
        source = credential_source(plugin.config())
        assert await source.current() == Credential("", b"crt", b"key")

    async def test_arguments_and_environment(self, plugin: Plugin) -> None:
        source = credential_source(plugin.config(args=("a", "b"), env=(("EXTRA", "x"),)))
        await source.current()
        assert (plugin.folder / "extra").read_text() == "x a b"

    async def test_cluster_info(self, plugin: Plugin) -> None:
        config = plugin.config(provide_cluster_info=True, cluster_extension={"audience": "a"})
        await credential_source(config).current()
        info = json.loads((plugin.folder / "info").read_text())
        assert info["spec"] == {
            "interactive": False,
            "cluster": {
                "server": "https://h:1",
                "certificate-authority-data": "Y2E=",
                "config": {"audience": "a"},
            },
        }

    async def test_no_cluster_info_unasked(self, plugin: Plugin) -> None:
        await credential_source(plugin.config()).current()
        info = json.loads((plugin.folder / "info").read_text())
        assert info == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}

    async def test_many_at_once_run_it_once(self, plugin: Plugin) -> None:
        source = credential_source(plugin.config())
        found = await asyncio.gather(*(source.current() for _ in range(20)))
        assert (len(set(found)), plugin.runs) == (1, 1)

    @pytest.mark.parametrize(
        ("before_expiry", "runs"),
        [(limits.EXPIRY_SECONDS + 1, 1), (limits.EXPIRY_SECONDS, 2), (-5, 2)],
    )
    async def test_expiry(self, plugin: Plugin, before_expiry: float, runs: int) -> None:
        clock = Clock()
        plugin.answer(token="one", expirationTimestamp="1970-01-01T01:00:00Z")
        source = PluginCredential(plugin.config(), clock=clock)
        await source.current()
        clock.now = 3600 - before_expiry
        await source.current()
        assert plugin.runs == runs

    async def test_refused_credential_is_replaced_once(self, plugin: Plugin) -> None:
        source = credential_source(plugin.config())
        refused = await source.current()
        plugin.answer(token="two")
        found = await asyncio.gather(*(source.refresh(refused) for _ in range(20)))
        assert set(found) == {Credential("Bearer two")}
        assert plugin.runs == 2

    async def test_the_same_again_is_no_better(self, plugin: Plugin) -> None:
        source = credential_source(plugin.config())
        assert await source.refresh(await source.current()) is None


class TestPluginFaults:
    """A plugin that does not work is named, with what to do; its output is quoted nowhere."""

    @pytest.mark.parametrize(
        ("output", "code", "message"),
        [
            pytest.param("s3cret", 0, "printed no ExecCredential", id="no-json"),
            pytest.param("{}", 0, "printed no ExecCredential", id="no-kind"),
            pytest.param(
                '{"apiVersion":"v1","kind":"Pod"}', 0, "printed v1 Pod, not", id="another-kind"
            ),
            pytest.param(
                f'{{"apiVersion":"{V1BETA1}","kind":"ExecCredential"}}',
                0,
                f"printed {V1BETA1} ExecCredential, not {V1}",
                id="another-version",
            ),
            pytest.param(
                f'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{}}}}',
                0,
                "gave no token and no certificate",
                id="empty-status",
            ),
            pytest.param(
                f'{{"apiVersion":"{V1}","kind":"ExecCredential",'
                '"status":{"clientCertificateData":"s3cret"}}',
                0,
                "gave only one of certificate and key",
                id="certificate-without-key",
            ),
            pytest.param(
                f'{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"s3\\ncret"}}}}',
                0,
                "token of several lines",
                id="token-lines",
            ),
            pytest.param(
                f'{{"apiVersion":"{V1}","kind":"ExecCredential",'
                '"status":{"token":"s3cret","expirationTimestamp":"soon"}}',
                0,
                "printed no ExecCredential",
                id="bad-expiry",
            ),
            pytest.param("s3cret", 3, "failed with exit code 3: run it by hand", id="exit-code"),
        ],
    )
    async def test_output(self, plugin: Plugin, output: str, code: int, message: str) -> None:
        plugin.print(output, code)
        with pytest.raises(ConfigError) as caught:
            await credential_source(plugin.config()).current()
        assert message in str(caught.value)
        assert "cret" not in str(caught.value)

    async def test_missing_command_shows_the_hint(self) -> None:
        missing = ExecPlugin("/missing/plugin", install_hint="get it from the shop")
        with pytest.raises(ConfigError, match=r"cannot be run: No such file.*\(get it from"):
            await credential_source(ClusterConfig("s", exec_plugin=missing)).current()

    async def test_a_hanging_plugin_is_killed(self, plugin: Plugin) -> None:
        from fairlead.client.credentials import run_exec_plugin

        plugin.path.write_text(f'#!/bin/sh\necho $$ >"{plugin.folder}/pid"\nexec sleep 60\n')
        with pytest.raises(ConfigError, match=r"did not end within 0\.5 s"):
            await run_exec_plugin(plugin.config(), timeout=0.5)
        pid = (plugin.folder / "pid").read_text().strip()
        assert not Path("/proc", pid).exists()
