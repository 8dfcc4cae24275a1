"""The lowest layer: Debian's Python, the libraries that it loads, and data that it reads."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hack.image.keeping import locked


LEFT_OUT = {
    # Maintainer scripts want these, and none is run: what they would make is made here.
    "debconf": (),
    "dpkg": (),
    "mawk": (),
    "openssl": (),
    "readline-common": (),
    # Modules of Python's that no program imports, and what they alone would bring along.
    "libdb5.3": ("_dbm",),
    "libdb5.3t64": ("_dbm",),
    "libgdbm6": ("_gdbm",),
    "libncursesw6": ("_curses", "_curses_panel"),
    "libnsl2": ("nis",),
    "libreadline8": ("readline",),
    "libreadline8t64": ("readline",),
    "libsqlite3-0": ("_sqlite3",),
    "libtinfo6": (),
    "libtirpc3": (),
    "libtirpc3t64": (),
}
"""Debian's packages that the image goes without, each with Python's modules that would load it."""
_UNWANTED = re.compile(
    r"""(usr/)?s?bin/(?!python3\.\d+$)
    | usr/share/doc/[^/]+/(?!copyright$)
    | usr/share/(applications|base-files|bash-completion|binfmts|bug|dict|info|lintian|locale|man
        |menu|misc|pixmaps|python3)/
    | usr/share/zoneinfo/(posix|right)/
    | usr/lib/([^/]+/gconv|binfmt\.d|python3\.\d+/test)/
    | (boot|home|root|var)/
    | etc/(?!debian_version$|mime\.types$|os-release$|python3)
    """,
    re.VERBOSE,
)
_MERGED = ("bin", "lib", "lib64", "sbin")
"""Folders that are links to those of the same names in /usr."""
_EMPTY = ("dev", "proc", "run", "sys", "tmp", "var/run")
"""Folders that a container's runtime puts its own file systems onto."""
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
"""The bundle of all CAs, relative to the image's root."""
_USERS = "root:x:0:0:root:/root:/none\nnonroot:x:65532:65532:nonroot:/nonexistent:/none\n"
_GROUPS = "root:x:0:\nnonroot:x:65532:\n"


class UnavailableError(Exception):
    """Debian's packages cannot be fetched here; the text says why and what helps."""


class Package(NamedTuple):
    """A package that apt has fetched and verified."""

    name: str
    version: str
    architecture: str
    file: Path


class Apt:
    """The sources and keys of this machine's apt, with lists and a status of our own.

    What is installed on the machine changes nothing, and nothing on it is changed.

    Args:
        folder: lists and packages are kept there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._archives = folder / "archives"
        self.architecture = ""

    def packages(self) -> list[Package]:
        """Fetch what the image consists of, in Debian's newest versions, sorted by name.

        Raises:
            UnavailableError: this is not Debian, or its archive cannot be reached.
        """
        if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
            raise UnavailableError(
                "apt-get is not installed: build the image on Debian, or by the Dockerfile"
            )
        with locked(self._folder / "lock"):
            for folder in ("lists/partial", "archives/partial"):
                (self._folder / folder).mkdir(parents=True, exist_ok=True)
            self.architecture = _said(["dpkg", "--print-architecture"]).strip()
            self._pretend()
            self._run("update", "-o", "APT::Update::Error-Mode=any")
            wanted = [*self._python(), "base-files", "ca-certificates", "tzdata"]
            install = ("install", "--no-install-recommends", "--yes", *wanted)
            planned = self._run("--simulate", *install)
            self._run("--download-only", *install)
            found = re.findall(r"^Inst (\S+) \((\S+) .*\[(\w+)\]\)", planned, re.MULTILINE)
            return sorted(
                Package(name, version, architecture, self._file(name, version, architecture))
                for name, version, architecture in found
            )

    def _python(self) -> tuple[str, str]:
        """Packages with this release's default version of Python."""
        told = self._run("show", "--no-all-versions", "python3-minimal", program="apt-cache")
        found = re.search(r"^(?:Pre-)?Depends:.*\bpython(3\.\d+)-minimal\b", told, re.MULTILINE)
        if not found:
            raise UnavailableError("python3-minimal names no version: are apt's sources Debian's?")
        return f"python{found[1]}-minimal", f"libpython{found[1]}-stdlib"

    def _pretend(self) -> None:
        """Write a status in which nothing is installed but what the image goes without."""
        text = "".join(
            f"Package: {name}\nStatus: install ok installed\nVersion: 99:1\n"
            f"Architecture: {self.architecture}\nMulti-Arch: foreign\n"
            "Maintainer: none\nDescription: none\n\n"
            for name in LEFT_OUT
        )
        virtual = "Package: mawk\nProvides: awk\n"
        status = self._folder / "status"
        status.write_text(text.replace("Package: mawk\n", virtual))

    def _run(self, *arguments: str, program: str = "apt-get") -> str:
        settings = {
            "Dir::State": self._folder,
            "Dir::State::Status": self._folder / "status",
            "Dir::Cache": self._folder,
            "Dir::Cache::Archives": self._archives,
            # The folder is this user's alone.
            "APT::Sandbox::User": "",
            # Hooks of the machine are about its own packages.
            "APT::Update::Post-Invoke": "",
            "Acquire::Retries": 1,
            "Acquire::http::Timeout": 20,
            "Acquire::https::Timeout": 20,
            # Ours is flock's, which is waited for.
            "Debug::NoLocking": 1,
        }
        options = [f"-o={name}={value}" for name, value in settings.items()]
        try:
            return _said([program, "-qq", *options, *arguments])
        except subprocess.CalledProcessError as error:
            lines = [line for line in error.stderr.splitlines() if line.startswith("E:")]
            raise UnavailableError(
                f"{program} {arguments[0]}: {(lines or ['failed'])[0].removeprefix('E: ')}; "
                "look at the sources of apt, and at the network"
            ) from None

    def _file(self, name: str, version: str, architecture: str) -> Path:
        return self._archives / f"{name}_{version.replace(':', '%3a')}_{architecture}.deb"


