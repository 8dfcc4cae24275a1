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
from fairlead.api.postgresaccess import PostgresAccessSpec, SecretTemplate
from fairlead.postgres.controllers.rules.login_secret import (
    GENERATED_ANNOTATION,
    MANAGED_BY,
    MANAGED_BY_LABEL,
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
        pytest.param(b"\xff\xfe", "no UTF-8", "no UTF-8", id="no-text"),
        pytest.param(b"a\0b", "no UTF-8", "no UTF-8", id="nul"),
        pytest.param(b"x" * 1025, "has 1025 bytes", "has 1025 bytes", id="long"),
        pytest.param(b"abc\n", "", "ends in a line break", id="line-break"),
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
    values = secret_values(spec("my app", username="a/b"), ENDPOINT, password)
    assert values.keys() == DEFAULT_KEYS
    uri = urlsplit(values["uri"])
    assert (unquote(uri.username or ""), unquote(uri.password or "")) == ("a/b", password)
    jdbc = urlsplit(values["jdbc-uri"].removeprefix("jdbc:"))
    assert parse_qs(jdbc.query, strict_parsing=True) == {"user": ["a/b"], "password": [password]}
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
    values = secret_values(spec(), endpoint, "p:w")
    assert values["uri"] == "postgresql://app:p%3Aw@a:5432,b:5432/postgres"
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
    values = secret_values(spec(), replace(ENDPOINT, ssl_mode=mode, ca=ca), "p")
    assert values.keys() == DEFAULT_KEYS | more.keys()
    assert {key: values[key] for key in more} == more
    # The CA of a server is no client's certificate.
    assert "certificates" not in values


def test_no_password_file_holds_a_line_break() -> None:
    assert secret_values(spec(), ENDPOINT, "a\nb")["pgpass"] == ""


VALUES = secret_values(spec("shop"), replace(ENDPOINT, public_host="db.example.org"), ODD)


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
        pytest.param("{{url}}?sslmode={{sslmode}}", f"{VALUES['uri']}?sslmode=require", id="url"),
        pytest.param("{{jdbcUrl}}", VALUES["jdbc-uri"], id="jdbcUrl"),
        pytest.param("}} {", "}} {", id="no-beginning"),
    ],
)  # fmt: skip
def test_templates(text: str, expected: str) -> None:
    asked = template(data={"KEY": text})
    check_template(asked)
    made = content(asked, VALUES, "").values
    assert made == VALUES | {"KEY": expected}


def test_what_a_password_says_is_no_template() -> None:
    values = secret_values(spec(), ENDPOINT, "{{host}}")
    made = content(template(data={"KEY": "{{password}}"}), values, "").values
    assert made["KEY"] == "{{host}}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"data": {"A": "{{pasword}}"}}, "key A: '{{pasword}}' names nothing; use one"
                     " of username, password", id="name"),
        pytest.param({"data": {"A": "{{}}"}}, "names nothing", id="no-name"),
        pytest.param({"data": {"A": "{{ .Data }}"}}, "names nothing", id="another-language"),
        pytest.param({"data": {"A": "{{Password}}"}}, "names nothing", id="case-counts"),
        pytest.param({"data": {"A": "{{password|upper}}"}}, "no such filter; use one of urlquote,"
                     " json, b64", id="filter"),
        pytest.param({"data": {"A": "{{password|}}"}}, "no such filter", id="no-filter"),
        pytest.param({"data": {"A": "{{password|json|b64}}"}}, "no such filter", id="two-filters"),
        pytest.param({"data": {"A": "{{password"}}, "has no end", id="no-end"),
        pytest.param({"data": {"A": "{{password}\n"}}, "has no end", id="half-an-end"),
        pytest.param({"data": {"password": "x"}}, "password holds the login", id="password"),
        pytest.param({"data": {"username": "x"}}, "username holds the login", id="username"),
        pytest.param({"data": {"a b": "x"}}, "'a b' is no key of a Secret", id="key"),
        pytest.param({"data": {"": "x"}}, "'' is no key", id="empty-key"),
        pytest.param({"data": {"..a": "x"}}, "is no key", id="dots"),
        pytest.param({"data": {"x" * 254: "x"}}, "is no key", id="long-key"),
        pytest.param({"labels": {"-": "x"}}, "labels: '-'", id="label"),
        pytest.param({"labels": {"a": "b c"}}, "labels: a", id="label-value"),
        pytest.param({"labels": {"app.kubernetes.io/managed-by": "me"}}, "operator's own",
                     id="our-label"),
        pytest.param({"annotations": {"a b": "x"}}, "annotations: 'a b'", id="annotation"),
        pytest.param({"annotations": {"access.k8s.delta10.nl/rotate-at": "x"}}, "operator's own",
                     id="our-annotation"),
        pytest.param({"type": "kubernetes.io/service-account-token"}, "is Kubernetes' own",
                     id="a-token"),
        pytest.param({"type": "bootstrap.kubernetes.io/token"}, "is Kubernetes' own", id="b"),
    ],
)  # fmt: skip
def test_templates_that_are_refused(fields: JSON, message: str) -> None:
    with pytest.raises(AccessError, match="SecretTemplateInvalid: spec") as refused:
        check_template(template(**fields))
    assert message in refused.value.message


