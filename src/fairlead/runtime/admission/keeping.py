"""Upkeep of a webhook server's certificate: the shared Secret, and the bundles of its clients."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import structlog

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS, WEBHOOKCONFIGURATIONS, Resource
from fairlead.api.timestamps import moment
from fairlead.client import limits
from fairlead.client.errors import AlreadyExists, ClientError
from fairlead.runtime import delays
from fairlead.runtime.admission import certificates
from fairlead.runtime.admission.server import AdmissionServer
from fairlead.runtime.backoff import Backoff
from fairlead.runtime.cache.informer import Delta
from fairlead.runtime.cluster import Cluster
from fairlead.runtime.writes import commit


OWNER_LABEL = "app.kubernetes.io/name"
"""Label with the name of an object's program; objects of other programs are never written."""
_log = structlog.get_logger(logger_name="fairlead.runtime.admission")


class CertificateUser:
    """Loads the certificate of the Secret into the server; a runnable of every replica.

    Any replica makes the first certificate, since a replica is ready once it has one: in a rolling
    update the leader may be an old Pod that serves no webhooks, and that stays until the new ones
    are ready. All that follows is the leader's work.

    Args:
        cluster: the cluster with the Secret.
        server: the server of this replica.
        owner: the value of :data:`OWNER_LABEL` for a Secret that this makes.
        key: namespace and name of the Secret.
        hosts: the names and addresses that the certificate has to be for.
        now: the time, aware.
    """

    name = "admission webhook certificate"

    def __init__(
        self,
        cluster: Cluster,
        server: AdmissionServer,
        *,
        owner: str,
        key: tuple[str, str],
        hosts: Sequence[str],
        now: Callable[[], datetime] = moment,
    ) -> None:
        namespace, name = key
        self._client = cluster.client
        self._server = server
        self._owner = owner
        self._hosts = tuple(hosts)
        self._now = now
        self._informer = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        self._key = key
        self._changed = asyncio.Event()
        self._ends: datetime | None = None

    def ends(self) -> datetime | None:
        """Return the end of the certificate that the server uses; None without one."""
        return self._ends

    async def run(self) -> None:
        """Follow the Secret until cancelled, and make it whenever there is none."""
        self._informer.subscribe(self._notice)
        await self._informer.synced()
        backoff, loop = Backoff(delays.CHILD), asyncio.get_running_loop()
        while True:
            self._changed.clear()
            wait: float | None = None
            try:
                secret = self._informer.get(*self._key)
                self._use(secret if secret is not None else await self._created())
                backoff.good(loop.time())
            except ClientError as error:
                wait = backoff.failed(loop.time())
                _log.warning("there is no certificate", error=str(error), retry_seconds=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _notice(self, delta: Delta) -> None:
        self._changed.set()

    async def _created(self) -> Object:
        """Create the Secret, or return the one that another replica has created meanwhile."""
        namespace, name = self._key
        data = certificates.renewed({}, self._hosts, self._now(), published=True)
        labels = {OWNER_LABEL: self._owner, "app.kubernetes.io/part-of": "fairlead"}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "type": "kubernetes.io/tls",
            "data": certificates.encoded(data),
        }
        try:
            secret = await self._client.create(SECRETS, body, namespace)
        except AlreadyExists:
            return await self._client.get(SECRETS, name, namespace)
        _log.info("certificates made", secret=f"{namespace}/{name}")
        return secret

    def _use(self, secret: Object) -> None:
        data = certificates.decoded(secret.to_dict().get("data") or {})
        certificate, key = data.get(certificates.CERTIFICATE), data.get(certificates.KEY)
        if not certificate or not key:
            return
        try:
            self._server.use(certificate, key)
            self._ends = certificates.ends_at(certificate)
        except (ssl.SSLError, ValueError) as error:
            # The leader replaces it.
            _log.warning("the certificate cannot be used", secret=self._key[1], error=str(error))


