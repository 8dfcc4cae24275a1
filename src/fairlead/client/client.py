"""Verbs on the objects of one API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Self

import aiohttp
import msgspec

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import LEASES, Resource
from fairlead.client import limits
from fairlead.client.bounds import Bounds, Intake
from fairlead.client.caution import Caution
from fairlead.client.config import ClusterConfig
from fairlead.client.connection import failed
from fairlead.client.discovery import Discovery
from fairlead.client.errors import AnswerTooLarge, Fenced, Gone
from fairlead.client.metrics import RequestMetrics
from fairlead.client.transport import RetryPolicy, Timeouts, Transport
from fairlead.client.wire import (
    APPLY_PATCH,
    JSON_PATCH,
    JSON_TYPE,
    MERGE_PATCH,
    PARTIAL_LIST,
    PARTIAL_OBJECT,
    ObjectList,
    Page,
    WatchEvent,
    body_meta,
    check_segment,
    collection_path,
    decode_answer,
    decode_event,
    decode_page,
    delete_options,
    encode_body,
    object_path,
    read_lines,
    selectors,
    unchanged,
    watch_params,
)


_LEASES = f"/apis/{LEASES.api_version}/"


class Client:
    """Client of one API server; a process may have any number of clients.

    Every method raises :class:`~fairlead.client.errors.ApiError` when the server refuses,
    :class:`~fairlead.client.errors.ConnectionFailed` when there is no whole answer, and
    :class:`~fairlead.client.errors.ConfigError` when credentials are unusable. Requests are not
    throttled; the server's own flow control is honoured.

    Args:
        config: the server and who asks.
        user_agent: as servers log it.
        field_manager: owner of the fields that are written.
        metrics: counts requests; shared between clients at will.
        timeouts: limits on silence.
        retries: bounds on repeating what the server has put off.
        caution: for a server that a stranger has named.
        bounds: on the answers of a server that the user or the Pod has not named themselves.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str = "fairlead",
        field_manager: str = "fairlead",
        metrics: RequestMetrics | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
        caution: Caution | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.config = config
        self.field_manager = field_manager
        self._transport = Transport(
            config,
            user_agent=user_agent,
            metrics=metrics,
            timeouts=timeouts,
            retries=retries,
            caution=caution,
            bounds=None if config.trusted else bounds or Bounds(),
        )
        self.discovery = Discovery(self._get_body, config.server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    @property
    def intake(self) -> Intake:
        """Accounts for what the server answers, with its bounds."""
        return self._transport.intake

    def fence(self, reason: Callable[[], str]) -> None:
        """Ask ``reason`` before each write; any text but "" refuses the write.

        Leases are exempt, since they decide which process may write.
        """
        self._transport.fence = lambda path: "" if path.startswith(_LEASES) else reason()

    def check_fence(self) -> None:
        """Raise if the fence refuses writes; for writes to a database or another server.

        Raises:
            Fenced: this process may not write any more.
        """
        if reason := self._transport.fence(""):
            raise Fenced(f"nothing was written: {reason}")

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Return one object in its latest state (a quorum read).

        Raises:
            NotFound: the object does not exist.
        """
        path = object_path(resource, name, namespace, subresource)
        return decode_answer(await self._transport.request("GET", path), resource)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = limits.PAGE,
        metadata_only: bool = False,
        arrived: Callable[[Sequence[Object]], None] | None = None,
        transform: Callable[[Object], Object] = unchanged,
    ) -> ObjectList:
        """Return all objects, fetched in pages of ``limit``; namespace "" means all namespaces.

        A page that is too large is requested again with fewer objects. When a later page has
        expired on the server, the list starts over; in one piece, where answers have no bounds. No
        resourceVersion is sent, so that the list is as new as the last write: "Semantics for get
        and list" of https://kubernetes.io/docs/reference/using-api/api-concepts/.
        ``arrived`` is called with the objects of each page but the last. ``transform`` shrinks
        each object before the next one is decoded, so that none is held whole.

        Raises:
            AnswerTooLarge: an object, or all objects together, exceed the bounds.
            Gone: pages expired again and again.
        """
        params = _page_params(labels, fields, limit)
        result, restarts = ObjectList([]), 0
        with self.intake.listing() as listing:
            while True:
                try:
                    page = await self._page(
                        resource, namespace, params, transform, metadata_only=metadata_only
                    )
                except Gone:
                    restarts += 1
                    if "continue" not in params or restarts > limits.RESTARTS:
                        raise
                    # Pages of two versions do not fit together: the earlier pages are thrown away.
                    del params["continue"]
                    # In one piece, large objects would be held all at once.
                    if self.intake.bounds is None and params.get("limit") == str(limit):
                        del params["limit"]
                    result = ObjectList([])
                    listing.restart()
                    continue
                listing.take(page.items)
                result.items += page.items
                # The first page's version: a watch from there misses no change that later pages
                # may contain already.
                result.resource_version = result.resource_version or page.resource_version
                if not page.continue_:
                    return result
                if arrived is not None:
                    arrived(page.items)
                params["continue"] = page.continue_

    async def page(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int,
        continue_: str = "",
        metadata_only: bool = False,
        transform: Callable[[Object], Object] = unchanged,
    ) -> Page:
        """Return one page of a list, which has fewer objects than ``limit`` if they are large.

        Raises:
            Gone: the page that ``continue_`` asks for has expired on the server.
        """
        params = _page_params(labels, fields, limit)
        if continue_:
            params["continue"] = continue_
        return await self._page(
            resource, namespace, params, transform, metadata_only=metadata_only
        )

    async def create(
        self,
        resource: Resource,
        body: JSON | msgspec.Struct,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> Object:
        """Create an object, or POST to a subresource of the object ``name``.

        Args:
            resource: the kind to create.
            body: the whole object.
            namespace: the namespace, if the body does not name it.
            name: the object with the subresource, such as a ServiceAccount for its ``token``.
            subresource: the subresource, "" for the object itself.
            dry_run: the server checks and answers, and stores nothing.

        Raises:
            AlreadyExists: an object of this name exists.
            Invalid: validation failed.
        """
        encoded = encode_body(body)
        # An empty namespace would POST to all of them, which no server takes.
        namespace = namespace or body_meta(encoded).namespace
        if subresource:
            path = object_path(resource, name, namespace, subresource)
        else:
            path = collection_path(resource, namespace)
        params = {"dryRun": "All"} if dry_run else {}
        return await self._write("POST", resource, path, encoded, params)

    async def update(self, resource: Resource, body: JSON, *, subresource: str = "") -> Object:
        """Replace an object; its name, namespace and resourceVersion are the body's.

        Raises:
            Conflict: the object has changed since the resourceVersion.
        """
        encoded = encode_body(body)
        meta = body_meta(encoded)
        path = object_path(resource, meta.name, meta.namespace, subresource)
        return await self._write("PUT", resource, path, encoded, {})

    async def merge_patch(
        self, resource: Resource, name: str, namespace: str, patch: JSON, *, subresource: str = ""
    ) -> Object:
        """Apply a JSON merge patch (RFC 7386); uid and resourceVersion in it are preconditions.

        Raises:
            Conflict: the patch's uid or resourceVersion is not the object's.
        """
        path = object_path(resource, name, namespace, subresource)
        return await self._write("PATCH", resource, path, encode_body(patch), {}, MERGE_PATCH)

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        operations: Sequence[JSON],
        *,
        subresource: str = "",
    ) -> Object:
        """Apply JSON patch operations (RFC 6902), all or none.

        Raises:
            Invalid: a ``test`` operation does not hold.
        """
        path = object_path(resource, name, namespace, subresource)
        return await self._write("PATCH", resource, path, encode_body(operations), {}, JSON_PATCH)

    async def apply(
        self,
        resource: Resource,
        body: JSON,
        *,
        force: bool = True,
        subresource: str = "",
        field_manager: str = "",
    ) -> Object:
        """Apply a body by server-side apply: its fields become the field manager's.

        Raises:
            Conflict: another manager owns one of the fields, and ``force`` is off.
            UnsupportedMediaType: the server has no server-side apply.
        """
        encoded = encode_body(body)
        meta = body_meta(encoded)
        path = object_path(resource, meta.name, meta.namespace, subresource)
        params = {"fieldManager": field_manager or self.field_manager}
        if force:
            params["force"] = "true"
        return await self._write("PATCH", resource, path, encoded, params, APPLY_PATCH)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
    ) -> None:
        """Ask for an object's deletion; finalizers may keep it for a while.

        Args:
            resource: the kind of the object.
            name: its name.
            namespace: its namespace.
            uid: delete only this very object.
            resource_version: delete only this state of it.
            propagation: ``Background``, ``Foreground`` or ``Orphan``; "" leaves it to the server.

        Raises:
            NotFound: the object does not exist.
            Conflict: a precondition does not hold.
        """
        path = object_path(resource, name, namespace)
        await self._transport.request(
            "DELETE",
            path,
            body=delete_options(uid, resource_version, propagation),
            headers={"Content-Type": JSON_TYPE},
        )

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        """Delete all objects of a namespace that match both selectors."""
        path = collection_path(resource, namespace)
        await self._transport.request("DELETE", path, params=selectors(labels, fields))

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
        timeout_seconds: float | None = None,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes after ``resource_version`` until the server ends the stream.

        The end is clean when the server's time is up, and also when nothing, not even a bookmark,
        has arrived for ``timeouts.watch_idle`` seconds: resume from the last resourceVersion.

        Raises:
            Gone: the resourceVersion is too old, said by the answer or by an ERROR event.
            ConnectionFailed: the connection broke, perhaps in the middle of an event.
            AnswerTooLarge: an event exceeds its bound.
        """
        params = selectors(labels, fields) | watch_params(resource_version, timeout_seconds)
        headers = {"Accept": PARTIAL_OBJECT if metadata_only else JSON_TYPE}
        path = collection_path(resource, namespace)
        try:
            async with self._transport.stream(path, params=params, headers=headers) as content:
                if self.intake.bounds is None:
                    async for lines in read_lines(content):
                        for line in lines:
                            yield decode_event(line, resource)
                    return
                with self.intake.growing("event") as growing:
                    async for lines in read_lines(content, growing):
                        for line in lines:
                            yield decode_event(line, resource)
        except TimeoutError:
            # Silence is no error of a watch: it resumes at once, from the last version.
            return
        except (aiohttp.ClientError, OSError) as error:
            raise failed(self.config, error) from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | JSON | None = None,
        content_type: str = JSON_TYPE,
        accept: str = JSON_TYPE,
    ) -> bytes:
        """Send a request to any path; return the body of a successful answer.

        Credentials, retries and errors are those of the other methods.
        """
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        encoded = None if body is None else encode_body(body)
        return await self._transport.request(
            method, path, params=params, body=encoded, headers=headers
        )

    async def _page(
        self,
        resource: Resource,
        namespace: str,
        params: dict[str, str],
        transform: Callable[[Object], Object],
        *,
        metadata_only: bool,
    ) -> Page:
        """Return a page, with fewer objects if it is too large; ``params`` has their number."""
        headers = {"Accept": PARTIAL_LIST if metadata_only else JSON_TYPE}
        path = collection_path(resource, namespace)
        while True:
            limit = int(params.get("limit", "0"))
            most = limits.PAGE_BYTES if limit > 1 else 0
            try:
                body = await self._transport.request(
                    "GET", path, params=params, headers=headers, most=most
                )
                return decode_page(body, resource, self.intake.check_page, transform)
            except AnswerTooLarge as error:
                if error.bound != "answer" or limit == 1:
                    raise
                params["limit"] = str(max(1, (limit or limits.PAGE) // limits.FEWER))

    async def _write(
        self,
        method: str,
        resource: Resource,
        path: str,
        body: bytes,
        params: dict[str, str],
        content_type: str = JSON_TYPE,
    ) -> Object:
        params.setdefault("fieldManager", self.field_manager)
        answer = await self._transport.request(
            method, path, params=params, body=body, headers={"Content-Type": content_type}
        )
        return decode_answer(answer, resource)

    async def _get_body(self, path: str, *, accept: str) -> bytes:
        # Objects of other writers name API versions: none of them may lead to another path.
        for segment in path.split("/")[1:]:
            check_segment(segment)
        return await self._transport.request("GET", path, headers={"Accept": accept})


def _page_params(labels: str, fields: str, limit: int) -> dict[str, str]:
    params = selectors(labels, fields)
    if limit:
        params["limit"] = str(limit)
    return params
