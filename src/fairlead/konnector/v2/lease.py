"""The Lease of a consumer's cluster at a provider: a sign of life, and of other konnectors.

It is one for all Connections of the consumer; :mod:`.renewals` says whose it is.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fairlead.api.kbind import lease_name
from fairlead.api.kbind.names import (
    ANNOTATION_RENEWED_AT,
    CONSUMER_CLUSTER_UID,
    LABEL_MANAGED,
    LEASE_ACCOUNT_PREFIX,
    LEASE_NAMESPACE,
    LEASE_SECONDS,
)
from fairlead.api.label_names import is_label
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import LEASES, NAMESPACES
from fairlead.api.timestamps import format_micro_time, moment
from fairlead.client import AlreadyExists, Client, ClientError, Conflict, NotFound
from fairlead.konnector.v2.renewals import Holder, LeaseRenewal, is_held


RENEW_SECONDS = 30.0
"""Seconds between two renewals."""
WATCH_SECONDS = 5.0
"""Seconds between two looks at the Lease of another konnector; no right to watch is needed."""


class ConsumerLease:
    """The Lease of a consumer's cluster at one provider, as one link keeps it."""

    def __init__(self, client: Client, cluster_uid: str, instance: str) -> None:
        self.problem = ""
        """Why the Lease cannot be written, "" if it can."""
        self._client = client
        self._uid = cluster_uid
        self._instance = instance
        self._name = lease_name(cluster_uid)
        self._lease: Object | None = None
        self._last = LeaseRenewal()
        self._since = 0.0
        self._has_written = False

    async def renew(self) -> Holder:
        """Write the Lease unless another konnector is at work, and return whose it is."""
        try:
            holder = await self._renew()
        except ClientError as error:
            self.problem = f"Lease {LEASE_NAMESPACE}/{self._name} is not written: {error}"
            return "Unwritten"
        self.problem = ""
        return holder

    async def _renew(self) -> Holder:
        if self._lease is not None:
            try:
                # One write on the known version, which any other write makes fail.
                return await self._write(self._lease)
            except (Conflict, NotFound):
                self._lease = None
        try:
            lease = await self._client.get(LEASES, self._name, LEASE_NAMESPACE)
        except NotFound:
            return await self._create()
        if self._is_held(lease):
            return "Another"
        if self._last.process == self._instance and self._has_written:
            # The link of another Connection has renewed it for all.
            self._lease = lease
            return "Ours"
        try:
            return await self._write(lease)
        except (Conflict, NotFound):
            # Another Connection of this konnector was faster, or another konnector: the next look
            # tells which.
            return "Ours"

    def _is_held(self, lease: Object) -> bool:
        now, renewal = asyncio.get_running_loop().time(), LeaseRenewal.of(lease)
        if renewal != self._last:
            self._last, self._since = renewal, now
        return is_held(
            renewal,
            self._instance,
            unchanged=now - self._since,
            has_written=self._has_written,
        )

    async def _write(self, lease: Object) -> Holder:
        # The body carries the resourceVersion: of two writers the server refuses one.
        self._keep(await self._client.update(LEASES, self._body(lease.to_dict())))
        return "Ours"

    async def _create(self) -> Holder:
        body = self._body({"metadata": {"namespace": LEASE_NAMESPACE, "name": self._name}})
        try:
            self._keep(await self._client.create(LEASES, body, LEASE_NAMESPACE))
        except AlreadyExists:
            return "Ours"
        except NotFound:
            labels = {LABEL_MANAGED: "true"}
            namespace = {"metadata": {"name": LEASE_NAMESPACE, "labels": labels}}
            with suppress(AlreadyExists):
                await self._client.create(NAMESPACES, namespace)
            self._keep(await self._client.create(LEASES, body, LEASE_NAMESPACE))
        return "Ours"

    def _body(self, body: JSON) -> JSON:
        time = format_micro_time(moment())
        metadata = dict(body["metadata"])
        metadata["labels"] = {**metadata.get("labels", {}), LABEL_MANAGED: "true"}
        metadata["annotations"] = {
            **metadata.get("annotations", {}),
            CONSUMER_CLUSTER_UID: self._uid,
            ANNOTATION_RENEWED_AT: f"{time} {self._instance}",
        }
        if is_label(account := self._client.config.namespace):
            metadata["annotations"][f"{LEASE_ACCOUNT_PREFIX}{account}"] = ""
        spec = {
            **body.get("spec", {}),
            "holderIdentity": self._uid,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": time,
        }
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }

    def _keep(self, lease: Object) -> None:
        self._lease, self._last = lease, LeaseRenewal.of(lease)
        self._since = asyncio.get_running_loop().time()
        self._has_written = True
