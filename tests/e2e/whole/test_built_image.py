"""The image that ``make image`` builds: what is in it, and that each program starts from it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from hack.image.building import build
from tests.support.containers import Image, image, may_start, packages
from tests.support.image import ROOT
from tests.support.node import listening
from tests.support.pairs import fresh_planes
from tests.support.pods import pod

from fairlead.api.resource import DEPLOYMENTS
from fairlead.binding.manifests import manifests as binding
from fairlead.cli.manifests import DEFAULT_IMAGE
from fairlead.client import Client, parse_kubeconfig
from fairlead.demo.identity import create_all
from fairlead.konnector.manifests import manifests as konnector
from fairlead.portal.manifests import manifests as serve
from fairlead.postgres.manifests import manifests as postgres
from fairlead.provider.manifests import manifests as provider


pytestmark = pytest.mark.extended
STARTS = pytest.mark.skipif(bool(may_start()), reason=may_start())
PROGRAMS = {
    "binding": binding(image=DEFAULT_IMAGE),
    "konnector": konnector(image=DEFAULT_IMAGE),
    "postgres": postgres(image=DEFAULT_IMAGE),
    "provider": provider(image=DEFAULT_IMAGE),
    "serve": serve(
        image=DEFAULT_IMAGE,
        external_url="https://bind.example.org",
        issuer_url="https://login.example.org",
        client_id="fairlead",
    ),
}
PINNED = re.compile(r"^([\w-]+)==(\S+?)(?: *;.*)? \\$", re.MULTILINE)
LOOK = """
import glob, importlib, json, os, ssl, sys, zoneinfo
names = [os.path.basename(file).partition(".")[0]
         for file in glob.glob(f"/usr/lib/python3.*/lib-dynload/*.so")]
for name in names:
    importlib.import_module(name)
try:
    open("/there", "w")
    written = "yes"
except OSError as error:
    written = error.strerror
import fairlead.portal.app, fairlead.portal.identity.redisstore
print(json.dumps({
    "modules": len(names), "written": written, "user": [os.getuid(), os.getgid()],
    "authorities": len(ssl.create_default_context().get_ca_certs()),
    "zone": zoneinfo.ZoneInfo("Europe/Amsterdam").key,
    "compiled": sys.modules["fairlead.portal.app"].__cached__,
}))
"""


@pytest.fixture(scope="module")
def built() -> Image:
    return image()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Below /tmp, where a container's own /tmp is."""
    with tempfile.TemporaryDirectory(prefix="fairlead-pod-", dir="/tmp") as folder:
        yield Path(folder)


def test_each_blob_is_what_its_digest_says(built: Image) -> None:
    with tarfile.open(built.built.archive) as archive:
        names = archive.getnames()
        for name in names:
            if name.startswith("blobs/sha256/"):
                content = archive.extractfile(name)
                assert content
                assert hashlib.sha256(content.read()).hexdigest() == name.rpartition("/")[2]
    (described,) = built.index["manifests"]
    assert described["digest"] == built.built.digest
    asked = [built.manifest["config"], *built.manifest["layers"]]
    for one in asked:
        assert f"blobs/{one['digest'].replace(':', '/')}" in names
    assert len(built.manifest["layers"]) == len(built.configuration["rootfs"]["diff_ids"]) == 3


def test_it_says_what_it_is_and_names_a_user_without_rights(built: Image) -> None:
    run = built.configuration["config"]
    assert (run["User"], run["Entrypoint"]) == ("65532:65532", ["fairlead"])
    labels = {name.rpartition(".")[2]: text for name, text in run["Labels"].items()}
    assert labels["version"] == version("fairlead")
    assert labels["licenses"] == "Apache-2.0"
    assert run["Labels"] == built.manifest["annotations"]


