"""The generated Secret: its content, and the conditions under which it must not be written.

Its owner reference names its PostgresAccess. The operator removes only keys, labels and
annotations of its own: an annotation lists them where they differ from the default keys.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, get_args
from urllib.parse import quote, urlencode

import msgspec

from fairlead.api.label_names import label_value_errors, qualified_name_errors, subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import (
    POSTGRESACCESSES,
    ROTATE_ANNOTATION,
    PostgresAccess,
    PostgresAccessSpec,
    SecretTemplate,
    Uris,
)
from fairlead.api.postgresaccess.connection import GROUP
from fairlead.postgres import bounds
from fairlead.postgres.controllers.rules.resolution import secret_data, text_of
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.database.plans import password
from fairlead.postgres.errors import AccessError, invalid


MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "fairlead-postgres"
SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
GENERATED_ANNOTATION = f"{GROUP}/generated"
"""Annotation of a Secret: names of the operator's keys, labels and annotations, as JSON."""
URIS_ANNOTATION = f"{GROUP}/uris"
"""Annotation of a Secret: the form of its URIs. Secrets of former versions lack it."""

_LOGIN_KEYS = ("username", "password")
_DEFAULT_KEYS = frozenset(
    {
        *_LOGIN_KEYS,
        *("type", "provider", "host", "port", "database", "dbname", "user", "sslmode"),
        *("uri", "jdbc-uri", "pgpass"),
    }
)
_CA = "ca.crt"
_CA_FILE = "sslrootcert"
"""Key with the name of the file that has the CA: a Secret does not know where it is mounted."""
_MAY_LACK = (_DEFAULT_KEYS | {_CA}) - {*_LOGIN_KEYS}
"""Keys that an immutable Secret may lack, for it may be older than they are."""
_OPAQUE = "Opaque"
_KUBERNETES_TYPES = {_OPAQUE, "kubernetes.io/basic-auth"}
"""Kubernetes' own types that a template may have: no controller writes into such a Secret."""
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_PLACEHOLDER = re.compile(r"\{\{(.*?)(\}\}|$)", re.DOTALL)
_FILTERS: dict[str, Callable[[str], str]] = {
    "": str,
    "urlquote": lambda value: quote(value, safe=""),
    "json": json.dumps,
    "b64": lambda value: base64.b64encode(value.encode()).decode(),
}
_NAMES = {
    **{name: name for name in ("username", "password", "host", "port", "database", "sslmode")},
    "uri": "uri",
    "jdbcUri": "jdbc-uri",
}
"""Default keys by the names that templates may use for them."""
_FORMS: tuple[Uris, ...] = get_args(Uris)
_URI_KEYS = ("uri", "jdbc-uri")
_URL_NAMES = ("url", "jdbcUrl")
"""Names that templates may use for URIs that have no TLS mode, whatever the keys have."""


class _Flags(msgspec.Struct):
    type: str = ""
    immutable: bool | None = None


