"""Numbers and texts that no client means: refused with Go's words, and never a 500 of ours."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import pytest
from tests.support.waiting import SECONDS
from tests.unit.sandbox.api import CONFIGMAPS, Api

from fairlead_sandbox import Sandbox
from fairlead_sandbox.requests.handlers.read import parse_integer


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("0", 0),
        ("+1", 1),
        ("-1", -1),
        ("007", 7),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        ("0" * 10_000 + "1", 1),
    ],
)
def test_numbers(text: str, number: int) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("9223372036854775808", "value out of range"),
        ("-9223372036854775809", "value out of range"),
        ("9" * 10_000, "value out of range"),
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("1_000", "invalid syntax"),
        (" 1", "invalid syntax"),
        ("--1", "invalid syntax"),
        ("+", "invalid syntax"),
        ("²", "invalid syntax"),
        ("٣", "invalid syntax"),
    ],
)
def test_no_numbers(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^strconv.ParseInt: parsing .*: {why}$"):
        parse_integer(text)


def test_versions_have_no_sign() -> None:
    assert parse_integer("18446744073709551615", signed=False) == (1 << 64) - 1
    with pytest.raises(ValueError, match=r'strconv\.ParseUint: parsing "-1": invalid syntax'):
        parse_integer("-1", signed=False)


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("limit=99999999999999999999", 400, "value out of range"),
        ("limit=%C2%B2", 400, "invalid syntax"),
        ("timeoutSeconds=99999999999999999999&watch=1", 400, "value out of range"),
        ("timeoutSeconds=%C2%B2&watch=1", 400, "invalid syntax"),
        ("resourceVersion=99999999999999999999", 500, "resourceVersion: Invalid value"),
        ("resourceVersion=%C2%B2&watch=1", 500, "strconv.ParseUint: parsing"),
        ("continue=%FF", 400, "invalid continue token"),
        ("continue=" + quote("{}"), 400, "invalid continue token"),
        ("labelSelector=%FF", 400, "name part must consist of alphanumeric"),
        ("fieldSelector=%FF", 400, "can't understand"),
    ],
)
async def test_odd_queries(api: Api, query: str, code: int, text: str) -> None:
    reply = await api.get(f"{CONFIGMAPS}?{query}")
    assert reply.code == code
    assert text in reply.message
    assert reply.body.get("reason") != "InternalError"


async def ask(
    sandbox: Sandbox, method: str, path: str, body: bytes, headers: dict[str, str]
) -> tuple[int, bytes]:
    """Send bytes that no client library would send: headers are Latin-1."""
    host, _, port = sandbox.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"{method} {path} HTTP/1.1", "Host: sandbox", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + body)
    async with asyncio.timeout(SECONDS):
        head, _, content = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return int(head.split()[1]), content


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        pytest.param("application/json", b'"data":{"k":"a\xffb"}', id="bytes"),
        pytest.param("application/json", b'"data":{"k":"a\\ud800b"}', id="surrogate"),
        pytest.param("application/json", b'"data":{"k":"a\\udc00b"}', id="low surrogate"),
    ],
)
async def test_what_is_no_utf8_is_replaced(sandbox: Sandbox, kind: str, body: bytes) -> None:
    text = b'{"metadata":{"name":"odd"},' + body + b"}"
    reply = await ask(sandbox, "POST", CONFIGMAPS, text, {"Content-Type": kind})
    assert reply[0] == 201
    assert '"k":"a\ufffdb"'.encode() in reply[1]


async def test_a_watch_with_a_negative_timeout_ends_at_once(sandbox: Sandbox) -> None:
    path = f"{CONFIGMAPS}?watch=1&timeoutSeconds=-1&resourceVersion=0"
    assert (await ask(sandbox, "GET", path, b"", {}))[0] == 200


async def test_pairs_of_surrogates_stay(sandbox: Sandbox) -> None:
    text = b'{"metadata":{"name":"odd"},"data":{"k":"\\ud83d\\ude00\\\\ud800 \\ud800"}}'
    reply = await ask(sandbox, "POST", CONFIGMAPS, text, {"Content-Type": "application/json"})
    assert reply[0] == 201
    assert '"k":"\U0001f600\\\\ud800 \ufffd"'.encode() in reply[1]


@pytest.mark.parametrize(
    "headers",
    [
        {"User-Agent": "\xff\xfe"},
        {"Accept": "\xff"},
        {"Content-Type": "application/json; charset=\xff"},
        {"Impersonate-User": "\xff"},
        {"Authorization": "Bearer \xff"},
    ],
    ids=str,
)
async def test_odd_headers_are_no_error_of_ours(
    sandbox: Sandbox, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    body = b'{"metadata":{"generateName":"odd-"}}'
    code, _ = await ask(sandbox, "POST", CONFIGMAPS, body, headers)
    assert code in {201, 400, 401, 403, 406, 415}
    assert not caplog.records


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET /%FF HTTP/1.1\r\nHost: x\r\n\r\n", id="path"),
        pytest.param(b"GET " + b"/x" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="long"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a: b\r\n" * 1000 + b"\r\n", id="many"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", id="TLS"),
        pytest.param(b"GET / HTTP/9.9\r\n\r\n", id="version"),
        pytest.param(b"POST /api HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="length"),
    ],
)
async def test_what_is_no_http_gets_a_status(
    sandbox: Sandbox, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    host, _, port = sandbox.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    async with asyncio.timeout(SECONDS):
        line = await reader.readline()
    writer.close()
    assert line.split()[1] in {b"400", b"404", b"431", b"505"}
    assert not caplog.records
