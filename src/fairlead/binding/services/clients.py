"""The variables of PostgreSQL's clients, which find CAs, certificates and keys by their paths.

A Secret cannot have the path of its own ``ca.crt``: each container mounts it below its own binding
root. A binding has it, and adds it to what the Secret's entries say. Values of entries do not get
into workloads: a variable refers to others by ``$(NAME)``, which a kubelet expands once, if they
come before it.

Sources: https://www.postgresql.org/docs/current/libpq-envars.html,
https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS,
https://jdbc.postgresql.org/documentation/use/,
https://www.npgsql.org/doc/connection-string-parameters.html, and for its quotes
https://learn.microsoft.com/en-us/dotnet/api/system.data.common.dbconnectionstringbuilder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from fairlead.api.servicebinding.common import ROOT_VARIABLE
from fairlead.api.servicebinding.wishes import (
    CLIENT_ANNOTATION,
    DEFAULT_MODE_ANNOTATION,
    DatabaseClient,
)
from fairlead.binding.services.items import to_bytes


CA_ENTRY = "ca.crt"
"""Entry with the CA of the server, which clients read as a file."""

CERTIFICATE_ENTRY = "tls.crt"
"""Entry with a client's certificate, in Secrets of type kubernetes.io/tls."""

KEY_ENTRY = "tls.key"
"""Entry with its key in PEM."""

_PKCS8_ENTRIES = ("tls.pk8", "key.der")
"""Entries with the key in DER; cert-manager writes the second one."""

# A sequence that begins with version 0 and another sequence, the algorithm, which keys in PKCS-1
# and SEC 1 do not have there: https://www.rfc-editor.org/rfc/rfc5208#section-5.
_PKCS8 = re.compile(rb"\x30(?:[\x00-\x7f]|\x81.|\x82..)\x02\x01\x00\x30", re.DOTALL)

_ALIASES = {
    "database": ("database", "dbname"),
    "username": ("username", "user"),
    "jdbc-uri": ("jdbc-uri", "jdbcUri", "jdbc-url"),
}
"""Keys of an entry in the Secrets of several makers; the first one that is there counts."""

_LIBPQ = {
    "PGHOST": "host",
    "PGPORT": "port",
    "PGDATABASE": "database",
    "PGUSER": "username",
    "PGPASSWORD": "password",
    "PGSSLMODE": "sslmode",
}
_LIBPQ_PATHS = ("PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY")
_URI_PATHS = ("sslrootcert", "sslcert", "sslkey")
_NPGSQL_PATHS = ("Root Certificate", "SSL Certificate", "SSL Key")
"""Names of the paths of the CA, and of the client's certificate and key."""

_NPGSQL = {
    "Host": "host",
    "Port": "port",
    "Database": "database",
    "Username": "username",
    "Password": "password",
}
_NPGSQL_MODES = {
    "disable": "Disable",
    "allow": "Allow",
    "prefer": "Prefer",
    "require": "Require",
    "verify-ca": "VerifyCA",
    "verify-full": "VerifyFull",
}
_URIS = {"url": "uri", "jdbc": "jdbc-uri"}
_SCHEMES = {"url": ("postgresql://", "postgres://"), "jdbc": ("jdbc:postgresql:",)}
_VARIABLES = {
    "url": "DATABASE_URL",
    "jdbc": "SPRING_DATASOURCE_URL",
    "npgsql": "ConnectionStrings__DefaultConnection",
}
"""Variables that frameworks read by themselves: Rails and others, Spring Boot, ASP.NET Core."""


class UnsuitableEntriesError(ValueError):
    """A client cannot have its variables; the text names the entry and what helps, no value.

    With ``lacking`` an entry is missing, which may still come.
    """

    def __init__(self, text: str, *, lacking: bool = False) -> None:
        super().__init__(f"{CLIENT_ANNOTATION}: {text}")
        self.lacking = lacking


class ClientVariable(msgspec.Struct, frozen=True):
    """A variable of a container: an entry of the Secret by its key, or else a text."""

    name: str
    key: str = ""
    text: str = ""


def client_variables(
    client: DatabaseClient,
    entries: Mapping[str, Any],
    env: Sequence[tuple[str, str]],
    *,
    binding: str,
    directory: str,
    mode: int | None = None,
) -> list[ClientVariable]:
    """Return the variables of a client in the order in which a container needs them.

    Args:
        client: the client.
        entries: the entries of the binding's Secret by key; values are JSON values or bytes.
        env: pairs of variable and entry that the container gets besides. Those that have the URI
            of ``url`` or ``jdbc`` name the variables that get it with the path, if the client
            itself names none.
        binding: the name of the binding's directory.
        directory: the path of this directory in the container.
        mode: the mode of its files that the binding asks for, None for the server's default. A
            client's certificate has variables only if :func:`is_private` is true of it.

    Raises:
        UnsuitableEntriesError: an entry is missing or unsuitable, or ``env`` has a variable of
            the client.
    """
    return _Variables(client, entries, env, binding, directory, mode).all()


