"""``Warning`` headers: what an API server wants a person to know, logged once each."""

from __future__ import annotations

import re
from collections.abc import Iterable

import structlog


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')
_MOST = 1000


class WarningLog:
    """Logs each text once per client (RFC 7234 section 5.5, Kubernetes' code 299 alone)."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._seen: set[str] = set()
        self._log = structlog.get_logger("fairlead.client")

    def handle(self, headers: Iterable[str]) -> None:
        """Logs the texts that are new; after a thousand different ones, none."""
        for text in parse_warnings(headers):
            if text not in self._seen and len(self._seen) < _MOST:
                self._seen.add(text)
                self._log.warning("API server warning", server=self._server, warning=text)


def parse_warnings(headers: Iterable[str]) -> list[str]:
    """The texts in the values of Warning headers."""
    return [
        re.sub(r"\\(.)", r"\1", match.group(1))
        for value in headers
        for match in _WARNING.finditer(value)
    ]
