"""A market at work, as people find one: most is in order, something waits, and something fails."""

from __future__ import annotations

from datetime import timedelta

from tests.support.e2e import SHOP
from tests.support.market import Market
from tests.support.offers import OF_BEN
from tests.support.postgres import access
from tests.support.waiting import condition, failed_with, when

from fairlead.api.kubebind import (
    ANNOTATION_IDENTITY,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
)
from fairlead.api.meta import JSON
from fairlead.api.postgresaccess import POSTGRESACCESSES
from fairlead.api.resource import DEPLOYMENTS, NAMESPACES, Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.api.timestamps import format_time, moment
from fairlead.demo import objects


BUCKETS = Resource("storage.example.org", "v1", "buckets", "Bucket")
BLOG = "blog-cluster"
"""The identity of Ben's cluster, whose konnector has been silent for an hour."""
NEW = "new-cluster"
"""The identity of Ada's second cluster, to which no konnector has come yet."""
FAILING = "payroll"
"""An access to a database that is not offered."""
LATE = "reports"
"""An app whose service is not there yet."""


class Lively:
    """The market, and the names that its parts have on the provider."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self.ada = ""
        self.new = ""
        self.ben = ""
        self.waiting = "photos"
        """A bucket that is being made."""

    @property
    def shop(self) -> str:
        """Where Ada's objects are on the provider."""
        return f"{self.ada}-{SHOP}"

    def names(self) -> dict[str, str]:
        """What paths of pages name."""
        accesses = POSTGRESACCESSES.group_resource
        return {
            "ada": self.ada,
            "ben": self.ben,
            "new": self.new,
            "shop": self.shop,
            "accesses": accesses,
        }

    async def furnish(self) -> None:
        """Bind, order, break something, and wait until all programs have said so."""
        market = self.market
        await market.bind(market.ada)
        await market.bind(market.ada, "buckets")
        await market.order("orders", "invoices")
        self.new = (
            await market.agree(market.ada, "mailboxes", NEW, title="shop, abroad")
        ).provider_namespace
        self.ben = (await market.agree(market.ben, OF_BEN, BLOG)).provider_namespace
        self.ada = await self._of_ada()
        await self._fail()
        await self._have_wait()
        await self.buckets()
        await self.silence(self.ben)

    async def silence(self, namespace: str) -> None:
        """Make a konnector's last heartbeat an hour old."""
        beat = format_time(moment() - timedelta(hours=1))
        status = {
            "lastHeartbeatTime": beat,
            "heartbeatInterval": "5m0s",
            "konnectorVersion": "v0.8.1",
        }
        admin = self.market.provider.admin
        await admin.merge_patch(
            CLUSTERBINDINGS,
            CLUSTER_BINDING_NAME,
            namespace,
            {"status": status},
            subresource="status",
        )

    async def say(self, name: str, status: str, reason: str, message: str) -> None:
        """Write what the buckets' controller would have written about one."""
        ready = {
            "type": "Ready",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": format_time(moment()),
        }
        body = {"status": {"ready": status == "True", "conditions": [ready]}}
        admin = self.market.provider.admin
        await when(admin, BUCKETS, name, self.shop, until=bool)
        await admin.merge_patch(BUCKETS, name, self.shop, body, subresource="status")
        consumer = self.market.consumer.admin
        await when(
            consumer,
            BUCKETS,
            name,
            SHOP,
            until=lambda found: condition(found, "Ready").get("message") == message,
        )

    async def buckets(self) -> None:
        """Two that are ready, and one that is being made."""
        for name in ("backups", "uploads", self.waiting):
            await self.market.consumer.admin.create(BUCKETS, bucket(name))
        for name in ("backups", "uploads"):
            await self.say(name, "True", "Available", f"bucket {name} can be used")
        about = "the region north makes it; a minute or two is usual"
        await self.say(self.waiting, "False", "Pending", about)

    async def _of_ada(self) -> str:
        admin = self.market.consumer.admin
        identity = (await admin.get(NAMESPACES, "kube-system")).meta.uid
        found = (await self.market.provider.admin.list(NAMESPACES)).items
        (name,) = (
            one.meta.name
            for one in found
            if one.meta.annotations.get(ANNOTATION_IDENTITY) == identity
        )
        return name

    async def _fail(self) -> None:
        admin = self.market.consumer.admin
        grants = [{"database": FAILING, "privileges": ["CONNECT"]}]
        await admin.create(POSTGRESACCESSES, access(FAILING, SHOP, "main", grants=grants))
        await when(admin, POSTGRESACCESSES, FAILING, SHOP, until=failed_with(FAILING))

    async def _have_wait(self) -> None:
        admin = self.market.consumer.admin
        await admin.create(DEPLOYMENTS, objects.deployment(name=LATE, in_namespace=SHOP))
        wanted = objects.binding(name=LATE, in_namespace=SHOP, access_name="warehouse")
        await admin.create(SERVICEBINDINGS, wanted)
        await when(admin, SERVICEBINDINGS, LATE, SHOP, until=failed_with("warehouse"))


def bucket(name: str) -> JSON:
    """A bucket of the shop."""
    return {
        "apiVersion": BUCKETS.api_version,
        "kind": BUCKETS.kind,
        "metadata": {"name": name, "namespace": SHOP},
        "spec": {"region": "north", "quotaGiB": 20},
    }
