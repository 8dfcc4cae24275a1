"""``fairlead postgres plan``, ``explain``, ``audit`` and ``import`` as a person runs them."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import LiteralString, NamedTuple

import psycopg
import pytest
import yaml
from tests.support.commands import FAIRLEAD, against, fairlead
from tests.support.pgserver import sweep
from tests.support.postgres import access, credentials, prepare, running, server_profile
from tests.support.waiting import condition, when

from fairlead.api.manifests import rule
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.postgresaccess.server import POSTGRESSERVERS
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import as_service_account, create_all
from fairlead.demo.postgres.server import EmbeddedPostgres
from fairlead_sandbox import Sandbox


class World(NamedTuple):
    """A control plane with a PostgresServer and a namespace, and commands against it."""

    plane: Sandbox
    folder: Path
    admin: Client

    async def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        if not stdin:
            return await fairlead(self.plane, self.folder, "postgres", *arguments)
        file = self.folder / "stdin"
        file.write_text(stdin)
        with file.open() as opened:
            return await fairlead(
                self.plane, self.folder, "postgres", *arguments, stdin=opened.fileno()
            )

    def file(self, *bodies: JSON) -> str:
        path = self.folder / "manifests.yaml"
        path.write_text(yaml.safe_dump_all(bodies))
        return str(path)

    async def create(self, name: str, **spec: object) -> None:
        await self.admin.create(POSTGRESACCESSES, access(name, "team", "main", **spec))

    async def ready(self, name: str) -> None:
        def is_ready(body: JSON) -> bool:
            return condition(body, "Ready").get("status") == "True"

        await when(self.admin, POSTGRESACCESSES, name, "team", until=is_ready)


@pytest.fixture
async def world(tmp_path: Path, postgres: EmbeddedPostgres) -> AsyncIterator[World]:
    async with Sandbox(name="plane") as plane:  # noqa: SIM117
        async with Client(parse_kubeconfig(plane.kubeconfig())) as admin:
            await prepare(admin)
            for name in ("team", "other"):
                body: JSON = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
                await admin.create(NAMESPACES, body)
            await admin.create(SECRETS, credentials("main", postgres))
            await admin.create(POSTGRESSERVERS, server_profile("main", postgres))
            yield World(plane, tmp_path, admin)
    # The next test's cluster would take what is left for another installation's.
    await sweep(postgres)


def one_line(text: str) -> str:
    (line,) = text.splitlines()
    return line


COMMANDS = {
    "plan": ("plan", "--all"),
    "explain": ("explain", "shop", "-n", "team"),
    "audit": ("audit", "--server", "main"),
    "import": ("import", "--server", "main"),
}


async def test_exit_codes_and_documents(world: World) -> None:
    body = access("shop", "team", "main")
    code, out, err = await world.run("plan", "-f", world.file(body))
    assert (code, err) == (2, "1 access at 1 server: 2 statements would run\n")
    assert "CREATE ROLE \"shop\" LOGIN PASSWORD '***';" in out
    assert "\x1b" not in out
    code, out, _ = await world.run("plan", "-f", "-", "--json", stdin=json.dumps(body))
    found = json.loads(out)
    assert (code, found["inSync"], found["problems"]) == (2, False, [])
    assert found["servers"][0]["databases"][0]["statements"][0]["accesses"] == ["team/shop"]

    async with running(world.admin):
        await world.create("shop")
        await world.ready("shop")
    code, out, err = await world.run("plan", "--all", "-n", "team")
    assert (code, out, err) == (0, "", "1 access at 1 server: in sync\n")
    code, out, _ = await world.run("plan", "--all", "-n", "other", "--json")
    assert (code, json.loads(out)["servers"]) == (0, [])

    code, out, err = await world.run("explain", "shop", "-n", "team")
    assert (code, err) == (0, "")
    assert out.startswith("team/shop: ready")
    code, out, _ = await world.run("explain", "shop", "-n", "team", "--json")
    assert (code, {step["state"] for step in json.loads(out)["steps"]}) == (0, {"ok"})

    code, out, _ = await world.run("audit", "--server", "main", "--json")
    kinds = {role["role"]: role["kind"] for role in json.loads(out)["roles"]}
    assert (code, kinds["shop"]) == (0, "asked")
    code, out, _ = await world.run("audit", "--server", "main")
    assert code == 0
    assert re.search(r"^shop +asked +team/shop +yes", out, re.MULTILINE)


async def test_an_import_is_a_manifest_that_can_be_planned(
    world: World, postgres: EmbeddedPostgres
) -> None:
    await sql(postgres, 'CREATE ROLE "by hand" LOGIN')
    command = ("import", "--server", "main", "--role", "by hand", "-n", "team")
    code, out, err = await world.run(*command, "--dry-run")
    assert code == 0
    assert "allowAdoption" in one_line(err)
    assert "# Role by hand of PostgresServer main, as it is. Adoption will write" in out
    code, _, err = await world.run("plan", "-f", "-", stdin=out)
    assert code == 1
    assert "AdoptionRefused" in err
    code, out, err = await world.run(*command)
    assert (code, err) == (0, "")
    assert out.startswith("---\n# Role by hand of PostgresServer main, as it is. Its comment")
    (found,) = yaml.safe_load_all(out)
    assert found["metadata"] == {"name": "by-hand", "namespace": "team"}
    code, out, err = await world.run("plan", "-f", "-", stdin=out)
    assert (code, out, one_line(err)) == (0, "", "1 access at 1 server: in sync")
    code, out, err = await world.run("import", "--server", "main", "--role", "postgres")
    assert (code, out) == (1, "")
    assert one_line(err) == "skipped: role postgres: it is the administrator itself"


async def sql(postgres: EmbeddedPostgres, statement: LiteralString) -> None:
    async with await psycopg.AsyncConnection.connect(
        postgres.dsn(), autocommit=True
    ) as connection:
        await connection.execute(statement)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("a: [", "it is not valid YAML", id="broken"),
        pytest.param("", "it is empty", id="empty"),
        pytest.param("just text", "document 1 is not a Kubernetes object", id="text"),
        pytest.param("kind: ConfigMap", "there is no PostgresAccess in it", id="another-kind"),
        pytest.param("a: &a [1]\nb: *a", "aliases", id="aliases"),
        pytest.param("kind: PostgresAccess", "apiVersion of a PostgresAccess is", id="version"),
        pytest.param(
            "apiVersion: access.k8s.delta10.nl/v1\nkind: PostgresAccess\nmetadata: {name: x}",
            "PostgresAccess x: spec: it is required",
            id="no-spec",
        ),
        pytest.param(
            yaml.safe_dump_all([access("x", "team", "main")] * 2),
            "PostgresAccess team/x is there twice",
            id="twice",
        ),
    ],
)
async def test_what_is_no_manifest(world: World, text: str, said: str) -> None:
    path = world.folder / "broken.yaml"
    path.write_text(text)
    code, out, err = await world.run("plan", "-f", str(path))
    assert (code, out) == (1, "")
    assert said in err.splitlines()[-1]
    assert str(path) in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(("plan",), "give -f FILE, or --all", id="nothing"),
        pytest.param(("plan", "--all", "-f", "/dev/null"), "give -f FILE, or --all", id="both"),
        pytest.param(("plan", "-f", "/no/such/file"), "No such file", id="no-file"),
        pytest.param(("plan", "--sql"), "No such option", id="no-option"),
    ],
)
async def test_wrong_usage_of_plan_is_no_change(
    world: World, arguments: tuple[str, ...], said: str
) -> None:
    """The exit code 2 says that something would be done, and nothing else."""
    code, out, err = await world.run(*arguments)
    assert (code, out) == (1, "")
    assert said in err


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_cluster_without_the_kinds(tmp_path: Path, command: str) -> None:
    async with Sandbox(name="plane") as plane:
        code, out, err = await fairlead(plane, tmp_path, "postgres", *COMMANDS[command])
    assert (code, out) == (1, "")
    assert "fairlead crds postgres | kubectl apply -f -" in one_line(err)


@pytest.mark.parametrize("command", ["audit", "import"])
async def test_a_server_that_is_not_there(world: World, command: str) -> None:
    code, out, err = await world.run(command, "--server", "nowhere")
    assert (code, out) == (1, "")
    assert one_line(err) == (
        "Error: ServerNotFound: PostgresServer nowhere does not exist; kubectl get"
        " postgresservers lists those that do"
    )


async def test_an_access_that_is_not_there(world: World) -> None:
    code, out, err = await world.run("explain", "nothing")
    assert (code, out) == (1, "")
    assert "PostgresAccess default/nothing does not exist" in one_line(err)


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_server_that_is_away(
    world: World, postgres: EmbeddedPostgres, command: str
) -> None:
    await world.admin.merge_patch(POSTGRESSERVERS, "main", "", {"spec": {"port": 1}})
    await world.create("shop")
    code, out, err = await world.run(*COMMANDS[command])
    assert code == 1
    assert "nothing listens at 127.0.0.1:1" in out + err
    if command in {"audit", "import"}:
        one_line(err)


def somebody(*rules: JSON) -> list[JSON]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "somebody"}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "somebody", "namespace": "team"},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "somebody"},
            "rules": list(rules),
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "somebody"},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": "somebody", "namespace": "team"}],
        },
    ]


async def as_somebody(world: World, *rules: JSON) -> list[str]:
    """The options of a person with these rights alone."""
    await create_all(world.admin, somebody(*rules))
    config = await as_service_account(world.admin, "team", "somebody")
    kubeconfig = yaml.safe_load(world.plane.kubeconfig())
    kubeconfig["users"][0]["user"] = {"token": config.token}
    path = world.folder / "somebody.kubeconfig"
    path.write_text(yaml.safe_dump(kubeconfig))
    return ["--kubeconfig", str(path)]


async def run_as(options: list[str], *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "postgres", *arguments, *options),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    assert b"Traceback" not in err
    return process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("command", COMMANDS)
async def test_without_any_right_there_is_one_line(world: World, command: str) -> None:
    options = await as_somebody(world)
    code, out, err = await run_as(options, *COMMANDS[command])
    assert (code, out) == (1, "")
    assert "somebody" in one_line(err)
    assert "cannot" in one_line(err)
    assert "ask an administrator to grant it" in one_line(err)


async def test_without_the_credentials_the_status_has_the_word(world: World) -> None:
    async with running(world.admin):
        await world.create("shop")
        await world.ready("shop")
        await world.create("late", username="shop")
        await when(
            world.admin,
            POSTGRESACCESSES,
            "late",
            "team",
            until=lambda body: condition(body, "Ready").get("reason") == "UsernameConflict",
        )
    group = "access.k8s.delta10.nl"
    options = await as_somebody(
        world,
        rule(group, ["postgresaccesses", "postgresservers"], ["get", "list"]),
        rule("", ["namespaces"], ["get"]),
    )
    code, out, err = await run_as(options, "explain", "shop", "-n", "team")
    assert code == 0
    assert "you may not read Secret" in err
    code, out, err = await run_as(options, "explain", "late", "-n", "team", "--json")
    found = json.loads(out)
    assert (code, found["reason"]) == (1, "UsernameConflict")
    assert [one["name"] for one in found["inTheWay"]] == ["team/shop"]
    assert "another spec.username" in found["nextStep"]
    code, out, err = await run_as(options, "plan", "--all")
    assert code == 1
    assert "you may not read Secret fairlead-postgres/main" in err
    for command in ("audit", "import"):
        code, _, err = await run_as(options, *COMMANDS[command])
        assert code == 1
        assert "you may not read Secret fairlead-postgres/main" in err.splitlines()[-1]


async def on_terminal(world: World, *arguments: str, **more: str) -> str:
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(*FAIRLEAD, "postgres", *arguments, *against(world.plane, world.folder)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color", **more},
    )
    os.close(slave)
    loop = asyncio.get_running_loop()
    found = b""
    while True:
        try:
            part = await loop.run_in_executor(None, os.read, master, 65536)
        except OSError:
            break
        if not part:
            break
        found += part
    os.close(master)
    await process.wait()
    return found.decode()


async def test_colours_are_for_terminals_that_want_them(world: World) -> None:
    file = world.file(access("shop", "team", "main"))
    seen = await on_terminal(world, "plan", "-f", file)
    assert "\x1b[32mCREATE ROLE" in seen
    plain = await on_terminal(world, "plan", "-f", file, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", plain)


async def test_names_that_steer_a_terminal_are_told_without(
    world: World, postgres: EmbeddedPostgres
) -> None:
    await sql(postgres, 'CREATE ROLE "evil\x1b[2J" LOGIN')
    code, out, err = await world.run("audit", "--server", "main")
    _, _, skipped = await world.run("import", "--server", "main")
    assert code == 0
    assert "evil?[2J" in out
    assert "\x1b" not in out + err + skipped


async def test_names_complete(world: World) -> None:
    await world.create("shop-database")
    options = against(world.plane, world.folder)
    program = str(Path(sys.executable).parent / "kubectl_complete-fairlead")

    async def complete(*words: str) -> list[str]:
        process = await asyncio.create_subprocess_exec(
            program,
            *words,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "FAIRLEAD_COMPLETION_SECONDS": "30"},
        )
        out, _ = await process.communicate()
        return out.decode().splitlines()[:-1]

    assert await complete("postgres", "explain", *options, "-n", "team", "") == ["shop-database"]
    assert await complete("postgres", "explain", *options, "") == []
    assert await complete("postgres", "audit", *options, "--server", "") == ["main"]
    assert await complete("postgres", "import", *options, "--server", "m") == ["main"]
    assert await complete("postgres", "plan", *options, "--all", "-n", "te") == ["team"]
