"""Reads of a context, with the rights of the user who edited the binding last.

The controllers may read what that user may not. So a service, a Secret and a workload are only
read after a review of the user's rights, by the annotation that admission writes.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kubebind.names import is_kubernetes
from fairlead.api.meta import JSON, Object, ObjectMeta
from fairlead.api.resource import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    SECRETS,
    SERVICES,
    Resource,
)
from fairlead.api.servicebinding.common import REQUESTER_ANNOTATION
from fairlead.api.servicebinding.mapping import CLUSTERWORKLOADRESOURCEMAPPINGS, mapping_name
from fairlead.binding import bounds
from fairlead.binding.options import SERVICE_ACCOUNTS_ELSEWHERE
from fairlead.binding.reads import (
    Answer,
    FailureCode,
    Get,
    Lookup,
    Marked,
    Read,
    ReadError,
    ReadFailure,
    RightsReview,
    Snapshot,
)
from fairlead.binding.rights import eligibility
from fairlead.binding.services.service import Service, ServiceReference, WorkloadReference
from fairlead.binding.workloads.records import record_key
from fairlead.binding.workloads.workload import BindingEffort


ROUTES = Resource("route.openshift.io", "v1", "routes", "Route")
_SERVICE_ACCOUNT, _SERVICE_ACCOUNTS = "system:serviceaccount:", "system:serviceaccounts"
"""Prefix of service accounts' user names, and the group of them all."""
_NO_USER = (
    "the controllers themselves changed the binding's spec, so no user has requested its present"
    " content; check it, and edit it"
)


class Requester:
    """The user who edited a binding last, where that is known.

    Without one all is allowed. A user without a name, which the annotation has where the
    controllers themselves were made to change the spec, may do nothing.
    """

    def __init__(self, snapshot: Snapshot, binding: ObjectMeta) -> None:
        self._snapshot = snapshot
        self._author = _author(binding.annotations.get(REQUESTER_ANNOTATION, ""))
        # A user with the right to delete a binding needs none of its author's rights.
        self._requester = None if binding.deleting else self._author
        self.is_known = self._requester is not None
        """Whether rights are looked at in this pass."""

    def question(
        self, verb: str, resource: Resource, namespace: str, name: str
    ) -> RightsReview | None:
        """Return the review of a right, None where nothing has to be asked."""
        if self._requester is None or not self._requester[0]:
            return None
        return _review(self._requester, verb, resource, namespace, name)

    def question_of(self, verb: str, resource: Resource, meta: ObjectMeta) -> RightsReview | None:
        """Return the review of a right on an object, None where nothing has to be asked."""
        return self.question(verb, resource, meta.namespace, meta.name)

    async def check(
        self, verb: str, resource: Resource, namespace: str, name: str, refusal: str
    ) -> None:
        """Check a right; ``refusal`` says what cannot be done without it.

        Raises:
            ReadError: the author may not, or the right cannot be looked at.
        """
        if self._requester is None:
            return
        if not self._requester[0]:
            raise ReadError(ReadFailure("Denied", f"{refusal}: {_NO_USER}"))
        if not await self._snapshot.review(
            _review(self._requester, verb, resource, namespace, name)
        ):
            raise ReadError(ReadFailure("Denied", refusal))

    def denial(self, denied: Iterable[str], namespace: str) -> str:
        """Return the author's name if these patterns deny the author in a namespace; else "".

        A pattern is a name of a user or group, in which ``*`` is any text, or
        ``SERVICE_ACCOUNTS_ELSEWHERE``.
        """
        if self._author is None:
            return ""
        user, groups = self._author
        own = f"{_SERVICE_ACCOUNT}{namespace}:"
        for pattern in denied:
            if pattern == SERVICE_ACCOUNTS_ELSEWHERE:
                is_account = user.startswith(_SERVICE_ACCOUNT) or _SERVICE_ACCOUNTS in groups
                is_denied = is_account and not user.startswith(own)
            else:
                # Names may have the other special characters of a shell's patterns.
                literal = pattern.replace("[", "[[]").replace("?", "[?]")
                is_denied = any(fnmatchcase(name, literal) for name in (user, *groups))
            if is_denied:
                return user
        return ""

    async def may_update(self, resource: Resource, meta: ObjectMeta) -> bool:
        """Whether the author may update an object, also when the binding goes."""
        if self._author is None:
            return True
        question = _review(self._author, "update", resource, meta.namespace, meta.name)
        return bool(self._author[0]) and await self._snapshot.review(question)


