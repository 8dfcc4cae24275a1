from __future__ import annotations

import pytest

from fairlead.api.resource import NAMESPACES, SECRETS, Resource, split_api_version


WIDGETS = Resource("example.org", "v1", "widgets", "Widget")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(SECRETS.path(), "/api/v1/secrets", id="core-all"),
        pytest.param(SECRETS.path("a", "b"), "/api/v1/namespaces/a/secrets/b", id="core-one"),
        pytest.param(NAMESPACES.path("a", "b"), "/api/v1/namespaces/b", id="cluster-scope"),
        pytest.param(
            WIDGETS.path("a", "b", "status"),
            "/apis/example.org/v1/namespaces/a/widgets/b/status",
            id="subresource",
        ),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize(
    ("api_version", "expected"),
    [
        pytest.param("v1", ("", "v1"), id="core"),
        pytest.param("apps/v1", ("apps", "v1"), id="group"),
    ],
)
def test_api_versions_split(api_version: str, expected: tuple[str, str]) -> None:
    assert split_api_version(api_version) == expected


def test_names() -> None:
    assert (WIDGETS.api_version, WIDGETS.group_resource) == (
        "example.org/v1",
        "widgets.example.org",
    )
    assert (SECRETS.api_version, SECRETS.group_resource) == ("v1", "secrets")
    assert str(WIDGETS) == "widgets.example.org/v1"
