"""The tab key in real shells, with names from a cluster; and kubectl's, which asks a plugin."""

from __future__ import annotations

import asyncio
import os
import pty
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import against
from tests.support.kubectl import kubectls

from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, crds
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTTEMPLATES,
    consumer_crds,
    provider_crds,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import NAMESPACES
from fairlead.client import Client, parse_kubeconfig
from fairlead.runtime import install_crds
from fairlead_sandbox import Sandbox


SECONDS = 60.0
"""Never so long: a test that waits for it hangs."""
PROGRAMS = Path(sys.executable).parent
REF = {"kubeconfigSecretRef": {"name": "k", "namespace": "kube-bind", "key": "kubeconfig"}}
MIRROR = {"connectionRef": {"name": "acme"}, "apis": [{"name": "things.example.org"}]}
NAMES = {
    CLUSTERBINDINGS: ("mirror", MIRROR),
    BINDINGS: ("own", MIRROR),
    APISERVICEBINDINGS: ("database", REF),
    APISERVICEEXPORTTEMPLATES: (
        "postgres",
        {"scope": "Namespaced", "resources": [{"group": "example.org", "resource": "things"}]},
    ),
}


@pytest.fixture
async def options(tmp_path: Path) -> AsyncIterator[str]:
    """What names a cluster with one binding, one template and one consumer."""
    async with Sandbox(name="plane") as plane:
        async with Client(parse_kubeconfig(plane.kubeconfig())) as client:
            await install_crds(client, [*consumer_crds(), *provider_crds(), *crds()])
            for resource, (name, spec) in NAMES.items():
                body: JSON = {
                    "apiVersion": resource.api_version,
                    "kind": resource.kind,
                    "metadata": {"name": name},
                    "spec": spec,
                }
                namespace = "default" if resource.namespaced else ""
                await client.create(resource, body, namespace)
            annotations = {"backend.kube-bind.io/identity": "shop-team"}
            metadata = {"name": "kube-bind-x", "annotations": annotations}
            consumer = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            await client.create(NAMESPACES, consumer)
        yield " ".join(against(plane, tmp_path))


def environment(**more: str) -> dict[str, str]:
    known = {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}", "HOME": "/nowhere"}
    # On a busy machine a tab may take its time.
    known |= {"FAIRLEAD_COMPLETION_SECONDS": "30"}
    return {**known, "TERM": "dumb", "LC_ALL": "C.UTF-8", "COLUMNS": "400", **more}


async def answer(*command: str, silent: bool = True, **more: str) -> list[str]:
    """The lines that a command prints; the server that it asks is on this very loop."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**more),
    )
    out, err = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode == 0, err
    assert not (silent and err), err
    return out.decode().splitlines()


class Terminal:
    """An interactive shell behind a terminal."""

    def __init__(self, *command: str, folder: Path) -> None:
        self._master, slave = pty.openpty()
        self._shell = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            cwd=folder,
            env=environment(HOME=str(folder)),
        )
        os.close(slave)
        self.said = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    async def shows(self, text: str) -> None:
        """Wait until this appears after all that was seen before."""
        loop = asyncio.get_running_loop()
        seen = ""
        async with asyncio.timeout(SECONDS):
            while text not in seen:
                part = await loop.run_in_executor(None, os.read, self._master, 4096)
                seen += part.decode(errors="replace")
                self.said += seen

    def close(self) -> None:
        self._shell.kill()
        self._shell.wait()
        os.close(self._master)


@contextmanager
def terminal(*command: str, folder: Path) -> Iterator[Terminal]:
    one = Terminal(*command, folder=folder)
    try:
        yield one
    finally:
        one.close()


SHELLS = {
    "bash": (("bash", "--norc", "-i"), "source <(fairlead completion bash)"),
    "zsh": (
        ("zsh", "-f", "-i"),
        "autoload -U compinit; compinit -D; source <(fairlead completion zsh)",
    ),
    "fish": (("fish", "--no-config", "-i"), "fairlead completion fish | source"),
}


@pytest.mark.parametrize("program", ["fairlead", "kubectl-fairlead"])
@pytest.mark.parametrize("shell", SHELLS)
async def test_the_tab_key_completes_a_name_of_the_cluster(
    options: str, tmp_path: Path, shell: str, program: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command, setup = SHELLS[shell]
    if shell == "fish":
        # Fish wants answers from its terminal that a plain pipe does not give.
        line = f"{setup}; complete -C '{program} unbind {options} dat'"
        assert await answer("fish", "--no-config", "-c", line) == ["database"]
        return
    with terminal(*command, folder=tmp_path) as screen:
        screen.type(f"{setup}; echo rea''dy\n")
        await screen.shows("ready")
        screen.type(f"{program} unbind {options} dat\t")
        await screen.shows("database")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        pytest.param("Sho", "Shop\\ Team\\!", id="bare"),
        pytest.param("Shop\\ T", "Shop\\ Team\\!", id="escaped"),
        pytest.param("'Sho", "Shop Team!", id="quoted"),
        pytest.param("\\*", "\\*star", id="pattern"),
    ],
)
async def test_bash_quotes_a_name_that_is_more_than_one_word(
    tmp_path: Path, typed: str, expected: str
) -> None:
    path = tmp_path / "two.kubeconfig"
    path.write_text("contexts: [{name: Shop Team!, context: {}}, {name: '*star', context: {}}]\n")
    setup, words = SHELLS["bash"][1], ["fairlead", "unbind", "--kubeconfig", str(path)]
    line = " ".join(shlex.quote(word) for word in [*words, "--context", typed])
    # What bash calls at the tab key, with the words as they stand in the line.
    script = (
        f"{setup}; COMP_WORDS=({line}) COMP_CWORD={len(words) + 1}; "
        """_fairlead_completion fairlead; printf '%s\\n' "${COMPREPLY[@]}\""""
    )
    assert await answer("bash", "--norc", "-c", script) == [expected]


