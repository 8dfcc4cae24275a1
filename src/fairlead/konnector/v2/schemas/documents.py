"""The APIs that a provider serves, by its discovery and OpenAPI v3 documents.

Neither has a watch. At rest one small request is made per look, for the index of the documents: it
has a hash of each, and discovery and documents are read again only when it has changed. Of the
documents only those of wanted APIs are read, and nothing of them is kept but their CRDs.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

import msgspec

from fairlead.api.kbind import ExportedAPI
from fairlead.api.kbind.names import PENDING, SCHEMA_UNUSABLE
from fairlead.api.meta import Object, object_from_dict
from fairlead.client import Client, ClientError, Forbidden, Unauthorized
from fairlead.client.discovery import AGGREGATED
from fairlead.client.errors import (
    AnswerTooLarge,
    ApiError,
    ConnectionFailed,
    UnexpectedAnswer,
)
from fairlead.konnector import bounds
from fairlead.konnector.v2.bindings.crds import Fault
from fairlead.konnector.v2.schemas.discovery import (
    Discovered,
    DiscoveryError,
    aggregated,
    discovered,
    document_hashes,
    exported,
    plain_groups,
    plain_version,
)
from fairlead.konnector.v2.schemas.openapi import (
    SchemaDocument,
    SchemaError,
    ServedAPI,
    definition,
)
from fairlead.runtime import Backoff, delays


_JSON = "application/json"


class _Reading(msgspec.Struct, frozen=True):
    """The schema of an API as it was read: its CRD, or the fault; ``digest`` is its document's."""

    api: ServedAPI
    digest: str
    crd: Object | None = None
    fault: Fault | None = None