def unpack(packages: list[Package], root: Path) -> str:
    """Unpack what the image takes of the packages, and make what their scripts would.

    Returns:
        the name of the Python in /usr/bin.
    """
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in _EMPTY:
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for package in packages:
        _unpack(package, root)
    for modules in LEFT_OUT.values():
        for module in modules:
            for file in (root / "usr/lib").glob(f"python3*/lib-dynload/{module}.*.so"):
                file.unlink()
    _certificates(root)
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text(_GROUPS)
    (python,) = (root / "usr/bin").iterdir()
    return python.name


def _unpack(package: Package, root: Path) -> None:
    with _tar(package.file) as archive:
        for member in archive:
            name = _merged(member.name)
            if not _unwanted(f"{name}/" if member.isdir() else name):
                _place(archive, member, root, root / name)
    # Scanners find packages and their versions here, as in other images without dpkg.
    status = root / "var/lib/dpkg/status.d" / package.name
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(_said(["dpkg-deb", "--field", str(package.file)]))


def _place(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.isdir():
        target.mkdir(exist_ok=True)
    elif member.issym():
        target.symlink_to(member.linkname)
    elif member.islnk():
        shutil.copy(root / _merged(member.linkname), target)
    elif content := archive.extractfile(member):
        target.write_bytes(content.read())
        # A module that is a script as well has nothing here that would start it.
        target.chmod(0o755 if member.mode & 0o100 and target.suffix != ".py" else 0o644)


def _unwanted(name: str) -> bool:
    """Whether the image goes without a file, or without a folder, whose name ends in a slash."""
    return bool(_UNWANTED.match(name))


def _merged(name: str) -> str:
    path = PurePosixPath(name.removeprefix("./"))
    return str("usr" / path if path.parts and path.parts[0] in _MERGED else path)


def _tar(file: Path) -> tarfile.TarFile:
    done = subprocess.run(
        ["dpkg-deb", "--fsys-tarfile", str(file)], capture_output=True, check=False
    )
    if done.returncode:
        raise UnavailableError(f"{file} cannot be unpacked: remove it, and try again")
    return tarfile.open(fileobj=io.BytesIO(done.stdout))


def _certificates(root: Path) -> None:
    """Make the bundle that the script of ca-certificates would."""
    found = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle = root / CERTIFICATES
    bundle.parent.mkdir(parents=True)
    bundle.write_bytes(b"".join(file.read_bytes().rstrip(b"\n") + b"\n" for file in found))
    # OpenSSL's own place for it, for programs that are started without the image's environment.
    place = root / "usr/lib/ssl/cert.pem"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(f"/{CERTIFICATES}")


def _said(command: list[str]) -> str:
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
    ).stdout