def test_it_holds_no_shell_and_no_program_but_two(built: Image) -> None:
    places = {"bin", "sbin", "games"}
    programs = {
        file.name
        for file in built.root.rglob("*")
        if file.parent.name in places and (file.is_symlink() or not file.is_dir())
    }
    (python,) = programs - {"fairlead"}
    assert re.fullmatch(r"python3\.\d+", python)
    for file in built.root.rglob("*"):
        if not file.is_symlink():
            mode = file.stat().st_mode
            assert not mode & 0o6000, f"{file} takes the rights of its owner"
            assert not mode & 0o022 or mode & 0o1000, f"{file} can be written to by others"
    assert not list(built.root.rglob("*.dist-info/direct_url.json"))


@STARTS
def test_its_python_has_all_that_it_loads_and_writes_nowhere(built: Image, folder: Path) -> None:
    (python,) = (built.root / "usr/bin").iterdir()
    start = built.launcher(folder, f"/usr/bin/{python.name}")
    (folder / "tmp").mkdir()
    done = subprocess.run(
        [start, "-c", LOOK],
        env={"PATH": os.defpath, "TMPDIR": str(folder / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["modules"] > 30
    assert told["authorities"] > 100
    assert told["written"] == "Read-only file system"
    assert told["user"] == [65532, 65532]
    assert told["zone"] == "Europe/Amsterdam"
    assert (built.root / told["compiled"].lstrip("/")).exists()


def test_the_bill_names_all_that_it_holds_with_licences(built: Image) -> None:
    bill = json.loads(built.built.bill.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    described = bill["metadata"]["component"]
    assert described["version"] == version("fairlead")
    assert f"sha256:{described['hashes'][0]['content']}" == built.built.digest
    found = {(one["purl"].split("/")[0], one["name"]): one for one in bill["components"]}
    held = {("pkg:deb", file.name) for file in (built.root / "var/lib/dpkg/status.d").iterdir()}
    pinned = dict(PINNED.findall((ROOT / "requirements/image.txt").read_text()))
    for folder in built.root.glob("usr/local/lib/*/dist-packages/*.dist-info"):
        name, _, number = folder.name.removesuffix(".dist-info").partition("-")
        name = re.sub(r"[-_.]+", "-", name).lower()
        held.add(("pkg:pypi", name))
        if name != "fairlead":
            assert found["pkg:pypi", name]["version"] == number == pinned[name]
    assert set(found) == held | {("pkg:npm", "htmx.org")}
    assert {name for kind, name in held if kind == "pkg:deb"} >= {"libc6", "libssl3", "tzdata"}
    licences = built.built.licences.read_text()
    for one in bill["components"]:
        assert one["licenses"], one["name"]
        assert f"\n{one['name']} {one['version']}: " in licences
    libraries = {one["name"] for one in found["pkg:pypi", "psycopg-binary"]["components"]}
    assert any(name.startswith("libpq") for name in libraries)


def test_it_is_the_same_when_nothing_is_kept(
    built: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = packages()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    again = build(ROOT, tmp_path / "again", packages=fetched)
    assert again.digest == built.built.digest
    for before, after in zip(built.built[:3], again[:3], strict=True):
        assert Path(before).read_bytes() == Path(after).read_bytes()


@pytest.fixture
async def admin(real_programs: None) -> AsyncIterator[Client]:
    async with (
        fresh_planes("real", "image") as (plane,),
        Client(parse_kubeconfig(plane.kubeconfig())) as client,
    ):
        yield client


@STARTS
async def test_each_program_gets_ready_in_it_on_a_real_control_plane(
    built: Image, admin: Client, folder: Path
) -> None:
    for name, bodies in PROGRAMS.items():
        place = folder / name
        place.mkdir()
        await create_all(admin, bodies)
        (body,) = (body for body in bodies if body["kind"] == "Deployment")
        deployment = await admin.create(DEPLOYMENTS, body, body["metadata"]["namespace"])
        start = built.launcher(folder)
        async with pod(admin, deployment, start, place, *listening(deployment)) as temporary:
            pass
        assert not list(temporary.iterdir()), name
