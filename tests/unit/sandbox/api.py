"""The sandbox over plain HTTP, with no client of ours in between."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import aiohttp
from tests.support.waiting import SECONDS

from fairlead.api.meta import JSON


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Reply(NamedTuple):
    code: int
    body: Any
    headers: Mapping[str, str]

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Api:
    def __init__(self, url: str) -> None:
        self._session = aiohttp.ClientSession(url)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        accept: str = "application/json",
    ) -> Reply:
        data = None if body is None else io.BytesIO(json.dumps(body).encode())
        headers = {"Content-Type": kind, "Accept": accept}
        async with self._session.request(method, path, data=data, headers=headers) as response:
            content = await response.read()
            is_json = response.content_type == "application/json"
            decoded = json.loads(content) if is_json else content
            return Reply(response.status, decoded, response.headers)

    async def get(self, path: str, *, accept: str = "application/json") -> Reply:
        return await self.send("GET", path, accept=accept)

    async def post(self, path: str, body: Any, **options: str) -> Reply:
        return await self.send("POST", path, body, **options)

    async def patch(self, path: str, body: Any, kind: str = MERGE) -> Reply:
        return await self.send("PATCH", path, body, kind=kind)

    async def delete(self, path: str, body: Any = None) -> Reply:
        return await self.send("DELETE", path, body)

    def watch(self, path: str, **params: str) -> Events:
        query = {"watch": "true", **params}
        return Events(
            self._session.get(path, params=query, timeout=aiohttp.ClientTimeout(SECONDS))
        )


class Events:
    """The events of one watch, one at a time; iteration ends with the stream."""

    def __init__(self, request: Any) -> None:
        self._request = request
        self._response: aiohttp.ClientResponse | None = None

    async def __aenter__(self) -> Self:
        self._response = await self._request.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._request.__aexit__(None, None, None)

    @property
    def response(self) -> aiohttp.ClientResponse:
        assert self._response is not None
        return self._response

    async def next(self) -> JSON:
        line = await self.response.content.readline()
        event: JSON = json.loads(line)
        return event

    async def rest(self) -> list[JSON]:
        return [json.loads(line) async for line in self.response.content]


def configmap(name: str, **metadata: Any) -> JSON:
    return {"metadata": {"name": name, **metadata}, "data": {"k": "v"}}


def widget(name: str, **members: Any) -> JSON:
    body = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": name}}
    return body | members


def crd(plural: str = "widgets", kind: str = "Widget", **version: Any) -> JSON:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "parts": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}},
                        },
                    },
                },
            },
            "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
        },
    }
    first = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [first | version],
        },
    }
