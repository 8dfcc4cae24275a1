from __future__ import annotations

import pytest

from fairlead_sandbox.requests.info import RequestInfo, parse_request


def _info(path: str, verb: str, **fields: str) -> RequestInfo:
    return RequestInfo(path, verb, is_resource=True, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        pytest.param("GET", "/version", {}, RequestInfo("/version", "get"), id="no-resource"),
        pytest.param("GET", "/api", {}, RequestInfo("/api", "get"), id="core-versions"),
        pytest.param("GET", "/apis/apps/v1", {}, RequestInfo("/apis/apps/v1", "get"), id="group"),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {},
            _info("/api/v1/pods", "list", version="v1", resource="pods"),
            id="list-all",
        ),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"watch": "1"},
            _info("/api/v1/pods", "watch", version="v1", resource="pods"),
            id="watch",
        ),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"watch": "false"},
            _info("/api/v1/pods", "list", version="v1", resource="pods"),
            id="watch-false",
        ),
        pytest.param(
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            {},
            _info(
                "/apis/apps/v1/namespaces/n/deployments",
                "deletecollection",
                group="apps",
                version="v1",
                namespace="n",
                resource="deployments",
            ),
            id="deletecollection",
        ),
        pytest.param(
            "PATCH",
            "/apis/apps/v1/namespaces/n/deployments/d/scale",
            {},
            _info(
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "patch",
                group="apps",
                version="v1",
                namespace="n",
                resource="deployments",
                subresource="scale",
                name="d",
            ),
            id="subresource",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/n",
            {},
            _info(
                "/api/v1/namespaces/n",
                "get",
                version="v1",
                namespace="n",
                resource="namespaces",
                name="n",
            ),
            id="a-namespace-is-in-itself",
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/n/status",
            {},
            _info(
                "/api/v1/namespaces/n/status",
                "update",
                version="v1",
                namespace="n",
                resource="namespaces",
                subresource="status",
                name="n",
            ),
            id="namespace-status",
        ),
    ],
)
def test_paths_are_read(
    method: str, path: str, query: dict[str, str], expected: RequestInfo
) -> None:
    assert parse_request(method, path, query) == expected
