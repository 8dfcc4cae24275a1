from __future__ import annotations

import msgspec
import pytest

from fairlead.api.kubebind.wire import ErrorCode
from fairlead.api.status import Status
from fairlead.client import ConnectionFailed
from fairlead.client.errors import api_error
from fairlead.portal.http.errors import Refusal, answer, refusal_of
from fairlead.portal.http.introduction import wire_version


SECRET = 'User "system:serviceaccount:fairlead-serve" at https://10.0.0.1:6443'


@pytest.mark.parametrize(
    ("reason", "status", "code"),
    [
        ("Conflict", 409, ErrorCode.INTERNAL_ERROR),
        ("AlreadyExists", 409, ErrorCode.INTERNAL_ERROR),
        ("Invalid", 422, ErrorCode.INTERNAL_ERROR),
        ("BadRequest", 422, ErrorCode.INTERNAL_ERROR),
        ("NotFound", 404, ErrorCode.RESOURCE_NOT_FOUND),
        ("TooManyRequests", 503, ErrorCode.CLUSTER_CONNECTION_FAILED),
        ("ServiceUnavailable", 503, ErrorCode.CLUSTER_CONNECTION_FAILED),
        ("InternalError", 503, ErrorCode.CLUSTER_CONNECTION_FAILED),
        ("Expired", 503, ErrorCode.CLUSTER_CONNECTION_FAILED),
        ("Forbidden", 500, ErrorCode.INTERNAL_ERROR),
        ("Unauthorized", 500, ErrorCode.INTERNAL_ERROR),
    ],
)
def test_s18_an_api_servers_words_stay_in_the_log(
    reason: str, status: int, code: ErrorCode
) -> None:
    refusal = refusal_of(api_error(Status("Failure", SECRET, reason, 0)))
    assert (refusal.status, refusal.code) == (status, code)
    assert SECRET in refusal.reason
    body = answer(refusal, request_id="abc").body
    assert isinstance(body, bytes)
    assert b"10.0.0.1" not in body
    told = msgspec.json.decode(body)
    assert told["kind"] == "Error"
    assert told["details"] == "request abc"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConnectionFailed(SECRET), 503),
        (TimeoutError(SECRET), 503),
        (RuntimeError(SECRET), 500),
        (KeyError(SECRET), 500),
    ],
)
def test_s18_so_do_those_of_any_other_error(error: Exception, status: int) -> None:
    refusal = refusal_of(error)
    assert refusal.status == status
    assert SECRET not in refusal.message + refusal.details
    assert (refusal.retry_after is not None) is (status == 503)


def test_retry_after_is_whole_seconds_and_what_the_server_said() -> None:
    error = api_error(Status("Failure", "", "TooManyRequests", 429), retry_after=17.2)
    assert answer(refusal_of(error), request_id="x").headers["Retry-After"] == "17"
    refusal = Refusal(429, ErrorCode.BAD_REQUEST, "wait", retry_after=0.01)
    assert answer(refusal, request_id="x").headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ("0.1.0.dev0", "v0.6.0"),
        ("0.6.0", "v0.6.0"),
        ("1.2.3rc1", "v1.2.3"),
        ("0.10.0+local", "v0.10.0"),
        ("nonsense", "v0.6.0"),
    ],
)
def test_the_version_is_semver_and_new_enough(own: str, told: str) -> None:
    assert wire_version(own) == told
