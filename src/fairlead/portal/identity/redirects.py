"""Checks of redirect_url: a program on the browser's machine, or a path of this server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlencode

from fairlead.portal import bounds
from fairlead.portal.http.errors import bad_request
from fairlead.portal.options import ExternalURL


ADDED = frozenset(
    {
        *("access_token", "token_type", "expires_in", "cluster_id", "session_id"),
        *("code", "error", "error_description"),
        *("binding_response", "consumer_id", "success", "message"),
    }
)
"""Parameters that the server adds to a redirect_url, so it may not have them already."""

_printable = re.compile(r"[!-\[\]-~]+").fullmatch
"""ASCII without blanks, and without the backslash, which browsers take for a slash."""
_loopback = re.compile(
    # RFC 8252, 7.3: a program on the machine chooses any free port. A user (name@) or another host
    # does not match.
    r"http://(?:127\.0\.0\.1|\[::1\]|localhost):([0-9]{1,5})(?:/[^?#]*)?(?:\?([^#]*))?"
).fullmatch
_path = re.compile(r"(/(?:[^/?#][^?#]*)?)(?:\?([^#]*))?").fullmatch


def of_cli(text: str) -> str:
    """Check the address of a program on the browser's own machine: any port and path.

    Raises:
        Refusal: the address is another.
    """
    address = _loopback(_plain(text))
    if address is None or not 0 < int(address[1]) <= 65535:
        raise bad_request(
            "redirect_url of a program (client_type cli) has to be http://127.0.0.1:PORT,"
            " http://[::1]:PORT or http://localhost:PORT, with any path and without a fragment"
        )
    # Otherwise the program could not tell a parameter of its own from that of the server.
    _check_query(address[2])
    return text


def of_page(text: str, external: ExternalURL) -> str:
    """Return the absolute address of a path of this server.

    Raises:
        Refusal: the address is outside this server.
    """
    # The scheme and host are cut off before the path is looked at, so //host and other origins do
    # not match it.
    plain = _plain(text).removeprefix(external.origin)
    path = _path(plain)
    if path is None or not _below(path[1], external.path):
        raise bad_request(
            f"redirect_url has to be a path of {external.absolute('/')}, without a fragment"
        )
    _check_query(path[2])
    return external.origin + plain


def with_parameters(url: str, more: Mapping[str, str]) -> str:
    """Append parameters to an address."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(more)}"


def _plain(text: str) -> str:
    if len(text) > bounds.REDIRECT_CHARACTERS or not _printable(text):
        raise bad_request(
            f"redirect_url has to be an address of at most {bounds.REDIRECT_CHARACTERS} printable"
            " ASCII characters"
        )
    return text


def _below(path: str, prefix: str) -> bool:
    # Browsers resolve dot segments, percent-encoded ones too, which could leave the prefix.
    segments = unquote(path).replace("\\", "/").split("/")
    if "." in segments or ".." in segments:
        return False
    return not prefix or path == prefix or path.startswith(f"{prefix}/")


def _check_query(query: str | None) -> None:
    names = {name for name, _ in parse_qsl(query or "", keep_blank_values=True)}
    if taken := sorted(names & ADDED):
        raise bad_request(f"redirect_url may not have the parameter {taken[0]} already")