async def complete(line: str, **more: str) -> list[str]:
    """The candidates for the last word of a line, as click's function of bash hands them over."""
    words = line.split(" ")
    told = await answer(
        str(PROGRAMS / "fairlead"),
        silent=True,
        **more,
        _FAIRLEAD_COMPLETE="bash_complete",
        COMP_WORDS="\n".join(words),
        COMP_CWORD=str(len(words) - 1),
    )
    return [one.partition(",")[2] for one in told if one]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "unbind OPTIONS ",
            ["binding/default/own", "clusterbinding/mirror", "database"],
            id="unbind",
        ),
        pytest.param("accept OPTIONS cl", ["clusterbinding/mirror"], id="accept-kbind"),
        pytest.param("accept OPTIONS d", ["database"], id="accept"),
        pytest.param(
            "bindings OPTIONS ",
            ["binding/default/own", "clusterbinding/mirror", "database"],
            id="bindings",
        ),
        pytest.param("explain OPTIONS cl", ["clusterbinding/mirror"], id="explain"),
        pytest.param("unbind OPTIONS x", [], id="another letter"),
        pytest.param("unbind OPTIONS --context ", ["plane"], id="context"),
        pytest.param("crds con", ["consumer"], id="choice"),
        pytest.param("unbi", ["unbind"], id="command"),
        pytest.param("provider rotate OPTIONS ", ["shop-team"], id="rotate"),
        pytest.param("provider revoke OPTIONS ", ["shop-team"], id="revoke"),
        pytest.param("provider invite x OPTIONS --template ", ["postgres"], id="template"),
    ],
)
async def test_what_is_completed(options: str, line: str, expected: list[str]) -> None:
    assert await complete("fairlead " + line.replace("OPTIONS", options)) == expected


async def test_a_cluster_that_is_not_there_refuses_or_hangs_is_silent(tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    assert await complete(f"fairlead unbind --kubeconfig {tmp_path}/missing ") == []
    assert await complete(f"fairlead unbind --kubeconfig {tmp_path}/broken ") == []
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        server = f"https://127.0.0.1:{deaf.getsockname()[1]}"
        document = (
            f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n"
            "contexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n"
        )
        (tmp_path / "deaf").write_text(document)
        line = f"fairlead unbind --kubeconfig {tmp_path}/deaf "
        assert await complete(line, FAIRLEAD_COMPLETION_SECONDS="0.2") == []


async def test_kubectl_asks_the_plugin(options: str) -> None:
    able = [one for one in kubectls() if one.version >= (1, 26)]
    if not able:
        pytest.skip("there is no kubectl 1.26 or newer")
    for words, expected in (
        (["unbind", *options.split(), "dat"], ["database", ":4"]),
        (["crds", "post"], ["postgres", ":4"]),
        (["bind", "-f", ""], [":0"]),
        (["crds", "--output-dir", ""], [":16"]),
    ):
        told = await answer(able[0].path, "__complete", "fairlead", *words, silent=False)
        assert told == expected