def is_private(mode: int | None) -> bool:
    """Whether libpq uses a key of this mode that root owns: its group may at most read it.

    Source: https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-CLIENTCERT.
    """
    return mode is not None and not mode & 0o037


def withheld_key(client: DatabaseClient, entries: Mapping[str, Any], mode: int | None) -> str:
    """Return the remark on a client's key that has no variables because of its mode, else ""."""
    key = _client_key(client, entries)
    if not key or is_private(mode):
        return ""
    return (
        f"clients get no {CERTIFICATE_ENTRY} and {key} while others may read the key: set "
        f'annotation {DEFAULT_MODE_ANNOTATION} to "0440", and securityContext.fsGroup in the '
        "template of Pods whose containers do not run as root"
    )


def _client_key(client: DatabaseClient, entries: Mapping[str, Any]) -> str:
    """Return the entry with a key that the client can read, "" without one or a certificate."""
    if CERTIFICATE_ENTRY not in entries:
        return ""
    if client.name != "jdbc":
        return KEY_ENTRY if KEY_ENTRY in entries else ""
    forms = (key for key in _PKCS8_ENTRIES if key in entries)
    return next((key for key in forms if _PKCS8.match(to_bytes(entries[key]))), "")


class ClientTraces(msgspec.Struct, frozen=True):
    """All variables that a client can have had, whatever the entries were.

    ``pairs`` are of variable and entry, ``texts`` the names of the others; ``reference`` begins a
    reference in their texts.
    """

    pairs: frozenset[tuple[str, str]] = frozenset()
    texts: frozenset[str] = frozenset()
    reference: str = ""


def client_traces(
    client: DatabaseClient | None, env: Sequence[tuple[str, str]], *, binding: str
) -> ClientTraces:
    """Return the variables by which a former projection of a client is recognized.

    The arguments are those of :func:`client_variables`.
    """
    if client is None:
        return ClientTraces()
    reference = f"$({_prefix(binding)}_"
    if client.name == "libpq":
        pairs = {(name, key) for name, entry in _LIBPQ.items() for key in _keys(entry)}
        return ClientTraces(frozenset(pairs), frozenset(_LIBPQ_PATHS), reference)
    entries = _NPGSQL.values() if client.name == "npgsql" else [_URIS[client.name]]
    keys = {key for entry in entries for key in _keys(entry)}
    pairs = {(_source(binding, key).name, key) for key in keys}
    names = {client.variable or _VARIABLES[client.name]}
    if client.name in _URIS:
        names |= {name for name, key in env if key in keys}
        pairs |= {(name, key) for name in names for key in keys}
    return ClientTraces(frozenset(pairs), frozenset(names), reference)


def besides(
    env: Iterable[tuple[str, str]], variables: Iterable[ClientVariable]
) -> list[tuple[str, str]]:
    """Return the pairs of ``env`` whose variables are not a client's."""
    names = {variable.name for variable in variables}
    return [(name, key) for name, key in env if name not in names]


