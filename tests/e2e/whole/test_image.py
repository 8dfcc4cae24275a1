"""What the image holds, and that the programs of the manifests start with no more than that."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.support.image import ROOT, Build, stages
from tests.support.pods import pod

from fairlead.api.meta import JSON
from fairlead.api.resource import DEPLOYMENTS
from fairlead.binding.manifests import manifests as binding
from fairlead.cli.manifests import DEFAULT_IMAGE
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import create_all
from fairlead.konnector.manifests import manifests as konnector
from fairlead.postgres.manifests import manifests as postgres
from fairlead.provider.manifests import manifests as provider
from fairlead_sandbox import Sandbox


pytestmark = pytest.mark.extended

PACKAGES = {
    *("fairlead", "aiohttp", "click", "msgspec", "prometheus-client", "psycopg"),
    *("psycopg-binary", "pyyaml", "rich", "structlog", "uvloop"),
    # What those need.
    *("aiohappyeyeballs", "aiosignal", "attrs", "frozenlist", "idna", "markdown-it-py", "mdurl"),
    *("multidict", "propcache", "pygments", "typing-extensions", "yarl"),
    # The certificates of admission webhooks.
    *("cryptography", "cffi", "pycparser"),
    # The front door: tokens of issuers, and sessions in Redis.
    *("jinja2", "joserfc", "markupsafe", "redis"),
}
PROGRAMS: dict[str, Callable[..., list[JSON]]] = {
    "binding": binding,
    "konnector": konnector,
    "postgres": postgres,
    "provider": provider,
}


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    """The folder that the image gets as /venv."""
    with tempfile.TemporaryDirectory(prefix="fairlead-image-") as folder:
        build = Build(Path(folder))
        build.run()
        yield build.venv


def said(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stdout + done.stderr, done.stderr
    return done.stdout + done.stderr


def test_it_holds_what_the_programs_need_and_nothing_else(image: Path) -> None:
    code = "from importlib.metadata import *; print(*(d.name.lower() for d in distributions()))"
    found = said(image / "bin" / "python", "-c", code).replace("_", "-").split()
    # From Python 3.13 on, which the image has, nothing needs them.
    assert {*found, "typing-extensions"} == PACKAGES


def test_it_is_that_alone_and_runs_as_nobody() -> None:
    *_, last = stages((ROOT / "Dockerfile").read_text())
    steps = [step for step in last if step.instruction not in {"FROM", "ENV"}]
    assert steps == [
        ("COPY", "--from=build /venv /venv"),
        ("USER", "65532:65532"),
        ("ENTRYPOINT", '["fairlead"]'),
    ]


@pytest.mark.parametrize(
    "file", ["Dockerfile", "docs/reference/image.md", "docs/tutorials/own-clusters.md"]
)
def test_it_is_called_as_the_manifests_call_it(file: str) -> None:
    called = re.findall(r"docker build -t (\S+) \.", (ROOT / file).read_text())
    assert called == [DEFAULT_IMAGE]


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_program_tells_its_flags(image: Path, program: str) -> None:
    assert "--leader-elect" in said(image / "bin" / "fairlead", program, "run", "--help")


def test_it_has_what_the_front_door_needs(image: Path) -> None:
    assert "--external-url" in said(image / "bin" / "fairlead", "provider", "serve", "--help")
    code = "import fairlead.portal.app, fairlead.portal.identity.redisstore"
    assert said(image / "bin" / "python", "-c", code) == ""


def test_it_lists_all_commands_and_says_what_those_of_a_laptop_lack(image: Path) -> None:
    fairlead = image / "bin" / "fairlead"
    told = said(fairlead, "--help")
    assert all(f"\n  {name} " in told for name in ("bind", "demo", "sandbox"))
    assert said(fairlead, "--version").split()[-1] == version("fairlead")
    for arguments in (("demo",), ("sandbox", "up", "--dir", str(image / "never"))):
        assert "is not installed: in Fairlead's repository, uv tool" in said(fairlead, *arguments)


@pytest.fixture
async def admin() -> AsyncIterator[Client]:
    async with (
        Sandbox(name="image") as plane,
        Client(parse_kubeconfig(plane.kubeconfig())) as client,
    ):
        yield client


@pytest.mark.parametrize("program", PROGRAMS)
async def test_each_program_gets_ready_as_its_manifests_have_it(
    image: Path, admin: Client, program: str, tmp_path: Path
) -> None:
    bodies = PROGRAMS[program](image=DEFAULT_IMAGE)
    await create_all(admin, bodies)
    (body,) = (body for body in bodies if body["kind"] == "Deployment")
    deployment = await admin.create(DEPLOYMENTS, body, body["metadata"]["namespace"])
    before = files(image)
    async with pod(admin, deployment, image / "bin" / "fairlead", tmp_path) as temporary:
        pass
    assert not list(temporary.iterdir())
    assert files(image) == before, "something is written below the image's read-only root"


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.exists()}
