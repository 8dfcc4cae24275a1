"""Moves an APIServiceBinding to a Connection with its bindings, without the end of any copy.

Each step looks at what is there first, so that a repetition goes on where a killed run has ended.
The CRDs change hands only when the konnector has taken up the new binding; it writes no copy
until the Connection is there, which is created last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

import msgspec

from fairlead.api.conditions import get_condition, is_true, stored_conditions
from fairlead.api.definitions import crd_spec, lossless_resource
from fairlead.api.kbind import BINDINGS, CLUSTERBINDINGS, CONNECTIONS, SchemaPolicy, files, rights
from fairlead.api.kbind import names as kbind
from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APISERVICENAMESPACES,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    crd_name,
)
from fairlead.api.kubebind.conditions import CONNECTED
from fairlead.api.kubebind.names import FINALIZER_SYNCER
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    CUSTOMRESOURCEDEFINITIONS,
    NAMESPACES,
    ROLEBINDINGS,
    ROLES,
    SECRETS,
    Resource,
)
from fairlead.client import (
    Client,
    ClientError,
    ClusterConfig,
    Conflict,
    Forbidden,
    NotFound,
)
from fairlead.client.lookups import (
    WaitTimeout,
    find,
    find_custom,
    list_all,
    may,
    unknown,
    wait_for,
)
from fairlead.konnector.commands import presence
from fairlead.konnector.commands.consumer_objects import (
    delete,
    find_secret_ref,
    provider_of,
    remove_secret,
    roles_of,
)
from fairlead.konnector.commands.readiness import Deadline, within
from fairlead.konnector.commands.request import Progress
from fairlead.konnector.commands.unbind import keep_copies
from fairlead.konnector.controllers.apiservicebinding.reconcile import FOREIGN_CRD
from fairlead.konnector.manifests import NAME as ACCOUNT
from fairlead.konnector.options import DEFAULT_NAMESPACE
from fairlead.konnector.policies.copies import is_orphan
from fairlead.konnector.policies.holding import ClusterHold, decision, recorded_cluster
from fairlead.konnector.rights import konnector_role_name
from fairlead.konnector.secrets import content, provider_config
from fairlead.konnector.v2.bindings.coverage import BindingSummary, summary
from fairlead.konnector.v2.identity import cluster_uid
from fairlead.konnector.v2.migration import (
    Marks,
    MigrationPlan,
    MigrationState,
    handed_over,
    is_handed_over,
    object_patch,
    plan,
    provider_rights,
    provider_roles,
)


TIMEOUT = 300.0
"""Seconds that moving may take, unless told otherwise."""
_AT_ONCE = 8
"""Objects that are written at a time."""
_ATTEMPTS = 10
"""Writes of one object that may lose to other writers in a row."""
_PASSES = 5
"""Looks at all objects: the last one finds all of them marked."""
_KINDS = {
    resource.kind: resource
    for resource in (CLUSTERROLES, CLUSTERROLEBINDINGS, ROLES, ROLEBINDINGS, NAMESPACES)
}
_SELFSUBJECTREVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_PROTOCOLS = "`fairlead konnector run` without --protocols"


class MigrationError(ClientError):
    """A binding was not moved; the text is for the person who ran the command."""


class MigrationSurvey(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a look at both clusters.

    ``former`` is the APIServiceBinding, None once it is gone. ``missing`` are rights that the
    consumer's account lacks at the provider, and ``roles`` the objects that give them.
    """

    plan: MigrationPlan
    former: Object | None
    config: ClusterConfig
    kubeconfig: bytes
    missing: Sequence[str] = ()
    roles: Sequence[JSON] = ()

    @property
    def resumes(self) -> bool:
        """Whether an earlier run has ended the APIServiceBinding already."""
        return self.former is None

    def fault(self) -> str:
        """Return why nothing can be moved, "" if nothing stands against it."""
        name = self.plan.name
        if self.plan.misfits:
            return (
                f"APIServiceBinding {name} cannot move to kbind v2: {'; '.join(self.plan.misfits)}"
            )
        faults = []
        if self.missing:
            faults.append(
                f"the account of APIServiceBinding {name} lacks rights at the provider "
                f"({', '.join(self.missing)}): the provider's administrator has to apply the "
                "roles that this command prints"
            )
        if self.plan.unlabelled:
            names = " ".join(self.plan.unlabelled)
            faults.append(
                f"the provider does not offer {names} yet: its administrator has to run "
                f"`kubectl label crd {names} {kbind.LABEL_EXPORTED}=true`"
            )
        return f"{'; '.join(faults)}, or give --provider-kubeconfig" if faults else ""