class _Variables:
    def __init__(
        self,
        client: DatabaseClient,
        entries: Mapping[str, Any],
        env: Sequence[tuple[str, str]],
        binding: str,
        directory: str,
        mode: int | None,
    ) -> None:
        self._client = client
        self._entries = entries
        self._env = env
        self._binding = binding
        key = _client_key(client, entries) if is_private(mode) else ""
        files = [
            CA_ENTRY if CA_ENTRY in entries else "",
            *((CERTIFICATE_ENTRY, key) if key else ("", "")),
        ]
        self._paths = [f"{directory}/{file}" if file else "" for file in files]

    def all(self) -> list[ClientVariable]:
        match self._client.name:
            case "libpq":
                variables = self._libpq()
            case "npgsql":
                variables = self._npgsql()
            case _:
                variables = self._uri()
        self._check(variables)
        return variables

    def _check(self, variables: Sequence[ClientVariable]) -> None:
        """Refuse variables with one name and two meanings, also of spec.env."""
        names = [variable.name for variable in variables]
        if len({*names}) < len(names):
            raise UnsuitableEntriesError(
                f"{names[-1]} is a variable that reads an entry: choose another name"
            )
        entry = _URIS.get(self._client.name)
        source = self._key(entry) if entry else None
        for variable in variables:
            for name, key in self._env:
                if name == variable.name and key not in {variable.key, source}:
                    raise UnsuitableEntriesError(
                        f"spec.env has {name}, which is a variable of {self._client.name}: "
                        "remove it there, or give it another name"
                    )

    def _libpq(self) -> list[ClientVariable]:
        self._required("host")
        variables = [
            ClientVariable(name, key=key)
            for name, entry in _LIBPQ.items()
            if (key := self._key(entry))
        ]
        paths = [ClientVariable(name, text=path) for name, path in self._named(_LIBPQ_PATHS)]
        return [*variables, *paths]

    def _named(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Return the paths that there are, with a client's names of them."""
        return [(name, path) for name, path in zip(names, self._paths, strict=True) if path]

    def _uri(self) -> list[ClientVariable]:
        client = self._client
        key = self._required(_URIS[client.name])
        spec = [] if client.variable else [name for name, entry in self._env if entry == key]
        names = spec or [client.variable or _VARIABLES[client.name]]
        paths = self._named(_URI_PATHS)
        if not paths:
            return [ClientVariable(name, key=key) for name in names]
        self._check_uri(key, [name for name, _ in paths])
        source = _source(self._binding, key)
        # "/" may stay as it is in a query (https://www.rfc-editor.org/rfc/rfc3986#section-3.4).
        parameters = "".join(f"&{name}={quote(path)}" for name, path in paths)
        text = f"$({source.name}){parameters}"
        return [source, *(ClientVariable(name, text=text) for name in names)]

    def _check_uri(self, key: str, added: Sequence[str]) -> None:
        uri, schemes = self._text(key), _SCHEMES[self._client.name]
        if not uri.startswith(schemes):
            raise UnsuitableEntriesError(
                f"entry {key!r} of the binding does not begin with {' or '.join(schemes)}, and "
                f"only clients of PostgreSQL know {added[0]}: remove the annotation"
            )
        _, query, parameters = uri.partition("?")
        if not query:
            raise UnsuitableEntriesError(
                f"entry {key!r} of the binding has no query to which {added[0]} could be added:"
                " let the service write a URI that ends in ?sslmode=verify-full, or use libpq"
            )
        own = re.search(rf"(?:^|&)({'|'.join(added)})=", parameters)
        if own:
            raise UnsuitableEntriesError(
                f"entry {key!r} of the binding already has an {own[1]}: remove the annotation, or"
                " let the service leave it out"
            )

    def _npgsql(self) -> list[ClientVariable]:
        self._required("host")
        sources: list[ClientVariable] = []
        parts: list[str] = []
        for word, entry in _NPGSQL.items():
            if key := self._key(entry):
                source = _source(self._binding, key)
                sources.append(source)
                value = _quoted(f"$({source.name})", self._text(key), f"entry {key!r}")
                parts.append(f"{word}={value}")
        if key := self._key("sslmode"):
            mode = _NPGSQL_MODES.get(self._text(key))
            if mode is None:
                raise UnsuitableEntriesError(
                    f"entry {key!r} of the binding is not one of {', '.join(_NPGSQL_MODES)}:"
                    " correct it"
                )
            parts.append(f"SSL Mode={mode}")
        for word, path in self._named(_NPGSQL_PATHS):
            parts.append(f"{word}={_quoted(path, path, ROOT_VARIABLE)}")
        name = self._client.variable or _VARIABLES["npgsql"]
        return [*sources, ClientVariable(name, text=";".join(parts))]

    def _key(self, entry: str) -> str:
        """Return the key of an entry, "" if it is missing."""
        return next((key for key in _keys(entry) if key in self._entries), "")

    def _required(self, entry: str) -> str:
        key = self._key(entry)
        if not key:
            raise UnsuitableEntriesError(
                f"{self._client.name} needs entry {entry!r}, which the binding does not have: "
                "add it to the service's Secret, or use another client",
                lacking=True,
            )
        return key

    def _text(self, key: str) -> str:
        return to_bytes(self._entries[key]).decode(errors="replace")


def _keys(entry: str) -> tuple[str, ...]:
    return _ALIASES.get(entry, (entry,))


def _prefix(binding: str) -> str:
    return f"SERVICE_BINDING_{re.sub('[^A-Z0-9]', '_', binding.upper())}"


def _source(binding: str, key: str) -> ClientVariable:
    """Return the variable with an entry, for references."""
    return ClientVariable(f"{_prefix(binding)}_{re.sub('[^A-Z0-9]', '_', key.upper())}", key=key)


def _quoted(text: str, value: str, what: str) -> str:
    """Return a text in quotes that do not end within its value, which kubelets put there."""
    for mark in ('"', "'"):
        if mark not in value:
            return f"{mark}{text}{mark}"
    raise UnsuitableEntriesError(
        f"{what} contains both kinds of quotes, so no connection string of npgsql can refer to"
        " its value: choose another value"
    )