class ServedSchemas:
    """The APIs of one provider and the schemas of those that are wanted.

    Args:
        client: the provider's client.
        former: the APIs that were known before this process began.
        changed: called with the names of APIs that have changed, come or gone.
    """

    def __init__(
        self,
        client: Client,
        former: Iterable[ExportedAPI],
        changed: Callable[[Iterable[str]], None],
    ) -> None:
        self.has_synced = False
        """Whether discovery has been read."""
        self.error: ClientError | None = None
        """The error of the last look, None if there was none."""
        self.active = asyncio.Event()
        """Whether the provider is looked at."""
        self._client = client
        self._changed = changed
        self._exports = {api.name: api for api in former}
        self._served: dict[str, ServedAPI] = {}
        self._outlines: dict[str, Object] = {}
        self._absent: dict[str, int] = {}
        self._failed: frozenset[str] = frozenset()
        self._followed: set[str] = set()
        self._readings: dict[str, _Reading] = {}
        self._generations: dict[str, int] = defaultdict(int)
        self._index: dict[str, str] | None = None
        self._no_documents = ""
        self._whole_at: float | None = None
        self._missed = False
        self._wake = asyncio.Event()

    @property
    def exports(self) -> tuple[ExportedAPI, ...]:
        """The APIs that are offered, in the order of their names."""
        return tuple(self._exports[name] for name in sorted(self._exports))

    def get(self, name: str) -> Object | None:
        """Return the CRD of an API, without schemas before they are read; None without the API."""
        reading = self._readings.get(name)
        if reading is not None and reading.crd is not None:
            return reading.crd
        return self._outlines.get(name)

    def fault(self, name: str) -> Fault | None:
        """Return why the CRD of an API has no schema, None if it has one."""
        reading = self._readings.get(name)
        if reading is not None:
            return reading.fault
        if name not in self._served and name in self._exports:
            group = self._exports[name].group
            return Fault(PENDING, f"the provider's discovery of group {group} is down")
        return Fault(PENDING, f"the provider's schema of {name} is being read", passing=True)

    def follow(self, name: str) -> None:
        """Have the schema of an API read, and read again when it changes."""
        if name not in self._followed:
            self._followed.add(name)
            if name in self._served:
                self._wake.set()

    def miss(self) -> None:
        """Look again soon: an API is not served any more."""
        self._missed = True
        self._wake.set()

    async def run(self, notify: Callable[[], None]) -> None:
        """Look again and again while it is active; ``notify`` is called after each look."""
        backoff, loop = Backoff(delays.NO_WATCH), asyncio.get_running_loop()
        while True:
            await self.active.wait()
            self._wake.clear()
            pause = bounds.DISCOVERY_SECONDS
            try:
                await self.refresh()
            except ClientError as error:
                self.error = error
                pause = backoff.failed(loop.time())
            else:
                self.error = None
                backoff.good(loop.time())
            notify()
            await asyncio.sleep(bounds.DISCOVERY_PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def refresh(self) -> None:
        """Read of the provider's APIs and schemas what may have changed.

        Raises:
            ClientError: the provider does not answer, or refuses discovery.
        """
        index = await self._read_index()
        if self._is_due(index):
            # Noted before, so that a miss in the meantime leads to another look.
            missed, self._missed = self._missed, False
            try:
                latest = await self._discover()
            except BaseException:
                self._missed = missed or self._missed
                raise
            self._take(latest)
            self._whole_at = asyncio.get_running_loop().time()
        self._index = index
        await self._read_documents()

    def _is_due(self, index: dict[str, str] | None) -> bool:
        """Whether discovery may have changed, or has to confirm what it said."""
        if self._whole_at is None or self._missed or self._absent or self._failed:
            return True
        if index is None or index != self._index or not all(index.values()):
            return True
        return asyncio.get_running_loop().time() - self._whole_at >= bounds.WHOLE_SECONDS

    async def _read_index(self) -> dict[str, str] | None:
        """Return the hashes of the documents; None of a server that gives none."""
        try:
            body = await self._client.request("GET", "/openapi/v3", accept=_JSON)
            hashes = document_hashes(body)
        except (ApiError, DiscoveryError) as error:
            self._no_documents = str(error)
            return None
        self._no_documents = ""
        return hashes

    async def _discover(self) -> Discovered:
        try:
            body = await self._client.request("GET", "/apis", accept=AGGREGATED)
            answer = aggregated(body)
            return answer if answer is not None else await self._discover_plainly(body)
        except DiscoveryError as error:
            raise UnexpectedAnswer(str(error)) from None

    async def _discover_plainly(self, body: bytes) -> Discovered:
        """Ask for each version of each group: a group that is down fails alone."""
        versions, failed = [], set()
        for group in plain_groups(body):
            path = f"/apis/{group.group}/{group.version}"
            try:
                answer = await self._client.request("GET", path, accept=_JSON)
                versions.append(plain_version(answer, group.group, group.version))
            except (Forbidden, Unauthorized, ConnectionFailed):
                raise
            except (ApiError, DiscoveryError):
                failed.add(group.group)
        return discovered(versions, failed)

    def _take(self, latest: Discovered) -> None:
        """Take the APIs of discovery; one goes when two looks in a row know it is away."""
        before = dict(self._exports)
        self._failed = latest.failed
        for name, api in latest.apis.items():
            if self._served.get(name) != api:
                self._served[name] = api
                self._outlines[name] = self._numbered(api, None)
            self._exports[name] = exported(api)
        absent = {}
        for name in self._exports.keys() - latest.apis.keys():
            looks = self._absent.get(name, 0)
            # While a group is down, nothing proves that an API of it has gone.
            if self._exports[name].group not in latest.failed:
                looks += 1
            if looks < bounds.ABSENT_LOOKS:
                absent[name] = looks
                continue
            for entries in (self._exports, self._served, self._outlines, self._readings):
                entries.pop(name, None)
        self._absent = absent
        self.has_synced = True
        names = before.keys() | self._exports.keys()
        self._changed([name for name in names if before.get(name) != self._exports.get(name)])

    def _numbered(self, api: ServedAPI, schema: dict[str, object] | None) -> Object:
        """Return an API's CRD with another generation, as a server counts changes of the spec."""
        self._generations[api.name] += 1
        body = definition(api, schema)
        body["metadata"]["generation"] = self._generations[api.name]
        return object_from_dict(body)

    async def _read_documents(self) -> None:
        """Read the schemas of wanted APIs that are not known, or have changed."""
        due: dict[str, list[ServedAPI]] = defaultdict(list)
        for name in sorted(self._followed & self._served.keys()):
            api = self._served[name]
            reading = self._readings.get(name)
            place = f"{api.group}/{api.preferred}"
            digest = (self._index or {}).get(place, "")
            if reading is None or not digest or (reading.api, reading.digest) != (api, digest):
                due[place].append(api)
        for place, apis in due.items():
            digest = (self._index or {}).get(place, "")
            document = await self._document(place)
            for api in apis:
                self._convert(api, digest, document)
                # A large schema takes its time, and others wait for none but one.
                await asyncio.sleep(0)

    async def _document(self, place: str) -> SchemaDocument | Fault:
        if self._no_documents:
            return Fault(
                PENDING,
                f"the provider gives no OpenAPI v3 documents: {self._no_documents}; they need "
                "Kubernetes 1.24 or later, and the right to read them",
            )
        try:
            body = await self._client.request("GET", f"/openapi/v3/apis/{place}", accept=_JSON)
            return SchemaDocument(body)
        except (ApiError, AnswerTooLarge) as error:
            return Fault(PENDING, f"the OpenAPI document of {place} cannot be read: {error}")
        except SchemaError as error:
            return Fault(SCHEMA_UNUSABLE, f"{place} of the provider: {error}")

    def _convert(self, api: ServedAPI, digest: str, document: SchemaDocument | Fault) -> None:
        former = self._readings.get(api.name)
        reading = self._reading(api, digest, document)
        pending = reading.fault is not None and reading.fault.reason == PENDING
        if former is not None and former.crd is not None and pending:
            # It stays in use while nothing newer can be read.
            return
        if former is not None and _same(former, reading):
            # With the generation of the former one, since no field has changed.
            self._readings[api.name] = msgspec.structs.replace(reading, crd=former.crd)
            return
        self._readings[api.name] = reading
        self._changed([api.name])

    def _reading(self, api: ServedAPI, digest: str, document: SchemaDocument | Fault) -> _Reading:
        if isinstance(document, Fault):
            # Without a digest it is read again at the next look.
            return _Reading(api, "", fault=document)
        try:
            schema = document.schema(api.group, api.preferred, api.kind)
        except SchemaError as error:
            message = (
                "the konnector cannot make a CustomResourceDefinition from the provider's "
                f"{api.name}"
            )
            return _Reading(api, digest, fault=Fault(SCHEMA_UNUSABLE, f"{message}: {error}"))
        return _Reading(api, digest, self._numbered(api, schema))


def _same(former: _Reading, reading: _Reading) -> bool:
    if former.fault != reading.fault:
        return False
    if former.crd is None or reading.crd is None:
        return former.crd is reading.crd
    before, after = former.crd.to_dict(), reading.crd.to_dict()
    return bool(before["spec"] == after["spec"])
