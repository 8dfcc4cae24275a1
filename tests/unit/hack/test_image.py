from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from hack.image import keeping, oci, sbom
from hack.image.debian import UnavailableError, _merged, _tar, _unwanted
from hack.image.parts import Part, parts


ROOT = Path(__file__).parents[3]


def tree(folder: Path, *, reverse: bool = False) -> Path:
    """Files as two builds could have written them."""
    names = ["usr/bin/python", "usr/lib/a.py", "etc/passwd"]
    for name in reversed(names) if reverse else names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        file.chmod(0o700 if "bin" in name else 0o600)
        os.utime(file, (1, 1) if reverse else None)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    return folder


def test_a_layer_depends_on_its_files_alone(tmp_path: Path) -> None:
    one = oci.layer(tree(tmp_path / "one"), "one")
    other = oci.layer(tree(tmp_path / "other", reverse=True), "one")
    assert one == other
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one.blob))) as archive:
        found = {member.name: member for member in archive}
    assert list(found) == sorted(found, key=lambda name: Path(name).parts)
    assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(0, 0, 0)}
    modes = {name: oct(found[name].mode) for name in ("usr/bin/python", "etc/passwd", "tmp")}
    assert modes == {"usr/bin/python": "0o755", "etc/passwd": "0o644", "tmp": "0o1777"}
    assert found["bin"].linkname == "usr/bin"
    (tmp_path / "one" / "etc/passwd").write_text("other")
    assert oci.layer(tmp_path / "one", "one").diff_id != one.diff_id


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("fairlead", "docker.io/library/fairlead"),
        ("team/fairlead", "docker.io/team/fairlead"),
        ("registry.example.com/team/fairlead", "registry.example.com/team/fairlead"),
        ("registry:5000/fairlead", "registry:5000/fairlead"),
        ("localhost/fairlead", "localhost/fairlead"),
    ],
)
def test_containerd_gets_the_name_that_a_kubelet_looks_for(
    tmp_path: Path, name: str, full: str
) -> None:
    layers = [oci.layer(tree(tmp_path / "root"), "one")]
    blobs = oci.image(layers, architecture="amd64", run={"Labels": {}}, created=0)
    files = oci.layout(blobs, name, "0.2.0")
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["annotations"]["org.opencontainers.image.ref.name"] == "0.2.0"
    assert described["annotations"]["io.containerd.image.name"] == f"{full}:0.2.0"
    (docker,) = json.loads(files["manifest.json"])
    assert docker["RepoTags"] == [f"{name}:0.2.0"]
    assert all(path in files for path in (docker["Config"], *docker["Layers"]))


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("usr/bin/python3.11", True),
        ("usr/bin/pdb3.11", False),
        ("usr/bin/locale-check", False),
        ("usr/sbin/update-ca-certificates", False),
        ("usr/share/doc/libc6/copyright", True),
        ("usr/share/doc/libc6/changelog.Debian.gz", False),
        ("usr/share/zoneinfo/Europe/Amsterdam", True),
        ("usr/share/zoneinfo/right/Europe/Amsterdam", False),
        ("usr/lib/x86_64-linux-gnu/libz.so.1", True),
        ("usr/lib/x86_64-linux-gnu/gconv/UTF-7.so", False),
        ("etc/profile.d/", False),
        ("etc/python3.11/sitecustomize.py", True),
        ("etc/os-release", True),
    ],
)
def test_what_is_taken_of_packages(name: str, kept: bool) -> None:
    assert _unwanted(name) is not kept


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("./lib/x86_64-linux-gnu/libz.so.1", "usr/lib/x86_64-linux-gnu/libz.so.1"),
        ("./usr/lib/os-release", "usr/lib/os-release"),
        ("./library/file", "library/file"),
        ("./", "."),
    ],
)
def test_folders_of_the_root_are_those_of_usr(name: str, place: str) -> None:
    assert _merged(name) == place


def test_a_package_that_is_broken_is_named(tmp_path: Path) -> None:
    file = tmp_path / "libz_1_amd64.deb"
    file.write_text("half")
    with pytest.raises(UnavailableError, match=r"libz_1_amd64\.deb cannot be unpacked: remove it"):
        _tar(file)


