"""The webhook server: its paths, its certificate, its own user and the key of proofs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

import structlog

from fairlead.api.keys import UnusableKeyError, key_in
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    MUTATINGWEBHOOKCONFIGURATIONS,
    SECRETS,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    Resource,
)
from fairlead.binding.admission import requester, rules
from fairlead.binding.admission.names import (
    CALLED,
    COREOS_PATH,
    KEY_SECRET,
    MAPPING_PATH,
    NAME,
    PROJECTOR_PATH,
    REQUESTER_PATH,
    SECRET,
    SPEC_PATH,
    host,
    mutating,
    validating,
)
from fairlead.binding.admission.projector import Projector
from fairlead.binding.options import AdmissionOptions, BindingOptions
from fairlead.client import ApiError, Client, ClientError
from fairlead.runtime import Cluster, Delta, Manager, delays
from fairlead.runtime.admission.keeping import OWNER_LABEL, CertificateKeeper, CertificateUser
from fairlead.runtime.admission.server import (
    ALLOWED,
    AdmissionRequest,
    AdmissionServer,
    Reviewer,
    Verdict,
)
from fairlead.runtime.backoff import Backoff
from fairlead.runtime.keys import kept_key


_SELFSUBJECTREVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_SYSTEM = "kube-system"

Rule = Callable[[JSON, JSON | None], str]
_LABELS = {OWNER_LABEL: NAME, "app.kubernetes.io/part-of": "fairlead"}
_log = structlog.get_logger(logger_name="fairlead.binding.admission")


class RequesterKey:
    """The present key in every replica; the leader runs it, and creates a missing key."""

    name = "key of requester proofs"

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        self._client = cluster.client
        self._key = (namespace, name)
        self._secrets = cluster.informer(
            SECRETS, namespace=namespace, fields=f"metadata.name={name}"
        )
        self._changed = asyncio.Event()

    def __call__(self) -> bytes:
        """Return the key, b"" while it is unknown or unusable."""
        secret = self._secrets.get(*self._key)
        try:
            return key_in(secret) if secret is not None else b""
        except UnusableKeyError:
            return b""

    async def run(self) -> None:
        """Create the key whenever it is missing, until canceled."""
        self._secrets.subscribe(self._notice)
        await self._secrets.synced()
        backoff, loop = Backoff(delays.CHILD), asyncio.get_running_loop()
        while True:
            # Before the look: a change during it must not be waited for in vain.
            self._changed.clear()
            wait: float | None = None
            try:
                # A deleted key is replaced too: earlier proofs are void then.
                if not self():
                    await kept_key(self._client, *self._key, labels=_LABELS)
                backoff.good(loop.time())
            except UnusableKeyError as error:
                # Only a change of the Secret can help.
                _log.warning("no requester is proven", error=str(error))
            except ClientError as error:
                wait = backoff.failed(loop.time())
                _log.warning("there is no key of proofs", error=str(error), retry_seconds=wait)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _notice(self, delta: Delta) -> None:
        self._changed.set()


def reviewers(
    own_namespace: str,
    own_user: str,
    projector: Projector | None = None,
    key: Callable[[], bytes] = bytes,
) -> Mapping[str, Reviewer]:
    """Return the reviewers by path; ``key`` returns the key of requester proofs."""
    by_path: dict[str, Reviewer] = {
        REQUESTER_PATH: partial(_note, own_user, key),
        COREOS_PATH: _validating(rules.coreos_binding),
        SPEC_PATH: _validating(rules.spec_binding),
        MAPPING_PATH: _validating(rules.mapping),
    }
    if projector is not None:
        by_path[PROJECTOR_PATH] = projector.review
    # The controllers must be able to start while their webhooks are unavailable.
    exempt = frozenset({_SYSTEM, own_namespace})
    return {path: _outside(exempt, reviewer) for path, reviewer in by_path.items()}


def _webhooks(
    options: AdmissionOptions, server: AdmissionServer
) -> Mapping[Resource, Sequence[JSON]]:
    """Return the webhooks of each configuration, by the Service unless another host is given."""
    name, port = options.hosts[0], server.url.rpartition(":")[2]
    url = "" if name == host(options.namespace) else f"https://{name}:{port}"
    return {
        MUTATINGWEBHOOKCONFIGURATIONS: mutating(options, url),
        VALIDATINGWEBHOOKCONFIGURATIONS: validating(options, url),
    }


def _note(own_user: str, key: Callable[[], bytes], request: AdmissionRequest) -> Verdict:
    new, namespace = request.object, request.namespace
    if new is None:
        return ALLOWED
    noted = partial(requester.operations, request.user_info, own_user, new, request.old_object)
    spec = requester.foreign_spec(new, namespace)
    if spec is None:
        return Verdict(patch=noted())
    name = (new.get("metadata") or {}).get("name") or request.name
    warnings: list[str] = []
    patch = noted(requester.prover(key(), namespace, name, spec, warnings.append))
    return Verdict(patch=patch, warnings=warnings)


def _validating(rule: Rule) -> Reviewer:
    def review(request: AdmissionRequest) -> Verdict:
        if request.object is None:
            return ALLOWED
        # A deletion only removes finalizers, which an invalid object must not prevent.
        if (request.object.get("metadata") or {}).get("deletionTimestamp"):
            return ALLOWED
        return Verdict(refusal=rule(request.object, request.old_object))

    return review


def _outside(namespaces: frozenset[str], reviewer: Reviewer) -> Reviewer:
    """Exempt namespaces: servers before 1.21 have no label for a namespaceSelector to do it."""

    def review(request: AdmissionRequest) -> Verdict | Awaitable[Verdict]:
        return ALLOWED if request.namespace in namespaces else reviewer(request)

    return review


async def own_user(client: Client, namespace: str) -> str:
    """Return the user of this program; servers before 1.28 cannot tell, so it is assumed.

    Raises:
        ClientError: the server is unavailable.
    """
    try:
        review = await client.create(_SELFSUBJECTREVIEWS, {})
        return str(review.to_dict()["status"]["userInfo"]["username"])
    except (ApiError, KeyError, TypeError):
        return f"system:serviceaccount:{namespace}:{NAME}"


async def add(
    manager: Manager,
    cluster: Cluster,
    options: AdmissionOptions,
    bindings: BindingOptions | None = None,
) -> AdmissionServer:
    """Serve webhooks in every replica, and keep certificate and configurations in the leader.

    ``bindings`` are the controllers' options, which the projector uses too.

    Raises:
        AddressError: the address is not ``host:port``.
        ClientError: the cluster is unavailable.
    """
    user = await own_user(cluster.client, options.namespace)
    projector = Projector(cluster, bindings or BindingOptions()) if options.projected else None
    requester_key = RequesterKey(cluster, options.namespace, KEY_SECRET)
    by_path = reviewers(options.namespace, user, projector, requester_key)
    server = AdmissionServer(options.address, by_path, CALLED)
    manager.metrics.registry.register(server.metrics)
    key = (options.namespace, SECRET)
    # The Service sends reviews to any replica.
    manager.add(server, leader_only=False)
    user_of_certificate = CertificateUser(
        cluster, server, owner=NAME, key=key, hosts=options.hosts
    )
    manager.metrics.certificates["webhooks"] = user_of_certificate.ends
    manager.add(user_of_certificate, leader_only=False)
    manager.add(
        CertificateKeeper(
            cluster,
            owner=NAME,
            key=key,
            configuration=NAME,
            hosts=options.hosts,
            webhooks=partial(_webhooks, options, server),
        )
    )
    manager.add(requester_key)
    manager.add_ready_check("admission-webhooks", server.not_ready)
    if projector is not None:
        manager.add_ready_check("projector", projector.not_ready)
    return server
