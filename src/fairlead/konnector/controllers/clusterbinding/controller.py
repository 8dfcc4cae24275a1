"""Maintains the ClusterBinding of one provider: rotated credentials, heartbeats, version.

New credentials are tried against the provider itself before they replace the old ones.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from hashlib import sha256
from typing import NamedTuple

import msgspec
import structlog

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    ClusterBinding,
)
from fairlead.api.kubebind.conditions import ANOTHER_KONNECTOR
from fairlead.api.meta import Key, Object, Undecodable
from fairlead.api.resource import SECRETS
from fairlead.api.timestamps import moment
from fairlead.client import Client, ClientError, Conflict, NotFound, Unauthorized
from fairlead.konnector import bounds
from fairlead.konnector.consumer import Provider
from fairlead.konnector.controllers.bindingsecret.controller import fault
from fairlead.konnector.controllers.clusterbinding.peers import Peers, several
from fairlead.konnector.controllers.clusterbinding.reconcile import (
    CredentialsWrite,
    HeartbeatState,
    Rivalry,
    another_konnector,
    heartbeating,
    reconcile,
)
from fairlead.konnector.policies.work import SecretKey
from fairlead.konnector.secrets import content, provider_config
from fairlead.konnector.statuses import with_status
from fairlead.runtime import (
    Backoff,
    Delta,
    Informer,
    Request,
    Result,
    commit,
    delays,
)


_log = structlog.get_logger(logger_name="fairlead.konnector.clusterbinding")


class HeartbeatController:
    """Watches the ClusterBinding, the provider's Secret that it names and the consumer's."""

    name = "clusterbinding"

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._consumer = provider.consumer
        self._secret: Informer | None = None
        self._probe = Probe(provider.namespace)
        self._rivalry = Rivalry()
        self._peers = Peers()
        self._replaced = ""
        # One worker: a pass goes on with what the last one learned of rivals and peers.
        self._controller = self._provider.consumer.controller(
            "konnector-clusterbinding", self._reconcile, workers=1
        )

    async def run(self) -> None:
        """Work until cancelled."""
        self._controller.watch(self._provider.kubebind.cluster_bindings)
        async with AsyncExitStack() as stack:
            bindings = self._consumer.cluster.informer(APISERVICEBINDINGS)
            stack.push_async_callback(bindings.close)
            bindings.subscribe(self._binding_changed)
            self._consumer.secrets.listen(self._secret_changed)
            stack.callback(self._consumer.secrets.unlisten, self._secret_changed)
            self._provider.on_join(self._all)
            await self._controller.run()

    def _secret_changed(self, key: Key) -> None:
        if any(source.secret == key for source in self._provider.spec.sources):
            self._all()

    def _binding_changed(self, delta: Delta) -> None:
        # A new binding needs the condition about heartbeats; its later changes do not matter here.
        if delta.type == "ADDED":
            self._all()

    def _all(self) -> None:
        for obj in self._provider.kubebind.cluster_bindings.list():
            self._controller.enqueue(Request("", *obj.key))

    async def _reconcile(self, request: Request) -> Result | None:
        obj = self._provider.kubebind.cluster_bindings.get(request.namespace, request.name)
        # An object that we have replaced is outdated; the event of our write is on its way.
        if obj is None or obj.meta.resource_version == self._replaced:
            return None
        try:
            binding = obj.decode(ClusterBinding)
        except Undecodable as error:
            await self._tell(f"on the provider, {error.message}")
            return None
        state = await self._state(binding)
        plan = reconcile(state)
        try:
            # The Secret is read anew and its kubeconfig tried only when credentials would be
            # overwritten: heartbeats need neither.
            if plan.secrets:
                plan = reconcile(await self._probed(await self._fresh(state)))
            else:
                self._probe.forget()
            for write in plan.secrets:
                await self._write(write)
            body = with_status(obj, plan.status)
            written = await commit(
                self._provider.client, CLUSTERBINDINGS, obj, body, subresource="status"
            )
        except Conflict:
            # Another writer was faster, which is no fault that bindings should report.
            raise
        except ClientError as error:
            await self._tell(str(error))
            raise
        # commit returns the object itself if there was nothing to write.
        if written is not obj:
            self._replaced = obj.meta.resource_version
        self._learn(plan.rivalry, plan.peers)
        await self._tell("")
        again = self._probe.retry_in
        return Result(plan.next_beat if again is None else min(plan.next_beat, again))

    async def _state(self, binding: ClusterBinding) -> HeartbeatState:
        ref = binding.spec.kubeconfig_secret_ref
        secrets = await self._provider_secret(ref.name)
        secret = secrets.get(self._provider.namespace, ref.name)
        return HeartbeatState(
            binding=binding,
            provider_secret=secret,
            consumer_secrets=self._consumer_secrets(),
            fault=_fault(secret, ref.key),
            version=self._consumer.options.version,
            now=moment(),
            unreadable="" if secrets.has_synced else secrets.error,
            kubeconfig=self._provider.spec.kubeconfig,
            rivalry=self._rivalry,
            instance=self._consumer.instance,
            peers=self._peers,
        )

    async def _fresh(self, state: HeartbeatState) -> HeartbeatState:
        """Return the state with the provider's Secret as it is now.

        Revoked credentials stop the watch too, so that a cache may be older than the credentials
        in the consumer's Secret.

        Raises:
            ClientError: the Secret cannot be read.
        """
        ref = state.binding.spec.kubeconfig_secret_ref
        try:
            secret = await self._provider.client.get(SECRETS, ref.name, self._provider.namespace)
        except NotFound:
            return msgspec.structs.replace(state, provider_secret=None, fault="")
        fault_ = _fault(secret, ref.key)
        return msgspec.structs.replace(state, provider_secret=secret, fault=fault_)

    async def _probed(self, state: HeartbeatState) -> HeartbeatState:
        """Return the state with a fault if the provider's new kubeconfig does not work."""
        ref = state.binding.spec.kubeconfig_secret_ref
        kubeconfig = content(state.provider_secret, ref.key)
        if state.fault or not kubeconfig or kubeconfig == self._provider.spec.kubeconfig:
            self._probe.forget()
            return state
        fault_ = await self._probe.fault(kubeconfig, uid=state.binding.metadata.uid)
        return msgspec.structs.replace(state, fault=fault_)

    async def _provider_secret(self, name: str) -> Informer:
        """Watch the Secret by its name, so that no other Secret is ever read."""
        lease = self._provider.cluster.informer(
            SECRETS, namespace=self._provider.namespace, fields=f"metadata.name={name}"
        )
        former = self._secret
        if former is not None and former.scope == lease.scope:
            await lease.close()
            lease = former
        else:
            self._secret = lease
            lease.subscribe(lambda _delta: self._all())
            # A provider that names another Secret each time opens no watch for each.
            if former is not None:
                await former.close()
        # Heartbeats go on without the Secret, and the status tells why it cannot be read.
        with suppress(TimeoutError):
            async with asyncio.timeout(bounds.CALL_SECONDS):
                await lease.synced()
        return lease

    def _consumer_secrets(self) -> dict[SecretKey, Object | None]:
        secrets = self._consumer.secrets
        return {
            source: secrets.get(source.secret)
            for source in self._provider.spec.sources
            if secrets.has_synced(source.secret)
        }

    async def _write(self, write: CredentialsWrite) -> None:
        client = self._consumer.client
        if write.old is None:
            await client.create(SECRETS, write.body, write.body["metadata"]["namespace"])
        else:
            await client.update(SECRETS, write.body)

    def _learn(self, rivalry: Rivalry, peers: Peers) -> None:
        if peers.living and peers.living != self._peers.living:
            _log.warning(
                "several konnectors work with the same ClusterBinding: stop all but one of them",
                this=self._consumer.instance,
                others=peers.living,
                namespace=self._provider.namespace,
            )
        self._peers = peers
        if rivalry.version and not self._rivalry.version:
            _log.warning(
                "another konnector writes the same ClusterBinding: stop one of them",
                version=rivalry.version,
                namespace=self._provider.namespace,
            )
        self._rivalry = rivalry

    async def _tell(self, error: str) -> None:
        present, absent = [heartbeating(error)], []
        namespace = self._provider.namespace
        among = several(self._peers, self._consumer.instance, namespace)
        if among is not None:
            present.append(among)
        elif self._rivalry.version:
            present.append(another_konnector(self._rivalry.version, namespace))
        else:
            absent.append(ANOTHER_KONNECTOR)
        for binding in sorted(self._provider.bindings):
            await self._consumer.statuses.set(binding, *present, absent=absent)


