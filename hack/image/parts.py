"""What an image consists of, and under which licences: from its own files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote


class Part(NamedTuple):
    """One package of the image."""

    kind: str
    """``deb``, ``pypi`` or ``npm``, as package URLs have it."""
    name: str
    version: str
    licences: tuple[str, ...]
    """Expressions of SPDX where the package has them, else its own words."""
    texts: tuple[str, ...]
    """Texts of licences."""
    architecture: str = ""
    files: tuple[tuple[str, str], ...] = ()
    """Libraries that a wheel brings along, and their SHA-256."""
    distribution: str = ""

    @property
    def url(self) -> str:
        """The package URL: https://github.com/package-url/purl-spec."""
        at = f"{quote(self.name, safe='')}@{quote(self.version, safe='')}"
        if self.kind == "deb":
            more = f"?arch={self.architecture}&distro={self.distribution}"
            return f"pkg:deb/debian/{at}{more}"
        return f"pkg:{self.kind}/{at}"


_FREE = {
    "base-files": "GPL-2.0-or-later",
    "gcc-": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libc6": "LGPL-2.1-or-later",
    "libcrypt1": "LGPL-2.1-or-later",
    "libgcc-": "GPL-3.0-or-later WITH GCC-exception-3.1",
    "libpython3": "PSF-2.0",
    "python3": "PSF-2.0",
}
"""Main licences of packages whose copyrights are told in free form, by how their names begin."""
_MORE = "see its copyright file"
_HTMX = "usr/local/lib/*/dist-packages/fairlead/portal/console/static/htmx*.js"


def parts(debian: Path, *others: Path) -> list[Part]:
    """All packages of an image: Debian's first, each kind sorted by name.

    Args:
        debian: the root of the lowest layer.
        others: the roots of those above, our own the last.
    """
    above = sorted(part for root in others for part in _python(root))
    return [*_debian(debian), *above, *_vendored(others[-1])]


def _debian(root: Path) -> list[Part]:
    release = _release(root)
    found = []
    for status in sorted((root / "var/lib/dpkg/status.d").iterdir()):
        fields = HeaderParser().parsestr(status.read_text())
        name = fields["Package"]
        text = _copyright(root, name)
        found.append(
            Part(
                "deb",
                name,
                fields["Version"],
                _debian_licences(name, text),
                (text,),
                architecture=fields["Architecture"],
                distribution=release,
            )
        )
    return found


def _release(root: Path) -> str:
    text = (root / "usr/lib/os-release").read_text()
    found = dict(re.findall(r'^(\w+)="?([^"\n]*)', text, re.MULTILINE))
    return f"{found['ID']}-{found['VERSION_ID']}"


def _copyright(root: Path, name: str) -> str:
    folder = root / "usr/share/doc" / name
    # A folder may be a link to that of a package from the same source.
    while folder.is_symlink():
        folder = folder.parent / folder.readlink()
    return (folder / "copyright").read_text(errors="replace")


def _debian_licences(name: str, text: str) -> tuple[str, ...]:
    """Short names of a machine-readable file of copyrights, or what is known of a free one."""
    if re.match(r"Format: ?\S*copyright-format", text):
        found = re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE)
        return tuple(sorted(set(found))) or (_MORE,)
    return (*(main for start, main in _FREE.items() if name.startswith(start)), _MORE)


def _python(root: Path) -> Iterator[Part]:
    for folder in root.glob("usr/local/lib/*/dist-packages/*.dist-info"):
        metadata = HeaderParser().parsestr((folder / "METADATA").read_text())
        name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
        texts = tuple(
            file.read_text(errors="replace")
            for file in sorted(folder.rglob("*"))
            if file.is_file() and re.match(r"(?i)licen[cs]e|copying|notice|authors", file.name)
        )
        libraries = folder.parent / f"{folder.name.split('-')[0]}.libs"
        files = tuple(
            (file.name, hashlib.sha256(file.read_bytes()).hexdigest())
            for file in (sorted(libraries.iterdir()) if libraries.is_dir() else ())
        )
        yield Part("pypi", name, metadata["Version"], _licences(metadata), texts, files=files)


def _licences(metadata: Message) -> tuple[str, ...]:
    if expression := metadata["License-Expression"]:
        return (expression,)
    classifiers = metadata.get_all("Classifier", [])
    named = [one.split(" :: ")[-1] for one in classifiers if one.startswith("License :: ")]
    short = metadata["License"] or ""
    if short and "\n" not in short and len(short) < 80:
        return (short,)
    return tuple(sorted({one for one in named if one != "OSI Approved"})) or ("see its files",)


def _vendored(root: Path) -> list[Part]:
    """Files of others that our own package brings along."""
    files = tuple(
        (file.name, hashlib.sha256(file.read_bytes()).hexdigest())
        for file in sorted(root.glob(_HTMX))
    )
    # docs/dependencies.md has it by the same version.
    return [Part("npm", "htmx.org", "4.0.1", ("0BSD",), (), files=files)] if files else []