def test_without_apt_one_line_says_what_helps(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hack.image", "--output-dir", str(tmp_path)],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "image: apt-get is not installed: build the image on Debian, or by the Dockerfile\n"
    )


def test_what_was_made_of_the_same_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def make(folder: Path) -> None:
        made.append(folder.name)
        (folder / "file").write_text("whole")

    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise InterruptedError

    for _ in range(2):
        assert (keeping.kept("layers", "one", make) / "file").read_text() == "whole"
    assert len(made) == 1
    with pytest.raises(InterruptedError):
        keeping.kept("layers", "two", fail)
    assert [file.name for file in keeping.kept("layers", "two", make).iterdir()] == ["file"]
    for name in ("three", "four", "five"):
        keeping.kept("layers", name, make)
    left = {one.name for one in (tmp_path / "fairlead-image/layers").iterdir() if one.is_dir()}
    assert len(left) == 2
    assert "five" in left


def test_a_key_is_that_of_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    (folder / "a").write_text("1")
    first = keeping.key("packages", folder)
    assert keeping.key("packages", folder) == first
    (folder / "a").rename(folder / "b")
    assert keeping.key("packages", folder) != first
    (folder / "b").rename(folder / "a")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__/a.pyc").write_text("compiled")
    assert keeping.key("packages", folder) == first
    assert keeping.key("other packages", folder) != first


COPYRIGHT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"


def test_parts_are_told_from_the_files(tmp_path: Path) -> None:
    root, above, own = (tmp_path / name for name in ("debian", "requirements", "own"))
    texts = {
        "usr/lib/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "var/lib/dpkg/status.d/zlib1g": "Package: zlib1g\nVersion: 1:1.2\nArchitecture: amd64\n",
        "var/lib/dpkg/status.d/libc6": "Package: libc6\nVersion: 2.36\nArchitecture: amd64\n",
        "usr/share/doc/zlib1g/copyright": f"{COPYRIGHT}\nFiles: *\nLicense: Zlib\n",
        "usr/share/doc/libc6/copyright": "This is the GNU C library.",
    }
    place = "usr/local/lib/python3.11/dist-packages"
    upper = {
        f"{place}/Some_Thing-1.0.dist-info/METADATA": "Name: Some_Thing\nVersion: 1.0\n"
        "License-Expression: MIT\n",
        f"{place}/Some_Thing-1.0.dist-info/licenses/LICENSE": "Permission is granted",
        f"{place}/Some_Thing.libs/libpq-1.so.5": "library",
        f"{place}/old-2.dist-info/METADATA": "Name: old\nVersion: 2\n"
        "Classifier: License :: OSI Approved :: BSD License\n",
    }
    for folder, files in ((root, texts), (above, upper)):
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    own.mkdir()
    found = {part.name: part for part in parts(root, above, own)}
    assert list(found) == ["libc6", "zlib1g", "old", "some-thing"]
    assert found["zlib1g"].url == "pkg:deb/debian/zlib1g@1%3A1.2?arch=amd64&distro=debian-12"
    assert found["zlib1g"].licences == ("Zlib",)
    assert found["libc6"].licences == ("LGPL-2.1-or-later", "see its copyright file")
    assert found["old"].licences == ("BSD License",)
    assert found["some-thing"].licences == ("MIT",)
    assert found["some-thing"].texts == ("Permission is granted",)
    assert [name for name, _ in found["some-thing"].files] == ["libpq-1.so.5"]


def test_expressions_and_names_of_licences_are_told_apart() -> None:
    found = [
        Part("pypi", "one", "1", ("Apache-2.0 OR MIT",), ("text",)),
        Part("pypi", "two", "1", ("Apache Software License",), ("text",)),
        Part("deb", "three", "1", ("GPL-2+", "Expat"), ("other",)),
    ]
    bill = json.loads(
        sbom.cyclonedx(found, name="fairlead", version="0.2.0", digest="ab" * 32, created=0)
    )
    assert [one["licenses"] for one in bill["components"]] == [
        [{"expression": "Apache-2.0 OR MIT"}],
        [{"license": {"name": "Apache Software License"}}],
        [{"license": {"name": "GPL-2+"}}, {"license": {"name": "Expat"}}],
    ]
    assert bill["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"
    text = sbom.licences(found)
    assert text.count("\ntext\n") == 1
    assert "The text is that of one." in text