async def survey(
    client: Client,
    name: str,
    *,
    administrator: ClusterConfig | None = None,
    namespace: str = DEFAULT_NAMESPACE,
) -> MigrationSurvey:
    """Look at both clusters, and write nothing.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        name: the name of the APIServiceBinding.
        administrator: a way to the provider that may read its CRDs; None for the consumer's own.
        namespace: the konnector's.

    Raises:
        MigrationError: there is no such binding, or nothing serves kbind v2.
        ClientError: a server refused or cannot be reached.
    """
    if await find(client, CUSTOMRESOURCEDEFINITIONS, CONNECTIONS.group_resource) is None:
        raise MigrationError(
            f"no konnector serves kbind v2 in this cluster: start it as {_PROTOCOLS}, and "
            "apply the manifests for that"
        )
    former = await find_custom(client, APISERVICEBINDINGS, name)
    if former is None:
        return await _resumed(client, name, namespace)
    ref = former.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    config = await provider_of(client, ref)
    secret = await client.get(SECRETS, ref.name, ref.namespace)
    kubeconfig = content(secret, ref.key)
    async with Client(config, user_agent="fairlead-migrate") as provider:
        state = await _state(client, provider, former, administrator)
        result = plan(state)
        return await _with_rights(provider, result, state.crds, former, kubeconfig)


async def _resumed(client: Client, name: str, namespace: str) -> MigrationSurvey:
    """Return what an earlier run has left to do; all that it needs is in both clusters."""
    bindings = [one for one in await _bindings(client) if one.key.name == name]
    ours = [one for one in bindings if one.connection == name]
    secret = await find(client, SECRETS, files.secret_name(name), namespace)
    if not ours or secret is None:
        names = [one.meta.name for one in await list_all(client, APISERVICEBINDINGS)]
        raise MigrationError(unknown(APISERVICEBINDINGS.kind, name, names))
    kubeconfig = content(secret, kbind.DEFAULT_KUBECONFIG_KEY)
    apis = list(dict.fromkeys(api for binding in ours for api in binding.apis))
    async with Client(provider_config(kubeconfig), user_agent="fairlead-migrate") as provider:
        request: Object | None = None
        with suppress(Forbidden):
            there = provider.config.namespace
            request = await find(provider, APISERVICEEXPORTREQUESTS, name, there)
        parsed = request.decode(APIServiceExportRequest) if request is not None else None
        follows = parsed is not None and parsed.spec.schema_update_policy == "Always"
        result = MigrationPlan(
            name=name,
            apis=apis,
            places=[binding.key.namespace for binding in ours],
            schema=SchemaPolicy(update_policy="Always" if follows else "Once"),
        )
        crds = {api: crd for api in apis if (crd := await _crd(client, api)) is not None}
        return await _with_rights(provider, result, crds, None, kubeconfig)


async def _bindings(client: Client) -> list[BindingSummary]:
    listed = [*await list_all(client, CLUSTERBINDINGS), *await list_all(client, BINDINGS)]
    return [binding for obj in listed if (binding := summary(obj)) is not None]


async def _crd(client: Client, api: str) -> Object | None:
    return await find(client, CUSTOMRESOURCEDEFINITIONS, api)


async def _state(
    client: Client, provider: Client, former: Object, administrator: ClusterConfig | None
) -> MigrationState:
    name, there = former.meta.name, provider.config.namespace
    export = await find(provider, APISERVICEEXPORTS, name, there)
    request = await find(provider, APISERVICEEXPORTREQUESTS, name, there)
    bound = former.decode(APIServiceBinding).status.bound_schemas
    apis = [crd_name(item.resource, item.group) for item in bound]
    system = await find(client, NAMESPACES, "kube-system")
    hold = ClusterHold(
        recorded=recorded_cluster(export),
        cluster=system.meta.uid if system else "",
        decision=decision(former),
    )
    if administrator is None:
        offered = await _offered(provider, apis)
    else:
        async with Client(administrator, user_agent="fairlead-migrate") as admin:
            await _check_same(admin, export, there)
            offered = await _offered(admin, apis)
    others = [one for one in await _bindings(client) if one.connection != name]
    return MigrationState(
        binding=former,
        export=export.decode(APIServiceExport) if export else None,
        request=request.decode(APIServiceExportRequest) if request else None,
        namespaces=(await provider.list(APISERVICENAMESPACES, there)).items,
        crds={api: crd for api in apis if (crd := await _crd(client, api)) is not None},
        offered=offered,
        connection=await find(client, CONNECTIONS, name) is not None,
        others=others,
        hold=hold.condition(None).message if hold.foreign else "",
    )


