from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from fairlead.api.status import Status, StatusDetails
from fairlead.client import errors
from fairlead.client.errors import api_error, status_from_answer


def describe(code: int, body: bytes) -> errors.ApiError:
    return api_error(status_from_answer(code, body, "GET /api/v1/pods"))


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (406, "NotAcceptable", errors.NotAcceptable),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (410, "Gone", errors.Gone),
        (410, "Expired", errors.Gone),
        (413, "RequestEntityTooLarge", errors.RequestTooLarge),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (500, "ServerTimeout", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (504, "Timeout", errors.ServerError),
    ],
)
class TestTypes:
    """The exception's type follows the reason, else the code."""

    def test_by_reason(self, code: int, reason: str, expected: type[errors.ApiError]) -> None:
        error = api_error(Status("Failure", "no", reason, code))
        assert type(error) is expected
        assert (error.code, error.reason, error.message, str(error)) == (code, reason, "no", "no")

    def test_by_reason_without_code(
        self, code: int, reason: str, expected: type[errors.ApiError]
    ) -> None:
        error = api_error(Status("Failure", "no", reason))
        assert (type(error), error.code) == (expected, code)

    def test_by_code_alone(self, code: int, reason: str, expected: type[errors.ApiError]) -> None:
        if reason != "AlreadyExists":
            assert type(api_error(Status("Failure", "no", code=code))) is expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [(418, errors.ApiError), (507, errors.ServerError), (302, errors.ApiError)],
)
def test_other_codes(code: int, expected: type[errors.ApiError]) -> None:
    assert type(api_error(Status(code=code))) is expected


def test_a_crd_in_deletion_is_no_missing_right() -> None:
    """The answer of Kubernetes 1.37; 1.20 has the code 405 for it."""
    text = (
        'widgets.example.org "two" is forbidden: create not allowed while custom resource '
        "definition is terminating"
    )
    error = api_error(Status("Failure", text, "Forbidden", 403))
    assert type(error) is errors.MethodNotAllowed
    assert str(error) == text


@pytest.mark.parametrize(
    ("code", "body", "message"),
    [
        pytest.param(502, b"<html><h1>Bad gateway</h1>", "502 Bad Gateway, with an HTML page"),
        pytest.param(503, b"", "503 Service Unavailable, with an empty body"),
        pytest.param(500, b'{"oops": 1}', "500 Internal Server Error, with no Kubernetes Status"),
        pytest.param(500, b'["x"]', "500 Internal Server Error, with no Kubernetes Status"),
        pytest.param(599, b"x", "599 unknown status, with no Kubernetes Status"),
        pytest.param(
            404,
            b"404 page not found\n",
            "the server does not serve this path; is the resource's CRD installed?",
        ),
    ],
)
def test_answers_that_are_no_status(code: int, body: bytes, message: str) -> None:
    error = describe(code, body)
    assert (str(error), error.code) == (f"GET /api/v1/pods: {message}", code)


def test_a_status_keeps_its_causes() -> None:
    body: dict[str, Any] = {
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
        "details": {"causes": [{"reason": "FieldValueRequired", "field": "spec.size"}]},
    }
    error = describe(422, msgspec.json.encode(body))
    assert error.status.details is not None
    assert [cause.field for cause in error.status.details.causes] == ["spec.size"]


@pytest.mark.parametrize(
    ("header", "in_body", "expected"),
    [(None, 0, None), (2.0, 0, 2.0), (None, 3, 3.0), (2.0, 3, 2.0)],
    ids=["neither", "header", "body", "header-first"],
)
def test_retry_after(header: float | None, in_body: int, expected: float | None) -> None:
    status = Status(code=429, details=StatusDetails(retry_after_seconds=in_body))
    assert api_error(status, retry_after=header).retry_after == expected


def test_the_tree_in_the_docstring_is_complete() -> None:
    drawn = set(re.findall(r"[├└│ ]─* ?([A-Z][A-Za-z]+) {2,}", errors.__doc__ or ""))
    defined = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ClientError)
    }
    assert defined - {"ClientError", "ApiError"} == drawn - {"ApiError"}


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        pytest.param(
            'deployments.apps "web" is forbidden: User "system:serviceaccount:a:b" cannot patch '
            'resource "deployments" in API group "apps" in the namespace "shop"',
            True,
            id="authorizer",
        ),
        pytest.param('forbidden: User "" cannot get path "/metrics"', True, id="a path"),
        pytest.param('admission webhook "a.b" denied the request: no', False, id="webhook"),
        pytest.param(
            "secrets \"x\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied "
            "request: a label is missing",
            False,
            id="policy",
        ),
        pytest.param(
            'secrets "x" is forbidden: exceeded quota: q, requested: secrets=1, used: secrets=9, '
            "limited: secrets=9",
            False,
            id="quota",
        ),
        pytest.param(
            'secrets "x" is forbidden: unable to create new content in namespace shop because it '
            "is being terminated",
            False,
            id="namespace",
        ),
        pytest.param('admission webhook "a.b" denied: user "x" cannot do it', False, id="alike"),
    ],
)
def test_a_role_helps_only_where_the_authorizer_refused(text: str, lacking: bool) -> None:
    assert errors.Forbidden(Status("Failure", text, "Forbidden", 403)).lacks_right is lacking
