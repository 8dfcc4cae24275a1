"""Whose an identity is, by the author that its namespace has."""

from __future__ import annotations

from typing import Any

import pytest

from fairlead.api.meta import Object, object_from_dict
from fairlead.portal.handshake.ownership import Ownership
from fairlead.portal.identity.sessions import Person, Prefixes
from fairlead.runtime import Cluster


ADA = Person("https://login.example.org", "ada", groups=("team-a",))


class Namespaces:
    """An informer's cache of these authors' namespaces of identity ``shop``."""

    def __init__(self, *authors: str) -> None:
        self._found = [_namespace(number, author) for number, author in enumerate(authors)]

    def informer(self, *_: Any, **__: Any) -> Namespaces:
        return self

    def get(self, _: str, name: str) -> Object | None:
        return next((one for one in self._found if one.meta.name == name), None)

    def add_index(self, *_: Any) -> None:
        pass

    def by_index(self, index: str, value: str) -> list[Object]:
        annotation = f"backend.kube-bind.io/{'identity' if 'identity' in index else 'author'}"
        return [one for one in self._found if one.meta.annotations.get(annotation) == value]


def _namespace(number: int, author: str) -> Object:
    annotations = {"backend.kube-bind.io/identity": "shop"}
    if author:
        annotations["backend.kube-bind.io/author"] = author
    metadata = {"name": f"kube-bind-{number}", "annotations": annotations}
    return object_from_dict({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def ownership(*authors: str, original: bool = False) -> Ownership:
    cluster: Cluster = Namespaces(*authors)  # type: ignore[assignment]
    return Ownership(cluster, Prefixes(), namespace_prefix="kube-bind-", original_authors=original)


@pytest.mark.parametrize(
    ("authors", "original", "mine"),
    [
        pytest.param([], False, True, id="nobodys-yet"),
        pytest.param([ADA.author], False, True, id="own"),
        pytest.param(["https://login.example.org/ben"], False, False, id="anothers"),
        pytest.param(["https://other.example.org/ada"], False, False, id="another-issuers"),
        pytest.param([""], False, False, id="an-administrators"),
        pytest.param(["group:oidc:team-a"], False, True, id="own-group"),
        pytest.param(["group:oidc:team-b"], False, False, id="another-group"),
        pytest.param(["group:team-a"], False, False, id="group-without-prefix"),
        pytest.param(["ada"], False, False, id="bare-sub"),
        pytest.param(["ada"], True, True, id="bare-sub-where-that-is-said"),
        pytest.param([ADA.author, ADA.author], False, False, id="two-namespaces"),
    ],
)
def test_who_may_bind_with_an_identity(authors: list[str], original: bool, mine: bool) -> None:
    found = ownership(*authors, original=original).of(ADA, "shop")
    assert (found is not None) is mine
    if found is not None and authors:
        assert found == (authors[0], "kube-bind-0")


@pytest.mark.parametrize("subject", ["group:oidc:team-a", ADA.author])
def test_no_subject_passes_for_one_of_our_author_names(subject: str) -> None:
    mallory = Person("https://login.example.org", subject)
    assert ownership(subject, original=True).of(mallory, "shop") is None


@pytest.mark.parametrize(
    ("identity", "free"),
    [
        pytest.param("0b3c1d2e", True, id="a-cluster"),
        pytest.param(ADA.author, True, id="themselves"),
        pytest.param("https://login.example.org/ben", False, id="another-person"),
        pytest.param("group:oidc:team-a", False, id="a-group"),
        pytest.param("kube-bind-0", False, id="a-cluster-namespace"),
        pytest.param("kube-bind-new", False, id="like-a-cluster-namespace"),
    ],
)
def test_which_identities_are_free(identity: str, free: bool) -> None:
    assert (ownership("https://login.example.org/ben").of(ADA, identity) is not None) is free


def test_identities_of_a_group_are_on_no_ones_account() -> None:
    found = ownership(ADA.author, "group:oidc:team-a")
    assert found.count(ADA) == 1