class Reader:
    """Reads of one pass, with the rights of the user who edited the binding last, if known."""

    def __init__(self, snapshot: Snapshot, binding: ObjectMeta) -> None:
        self.snapshot = snapshot
        self.binding = binding
        self.record_key = record_key(binding.uid)
        """The annotation of a workload that has the binding's record."""
        self.requester = Requester(snapshot, binding)
        self._service_bytes = 0
        self.cluster_services: Callable[[], Awaitable[bool]] = _no
        """Whether services may be cluster-scoped, which rights in a namespace do not cover."""
        self._is_ahead = False
        self.effort = BindingEffort()
        """The budget that all workloads of the pass share."""
        self.kind_is_read = False
        """Whether workloads could be read, so that the binding may be projected onto them."""

    async def look_ahead(
        self, services: Sequence[ServiceReference], workloads: WorkloadReference
    ) -> None:
        """Read the objects that a binding names at once, as far as its author may read them.

        Reads that are not used afterwards do not count as dependencies: only what a stage then
        asks for is watched until the next pass.
        """
        namespace, some = self.binding.namespace, services[: bounds.REQUESTS_AT_ONCE]
        *kinds, resource = await self.snapshot.want(
            [*(one.lookup for one in some), workloads.lookup]
        )
        reads = await self._reads_of(some, kinds)
        if isinstance(resource, Resource):
            resource = await self.unpruned(resource)
        # No right of the author is asked about CRDs, nor about what the binding made itself.
        free: list[Read] = [_crd_of(one.resource) for one in reads if one.resource.group]
        free.append(Marked(SECRETS, namespace, owner=self.binding.uid, optional=True))
        updates: list[RightsReview | None] = []
        if isinstance(resource, Resource) and eligibility(resource) != "never":
            free.append(Marked(resource, namespace, self.record_key))
            reads.append(mapping_of(resource))
            # What is a workload only where it is mapped is read once that is known.
            named = workloads.name and workloads.selector is None
            if named and eligibility(resource) == "free":
                reads.append(Get(resource, namespace, workloads.name, spec_only=True))
                updates.append(
                    self.requester.question("update", resource, namespace, workloads.name)
                )
        await self._want_allowed(reads, free, updates)
        self._is_ahead = True

    async def unpruned(self, resource: Resource) -> Resource:
        """Return the resource in which workloads are read and written without losing fields.

        See :meth:`CRDSpec.unpruned`. Where the CRD cannot be read, or there is none, it is the
        given one.
        """
        if is_kubernetes(resource.group):
            return resource
        (crd,) = await self.snapshot.want([_crd_of(resource)])
        try:
            return crd_spec(crd).unpruned(resource) if isinstance(crd, Object) else resource
        except msgspec.ValidationError:
            return resource

    async def services(self, references: Sequence[ServiceReference]) -> list[Service]:
        """Return all services; the ReadError is about the first that cannot be read."""
        services: list[Service] = []
        # In portions: bounds.SERVICE_BYTES stops a binding before all of its services are fetched.
        for start in range(0, len(references), bounds.REQUESTS_AT_ONCE):
            some = references[start : start + bounds.REQUESTS_AT_ONCE]
            # The first ones were read before the first stage, unless the binding is unbound.
            if start or not self._is_ahead:
                kinds = await self.snapshot.want(one.lookup for one in references)
                reads = await self._reads_of(some, kinds[start : start + bounds.REQUESTS_AT_ONCE])
                await self._want_allowed(reads)
            services += [await self._service(one) for one in some]
        return services

    async def _reads_of(
        self, references: Sequence[ServiceReference], kinds: Iterable[Answer | None]
    ) -> list[Get]:
        """Return the reads of services whose kinds are known and allowed."""
        return [
            Get(resource, reference.namespace if resource.namespaced else "", reference.name)
            for reference, resource in zip(references, kinds, strict=True)
            if isinstance(resource, Resource)
            and (resource.namespaced or await self.cluster_services())
        ]

    async def _want_allowed(
        self,
        reads: Sequence[Get],
        free: Iterable[Read] = (),
        reviews: Iterable[RightsReview | None] = (),
    ) -> None:
        """Read the objects that the author may get, and those that need no right, at once."""
        if not self.requester.is_known:
            await self.snapshot.want([*free, *reads])
            return
        rights = [
            self.requester.question("get", read.resource, read.namespace, read.name)
            for read in reads
        ]
        questions = [one for one in (*rights, *reviews) if one]
        granted = dict(zip(questions, await self.snapshot.want(questions), strict=True))
        allowed = [
            read
            for read, right in zip(reads, rights, strict=True)
            if right and granted[right] is True
        ]
        await self.snapshot.want([*free, *allowed])

    async def _service(self, reference: ServiceReference) -> Service:
        resource = await self.snapshot.lookup(reference.lookup)
        if not resource.namespaced and not await self.cluster_services():
            raise failure(
                "Invalid",
                f"{reference.place} is {resource.kind} {reference.name}, which is in no namespace"
                " and would be read with the controller's rights; name a service in the binding's"
                " own namespace",
            )
        namespace = reference.namespace if resource.namespaced else ""
        place = f"service {reference.name} in namespace {reference.namespace}"
        await self.requester.check(
            "get", resource, namespace, reference.name, f"cannot read {place}"
        )
        read = Get(resource, namespace, reference.name)
        try:
            service = await self.snapshot.get(read)
        except ReadError as error:
            if error.failure.code != "NotFound":
                raise
            where = f"in namespace {reference.namespace}" if resource.namespaced else "by its name"
            text = (
                f"{error}: {reference.place} asks for it {where}; create it or correct the binding"
            )
            raise failure("NotFound", text) from None
        # All services of a binding are decoded in memory together.
        self._service_bytes += len(service.raw)
        if self._service_bytes > bounds.SERVICE_BYTES:
            raise failure(
                "Invalid",
                f"the services of the binding have more than {bounds.SERVICE_BYTES} bytes "
                "together; bind fewer of them at once",
            )
        return Service(service, resource, reference.id, await self.snapshot.body(read))

    async def secret(self, namespace: str, name: str) -> JSON:
        """Return a Secret; raises ReadError."""
        refusal = f"cannot read secret {name} in namespace {namespace}"
        await self.requester.check("get", SECRETS, namespace, name, refusal)
        return await self.snapshot.body(Get(SECRETS, namespace, name))

    async def owns_secret(self, name: str, uid: str) -> bool:
        """Whether the Secret ``name`` was generated for the binding with this uid."""
        try:
            secret = await self.snapshot.get(Get(SECRETS, self.binding.namespace, name))
        except ReadError:
            return False
        return secret.meta.owned_by(uid)

    async def own_secret(self, name: str) -> JSON | None:
        """Return a Secret that the binding owns; None if it is missing or another's.

        A change or deletion of it starts another pass.
        """
        read = Get(SECRETS, self.binding.namespace, name)
        try:
            secret = await self.snapshot.get(read)
        except ReadError:
            return None
        return await self.snapshot.body(read) if secret.meta.owned_by(self.binding.uid) else None

    async def config_map(self, namespace: str, name: str) -> JSON:
        """Return a ConfigMap; raises ReadError."""
        refusal = f"cannot read configmap {name} in namespace {namespace}"
        await self.requester.check("get", CONFIGMAPS, namespace, name, refusal)
        return await self.snapshot.body(Get(CONFIGMAPS, namespace, name))

    async def crd(self, resource: Resource) -> JSON | None:
        """Return the CRD of a resource; None for built-in kinds and for a missing CRD."""
        if not resource.group:
            return None
        try:
            return await self.snapshot.body(_crd_of(resource))
        except ReadError as error:
            if error.failure.code == "NotFound":
                return None
            raise

    async def owned(self, service: Service) -> list[JSON]:
        """Return the objects that a service owns in its namespace, of the served kinds."""
        result: list[JSON] = []
        for resource in (CONFIGMAPS, SECRETS, SERVICES, ROUTES):
            try:
                if resource is ROUTES:
                    # A watch of a kind that is not served would be retried forever.
                    await self.snapshot.lookup(
                        Lookup(ROUTES.group, ROUTES.version, plural=ROUTES.plural)
                    )
                objects = await self.owned_by(resource, service.namespace, service.meta.uid)
            except ReadError as error:
                if error.missing:
                    continue
                raise
            result += [{"kind": resource.kind, **item.to_dict()} for item in objects]
        return result

    async def owned_by(self, resource: Resource, namespace: str, uid: str) -> list[Object]:
        """Return the objects of a resource that another object owns.

        Raises:
            ReadError: they cannot be read.
        """
        read = Marked(resource, namespace, owner=uid)
        objects = await self.whole(read, await self.snapshot.list(read))
        owned = [item for item in objects if item.meta.owned_by(uid)]
        reviews = [self.requester.question_of("get", resource, item.meta) for item in owned]
        await self.snapshot.want(review for review in reviews if review)
        for item in owned:
            meta = item.meta
            what = f"{resource.kind.lower()} {meta.name} in namespace {meta.namespace}"
            await self.requester.check(
                "get", resource, meta.namespace, meta.name, f"cannot read {what}"
            )
        return owned

    async def read_owned(
        self, resources: Iterable[Resource], namespace: str, uids: list[str]
    ) -> None:
        """Read the objects that several objects own at once, for :meth:`owned_by` of each.

        Raises:
            ReadError: some cannot be read.
        """
        kinds = list(resources)
        reads = [Marked(resource, namespace, owner=uid) for uid in uids for resource in kinds]
        await self.snapshot.want(reads)
        await self.snapshot.want(
            [
                Get(read.resource, read.namespace, obj.meta.name, spec_only=read.spec_only)
                for read in reads
                for obj in await self.snapshot.list(read)
            ]
        )

    async def check_eligible(self, resource: Resource) -> None:
        """Refuse kinds that may not be workloads, regardless of the requester's rights.

        Raises:
            ReadError: the kind is refused, or the administrator's mapping of it cannot be read.
        """
        kind = f"{resource.kind} ({resource.group_resource})"
        match eligibility(resource):
            case "never":
                raise failure(
                    "Ineligible",
                    f"{kind} may not be a workload: the controllers write it for themselves, or it"
                    " decides about rights; refer to another kind",
                )
            case "mapped" if not await self._is_mapped(resource):
                raise failure(
                    "Ineligible",
                    f"{kind} is a workload only if the administrator creates a"
                    f" ClusterWorkloadResourceMapping named {mapping_name(resource)}; ask for it,"
                    " or refer to another kind",
                )

    async def ineligible(self, reference: WorkloadReference) -> str:
        """Return why the kind of a reference may not be a workload; "" if it may or is unknown."""
        try:
            await self.check_eligible(await self.snapshot.lookup(reference.lookup))
        except ReadError as error:
            return str(error) if error.failure.code == "Ineligible" else ""
        return ""

    async def _is_mapped(self, resource: Resource) -> bool:
        """Whether a mapping in the cluster names the kind; the binding's own does not count."""
        try:
            await self.snapshot.get(mapping_of(resource))
        except ReadError as error:
            if error.missing:
                return False
            raise
        return True

    async def whole(self, read: Marked, objects: Iterable[Object]) -> list[Object]:
        """Return the whole objects of seen metadata, without objects deleted since."""
        reads = [
            Get(read.resource, read.namespace, obj.meta.name, spec_only=read.spec_only)
            for obj in objects
        ]
        await self.snapshot.want(reads)
        whole: list[Object] = []
        for child in reads:
            try:
                whole.append(await self.snapshot.get(child))
            except ReadError as error:
                if not error.missing:
                    raise
        return whole


