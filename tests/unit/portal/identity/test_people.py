"""People's names in Kubernetes RBAC."""

from __future__ import annotations

import pytest

from fairlead.portal.http.errors import Refusal
from fairlead.portal.identity.sessions import Person, Prefixes


ISSUER = "https://issuer.example"


def test_s11_names_of_an_issuer_are_prefixed() -> None:
    person = Person(ISSUER, "admin", groups=("system:masters", "team-a"))
    prefixes = Prefixes()
    assert prefixes.user(person) == "oidc:admin"
    assert prefixes.groups_of(person) == ("oidc:system:masters", "oidc:team-a")
    assert person.author == "https://issuer.example/admin"


def test_s11_without_prefixes_none_of_kubernetes_own_names_is_taken() -> None:
    prefixes = Prefixes("", "")
    person = Person(ISSUER, "ada", groups=("system:masters", "team-a"))
    assert prefixes.user(person) == "ada"
    assert prefixes.groups_of(person) == ("team-a",)
    for subject in ("system:admin", "system:", "system:serviceaccount:kube-system:default"):
        with pytest.raises(Refusal) as refused:
            prefixes.user(Person(ISSUER, subject))
        assert refused.value.status == 403
        assert "system:" not in refused.value.message


def test_s11_a_prefix_and_a_name_do_not_make_one_together() -> None:
    with pytest.raises(Refusal):
        Prefixes("system", "system").user(Person(ISSUER, ":admin"))
    assert Prefixes("system", "system").groups_of(Person(ISSUER, "a", "", (":masters",))) == ()
