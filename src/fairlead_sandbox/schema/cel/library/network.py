"""URLs, IP addresses and networks.

Source: Kubernetes' libraries for URLs, IP addresses and CIDRs. Which texts are valid follows Go's
``net/url`` and ``net/netip``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface
from urllib.parse import quote, unquote, unquote_plus

from fairlead_sandbox.schema.cel import costs
from fairlead_sandbox.schema.cel.library.overloads import PARSING, Overload, function
from fairlead_sandbox.schema.cel.library.texts import quoted
from fairlead_sandbox.schema.cel.values import Address, CelError, Network, Url
from fairlead_sandbox.schema.effort import Effort


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_BAD_IN_HOST = re.compile(r"[^A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"\x80-\U0010ffff%]")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT = re.compile(r"(?::\d*)?", re.ASCII)
_PLAIN_PATH = re.compile(r"[A-Za-z0-9\-_.~!$&'()*+,;=:@/\[\]%]*")


def parse_url(text: str) -> Url:
    """Return the parts of an absolute URL or an absolute path.

    Raises:
        ValueError: the text is neither; the message is Go's.
    """
    if _CONTROL.search(text):
        raise ValueError("net/url: invalid control character in URL")
    if not text:
        raise ValueError("empty url")
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        # url.ParseRequestURI of Go, which Kubernetes calls, wants a scheme or an absolute path.
        if not scheme and text != "*":
            raise ValueError("invalid URI for request")
        return Url(scheme, "", "", query, text)
    host = ""
    if rest.startswith("//") and scheme:
        host, slash, path = rest[2:].partition("/")
        host, rest = _host(host), slash + path
    for part in (rest, fragment):
        _check_escapes(part)
    return Url(scheme, host, _path(rest), query, text)


def _check_escapes(text: str) -> None:
    wrong = _BAD_ESCAPE.search(text)
    if wrong is not None:
        raise ValueError(f"invalid URL escape {quoted(wrong[0])}")


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and _USER.fullmatch(user) is None:
        raise ValueError("net/url: invalid userinfo")
    _, bracket, port = host.rpartition("]")
    if host.startswith("[") and not bracket:
        raise ValueError("missing ']' in host")
    if not host.startswith("["):
        _, colon, rest = host.rpartition(":")
        port = f":{rest}" if colon else ""
    if _PORT.fullmatch(port) is None:
        raise ValueError(f"invalid port {quoted(port)} after host")
    wrong = _BAD_IN_HOST.search(host)
    if wrong is not None:
        raise ValueError(f"invalid character {quoted(wrong[0])} in host name")
    _check_escapes(host)
    return unquote(host)


def _path(path: str) -> str:
    """Return the path unchanged if all its characters may stand in one, otherwise escaped anew."""
    return path if _PLAIN_PATH.fullmatch(path) else quote(unquote(path), safe="/$&+,:;=@~!*'()")


def _query(effort: Effort, url: Url) -> dict[str, list[str]]:
    effort.spend(len(url.query))
    parameters: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        name, _, value = pair.partition("=")
        # Go drops pairs with a semicolon or an invalid escape.
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        parameters.setdefault(unquote_plus(name), []).append(unquote_plus(value))
    return parameters


_CHARACTERS = 8
"""Number of characters of a URL that cost one step of effort."""


def _is_url(effort: Effort, text: str) -> bool:
    effort.spend(len(text) // _CHARACTERS)
    return _parses(parse_url)(text)


def _to_url(effort: Effort, text: str) -> Url:
    effort.spend(len(text) // _CHARACTERS)
    try:
        return parse_url(text)
    except ValueError as error:
        words = f"parse {quoted(text)}: {error}"
        raise CelError(f"URL parse error during conversion from string: {words}") from None


def _hostname(url: Url) -> str:
    if url.host.startswith("["):
        return url.host[1:].partition("]")[0]
    return url.host.rpartition(":")[0] if ":" in url.host else url.host


def _port(url: Url) -> str:
    return url.host.rpartition("]")[2].rpartition(":")[2] if ":" in url.host else ""


def _to_address(text: str) -> Address:
    try:
        address = ip_address(text) if len(text) < _LONGEST else None
    except ValueError:
        address = None
    if address is None:
        words = f"ParseAddr({quoted(text)}): unable to parse IP"
        prefix = f"IP Address {quoted(text)} parse error during conversion from string"
        raise CelError(f"{prefix}: {words}")
    if isinstance(address, IPv6Address) and address.scope_id:
        raise CelError(f"IP address {quoted(text)} with zone value is not allowed")
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


_LONGEST = 100
"""Maximum length of an address or network in characters; no valid one is longer."""
_PREFIX_LENGTH = re.compile(r"0|[1-9]\d{0,2}", re.ASCII)


def _to_network(text: str) -> Network:
    address, slash, length = text[:_LONGEST].partition("/")
    try:
        # Python takes a netmask as well (10.0.0.0/255.0.0.0), and lengths with leading zeros; Go
        # takes neither.
        interface = ip_interface(text) if slash and _PREFIX_LENGTH.fullmatch(length) else None
    except ValueError:
        interface = None
    if interface is None or "%" in address:
        words = f"netip.ParsePrefix({quoted(text)}): {'invalid' if slash else 'no'} '/'"
        again = "network address parse error during conversion from string"
        raise CelError(f"{again}: {again}: {words}")
    if isinstance(interface, IPv6Address) and interface.ip.ipv4_mapped:
        again = "network address parse error during conversion from string"
        raise CelError(f"{again}: IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return interface


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (CelError, ValueError):
            return False
        return True

    return check


def _contains(network: Network, address: Address | str) -> bool:
    address = _to_address(address) if isinstance(address, str) else address
    return address.version == network.version and address in network.network


def _covers(network: Network, other: Network | str) -> bool:
    other = _to_network(other) if isinstance(other, str) else other
    if other.version != network.version:
        return False
    overlap = network.network.overlaps(other.network)
    return overlap and network.network.prefixlen <= other.network.prefixlen


def _is_global(address: Address) -> bool:
    # Private addresses are global unicast too, as in Go's netip.
    broadcast = isinstance(address, IPv4Address) and address == _BROADCAST
    local = address.is_unspecified or address.is_loopback or address.is_multicast
    return not (broadcast or local or address.is_link_local)


_BROADCAST = IPv4Address("255.255.255.255")


def _is_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def _urls() -> Iterator[Overload]:
    once = costs.read(0, keeps_size=True)
    yield function("url(string) -> url", _to_url, once, counted=True, steps=PARSING)
    yield function("isURL(string) -> bool", _is_url, counted=True, steps=PARSING)
    yield function("<url>.getScheme() -> string", lambda url: url.scheme)
    yield function("<url>.getHost() -> string", lambda url: url.host)
    yield function("<url>.getHostname() -> string", _hostname)
    yield function("<url>.getPort() -> string", _port)
    yield function("<url>.getEscapedPath() -> string", lambda url: url.path)
    signature = "<url>.getQuery() -> map(string, list(string))"
    yield function(signature, _query, counted=True, steps=PARSING)


def _addresses() -> Iterator[Overload]:
    once = costs.read(0)
    yield function("ip(string) -> ip", _to_address, once, steps=PARSING)
    yield function("isIP(string) -> bool", _parses(_to_address), once, steps=PARSING)
    yield function("string(ip) -> string", str)
    yield function(
        "ip.isCanonical(string) -> bool",
        lambda text: str(_to_address(text)) == text,
        costs.read(0, 2),
        steps=PARSING,
    )
    yield function("<ip>.family() -> int", lambda address: address.version)
    yield function("<ip>.isUnspecified() -> bool", lambda address: address.is_unspecified)
    yield function("<ip>.isLoopback() -> bool", lambda address: address.is_loopback)
    yield function("<ip>.isLinkLocalMulticast() -> bool", _is_local_multicast)
    yield function("<ip>.isLinkLocalUnicast() -> bool", lambda address: address.is_link_local)
    yield function("<ip>.isGlobalUnicast() -> bool", _is_global)


def _networks() -> Iterator[Overload]:
    once = costs.read(0)
    yield function("cidr(string) -> cidr", _to_network, once, steps=PARSING)
    yield function("isCIDR(string) -> bool", _parses(_to_network), once, steps=PARSING)
    yield function("string(cidr) -> string", str)
    yield function("<cidr>.ip() -> ip", lambda network: network.ip)
    yield function("<cidr>.prefixLength() -> int", lambda network: network.network.prefixlen)
    yield function("<cidr>.masked() -> cidr", lambda network: ip_interface(network.network))
    for other, parses in (("string", True), ("ip", False)):
        price = costs.contains_address(parses=parses)
        yield function(f"<cidr>.containsIP({other}) -> bool", _contains, price, steps=PARSING)
    for other, parses in (("string", True), ("cidr", False)):
        price = costs.contains_network(parses=parses)
        yield function(f"<cidr>.containsCIDR({other}) -> bool", _covers, price, steps=PARSING)


OVERLOADS = [*_urls(), *_addresses(), *_networks()]