class _Made(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names of the operator's items in a Secret; ``data`` is without the default keys."""

    defaults: bool = True
    data: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()

    def keys(self) -> frozenset[str]:
        """Return the operator's keys of the data, default keys included."""
        return self.data | _DEFAULT_KEYS if self.defaults else self.data


class LoginValues(NamedTuple):
    """Values of a login: all default keys with ``uris`` as the form of their URIs.

    ``urls`` are the URIs without a TLS mode, by the names that templates use for them.
    """

    entries: dict[str, str]
    urls: dict[str, str]
    uris: Uris


class SecretContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a generated Secret; ``mark`` is the rotation annotation of its password.

    ``uris`` is the form of its URIs, and ``late`` are keys that a Secret of a former version gets
    with the next change of its data.
    """

    values: Mapping[str, str]
    uris: Uris = "Verified"
    late: frozenset[str] = frozenset({_CA_FILE})
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    type: str = _OPAQUE
    mark: str = ""

    def __repr__(self) -> str:
        return f"Content({sorted(self.values)})"


def check_name(name: str, field: str = "spec.generatedSecret") -> None:
    """Refuse an invalid name of a Secret.

    Raises:
        AccessError: NameInvalid; the message names the field.
    """
    for wrong in subdomain_errors(name):
        raise invalid("NameInvalid", f"{field} {name!r} is not a valid name of a Secret: {wrong}")


def can_be(name: str) -> bool:
    """Whether the name is a valid name of a Secret."""
    return not subdomain_errors(name)


def check_template(template: SecretTemplate) -> None:
    """Refuse an invalid template of a Secret.

    Raises:
        AccessError: SecretTemplateInvalid; the message names the key and the remedy.
    """
    if _is_kubernetes(template.type) and template.type not in _KUBERNETES_TYPES:
        raise _bad_template(
            "type", f"{template.type} is a type of Kubernetes itself; use Opaque, or another type"
        )
    for field, names in (("labels", template.labels), ("annotations", template.annotations)):
        for name in names:
            if name == MANAGED_BY_LABEL or name.startswith(f"{GROUP}/"):
                raise _bad_template(field, f"{name} is reserved for the operator; remove it")
            for wrong in qualified_name_errors(name):
                raise _bad_template(field, f"{name!r}: {wrong}")
    for name, value in template.labels.items():
        for wrong in label_value_errors(value):
            raise _bad_template("labels", f"{name}: {wrong}")
    for key, text in template.data.items():
        if key in _LOGIN_KEYS:
            raise _bad_template("data", f"{key} holds the login itself; choose another key")
        if not _KEY.fullmatch(key) or key == "." or key.startswith(".."):
            raise _bad_template(
                "data", f"{key!a} is not a valid key of a Secret; use letters, digits, -, _ and ."
            )
        for placeholder in _PLACEHOLDER.finditer(text):
            _check_placeholder(key, placeholder)


def _is_kubernetes(type_: str) -> bool:
    domain = type_.partition("/")[0]
    return f".{domain}".endswith((".kubernetes.io", ".k8s.io"))


def _check_placeholder(key: str, match: re.Match[str]) -> None:
    where = f"key {key}: {match[0][:60]!a}"
    if not match[2]:
        raise _bad_template("data", f"{where} has no end; close it with }}}}")
    name, filter_ = _parts(match[1])
    names = (*_NAMES, *_URL_NAMES)
    if name not in names:
        raise _bad_template("data", f"{where} has an unknown name; use one of {', '.join(names)}")
    if filter_ not in _FILTERS:
        filters = ", ".join(filter(None, _FILTERS))
        raise _bad_template("data", f"{where} has an unknown filter; use one of {filters}")


def _parts(placeholder: str) -> tuple[str, str]:
    name, bar, filter_ = placeholder.partition("|")
    # A bar without a filter is an unknown filter, which is refused.
    return name.strip(), filter_.strip() or bar


def _bad_template(field: str, why: str) -> AccessError:
    return invalid("SecretTemplateInvalid", f"spec.secretTemplate.{field}: {why}")


def check_ours(existing: Object, access: Object, type_: str = _OPAQUE) -> None:
    """Refuse a Secret with another controller or another type than the access's own.

    Raises:
        AccessError: SecretConflict; the message names the controller of the Secret.
    """
    flags = existing.decode(_Flags)
    owner = existing.meta.controller()
    if (owner is None or owner.uid != access.meta.uid) and not is_restored(existing):
        whose = f"{owner.kind} {owner.name}" if owner else "no object"
        raise invalid(
            "SecretConflict",
            f"Secret {existing.key} exists and is controlled by {whose};"
            " choose another spec.generatedSecret, or delete the Secret",
        )
    if (flags.type or _OPAQUE) != type_:
        raise invalid(
            "SecretConflict",
            f"Secret {existing.key} has type {flags.type}, which cannot be changed to {type_};"
            " set spec.secretTemplate.type back, or delete the Secret",
        )


def is_restored(existing: Object) -> bool:
    """Whether a backup restored the Secret without its owner: its password may be in use.

    A tenant gains nothing by a forged one: its login and password are replaced or adopted, as
    those of each generated Secret of the namespace.
    """
    meta = existing.meta
    return not meta.owner_references and meta.labels.get(MANAGED_BY_LABEL) == MANAGED_BY


def is_leftover(existing: Object, access: Object) -> bool:
    """Whether the Secret's controller is a deleted access of the same name."""
    owner = existing.meta.controller()
    return (
        owner is not None
        and owner.uid != access.meta.uid
        and (owner.kind, owner.name) == (access.kind, access.meta.name)
        and owner.api_version.partition("/")[0] == GROUP
    )


def moves(existing: Object | None, content_wanted: SecretContent) -> bool:
    """Whether a Secret with the wanted content sends its clients to another host or port."""
    if existing is None:
        return False
    data = secret_data(existing)
    places = {
        key: content_wanted.values[key].encode()
        for key in ("host", "port")
        if key in content_wanted.values
    }
    return any(data.get(key, place) != place for key, place in places.items())


def login_in(existing: Object | None) -> tuple[str, str]:
    """Return login and password in the Secret, which a user may have edited, "" for a missing one.

    Raises:
        AccessError: PasswordInvalid or ConnectionInvalid, where no client could use the password.
    """
    if existing is None:
        return "", ""
    what = f"key password of Secret {existing.key}"
    try:
        data = secret_data(existing)
        stored = text_of(data, "password", str(existing.key))
    except AccessError:
        raise invalid(
            "PasswordInvalid",
            f"{what} is not UTF-8 text; change it, or remove the key to get a generated password",
        ) from None
    try:
        login = text_of(data, "username", str(existing.key))
    except AccessError:
        # The next write of the Secret puts the right login back.
        login = ""
    # Emptying the key is how a user asks for a new password.
    if not stored.strip():
        return login, ""
    password.check(stored, what)
    return login, stored


def given_password(spec: PostgresAccessSpec, existing: Object) -> str:
    """Return the password in the Secret that spec.passwordSecretRef names.

    Raises:
        AccessError: PasswordInvalid; the message names the key.
    """
    key = spec.password_secret_ref.key if spec.password_secret_ref else ""
    what = f"key {key} of Secret {existing.key}, which spec.passwordSecretRef names,"
    try:
        value = text_of(secret_data(existing), key, "")
    except AccessError:
        raise invalid("PasswordInvalid", f"{what} is not UTF-8 text; change it") from None
    if not value.strip():
        raise invalid("PasswordInvalid", f"{what} is missing or empty; set it")
    if value.endswith(("\n", "\r")):
        raise invalid(
            "PasswordInvalid",
            f"{what} ends with a line break, which echo adds without -n; write the value without"
            " it",
        )
    password.check(value, what)
    return value


def given_secret(spec: PostgresAccessSpec) -> str:
    """Return the name of the Secret with a given password, "" for generated passwords.

    Raises:
        AccessError: NameInvalid or PasswordInvalid, where the name is refused.
    """
    if spec.password_secret_ref is None:
        return ""
    name = spec.password_secret_ref.name
    if name == spec.generated_secret:
        raise invalid(
            "PasswordInvalid",
            "spec.passwordSecretRef names spec.generatedSecret itself; name another Secret",
        )
    check_name(name, "spec.passwordSecretRef.name")
    return name


def missing_password_secret(name: str, namespace: str) -> AccessError:
    """Return the error for a Secret of spec.passwordSecretRef that does not exist."""
    return invalid(
        "PasswordSecretMissing",
        f"Secret {namespace}/{name} of spec.passwordSecretRef does not exist; create it",
    )


def uris_of(access: PostgresAccess, source: Object | None) -> Uris:
    """Return the form of the URIs: the one that is asked for, or else the one that clients have.

    A Secret has its form recorded. Without a record it is of a former version, whose URIs had no
    TLS mode, unless it has none at all. A new Secret is Verified; one that is made anew has the
    form that the status names.

    Args:
        access: the object.
        source: the present Secret, or the one of a former name.
    """
    template, status = access.spec.secret_template, access.status.secret
    if template is not None and template.uris is not None:
        return template.uris
    text = source.meta.annotations.get(URIS_ANNOTATION) if source is not None else None
    recorded = next((form for form in _FORMS if form == text), None)
    if recorded is not None:
        return recorded
    if status is not None and status.uris is not None:
        return status.uris
    if source is not None:
        return "Plain" if secret_data(source).keys() & {*_URI_KEYS} else "Verified"
    return "Verified" if status is None else "Plain"


def uri_keys(template: SecretTemplate | None) -> list[str]:
    """Return the keys of a Secret whose URIs are Verified or Plain as ``uris`` says, sorted."""
    if template is None:
        return sorted(_URI_KEYS)
    keys = {*_URI_KEYS} - template.data.keys() if template.include_default_keys else set[str]()
    for key, text in template.data.items():
        names = {_parts(placeholder[1])[0] for placeholder in _PLACEHOLDER.finditer(text)}
        if any(_NAMES.get(name) in _URI_KEYS for name in names):
            keys.add(key)
    return sorted(keys)


def secret_values(
    spec: PostgresAccessSpec,
    endpoint: Endpoint,
    secret: str,
    login: str = "",
    *,
    uris: Uris = "Verified",
) -> LoginValues:
    """Return the values of a login: those of Service Binding and of PostgreSQL's clients.

    Args:
        spec: the spec of the access.
        endpoint: its server.
        secret: the password.
        login: the role that logs in, where it is not spec.username itself.
        uris: the form of the URIs.
    """
    username = login or spec.username
    database = spec.grants[0].database if spec.grants else endpoint.fallback
    database = database or endpoint.maintenance
    host = endpoint.public_host or endpoint.host
    port = str(endpoint.public_port or endpoint.port)
    # In a URI an IPv6 address is in brackets
    # (https://www.rfc-editor.org/rfc/rfc3986#section-3.2.2).
    hosts = [f"[{one}]" if ":" in one else one for one in host.split(",")]
    place = f"{','.join(f'{one}:{port}' for one in hosts)}/{quote(database, safe='')}"
    user = f"{quote(username, safe='')}:{quote(secret, safe='')}"
    # pgJDBC takes the login as parameters, and not before the host.
    query = urlencode({"user": username, "password": secret}, quote_via=quote, safe="")
    url, jdbc_url = f"postgresql://{user}@{place}", f"jdbc:postgresql://{place}?{query}"
    # No path to a CA, for a Secret does not know where it is mounted: a client that does not know
    # the CA itself refuses to connect.
    mode = f"sslmode={endpoint.ssl_mode}" if uris == "Verified" else ""
    values = {
        "type": "postgresql",
        "provider": "fairlead",
        "host": host,
        "port": port,
        "database": database,
        "dbname": database,
        "username": username,
        "user": username,
        "password": secret,
        "sslmode": endpoint.ssl_mode,
        "uri": f"{url}?{mode}" if mode else url,
        "jdbc-uri": f"{jdbc_url}&{mode}" if mode else jdbc_url,
        "pgpass": _password_file(host.split(","), port, username, secret),
    }
    if endpoint.ca:
        values[_CA] = endpoint.ca
        # Spring Cloud Bindings looks for the file in the binding's folder. The system's CAs have
        # no name that all clients know, so that there is no key for them.
        if endpoint.ssl_mode.startswith("verify-"):
            values[_CA_FILE] = _CA
    return LoginValues(values, dict(zip(_URL_NAMES, (url, jdbc_url), strict=True)), uris)


def _password_file(hosts: Iterable[str], port: str, username: str, secret: str) -> str:
    """Return libpq's password file with a line for each host, for any database.

    https://www.postgresql.org/docs/current/libpq-pgpass.html
    """
    if "\n" in secret or "\r" in secret:
        # No line can hold such a password; with an empty file a client fails at once.
        return ""
    login = f"{_escaped(username)}:{_escaped(secret)}"
    return "".join(f"{_escaped(host)}:{port}:*:{login}\n" for host in hosts)


def _escaped(field: str) -> str:
    return re.sub(r"([\\:])", r"\\\1", field)


def content(template: SecretTemplate | None, values: LoginValues, mark: str) -> SecretContent:
    """Return the wanted content of the Secret.

    Raises:
        AccessError: SecretTemplateInvalid, where the values are too large together.
    """
    if template is None:
        return SecretContent(values=values.entries, uris=values.uris, mark=mark)
    keys = values.entries.keys() if template.include_default_keys else _LOGIN_KEYS
    entries = {key: values.entries[key] for key in keys} | {
        key: _PLACEHOLDER.sub(lambda match: _filled(match[1], values), text)
        for key, text in template.data.items()
    }
    size = sum(len(value.encode()) for value in entries.values())
    if size > bounds.SECRET_BYTES:
        raise _bad_template(
            "data", f"the values have {size} bytes together; the limit is {bounds.SECRET_BYTES}"
        )
    return SecretContent(
        values=entries,
        uris=values.uris,
        late=frozenset({_CA_FILE} - template.data.keys()),
        labels=template.labels,
        annotations=template.annotations,
        type=template.type,
        mark=mark,
    )


def _filled(placeholder: str, values: LoginValues) -> str:
    name, filter_ = _parts(placeholder)
    text = values.urls[name] if name in values.urls else values.entries[_NAMES[name]]
    return _FILTERS[filter_](text)


def secret_body(
    access: Object, name: str, content_wanted: SecretContent, existing: Object | None
) -> JSON:
    """Return the wanted Secret; keys, labels and annotations of other writers stay.

    Raises:
        AccessError: SecretConflict, where an immutable Secret is out of date.
    """
    body: JSON = existing.to_dict() if existing else _fresh(access, name, content_wanted.type)
    if existing and not existing.meta.owner_references:
        body["metadata"]["ownerReferences"] = _owners(access)
    before, present = _names_of(existing), body.get("data") or {}
    data = _due(content_wanted, present, before)
    if existing and existing.decode(_Flags).immutable:
        _check_immutable(existing, present, data)
        return body
    names = _names(content_wanted, data)
    labels = {**content_wanted.labels, MANAGED_BY_LABEL: MANAGED_BY}
    annotations = dict(content_wanted.annotations)
    if names != _Made():
        annotations[GENERATED_ANNOTATION] = msgspec.json.encode(names, order="sorted").decode()
    if content_wanted.mark:
        annotations[ROTATE_ANNOTATION] = content_wanted.mark
    metadata = body["metadata"]
    body["data"] = _merged(present, before.keys(), data)
    metadata["labels"] = _merged(metadata.get("labels"), before.labels, labels)
    ours = before.annotations | {GENERATED_ANNOTATION}
    annotations = _merged(metadata.get("annotations"), ours, annotations)
    metadata["annotations"] = annotations
    # A Secret of a former version gets the record with the next write that is due.
    is_former = existing is not None and URIS_ANNOTATION not in existing.meta.annotations
    if existing is None or not is_former or _differs(existing, body):
        annotations[URIS_ANNOTATION] = content_wanted.uris
    return body


def _differs(existing: Object, body: JSON) -> bool:
    """Whether a Secret has other data, labels, annotations or owners than the body."""
    before = existing.to_dict()
    return before.get("data") != body["data"] or any(
        (before["metadata"].get(field) or None) != (body["metadata"].get(field) or None)
        for field in ("labels", "annotations", "ownerReferences")
    )


def _due(
    content_wanted: SecretContent, present: Mapping[str, Any], before: _Made
) -> dict[str, str]:
    """Return the wanted data in base64, without late keys for which alone nothing is written.

    Pods that a ServiceBinding rolls on changes would roll for them. A late key that another writer
    has added stays its own.
    """
    data = {
        key: base64.b64encode(value.encode()).decode()
        for key, value in content_wanted.values.items()
    }
    late = (content_wanted.late & data.keys()) - before.data
    rest = {key: value for key, value in data.items() if key not in late}
    if _merged(present, before.keys(), rest) == present:
        return rest
    return {key: value for key, value in data.items() if key not in late & present.keys()}


def _names(content_wanted: SecretContent, data: Mapping[str, str]) -> _Made:
    defaults = data.keys() >= _DEFAULT_KEYS
    return _Made(
        defaults=defaults,
        data=frozenset(data) - (_DEFAULT_KEYS if defaults else frozenset()),
        labels=frozenset(content_wanted.labels),
        annotations=frozenset(content_wanted.annotations),
    )


def _merged(
    present: Mapping[str, Any] | None, ours: Iterable[str], content_wanted: Mapping[str, str]
) -> dict[str, Any]:
    gone = set(ours) - content_wanted.keys()
    return {key: value for key, value in (present or {}).items() if key not in gone} | dict(
        content_wanted
    )


def _check_immutable(
    existing: Object, present: Mapping[str, Any], data: Mapping[str, str]
) -> None:
    out_of_date = [
        key
        for key, value in data.items()
        if present.get(key, value if key in _MAY_LACK else None) != value
    ]
    if out_of_date:
        raise invalid(
            "SecretConflict",
            f"Secret {existing.key} is immutable and out of date in {', '.join(out_of_date)};"
            " delete it",
        )


def _names_of(existing: Object | None) -> _Made:
    """Return the names of the operator's items in a Secret, none where the list is invalid."""
    text = existing.meta.annotations.get(GENERATED_ANNOTATION, "") if existing else ""
    if not text:
        return _Made()
    try:
        return msgspec.json.decode(text, type=_Made)
    except msgspec.DecodeError:
        # Without the list the operator's old keys are unknown, so that all unwritten keys stay.
        return _Made(defaults=False)


def _owners(access: Object) -> list[JSON]:
    owner: JSON = msgspec.to_builtins(
        msgspec.structs.replace(
            access.owner_reference(),
            api_version=POSTGRESACCESSES.api_version,
            kind=POSTGRESACCESSES.kind,
        )
    )
    return [owner]


def _fresh(access: Object, name: str, type_: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": type_,
        "metadata": {
            "name": name,
            "namespace": access.meta.namespace,
            "ownerReferences": _owners(access),
        },
    }
