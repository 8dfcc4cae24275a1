"""The generated Secret: what is in it, and when it must not be written."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

import msgspec

from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccessSpec
from fairlead.api.postgresconnection import GROUP
from fairlead.postgres.controllers.resolution import secret_data, text_of
from fairlead.postgres.database import password
from fairlead.postgres.database.endpoint import Endpoint
from fairlead.postgres.errors import AccessError, invalid


MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "fairlead-postgres"
SELECTOR = f"{MANAGED_BY_LABEL}={MANAGED_BY}"
_OPAQUE = "Opaque"


class _Flags(msgspec.Struct):
    type: str = ""
    immutable: bool | None = None


def check_name(name: str) -> None:
    """Refuse what no Secret can be called.

    Raises:
        AccessError: NameInvalid, naming the field.
    """
    for wrong in subdomain_errors(name):
        raise invalid("NameInvalid", f"spec.generatedSecret {name!r} names no Secret: {wrong}")


def check_ours(existing: Object, access: Object) -> None:
    """Refuse a Secret that this access did not make.

    Raises:
        AccessError: SecretConflict, naming who owns it.
    """
    flags = existing.decode(_Flags)
    owner = existing.meta.controller()
    if owner is None or owner.uid != access.meta.uid:
        whose = f"{owner.kind} {owner.name}" if owner else "nobody"
        raise invalid(
            "SecretConflict",
            f"Secret {existing.key} exists and is controlled by {whose};"
            " choose another spec.generatedSecret, or delete the Secret",
        )
    if flags.type not in {"", _OPAQUE}:
        raise invalid(
            "SecretConflict",
            f"Secret {existing.key} has type {flags.type}, which cannot be changed; delete it",
        )


def is_leftover(existing: Object, access: Object) -> bool:
    """Whether the Secret belongs to a deleted object of the same name, and is collected soon."""
    owner = existing.meta.controller()
    return (
        owner is not None
        and owner.uid != access.meta.uid
        and (owner.kind, owner.name) == (access.kind, access.meta.name)
        and owner.api_version.partition("/")[0] == GROUP
    )


def current_password(existing: Object | None) -> str:
    """The password in the Secret, as its user may have edited it; "" asks for a new one.

    Raises:
        AccessError: PasswordInvalid or ConnectionInvalid, when no client could use it.
    """
    if existing is None:
        return ""
    name = str(existing.key)
    try:
        found = text_of(secret_data(existing), "password", name)
    except AccessError:
        raise invalid(
            "PasswordInvalid",
            f"key password of Secret {name} is no UTF-8 text;"
            " change it, or remove it to have one generated",
        ) from None
    # Emptying the key is how a user asks for a new password.
    if not found.strip():
        return ""
    password.check(found, name)
    return found


def secret_values(spec: PostgresAccessSpec, endpoint: Endpoint, secret: str) -> dict[str, str]:
    """All keys: those of a Service Binding, and the names that clients of PostgreSQL look for."""
    database = spec.grants[0].database if spec.grants else endpoint.fallback
    database = database or endpoint.maintenance
    host = endpoint.public_host or endpoint.host
    port = str(endpoint.public_port or endpoint.port)
    login = f"{quote(spec.username, safe='')}:{quote(secret, safe='')}"
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return {
        "type": "postgresql",
        "provider": "fairlead",
        "host": host,
        "port": port,
        "database": database,
        "dbname": database,
        "username": spec.username,
        "password": secret,
        "uri": f"postgresql://{login}@{address}/{quote(database, safe='')}",
    }


def secret_body(
    access: Object, name: str, values: dict[str, str], existing: Object | None
) -> JSON:
    """The Secret as it shall be; keys, labels and annotations of others stay.

    Raises:
        AccessError: SecretConflict, when it would change but must not.
    """
    body: JSON = existing.to_dict() if existing else _fresh(access, name)
    data: dict[str, Any] = dict(body.get("data") or {})
    wanted = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    if existing and existing.decode(_Flags).immutable and data != data | wanted:
        raise invalid(
            "SecretConflict", f"Secret {existing.key} is immutable and out of date; delete it"
        )
    body["data"] = data | wanted
    labels = body["metadata"].setdefault("labels", {})
    labels[MANAGED_BY_LABEL] = MANAGED_BY
    return body


def _fresh(access: Object, name: str) -> JSON:
    owner = msgspec.to_builtins(
        msgspec.structs.replace(
            access.owner_reference(),
            api_version=POSTGRESACCESSES.api_version,
            kind=POSTGRESACCESSES.kind,
        )
    )
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": _OPAQUE,
        "metadata": {
            "name": name,
            "namespace": access.meta.namespace,
            "ownerReferences": [owner],
        },
    }