class CertificateKeeper:
    """Renews the Secret, and registers the webhooks; a runnable of the leader.

    Manifests have configurations without webhooks. They are written here together with the bundle
    by which API servers trust them, so that no write is refused because of a server that is not
    trusted yet.

    Args:
        cluster: the cluster with the Secret and the configurations.
        owner: the value of :data:`OWNER_LABEL` that marks objects as this program's.
        key: namespace and name of the Secret.
        configuration: the name of the mutating and of the validating configuration.
        hosts: the names and addresses that the certificate has to be for.
        webhooks: returns the webhooks of each kind of configuration, without bundles.
        now: the time, aware.
    """

    name = "admission webhook certificates"

    def __init__(
        self,
        cluster: Cluster,
        *,
        owner: str,
        key: tuple[str, str],
        configuration: str,
        hosts: Sequence[str],
        webhooks: Callable[[], Mapping[Resource, Sequence[JSON]]],
        now: Callable[[], datetime] = moment,
    ) -> None:
        namespace, name = key
        self._client = cluster.client
        self._owner = owner
        self._webhooks = webhooks
        self._key = key
        self._configuration = configuration
        self._hosts = tuple(hosts)
        self._now = now
        self._changed = asyncio.Event()
        self._logged: set[str] = set()
        self._secrets = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        self._configurations = {
            resource: cluster.informer(resource, fields=f"metadata.name={configuration}")
            for resource in WEBHOOKCONFIGURATIONS
        }

    async def run(self) -> None:
        """Keep Secret and bundles up to date until cancelled."""
        informers = [self._secrets, *self._configurations.values()]
        for informer in informers:
            informer.subscribe(self._notice)
        for informer in informers:
            await informer.synced()
        backoff, loop = Backoff(delays.CHILD), asyncio.get_running_loop()
        while True:
            self._changed.clear()
            wait = limits.CERTIFICATE_SECONDS
            try:
                await self.keep()
                backoff.good(loop.time())
            except ClientError as error:
                wait = backoff.failed(loop.time())
                _log.warning("certificates are not kept", error=str(error), retry_seconds=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _notice(self, delta: Delta) -> None:
        self._changed.set()

    async def keep(self) -> None:
        """Write the Secret and the bundles that have to change.

        Raises:
            ClientError: something could not be written.
        """
        # Stored before it is published: after a crash in between, the bundle is made from the
        # Secret again, with all keys.
        data = await self._keep_secret()
        if data is None:
            return
        bundle = base64.b64encode(certificates.bundle(data).encode()).decode()
        webhooks = self._webhooks()
        for resource, live in self._live():
            await commit(
                self._client, resource, live, _registered(live, webhooks[resource], bundle)
            )

    async def _keep_secret(self) -> dict[str, str] | None:
        """Write the Secret if it has to change; return its data.

        None if there is no Secret yet, or one that is not ours.
        """
        namespace, name = self._key
        live = self._secrets.get(namespace, name)
        if live is None or not self._is_ours(live, "Secret"):
            return None
        body = live.to_dict()
        data = certificates.decoded(body.get("data") or {})
        renewed = certificates.renewed(
            data, self._hosts, self._now(), published=self._is_published(data)
        )
        if renewed == data:
            return data
        body = {**body, "data": certificates.encoded(renewed)}
        await commit(self._client, SECRETS, live, body)
        _log.info("certificates renewed", secret=f"{namespace}/{name}")
        return renewed

    def _is_published(self, data: dict[str, str]) -> bool:
        # The caches may be behind: then the next authority merely signs later.
        bundle = base64.b64encode(certificates.bundle(data).encode()).decode()
        return all(
            hook.get("clientConfig", {}).get("caBundle") == bundle
            for _, live in self._live()
            for hook in live.to_dict().get("webhooks") or ()
        )

    def _live(self) -> list[tuple[Resource, Object]]:
        """Return the existing configurations that are ours."""
        webhooks = []
        for resource, informer in self._configurations.items():
            live = informer.get("", self._configuration)
            if live is None:
                text = "apply the manifests that --webhooks prints"
                self._tell(f"{resource.kind} {self._configuration} is not there", text)
            elif self._is_ours(live, resource.kind):
                webhooks.append((resource, live))
        return webhooks

    def _is_ours(self, live: Object, kind: str) -> bool:
        if live.meta.labels.get(OWNER_LABEL) == self._owner:
            return True
        text = f"label it {OWNER_LABEL}={self._owner} if it does, or delete it"
        self._tell(f"{kind} {live.meta.name} does not belong to this program", text)
        return False

    def _tell(self, what: str, remedy: str) -> None:
        if what not in self._logged:
            self._logged.add(what)
            _log.warning("admission webhooks are not all served", reason=what, remedy=remedy)


def _registered(live: Object, webhooks: Sequence[JSON], bundle: str) -> JSON:
    """Return the configuration with these webhooks, each with this ``caBundle``.

    Webhooks of other names in the same domain are ones that are not served any more.
    """
    body = live.to_dict()
    present = {hook.get("name"): hook for hook in body.get("webhooks") or ()}
    domains = {_domain(hook["name"]) for hook in webhooks}
    names = {hook["name"] for hook in webhooks}
    foreign = [
        hook
        for name, hook in present.items()
        if name not in names and _domain(str(name)) not in domains
    ]
    own = [_merged(present.get(hook["name"]) or {}, hook, bundle) for hook in webhooks]
    body["webhooks"] = [*own, *foreign]
    return body


def _domain(name: str) -> str:
    return name.partition(".")[2]


def _merged(live: JSON, hook: JSON, bundle: str) -> JSON:
    """Return a webhook as the server has it, with what we want of it.

    Others add to it: defaults of the server, and namespaces that a provider of clusters excludes
    from all webhooks. An administrator's URL, for a server outside the cluster, stays.
    """
    config = live.get("clientConfig") or {}
    config = config if "url" in config else hook["clientConfig"]
    selector = live.get("namespaceSelector") or {}
    theirs = selector.get("matchExpressions") or []
    ours = hook["namespaceSelector"]["matchExpressions"]
    expressions = [*theirs, *(term for term in ours if term not in theirs)]
    return {
        **live,
        **hook,
        "clientConfig": {**config, "caBundle": bundle},
        "namespaceSelector": {**selector, "matchExpressions": expressions},
    }