def _fault(secret: Object | None, key: str) -> str:
    if secret is None:
        return ""
    kubeconfig = content(secret, key)
    return fault(kubeconfig) if kubeconfig else "the key is missing or empty"


class _Failure(NamedTuple):
    digest: bytes
    fault: str
    again: float


class Probe:
    """Tries a new kubeconfig against the provider, a failed one again after a back-off."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._failure: _Failure | None = None
        self._backoff = Backoff(delays.NEW_CREDENTIALS)

    @property
    def retry_in(self) -> float | None:
        """Return the seconds until a failed kubeconfig is tried again; None if none has failed."""
        if self._failure is None:
            return None
        return max(self._failure.again - asyncio.get_running_loop().time(), 0.0)

    async def fault(self, kubeconfig: bytes, *, uid: str) -> str:
        """Return why a kubeconfig must not replace the one in use, "" if it may.

        Args:
            kubeconfig: the new kubeconfig of the provider.
            uid: the uid of the present ClusterBinding, which the new kubeconfig must lead to as
                well.
        """
        digest = sha256(kubeconfig + uid.encode()).digest()
        if self._failure is not None and self._failure.digest != digest:
            self.forget()
        if self._failure is not None and self.retry_in:
            return self._failure.fault
        fault = await self._try(kubeconfig, uid)
        if not fault:
            self.forget()
            return ""
        now = asyncio.get_running_loop().time()
        self._failure = _Failure(digest, fault, now + self._backoff.failed(now))
        return fault

    def forget(self) -> None:
        """Forget the failure of a kubeconfig that is not wanted any more."""
        self._failure = None
        self._backoff = Backoff(delays.NEW_CREDENTIALS)

    async def _try(self, kubeconfig: bytes, uid: str) -> str:
        try:
            async with asyncio.timeout(bounds.CALL_SECONDS):
                return await self._fault(kubeconfig, uid)
        except TimeoutError:
            return f"the server that it names does not answer within {bounds.CALL_SECONDS:g} s"
        except Unauthorized as error:
            return f"the server refuses its credentials (Unauthorized){error.clock_hint}"
        except ClientError as error:
            return str(error)

    async def _fault(self, kubeconfig: bytes, uid: str) -> str:
        config = provider_config(kubeconfig)
        if config.namespace != self._namespace:
            return (
                f"its context names namespace {config.namespace!r}, but the cluster namespace of "
                f"this connection is {self._namespace!r}"
            )
        async with Client(config, user_agent="fairlead-konnector") as client:
            obj = await client.get(CLUSTERBINDINGS, CLUSTER_BINDING_NAME, self._namespace)
        if obj.meta.uid != uid:
            return (
                f"it leads to another cluster: ClusterBinding {self._namespace}/"
                f"{CLUSTER_BINDING_NAME} has uid {obj.meta.uid} there and {uid} here"
            )
        return ""