async def _check_same(admin: Client, export: Object | None, namespace: str) -> None:
    """Raise if an administrator's kubeconfig is of another cluster than the provider's."""
    if export is None:
        return
    same: Object | None = None
    # Another cluster may not have the kind either.
    with suppress(NotFound):
        same = await admin.get(APISERVICEEXPORTS, export.meta.name, namespace)
    if same is None or same.meta.uid != export.meta.uid:
        raise MigrationError(
            f"--provider-kubeconfig leads to {admin.config.server}, which is not the "
            f"provider's cluster: it has no APIServiceExport {export.key}"
        )


async def _offered(provider: Client, apis: Iterable[str]) -> dict[str, Object]:
    """Return the provider's CRDs; none where the account may not read them."""
    result: dict[str, Object] = {}
    for api in apis:
        with suppress(Forbidden):
            if (crd := await _crd(provider, api)) is not None:
                result[api] = crd
    return result


async def _with_rights(
    provider: Client,
    result: MigrationPlan,
    crds: Mapping[str, Object],
    former: Object | None,
    kubeconfig: bytes,
) -> MigrationSurvey:
    kinds = [crd_spec(crd).readable() for crd in crds.values()]
    resources = [resource for resource in kinds if resource is not None]
    missing = [
        str(right)
        for right in provider_rights(resources, result.places)
        if not await may(provider, right.resource, right.verb, right.key)
    ]
    user = await _user(provider) if missing else ""
    name = f"kbind:{provider.config.namespace}:{result.name}"
    return MigrationSurvey(
        plan=result,
        former=former,
        config=provider.config,
        kubeconfig=kubeconfig,
        missing=missing,
        roles=provider_roles(name, user, resources, result.places) if missing else (),
    )


class _User(msgspec.Struct):
    username: str = ""


class _ReviewStatus(msgspec.Struct, rename="camel"):
    user_info: _User = msgspec.field(default_factory=_User)


