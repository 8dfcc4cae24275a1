"""The generated Secret as a function of its access: whose it is, and what is in it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
import pytest

from fairlead.api.meta import JSON, Object, object_from_dict
from fairlead.api.postgresaccess import (
    PostgresAccess,
    PostgresAccessSpec,
    SecretTemplate,
    Uris,
)
from fairlead.postgres.controllers.rules.login_secret import (
    GENERATED_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
    URIS_ANNOTATION,
    LoginValues,
    SecretContent,
    check_name,
    check_ours,
    check_template,
    content,
    given_password,
    is_leftover,
    login_in,
    secret_body,
    secret_values,
    uri_keys,
    uris_of,
)
from fairlead.postgres.database.connections.endpoint import Endpoint
from fairlead.postgres.errors import AccessError


ODD = "'`\\\"%@:/?#& +é"
ENDPOINT = Endpoint(
    host="db",
    port=5432,
    username="admin",
    password="s3cret",
    ssl_mode="require",
    public_host="2001:db8::1",
    public_port=6432,
)
DEFAULT_KEYS = {
    *("type", "provider", "host", "port", "database", "dbname", "username", "user", "password"),
    *("sslmode", "uri", "jdbc-uri", "pgpass"),
}


def spec(*databases: str, username: str = "app", **fields: object) -> PostgresAccessSpec:
    return msgspec.convert(
        {
            "generatedSecret": "login",
            "username": username,
            "connection": {"serverRef": {"name": "main"}},
            "grants": [{"database": name, "privileges": ["CONNECT"]} for name in databases],
            **fields,
        },
        PostgresAccessSpec,
    )


def template(**fields: object) -> SecretTemplate:
    return msgspec.convert(fields, SecretTemplate)


def access(uid: str = "u1", name: str = "app") -> Object:
    return object_from_dict(
        {
            "apiVersion": "access.k8s.delta10.nl/v1",
            "kind": "PostgresAccess",
            "metadata": {"name": name, "namespace": "team", "uid": uid},
            "spec": {},
        }
    )


def secret(owner: Object | None, *, type_: str = "Opaque", **data: str) -> Object:
    body: JSON = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": type_,
        "metadata": {"name": "login", "namespace": "team"},
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    if owner is not None:
        body["metadata"]["ownerReferences"] = [msgspec.to_builtins(owner.owner_reference())]
    return object_from_dict(body)


def restored(manager: str = MANAGED_BY) -> Object:
    body = secret(None).to_dict()
    body["metadata"]["labels"] = {MANAGED_BY_LABEL: manager}
    return object_from_dict(body)


def texts(body: JSON) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("login-1.app", "", id="a name"),
        pytest.param("Not A Name", "RFC 1123", id="no subdomain"),
        pytest.param("../other/secrets/x", "RFC 1123", id="a path"),
        pytest.param("x" * 254, "no more than 253", id="too long"),
    ],
)
def test_the_generated_secret_has_a_name_that_a_secret_can_have(name: str, wrong: str) -> None:
    if not wrong:
        check_name(name)
        return
    with pytest.raises(AccessError, match=f"spec.generatedSecret .*{wrong}") as refused:
        check_name(name)
    assert refused.value.reason == "NameInvalid"


@pytest.mark.parametrize(
    ("existing", "type_", "message"),
    [
        pytest.param(secret(access()), "Opaque", "", id="ours"),
        pytest.param(secret(access(), type_=""), "Opaque", "", id="no-type-is-Opaque"),
        pytest.param(secret(access(), type_="a/b"), "a/b", "", id="the-templates-type"),
        pytest.param(secret(None), "Opaque", "controlled by no object", id="without-owner"),
        pytest.param(restored(), "Opaque", "", id="restored-without-owner"),
        pytest.param(
            restored("team"), "Opaque", "controlled by no object", id="labelled-by-others"
        ),
        pytest.param(
            secret(access(uid="u2", name="other")), "Opaque",
            "controlled by PostgresAccess other", id="A10-anothers",
        ),
        pytest.param(
            secret(access(uid="u0")), "Opaque", "controlled by PostgresAccess app", id="old-uid"
        ),
        pytest.param(
            secret(access(), type_="kubernetes.io/tls"), "Opaque",
            "has type kubernetes.io/tls, which cannot be changed to Opaque", id="A9-type",
        ),
        pytest.param(secret(access()), "a/b", "cannot be changed to a/b", id="A9-type-later"),
    ],
)  # fmt: skip
def test_whose_secret_it_is(existing: Object, type_: str, message: str) -> None:
    if not message:
        check_ours(existing, access(), type_)
        return
    with pytest.raises(AccessError, match=message) as refused:
        check_ours(existing, access(), type_)
    assert refused.value.reason == "SecretConflict"


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        pytest.param(access(uid="u0"), True, id="same-name-older-uid"),
        pytest.param(access(), False, id="ours"),
        pytest.param(access(uid="u0", name="other"), False, id="anothers"),
        pytest.param(None, False, id="nobodys"),
    ],
)
def test_what_a_deleted_namesake_left_behind(owner: Object | None, expected: bool) -> None:
    assert is_leftover(secret(owner), access()) is expected


@pytest.mark.parametrize(
    ("existing", "expected"),
    [
        pytest.param(None, "", id="no-secret"),
        pytest.param(secret(access()), "", id="T-no-missing"),
        pytest.param(secret(access(), password=""), "", id="T-no-empty"),
        pytest.param(secret(access(), password=" \n"), "", id="T-no-blank"),
        pytest.param(secret(access(), password="kept"), "kept", id="T-yes"),
        pytest.param(secret(access(), password=" spaced "), " spaced ", id="T-yes-verbatim"),
        pytest.param(secret(access(), password="é" * 512), "é" * 512, id="A9-1024-bytes"),
    ],
)
def test_the_password_that_is_there(existing: Object | None, expected: str) -> None:
    assert login_in(existing)[1] == expected


def raw_secret(value: bytes) -> Object:
    body = secret(access()).to_dict()
    body["data"] = {"password": base64.b64encode(value).decode()}
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("value", "own", "given"),
    [
        pytest.param(b"\xff\xfe", "not UTF-8", "not UTF-8", id="no-text"),
        pytest.param(b"a\0b", "not UTF-8", "not UTF-8", id="nul"),
        pytest.param(b"x" * 1025, "has 1025 bytes", "has 1025 bytes", id="long"),
        pytest.param(b"abc\n", "", "ends with a line break", id="line-break"),
        pytest.param(b"", "", "is missing or empty", id="empty"),
        pytest.param(b" ", "", "is missing or empty", id="blank"),
        pytest.param(b"SCRAM-SHA-256$4096:a$b:c", "", "", id="a-verifier-is-a-text"),
    ],
)
def test_passwords_that_are_refused(value: bytes, own: str, given: str) -> None:
    """Of those made elsewhere none is taken that somebody cannot have meant."""
    wanted = spec(passwordSecretRef={"name": "login"})
    found = raw_secret(value)
    for read, message in (
        (login_in, own),
        (lambda existing: given_password(wanted, existing), given),
    ):
        if not message:
            read(found)
            continue
        with pytest.raises(AccessError, match=f"PasswordInvalid: .*{message}") as refused:
            read(found)
        assert "password of Secret team/login" in refused.value.message
        text = value.decode(errors="ignore").strip()
        assert not text or text not in refused.value.message


@pytest.mark.parametrize("password", [ODD, "x" * 1024, "é" * 512, "${jndi}", "a b"])
def test_every_form_of_the_login_parses_back(password: str) -> None:
    values = secret_values(spec("my app", username="a/b"), ENDPOINT, password).entries
    assert values.keys() == DEFAULT_KEYS
    uri = urlsplit(values["uri"])
    assert (unquote(uri.username or ""), unquote(uri.password or "")) == ("a/b", password)
    jdbc = urlsplit(values["jdbc-uri"].removeprefix("jdbc:"))
    assert parse_qs(jdbc.query, strict_parsing=True) == {
        "user": ["a/b"],
        "password": [password],
        "sslmode": ["require"],
    }
    assert uri.query == "sslmode=require"
    for parts in (uri, jdbc):
        assert (parts.hostname, str(parts.port)) == (values["host"], values["port"])
        assert unquote(parts.path) == f"/{values['database']}"
    assert values["database"] == values["dbname"] == "my app"
    assert values["user"] == values["username"] == "a/b"
    assert values["password"] == password
    assert values["sslmode"] == "require"
    assert values["pgpass"].endswith("\n")
    assert "s3cret" not in str(values)


def test_every_host_of_several_has_the_port_and_a_line_of_its_own() -> None:
    endpoint = replace(ENDPOINT, public_host="a,b", public_port=0)
    values = secret_values(spec(), endpoint, "p:w").entries
    assert values["uri"] == "postgresql://app:p%3Aw@a:5432,b:5432/postgres?sslmode=require"
    assert values["pgpass"] == "a:5432:*:app:p\\:w\nb:5432:*:app:p\\:w\n"


@pytest.mark.parametrize(
    ("mode", "ca", "more"),
    [
        pytest.param("verify-full", "PEM", {"ca.crt": "PEM", "sslrootcert": "ca.crt"}, id="full"),
        pytest.param("verify-ca", "PEM", {"ca.crt": "PEM", "sslrootcert": "ca.crt"}, id="ca"),
        pytest.param("require", "PEM", {"ca.crt": "PEM"}, id="require"),
        # What libpq calls system is a file to other clients.
        pytest.param("verify-full", "", {}, id="public-ca"),
        pytest.param("require", "", {}, id="no-ca"),
        pytest.param("prefer", "", {}, id="prefer"),
        pytest.param("disable", "", {}, id="disable"),
    ],
)
def test_the_ca_is_a_key_when_it_is_known_and_its_file_another_where_it_verifies(
    mode: str, ca: str, more: dict[str, str]
) -> None:
    values = secret_values(spec(), replace(ENDPOINT, ssl_mode=mode, ca=ca), "p").entries
    assert values.keys() == DEFAULT_KEYS | more.keys()
    assert {key: values[key] for key in more} == more
    # The CA of a server is no client's certificate.
    assert "certificates" not in values


def test_no_password_file_holds_a_line_break() -> None:
    assert secret_values(spec(), ENDPOINT, "a\nb").entries["pgpass"] == ""


LOGIN = secret_values(spec("shop"), replace(ENDPOINT, public_host="db.example.org"), ODD)
VALUES = LOGIN.entries


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("plain", "plain", id="no-placeholder"),
        pytest.param("{{username}}@{{host}}:{{port}}", "app@db.example.org:6432", id="names"),
        pytest.param("{{ database | urlquote }}", "shop", id="blanks"),
        pytest.param("{{password}}", ODD, id="verbatim"),
        pytest.param("{{password|json}}", json.dumps(ODD), id="json"),
        pytest.param('{"a":{"b":{{password|json}}}}', '{"a":{"b":' + json.dumps(ODD) + "}}",
                     id="braces-of-json"),
        pytest.param("{{password|b64}}", base64.b64encode(ODD.encode()).decode(), id="b64"),
        pytest.param("{{url}}?sslmode={{sslmode}}", VALUES["uri"], id="url"),
        pytest.param("{{jdbcUrl}}&sslmode={{sslmode}}", VALUES["jdbc-uri"], id="jdbcUrl"),
        pytest.param("{{uri}}&sslrootcert=/ca", f"{VALUES['uri']}&sslrootcert=/ca", id="uri"),
        pytest.param("{{jdbcUri}}", VALUES["jdbc-uri"], id="jdbcUri"),
        pytest.param("}} {", "}} {", id="no-beginning"),
    ],
)  # fmt: skip
def test_templates(text: str, expected: str) -> None:
    asked = template(data={"KEY": text})
    check_template(asked)
    made = content(asked, LOGIN, "").values
    assert made == VALUES | {"KEY": expected}


def test_what_a_password_says_is_no_template() -> None:
    values = secret_values(spec(), ENDPOINT, "{{host}}")
    made = content(template(data={"KEY": "{{password}}"}), values, "").values
    assert made["KEY"] == "{{host}}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"data": {"A": "{{pasword}}"}}, "'{{pasword}}' has an unknown name; use"
                     " one of username, password", id="name"),
        pytest.param({"data": {"A": "{{}}"}}, "has an unknown name", id="no-name"),
        pytest.param({"data": {"A": "{{ .Data }}"}}, "has an unknown name", id="another-language"),
        pytest.param({"data": {"A": "{{Password}}"}}, "has an unknown name", id="case-counts"),
        pytest.param({"data": {"A": "{{password|upper}}"}}, "unknown filter; use one of urlquote,"
                     " json, b64", id="filter"),
        pytest.param({"data": {"A": "{{password|}}"}}, "unknown filter", id="no-filter"),
        pytest.param({"data": {"A": "{{password|json|b64}}"}}, "unknown filter", id="two-filters"),
        pytest.param({"data": {"A": "{{password"}}, "has no end", id="no-end"),
        pytest.param({"data": {"A": "{{password}\n"}}, "has no end", id="half-an-end"),
        pytest.param({"data": {"password": "x"}}, "password holds the login", id="password"),
        pytest.param({"data": {"username": "x"}}, "username holds the login", id="username"),
        pytest.param({"data": {"a b": "x"}}, "'a b' is not a valid key of a Secret", id="key"),
        pytest.param({"data": {"": "x"}}, "'' is not a valid key", id="empty-key"),
        pytest.param({"data": {"..a": "x"}}, "is not a valid key", id="dots"),
        pytest.param({"data": {"x" * 254: "x"}}, "is not a valid key", id="long-key"),
        pytest.param({"labels": {"-": "x"}}, "labels: '-'", id="label"),
        pytest.param({"labels": {"a": "b c"}}, "labels: a", id="label-value"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "me"}}, "for the operator",
                     id="our-label"),
        pytest.param({"annotations": {"a b": "x"}}, "annotations: 'a b'", id="annotation"),
        pytest.param({"annotations": {"access.k8s.delta10.nl/rotate-at": "x"}}, "for the operator",
                     id="our-annotation"),
        pytest.param({"type": "kubernetes.io/service-account-token"}, "of Kubernetes itself",
                     id="a-token"),
        pytest.param({"type": "bootstrap.kubernetes.io/token"}, "of Kubernetes itself", id="b"),
    ],
)  # fmt: skip
def test_templates_that_are_refused(fields: JSON, message: str) -> None:
    with pytest.raises(AccessError, match="SecretTemplateInvalid: spec") as refused:
        check_template(template(**fields))
    assert message in refused.value.message


@pytest.mark.parametrize("type_", ["Opaque", "kubernetes.io/basic-auth", "servicebinding.io/db"])
def test_types_that_are_taken(type_: str) -> None:
    check_template(template(type=type_))
    assert secret_body(access(), "login", content(template(type=type_), LOGIN, ""), None)[
        "type"
    ] == type_  # fmt: skip


def test_a_secret_has_a_size_that_a_server_takes() -> None:
    data = {f"K{number}": "{{url}}" * 500 for number in range(32)}
    values = secret_values(spec(), ENDPOINT, "%" * 1024)
    with pytest.raises(AccessError, match="data: the values have"):
        content(template(data=data), values, "")


def test_without_default_keys_the_login_stays() -> None:
    made = content(template(includeDefaultKeys=False, data={"DSN": "{{url}}"}), LOGIN, "")
    assert made.values.keys() == {"username", "password", "DSN"}
    assert ODD not in repr(made)


def test_a_template_may_say_a_default_key_otherwise() -> None:
    made = content(template(data={"uri": "{{url}}?sslmode=require"}), LOGIN, "")
    assert made.values["uri"] == VALUES["uri"]


def test_a_fresh_secret_is_controlled_by_its_access() -> None:
    body = secret_body(access(), "login", SecretContent(values=VALUES), None)
    made = object_from_dict(body)
    check_ours(made, access())
    assert made.meta.labels == {"app.kubernetes.io/managed-by": "fairlead-postgres"}
    assert made.meta.annotations == {URIS_ANNOTATION: "Verified"}
    assert login_in(made)[1] == ODD


def test_keys_and_labels_of_others_stay() -> None:
    existing = secret(access(), username="wrong", extra="theirs").to_dict()
    existing["metadata"]["labels"] = {"theirs": "yes"}
    existing["metadata"]["annotations"] = {"theirs": "too"}
    body = secret_body(access(), "login", SecretContent(values=VALUES), object_from_dict(existing))
    assert texts(body) == VALUES | {"extra": "theirs"}
    assert body["metadata"]["labels"]["theirs"] == "yes"
    assert body["metadata"]["annotations"] == {"theirs": "too", URIS_ANNOTATION: "Verified"}


FULL = template(
    labels={"tier": "gold"}, annotations={"note": "x"}, data={"DSN": "{{url}}", "MORE": "1"}
)


@pytest.mark.parametrize(
    ("before", "after", "gone", "there"),
    [
        pytest.param(FULL, None, {"DSN", "MORE"}, DEFAULT_KEYS, id="the-template-went"),
        pytest.param(FULL, template(data={"DSN": "x"}), {"MORE"}, {"DSN"}, id="a-key-went"),
        pytest.param(None, FULL, set(), {"DSN", "MORE"}, id="a-template-came"),
        pytest.param(
            None, template(includeDefaultKeys=False), DEFAULT_KEYS - {"username", "password"},
            {"username", "password"}, id="default-keys-went",
        ),
        pytest.param(
            template(includeDefaultKeys=False, data={"uri": "x"}), None, set(), DEFAULT_KEYS,
            id="default-keys-came-back",
        ),
    ],
)  # fmt: skip
def test_what_we_no_longer_make_goes_and_nothing_else(
    before: SecretTemplate | None, after: SecretTemplate | None, gone: set[str], there: set[str]
) -> None:
    first = secret_body(access(), "login", content(before, LOGIN, ""), None)
    first["data"]["theirs"] = "eA=="
    first["metadata"]["labels"]["theirs"] = "yes"
    first["metadata"].setdefault("annotations", {})["theirs"] = "yes"
    second = secret_body(access(), "login", content(after, LOGIN, ""), object_from_dict(first))
    keys = set(second["data"])
    assert "theirs" in keys
    assert not gone & keys
    assert there <= keys
    labels, annotations = second["metadata"]["labels"], second["metadata"]["annotations"]
    assert labels == {
        "app.kubernetes.io/managed-by": "fairlead-postgres",
        "theirs": "yes",
        **(after.labels if after else {}),
    }
    ours = {GENERATED_ANNOTATION, URIS_ANNOTATION}
    others = {key: value for key, value in annotations.items() if key not in ours}
    assert others == {"theirs": "yes", **(after.annotations if after else {})}
    again = secret_body(access(), "login", content(after, LOGIN, ""), object_from_dict(second))
    assert again == second


def test_keys_of_others_stay_when_the_ca_is_no_longer_known() -> None:
    with_ca = {**VALUES, "ca.crt": "PEM"}
    first = secret_body(access(), "login", SecretContent(values=with_ca), None)
    second = secret_body(access(), "login", SecretContent(values=VALUES), object_from_dict(first))
    assert set(second["data"]) == DEFAULT_KEYS
    theirs = secret_body(access(), "login", SecretContent(values=VALUES), None)
    theirs["data"]["ca.crt"] = "eA=="
    kept = secret_body(access(), "login", SecretContent(values=VALUES), object_from_dict(theirs))
    assert kept["data"]["ca.crt"] == "eA=="


def private(
    password: str = "first", uris: Uris = "Plain", mode: str = "verify-full"
) -> LoginValues:
    """A login on a server with a private CA."""
    endpoint = replace(ENDPOINT, ssl_mode=mode, ca="PEM")
    return secret_values(spec("shop"), endpoint, password, uris=uris)


def former(*, immutable: bool = False, **more: str) -> Object:
    """A Secret as the former version wrote it, with keys that others have added."""
    values = {key: value for key, value in private().entries.items() if key != "sslrootcert"}
    body = secret_body(access(), "login", SecretContent(values=values, uris="Plain"), None)
    del body["metadata"]["annotations"][URIS_ANNOTATION]
    body["data"] |= {key: base64.b64encode(text.encode()).decode() for key, text in more.items()}
    return object_from_dict(body | ({"immutable": True} if immutable else {}))


@pytest.mark.parametrize(
    ("existing", "asked", "password", "expected"),
    [
        pytest.param(None, None, "first", "ca.crt", id="a-new-secret"),
        pytest.param(former(), None, "first", None, id="no-write-for-it-alone"),
        pytest.param(former(), template(labels={"a": "b"}), "first", None, id="nor-a-new-roll"),
        pytest.param(former(), None, "next", "ca.crt", id="with-the-next-password"),
        pytest.param(former(), template(data={"A": "b"}), "first", "ca.crt", id="with-a-key"),
        pytest.param(
            former(), template(data={"sslrootcert": "/ca"}), "first", "/ca", id="the-template-asks"
        ),
        pytest.param(former(sslrootcert="/mine"), None, "first", "/mine", id="another-s-key"),
        pytest.param(former(sslrootcert="/mine"), None, "next", "/mine", id="another-s-key-stays"),
        pytest.param(
            former(), template(includeDefaultKeys=False), "next", None, id="no-default-keys"
        ),
        pytest.param(former(immutable=True), None, "first", None, id="immutable"),
    ],
)
def test_the_file_of_the_ca_comes_with_a_change_of_the_data(
    existing: Object | None, asked: SecretTemplate | None, password: str, expected: str | None
) -> None:
    check_template(asked or template())
    wanted = content(asked, private(password), "")
    body = secret_body(access(), "login", wanted, existing)
    assert texts(body).get("sslrootcert") == expected
    again = secret_body(access(), "login", wanted, object_from_dict(body))
    assert again == body
    if asked is None and password == "first" and existing is not None:
        assert body == existing.to_dict()


def test_the_file_of_the_ca_goes_with_the_ca_and_is_put_right() -> None:
    wanted = content(None, private(), "")
    first = secret_body(access(), "login", wanted, None)
    spoilt = {**first, "data": {**first["data"], "sslrootcert": "eA=="}}
    assert secret_body(access(), "login", wanted, object_from_dict(spoilt)) == first
    del spoilt["data"]["sslrootcert"]
    assert secret_body(access(), "login", wanted, object_from_dict(spoilt)) == first
    public = secret_body(access(), "login", content(None, LOGIN, ""), object_from_dict(first))
    assert set(public["data"]) == DEFAULT_KEYS


@pytest.mark.parametrize(
    "mode", ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"]
)
@pytest.mark.parametrize("ca", ["", "PEM"])
def test_uris_end_with_the_mode_and_have_no_path(mode: str, ca: str) -> None:
    endpoint = replace(ENDPOINT, ssl_mode=mode, ca=ca)
    plain = secret_values(spec(), endpoint, ODD, uris="Plain")
    verified = secret_values(spec(), endpoint, ODD)
    assert verified.entries["uri"] == f"{plain.entries['uri']}?sslmode={mode}"
    assert verified.entries["jdbc-uri"] == f"{plain.entries['jdbc-uri']}&sslmode={mode}"
    others = plain.entries.keys() - {"uri", "jdbc-uri"}
    assert all(verified.entries[key] == plain.entries[key] for key in others)
    assert "?" not in plain.entries["uri"]
    urls = template(includeDefaultKeys=False, data={"A": "{{url}} {{jdbcUrl}}"})
    uris = template(includeDefaultKeys=False, data={"A": "{{uri}} {{jdbcUri}}"})
    for values in (plain, verified):
        entries = values.entries
        texts_ = [content(asked, values, "").values["A"] for asked in (urls, uris)]
        assert texts_ == [
            f"{plain.entries['uri']} {plain.entries['jdbc-uri']}",
            f"{entries['uri']} {entries['jdbc-uri']}",
        ]


def recorded(text: str, existing: Object | None = None) -> Object:
    body = (existing or former()).to_dict()
    body["metadata"].setdefault("annotations", {})[URIS_ANNOTATION] = text
    return object_from_dict(body)


def unowned(existing: Object) -> Object:
    """A Secret as a backup restores it."""
    body = existing.to_dict()
    del body["metadata"]["ownerReferences"]
    return object_from_dict(body)


@pytest.mark.parametrize(
    ("existing", "asked", "told", "expected"),
    [
        pytest.param(None, None, None, "Verified", id="a-new-secret"),
        pytest.param(None, "Plain", None, "Plain", id="a-new-secret-that-is-to-be-plain"),
        pytest.param(former(), None, {}, "Plain", id="of-a-former-version"),
        pytest.param(former(), "Verified", {}, "Verified", id="asked-for"),
        pytest.param(former(immutable=True), None, {}, "Plain", id="immutable"),
        pytest.param(recorded("Plain"), None, {"uris": "Plain"}, "Plain", id="recorded-plain"),
        pytest.param(recorded("Verified"), None, None, "Verified", id="not-yet-in-the-status"),
        pytest.param(
            recorded("Verified"), "Plain", {"uris": "Verified"}, "Plain", id="taken-back"
        ),
        pytest.param(recorded("else"), None, None, "Plain", id="a-record-of-another-writer"),
        pytest.param(former(), None, {"uris": "Verified"}, "Verified", id="the-record-went"),
        # Secrets that a backup has restored without the status of their access.
        pytest.param(unowned(former()), None, None, "Plain", id="restored-of-a-former-version"),
        pytest.param(unowned(recorded("Plain")), None, None, "Plain", id="restored-plain"),
        pytest.param(
            unowned(recorded("Verified")), None, None, "Verified", id="restored-verified"
        ),
        # The Secret was deleted, and is made anew.
        pytest.param(None, None, {"uris": "Plain"}, "Plain", id="anew-plain"),
        pytest.param(None, None, {"uris": "Verified"}, "Verified", id="anew-verified"),
        pytest.param(None, "Verified", {"uris": "Plain"}, "Verified", id="anew-as-asked-for"),
        pytest.param(None, None, {}, "Plain", id="anew-right-after-an-upgrade"),
        # No client can have read URIs from it, as of access-operator.
        pytest.param(secret(access(), password="x"), None, None, "Verified", id="without-uris"),
        pytest.param(secret(access(), uri="x"), None, None, "Plain", id="with-one-uri"),
    ],
)
def test_the_form_of_the_uris_stays_until_another_is_asked_for(
    existing: Object | None, asked: Uris | None, told: JSON | None, expected: Uris
) -> None:
    body: JSON = {
        "spec": {
            "generatedSecret": "login",
            "username": "app",
            "connection": {"serverRef": {"name": "main"}},
            "secretTemplate": {"uris": asked} if asked else {},
        },
        "status": {} if told is None else {"secret": {"name": "login", **told}},
    }
    assert uris_of(msgspec.convert(body, PostgresAccess), existing) == expected


@pytest.mark.parametrize(
    ("existing", "asked", "uris", "password", "record"),
    [
        pytest.param(None, None, "Verified", "first", "Verified", id="a-new-secret"),
        pytest.param(former(), None, "Plain", "first", None, id="no-write-for-the-record-alone"),
        pytest.param(former(), None, "Plain", "next", "Plain", id="with-the-next-password"),
        pytest.param(former(), None, "Verified", "first", "Verified", id="asked-for"),
        pytest.param(
            former(), template(labels={"a": "b"}), "Plain", "first", "Plain", id="with-a-label"
        ),
        pytest.param(
            recorded("Verified"), template(includeDefaultKeys=False), "Plain", "first", "Plain",
            id="taken-back",
        ),
        pytest.param(unowned(former()), None, "Plain", "first", "Plain", id="restored"),
        pytest.param(former(immutable=True), None, "Plain", "first", None, id="immutable"),
    ],
)  # fmt: skip
def test_the_record_of_the_form_comes_with_a_write_that_is_due(
    existing: Object | None,
    asked: SecretTemplate | None,
    uris: Uris,
    password: str,
    record: str | None,
) -> None:
    wanted = content(asked, private(password, uris), "")
    body = secret_body(access(), "login", wanted, existing)
    assert body["metadata"].get("annotations", {}).get(URIS_ANNOTATION) == record
    assert secret_body(access(), "login", wanted, object_from_dict(body)) == body
    if record is None and existing is not None:
        assert body == existing.to_dict()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(None, ["jdbc-uri", "uri"], id="no-template"),
        pytest.param({}, ["jdbc-uri", "uri"], id="default-keys"),
        pytest.param({"data": {"uri": "{{url}}"}}, ["jdbc-uri"], id="a-key-of-the-template"),
        pytest.param({"includeDefaultKeys": False}, [], id="none"),
        pytest.param(
            {
                "includeDefaultKeys": False,
                "data": {"A": "{{url}} {{host}}", "B": "{{ jdbcUri |json}}"},
            },
            ["B"],
            id="a-placeholder",
        ),
    ],
)
def test_keys_with_uris_of_either_form(fields: JSON | None, expected: list[str]) -> None:
    assert uri_keys(None if fields is None else template(**fields)) == expected


@pytest.mark.parametrize("list_", ["[]", "{", '{"data": 1}', "null"])
def test_a_spoilt_list_of_what_is_ours_takes_nothing_away(list_: str) -> None:
    body = secret(access(), uri="theirs?", extra="theirs").to_dict()
    body["metadata"]["annotations"] = {GENERATED_ANNOTATION: list_}
    made = content(template(includeDefaultKeys=False), LOGIN, "")
    assert texts(secret_body(access(), "login", made, object_from_dict(body))) == {
        "username": "app",
        "password": ODD,
        "uri": "theirs?",
        "extra": "theirs",
    }


@pytest.mark.parametrize(
    ("data", "asked", "wrong"),
    [
        pytest.param({"username": "app", "password": ODD}, None, "", id="older-than-our-keys"),
        pytest.param({**VALUES, "theirs": "x"}, None, "", id="right"),
        pytest.param({"username": "x", "password": ODD}, None, "in username;", id="A9-username"),
        pytest.param({"username": "app"}, None, "in password;", id="no-password"),
        pytest.param({**VALUES, "host": "old"}, None, "in host;", id="a-moved-server"),
        pytest.param(
            {**VALUES, "uri": LOGIN.urls["url"]}, template(uris="Verified"), "in uri;", id="uris"
        ),
        pytest.param(VALUES, FULL, "in DSN, MORE;", id="a-template"),
        pytest.param(
            VALUES,
            template(data={"sslrootcert": "/ca"}),
            "in sslrootcert;",
            id="a-template-s-file",
        ),
    ],
)
def test_an_immutable_secret_is_left_alone_while_it_is_right(
    data: Mapping[str, str], asked: SecretTemplate | None, wrong: str
) -> None:
    body = secret(access(), **data).to_dict() | {"immutable": True}
    wanted = content(asked, LOGIN, "")
    if not wrong:
        assert secret_body(access(), "login", wanted, object_from_dict(body)) == body
        return
    with pytest.raises(AccessError, match=f"is immutable and out of date {wrong}") as refused:
        secret_body(access(), "login", wanted, object_from_dict(body))
    assert refused.value.reason == "SecretConflict"