def _crd_of(resource: Resource) -> Get:
    return Get(CUSTOMRESOURCEDEFINITIONS, "", resource.group_resource, spec_only=True)


def mapping_of(resource: Resource) -> Get:
    """Return the read of a workload kind's mapping."""
    return Get(CLUSTERWORKLOADRESOURCEMAPPINGS, "", mapping_name(resource), spec_only=True)


async def _no() -> bool:
    return False


def failure(code: FailureCode, message: str) -> ReadError:
    """Return the error of a read that failed for a reason."""
    return ReadError(ReadFailure(code, message))


def _review(
    author: tuple[str, tuple[str, ...]], verb: str, resource: Resource, namespace: str, name: str
) -> RightsReview:
    # A right in one namespace is none on what is in no namespace.
    namespace = namespace if resource.namespaced else ""
    return RightsReview(*author, verb, resource, namespace, name)


def _author(annotation: str) -> tuple[str, tuple[str, ...]] | None:
    """Return user and groups of the annotation; None, which allows all, when it says nothing.

    The user has no name, and may do nothing, where the annotation is larger than a requester can
    be.
    """
    if len(annotation) > bounds.REQUESTER_BYTES:
        return "", ()
    try:
        info = json.loads(annotation)
        return str(info["username"]), tuple(str(group) for group in info.get("groups") or ())
    except (ValueError, KeyError, TypeError):
        return None