class _SelfReview(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


async def _user(provider: Client) -> str:
    """Return the name of the consumer's account at the provider."""
    body = {"apiVersion": _SELFSUBJECTREVIEWS.api_version, "kind": _SELFSUBJECTREVIEWS.kind}
    review = await provider.create(_SELFSUBJECTREVIEWS, body)
    return review.decode(_SelfReview).status.user_info.username


async def migrate(
    client: Client,
    findings: MigrationSurvey,
    *,
    administrator: ClusterConfig | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    timeout: float = TIMEOUT,  # noqa: ASYNC109  it says what was waited for
    progress: Progress = lambda _line: None,
    connect: Callable[[ClusterConfig], Client] = lambda config: Client(
        config, user_agent="fairlead-migrate"
    ),
) -> None:
    """Move a binding, and wait until the konnector works by kbind v2. A repetition goes on.

    Args:
        client: a client of the consumer's cluster, with an administrator's rights.
        findings: the result of :func:`survey`.
        administrator: a way to the provider that may write roles and label CRDs.
        namespace: the konnector's, where the kubeconfig is kept.
        timeout: limit in seconds for all of it.
        progress: called with each step.
        connect: makes the client of the provider.

    Raises:
        MigrationError: the binding does not fit, rights are missing, or the konnector has not done
            its part in time; the message says why.
        ClientError: a server refused or cannot be reached.
    """
    name = findings.plan.name
    if administrator is not None and not findings.plan.misfits:
        async with connect(administrator) as admin:
            findings = await _prepare(admin, findings, progress)
    if fault := findings.fault():
        raise MigrationError(fault)
    async with connect(findings.config) as provider:
        marks = Marks(
            cluster_namespace=provider.config.namespace, cluster_uid=await cluster_uid(client)
        )
        move = _Move(client, provider, findings, marks, namespace, Deadline(timeout), progress)
        await within(timeout, move.run(), lambda: f"moving APIServiceBinding {name}")


async def _prepare(
    admin: Client, findings: MigrationSurvey, progress: Progress
) -> MigrationSurvey:
    """Give the consumer's account its rights at the provider, and offer the CRDs."""
    for body in findings.roles:
        await _ensure_role(admin, body, lambda line: progress(f"provider: {line}"))
    for api in findings.plan.unlabelled:
        labels = {"metadata": {"labels": {kbind.LABEL_EXPORTED: "true"}}}
        await admin.merge_patch(CUSTOMRESOURCEDEFINITIONS, api, "", labels)
        progress(f"provider: labelled CustomResourceDefinition {api}")
    ready = msgspec.structs.replace(findings.plan, unlabelled=())
    return msgspec.structs.replace(findings, plan=ready, missing=(), roles=())


async def _ensure_role(client: Client, body: JSON, progress: Progress) -> None:
    """Write a role, a role binding, or the namespace that has it, unless it is as wanted."""
    resource, metadata = _KINDS[body["kind"]], body["metadata"]
    key = Key(metadata.get("namespace", ""), metadata["name"])
    stored = await find(client, resource, key.name, key.namespace)
    if stored is not None and _has(stored.to_dict(), body):
        return
    await client.apply(resource, body)
    progress(f"applied {resource.kind} {key}")


def _has(stored: JSON, body: JSON) -> bool:
    """Whether an object has all members of a body; others may have added more."""
    return all(
        _has(stored.get(name) or {}, value)
        if isinstance(value, dict)
        else stored.get(name) == value
        for name, value in body.items()
    )


class _Move:
    """One run; each method is a step that may be repeated."""

    def __init__(
        self,
        client: Client,
        provider: Client,
        findings: MigrationSurvey,
        marks: Marks,
        namespace: str,
        deadline: Deadline,
        progress: Progress,
    ) -> None:
        self._client = client
        self._provider = provider
        self._former = findings.former
        self._kubeconfig = findings.kubeconfig
        self._plan = findings.plan
        self._name = findings.plan.name
        self._marks = marks
        self._namespace = namespace
        self._deadline = deadline
        self._progress = progress

    async def run(self) -> None:
        await self._store_kubeconfig()
        await self._bind_all()
        if self._former is not None:
            await keep_copies(self._client, self._former, self._progress)
            for api in self._plan.apis:
                await self._hand_over(api, self._former)
            await self._end(self._former)
        await self._add_places()
        await self._mark_all()
        await self._connect()
        await self._clean()

    async def _store_kubeconfig(self) -> None:
        body = files.kubeconfig_secret(self._name, self._kubeconfig, namespace=self._namespace)
        name = body["metadata"]["name"]
        stored = await find(self._client, SECRETS, name, self._namespace)
        if stored is None:
            await self._client.create(SECRETS, body, self._namespace)
            self._progress(f"created Secret {self._namespace}/{name}")
        elif content(stored, kbind.DEFAULT_KUBECONFIG_KEY) != self._kubeconfig:
            raise MigrationError(
                f"Secret {self._namespace}/{name} already exists with another kubeconfig: "
                "delete it if nothing needs it"
            )

    async def _bind_all(self) -> None:
        await self._write_roles()
        for place in self._plan.places:
            await self._bind(place)
        for place in self._plan.places:
            await self._taken_up(place)

    async def _add_places(self) -> None:
        """Bind the namespaces too that were first used after the plan was made."""
        if "" in self._plan.places:
            return
        there = self._provider.config.namespace
        listed: Sequence[Object] = ()
        # The provider's team may have ended the export already.
        with suppress(Forbidden):
            listed = (await self._provider.list(APISERVICENAMESPACES, there)).items
        places = sorted({*self._plan.places, *(obj.meta.name for obj in listed)})
        if places != list(self._plan.places):
            self._plan = msgspec.structs.replace(self._plan, places=places)
            await self._bind_all()

    async def _write_roles(self) -> None:
        account = {"kind": "ServiceAccount", "namespace": self._namespace, "name": ACCOUNT}
        for place in self._plan.places:
            bodies = (
                rights.binding_roles(self._name, place, self._plan.apis, konnector=account)
                if place
                else rights.cluster_binding_roles(self._name, self._plan.apis)
            )
            for body in bodies:
                await _ensure_role(self._client, body, self._progress)

    async def _bind(self, place: str) -> None:
        body = files.binding(self._name, self._plan.apis, connection=self._name, namespace=place)
        resource = _binding_kind(place)
        title = f"{resource.kind} {Key(place, self._name)}"
        stored = await find(self._client, resource, self._name, place)
        if stored is None:
            await self._client.create(resource, body, place)
            self._progress(f"created {title}")
            return
        parsed, spec = summary(stored), (self._name, set(self._plan.apis))
        if parsed is None or (parsed.connection, set(parsed.apis)) != spec:
            raise MigrationError(
                f"{title} already exists and binds something else: delete or rename it"
            )

    async def _taken_up(self, place: str) -> None:
        """Wait until a konnector serves the binding: nothing is handed over before."""
        resource = _binding_kind(place)

        def untouched(obj: Object | None) -> str:
            if obj is not None and kbind.FINALIZER_CLEANUP in obj.meta.finalizers:
                return ""
            return "no konnector has picked it up"

        try:
            await wait_for(
                self._client,
                resource,
                self._name,
                place,
                until=untouched,
                timeout=self._deadline.left(),
            )
        except WaitTimeout as error:
            why = await presence.absence(self._client, self._namespace)
            raise MigrationError(
                f"{error}: the konnector has to serve both protocols, as {_PROTOCOLS} does; "
                f"{why}. APIServiceBinding {self._name} is unchanged"
            ) from None

    async def _hand_over(self, api: str, former: Object) -> None:
        for _ in range(_ATTEMPTS):
            crd = await self._client.get(CUSTOMRESOURCEDEFINITIONS, api)
            if is_handed_over(crd, self._name):
                return
            if not crd.meta.owned_by(former.meta.uid):
                raise MigrationError(
                    f"CustomResourceDefinition {api} does not belong to APIServiceBinding "
                    f"{self._name}"
                )
            with suppress(Conflict):
                await self._client.update(CUSTOMRESOURCEDEFINITIONS, handed_over(crd, self._name))
                self._progress(
                    f"CustomResourceDefinition {api} now belongs to Connection {self._name}"
                )
                return
        raise MigrationError(f"CustomResourceDefinition {api} keeps changing: try again")

    async def _end(self, former: Object) -> None:
        """Delete the APIServiceBinding; once it is gone, the konnector has ended its work."""
        name = self._name

        def unaware(obj: Object | None) -> str:
            if obj is None or obj.meta.uid != former.meta.uid or obj.meta.deleting:
                return ""
            conditions = obj.decode(APIServiceBinding).status.conditions
            if any((one.type, one.reason) == (CONNECTED, FOREIGN_CRD) for one in conditions):
                return ""
            return (
                "the konnector has not noticed yet that it no longer owns its "
                "CustomResourceDefinitions"
            )

        def there(obj: Object | None) -> str:
            if obj is None or obj.meta.uid != former.meta.uid:
                return ""
            return "the konnector has not finished its work on it"

        await self._until(APISERVICEBINDINGS, name, unaware)
        await delete(self._client, APISERVICEBINDINGS, former)
        await self._until(APISERVICEBINDINGS, name, there)
        if await find(self._client, APISERVICEBINDINGS, name) is not None:
            raise MigrationError(
                f"APIServiceBinding {name} exists again: it was bound again meanwhile"
            )
        self._progress(f"APIServiceBinding {name} is gone; objects and copies stay")

    async def _until(
        self,
        resource: Resource,
        name: str,
        obstacle: Callable[[Object | None], str],
        place: str = "",
    ) -> None:
        try:
            left = self._deadline.left()
            await wait_for(self._client, resource, name, place, until=obstacle, timeout=left)
        except WaitTimeout as error:
            why = await presence.absence(self._client, self._namespace, self._provider.config)
            raise MigrationError(
                f"{error}: {why}; run `fairlead migrate {self._name}` again to continue"
            ) from None

    async def _mark_all(self) -> None:
        """Mark all copies and objects as those of kbind v2."""
        for api in self._plan.apis:
            here, there = await _crd(self._client, api), await _crd(self._provider, api)
            mine = lossless_resource(here)[0] if here is not None else None
            theirs = lossless_resource(there)[0] if there is not None else None
            if mine is None or theirs is None:
                raise MigrationError(f"{api} is not served in both clusters: try again")
            count = 0
            for _ in range(_PASSES):
                changed = 0
                for place in self._plan.places:
                    changed += await self._mark(mine, theirs, place)
                if not changed:
                    break
                count += changed
            if count:
                self._progress(f"marked {count} objects of {api} and their copies")

    async def _mark(self, mine: Resource, theirs: Resource, place: str) -> int:
        """Mark the objects of one place; return how many were changed."""
        objects = (await self._client.list(mine, place, metadata_only=True)).items
        copies = (await self._provider.list(theirs, place, metadata_only=True)).items
        by_key = {copy.key: copy for copy in copies}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def settle(obj: Object) -> bool:
            async with slots:
                return await self._settle(mine, theirs, obj, by_key.get(obj.key))

        results = await asyncio.gather(*map(settle, objects), return_exceptions=True)
        # Those that can be marked are, before the first that cannot is reported.
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return sum(result is True for result in results)

    async def _settle(
        self, mine: Resource, theirs: Resource, obj: Object | None, copy: Object | None
    ) -> bool:
        """Mark one copy, and then its object; return whether there was anything to do."""
        changed = False
        for _ in range(_ATTEMPTS):
            if obj is None:
                return changed
            key = obj.key
            try:
                changed |= await self._settle_copy(theirs, obj, copy)
                if (patch := object_patch(obj)) is not None:
                    changed = True
                    await self._client.merge_patch(mine, key.name, key.namespace, patch)
            except (Conflict, NotFound):
                # Users and the provider's programs write to both as well.
                obj = await find(self._client, mine, key.name, key.namespace)
                copy = await find(self._provider, theirs, key.name, key.namespace)
            else:
                return changed
        raise MigrationError(f"{mine.kind} {key} keeps changing: try again")

    async def _settle_copy(self, theirs: Resource, obj: Object, copy: Object | None) -> bool:
        if copy is None or not self._marks.is_former(obj, copy):
            return False
        key = copy.key
        left = FINALIZER_SYNCER in obj.meta.finalizers
        if obj.meta.deleting and left and kbind.FINALIZER_SYNCER not in obj.meta.finalizers:
            # Its user has deleted it while neither protocol was at work: no finalizer may be added
            # to it any more, so that its copy goes here.
            if not is_orphan(obj.meta):
                await delete(self._provider, theirs, copy)
                await wait_for(
                    self._provider,
                    theirs,
                    key.name,
                    key.namespace,
                    until=lambda obj: "" if obj is None else "it is being deleted",
                    timeout=self._deadline.left(),
                )
            return True
        patch = self._marks.copy_patch(obj, copy)
        if patch is None:
            return False
        await self._provider.merge_patch(theirs, key.name, key.namespace, patch)
        return True

    async def _connect(self) -> None:
        if await find(self._client, CONNECTIONS, self._name) is None:
            body = files.connection(
                self._name, namespace=self._namespace, schema=self._plan.schema
            )
            await self._client.create(CONNECTIONS, body)
            self._progress(f"created Connection {self._name}")
        await self._until(CONNECTIONS, self._name, _unready)
        for place in self._plan.places:
            await self._until(_binding_kind(place), self._name, _unready, place)

    async def _clean(self) -> None:
        """Delete the konnector's former rights, and the former Secret with its last user."""
        for role in await roles_of(self._client, self._name):
            # People's rights, and the Service Binding operator's, go on.
            if role.meta.name == konnector_role_name(self._name):
                await delete(self._client, CLUSTERROLES, role)
                self._progress(f"deleted ClusterRole {role.meta.name}")
        ref = await find_secret_ref(self._client, self._provider.config, self._namespace)
        secret = await find(self._client, SECRETS, ref.name, ref.namespace)
        if secret is not None:
            await remove_secret(self._client, secret, self._progress)


def _binding_kind(place: str) -> Resource:
    return BINDINGS if place else CLUSTERBINDINGS


def _unready(obj: Object | None) -> str:
    if obj is None:
        return "it does not exist"
    conditions = stored_conditions(obj.to_dict())
    ready = get_condition(conditions, kbind.READY)
    if ready is None or is_true(conditions, kbind.READY):
        return "" if ready is not None else "no konnector has picked it up"
    return f"not ready: {ready.reason}: {ready.message}"