@pytest.mark.parametrize("type_", ["Opaque", "kubernetes.io/basic-auth", "servicebinding.io/db"])
def test_types_that_are_taken(type_: str) -> None:
    check_template(template(type=type_))
    assert secret_body(access(), "login", content(template(type=type_), VALUES, ""), None)[
        "type"
    ] == type_  # fmt: skip


def test_a_secret_has_a_size_that_a_server_takes() -> None:
    data = {f"K{number}": "{{url}}" * 500 for number in range(32)}
    values = secret_values(spec(), ENDPOINT, "%" * 1024)
    with pytest.raises(AccessError, match="data: all values have"):
        content(template(data=data), values, "")


def test_without_default_keys_the_login_stays() -> None:
    made = content(template(includeDefaultKeys=False, data={"DSN": "{{url}}"}), VALUES, "")
    assert made.values.keys() == {"username", "password", "DSN"}
    assert ODD not in repr(made)


def test_a_template_may_say_a_default_key_otherwise() -> None:
    made = content(template(data={"uri": "{{url}}?sslmode=require"}), VALUES, "")
    assert made.values["uri"] == f"{VALUES['uri']}?sslmode=require"


def test_a_fresh_secret_is_controlled_by_its_access() -> None:
    body = secret_body(access(), "login", SecretContent(values=VALUES), None)
    made = object_from_dict(body)
    check_ours(made, access())
    assert made.meta.labels == {"app.kubernetes.io/managed-by": "fairlead-postgres"}
    assert not made.meta.annotations
    assert login_in(made)[1] == ODD


def test_keys_and_labels_of_others_stay() -> None:
    existing = secret(access(), username="wrong", extra="theirs").to_dict()
    existing["metadata"]["labels"] = {"theirs": "yes"}
    existing["metadata"]["annotations"] = {"theirs": "too"}
    body = secret_body(access(), "login", SecretContent(values=VALUES), object_from_dict(existing))
    assert texts(body) == VALUES | {"extra": "theirs"}
    assert body["metadata"]["labels"]["theirs"] == "yes"
    assert body["metadata"]["annotations"] == {"theirs": "too"}


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
    first = secret_body(access(), "login", content(before, VALUES, ""), None)
    first["data"]["theirs"] = "eA=="
    first["metadata"]["labels"]["theirs"] = "yes"
    first["metadata"].setdefault("annotations", {})["theirs"] = "yes"
    second = secret_body(access(), "login", content(after, VALUES, ""), object_from_dict(first))
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
    others = {key: value for key, value in annotations.items() if key != GENERATED_ANNOTATION}
    assert others == {"theirs": "yes", **(after.annotations if after else {})}
    again = secret_body(access(), "login", content(after, VALUES, ""), object_from_dict(second))
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


PRIVATE = secret_values(spec("shop"), replace(ENDPOINT, ssl_mode="verify-full", ca="PEM"), "first")
FORMER = {key: value for key, value in PRIVATE.items() if key != "sslrootcert"}
"""What a former version wrote."""


def former(*, immutable: bool = False, **more: str) -> Object:
    """A Secret of the version that had no key sslrootcert, with keys that others have added."""
    body = secret_body(access(), "login", SecretContent(values=FORMER), None)
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
    values = secret_values(
        spec("shop"), replace(ENDPOINT, ssl_mode="verify-full", ca="PEM"), password
    )
    check_template(asked or template())
    wanted = content(asked, values, "")
    body = secret_body(access(), "login", wanted, existing)
    assert texts(body).get("sslrootcert") == expected
    again = secret_body(access(), "login", wanted, object_from_dict(body))
    assert again == body
    if asked is None and password == "first" and existing is not None:
        assert body == existing.to_dict()


def test_the_file_of_the_ca_goes_with_the_ca_and_is_put_right() -> None:
    first = secret_body(access(), "login", SecretContent(values=PRIVATE), None)
    spoilt = {**first, "data": {**first["data"], "sslrootcert": "eA=="}}
    healed = secret_body(
        access(), "login", SecretContent(values=PRIVATE), object_from_dict(spoilt)
    )
    assert healed == first
    del spoilt["data"]["sslrootcert"]
    healed = secret_body(
        access(), "login", SecretContent(values=PRIVATE), object_from_dict(spoilt)
    )
    assert healed == first
    public = secret_body(access(), "login", SecretContent(values=VALUES), object_from_dict(first))
    assert set(public["data"]) == DEFAULT_KEYS


@pytest.mark.parametrize("list_", ["[]", "{", '{"data": 1}', "null"])
def test_a_spoilt_list_of_what_is_ours_takes_nothing_away(list_: str) -> None:
    body = secret(access(), uri="theirs?", extra="theirs").to_dict()
    body["metadata"]["annotations"] = {GENERATED_ANNOTATION: list_}
    made = content(template(includeDefaultKeys=False), VALUES, "")
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
    wanted = content(asked, VALUES, "")
    if not wrong:
        assert secret_body(access(), "login", wanted, object_from_dict(body)) == body
        return
    with pytest.raises(AccessError, match=f"is immutable and out of date {wrong}") as refused:
        secret_body(access(), "login", wanted, object_from_dict(body))
    assert refused.value.reason == "SecretConflict"
