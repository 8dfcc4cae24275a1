"""Texts without credentials: neither values of Secrets, nor what has a credential's form."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from fairlead.api.meta import JSON


HIDDEN = "[redacted]"
_NAMES = frozenset(
    ("type", "provider", "host", "port", "database", "dbname", "username", "user", "sslmode")
)
"""Keys of Secrets whose values are names, which objects and Events have too."""
_SUBSTRING = 8
"""Least characters of a value that is removed inside longer words too."""
_WORD = 3
"""Least characters of a value that is removed as a word; shorter ones are in every text."""
_PART = 12
"""Least characters of a part of a value, such as the token in a kubeconfig."""
_SENSITIVE = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|private[-_]?key|key-data"
    r"|credentials?|cookie|authorization)"
)
_SECRET_NAME = re.compile(_SENSITIVE, re.IGNORECASE)
_FORMS = (
    re.compile(r"-----BEGIN [A-Z ]*-----.*?(?:-----END [A-Z ]*-----|\Z)", re.DOTALL),
    # JSON Web Tokens.
    re.compile(r"eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"),
    # Verifiers of PostgreSQL.
    re.compile(r"SCRAM-SHA-256\$[^\s\"']+|\bmd5[0-9a-f]{32}\b"),
    re.compile(r"(?<=Bearer )[^\s\"',]+|(?<=Basic )[^\s\"',]+", re.IGNORECASE),
    # User information of URLs.
    re.compile(r"(?<=://)[^\s/@\"']*:[^\s/\"']+(?=@)"),
)
_ASSIGNED = re.compile(
    rf"""({_SENSITIVE}[\w.-]{{0,40}}\\*["']?\s*[:=]\s*|passw(?:or)?d is )"""
    r"""(?:\\*"(?:[^"\\]|\\[^"])*\\*"|'(?:[^'\\]|\\.)*'|[^\s,;}\]"']+)""",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"https?://[^@]*")
_PARTS = re.compile(r"[\s\"',{}\[\]=&?]+")


def values_of(secret: JSON) -> Iterator[str]:
    """Yield the confidential values of a Secret, and of its annotations, as texts."""
    for key, value in (secret.get("data") or {}).items():
        if key not in _NAMES:
            yield value
            try:
                yield base64.b64decode(value).decode()
            except (binascii.Error, UnicodeDecodeError):
                continue
    for value in (secret.get("stringData") or {}).values():
        yield value
    for value in secret.get("metadata", {}).get("annotations", {}).values():
        try:
            inner = msgspec.json.decode(value)
        except msgspec.DecodeError:
            continue
        # What kubectl applied last is a Secret too.
        if isinstance(inner, dict) and inner.get("kind") == "Secret":
            inner["metadata"] = {}
            yield from values_of(inner)


def values_of_pod(pod: JSON) -> Iterator[str]:
    """Yield the values in the environment of a Pod's containers whose names say a secret."""
    spec = pod.get("spec", {})
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        for variable in container.get("env", ()):
            if _SECRET_NAME.search(variable["name"]):
                yield variable.get("value", "")


class Redaction:
    """Removes credentials from texts; ``values`` are those that are read from objects."""

    def __init__(self, values: Iterable[str]) -> None:
        every = {part for value in values for part in _parts(value)}
        every |= {form for value in every for form in (quote(value, safe=""), quote_plus(value))}
        # In JSON a value has its quotation marks and backslashes escaped.
        every |= {msgspec.json.encode(value).decode()[1:-1] for value in every}
        # The longest first: one may be the beginning of another.
        self._values = sorted(every, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text with ``[redacted]`` in place of credentials."""
        for value in self._values:
            # Most values are in no text, and this look is much quicker than a pattern.
            if value in text:
                text = re.sub(_pattern(value), HIDDEN, text)
        for form in _FORMS:
            text = form.sub(HIDDEN, text)
        return _ASSIGNED.sub(rf"\1{HIDDEN}", text)

    def document(self, document: Any) -> Any:
        """Return JSON whose texts have no credentials; names of members stay."""
        match document:
            case str():
                return self.text(document)
            case Mapping():
                return {name: self.document(value) for name, value in document.items()}
            case list() | tuple():
                return [self.document(item) for item in document]
        return document


def _parts(value: str) -> Iterator[str]:
    """Yield a value, and its parts that may be credentials of their own."""
    stripped = value.strip()
    if len(stripped) >= _WORD:
        yield stripped
    for part in _PARTS.split(stripped):
        if len(part) >= _PART and not _ADDRESS.fullmatch(part):
            yield part


def _pattern(value: str) -> str:
    escaped = re.escape(value)
    return escaped if len(value) >= _SUBSTRING else rf"(?<!\w){escaped}(?!\w)"
