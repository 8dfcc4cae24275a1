"""``fairlead explain``: the dependencies of a target, link by link; nothing is written.

A target is a workload, a binding, a PostgresAccess, an APIServiceBinding, a kind of kbind v2, a
Secret, or an object of a bound kind. Objects that the caller may not read are noted.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.durations import rough_duration
from fairlead.api.kbind.names import (
    ANNOTATION_RELATED_BINDING,
    FINALIZER_SYNCER,
    KBIND_KINDS,
)
from fairlead.api.kubebind import APISERVICEBINDINGS, LABEL_OWNER, APIServiceBinding
from fairlead.api.kubebind import CLUSTERBINDINGS as PROVIDED
from fairlead.api.kubebind.names import is_kubernetes
from fairlead.api.links import Chain, Link, join, patient, verdict_link
from fairlead.api.meta import Key, Object
from fairlead.api.postgresaccess import POSTGRESACCESSES, PostgresAccess
from fairlead.api.reasons.postgres import POSTGRES, is_operators
from fairlead.api.reasons.verdict import UNSEEN, short, verdict_of
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, NAMESPACES, SECRETS, Resource
from fairlead.api.timestamps import moment
from fairlead.binding.commands.links import read_object, secret_link, secret_named
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotServed
from fairlead.client.lookups import find, list_all, may
from fairlead.explain.bindings import BindingChains
from fairlead.explain.reading import ChainReading
from fairlead.explain.targets import ExplainedTarget, UnknownTargetError
from fairlead.konnector.commands.overview.crossing import EventAbout, happened_at
from fairlead.konnector.commands.overview.fetch import Overview
from fairlead.konnector.commands.overview.links import binding_link, binding_links
from fairlead.postgres.commands.links import role_by_status


class Explanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requested chains; ``ready`` if none of them is broken."""

    target: str
    ready: bool
    chains: tuple[Chain, ...]
    notes: tuple[str, ...] = ()


async def advised(
    client: Client, resource: Resource, obj: Object, links: Iterable[Link]
) -> list[Link]:
    """Return the links of an object, with advice on its spec for who may change it.

    Advice on the spec of a PostgresAccess goes to who may update it; others are told to ask them.
    """
    all_links = list(links)
    if resource != POSTGRESACCESSES or not any(map(_is_about_spec, all_links)):
        return all_links
    if await _may_update(client, obj):
        return all_links
    whom = f"ask who may change {obj.kind} {obj.key}"
    return [
        msgspec.structs.replace(link, remedy=f"{whom}: {link.remedy}")
        if _is_about_spec(link)
        else link
        for link in all_links
    ]


def _is_about_spec(link: Link) -> bool:
    if link.state != "failed" or not link.remedy or link.name not in {"service", "role"}:
        return False
    return link.reason in POSTGRES and link.reason != UNSEEN and not is_operators(link.reason)


async def _may_update(client: Client, obj: Object) -> bool:
    """Whether the caller may update an access; True also where the server does not say."""
    try:
        return await may(client, POSTGRESACCESSES, "update", obj.meta.key)
    except ClientError:
        return True


async def explain(
    client: Client,
    target: ExplainedTarget,
    namespace: str,
    operator_namespace: str,
    *,
    bindings_only: bool = False,
) -> Explanation:
    """Explain a target with its dependencies.

    Args:
        client: a client with the caller's rights.
        target: the target; a kind of "" means all bindings of the namespace.
        namespace: its namespace.
        operator_namespace: namespace of the PostgresAccess operator's settings.
        bindings_only: whether the target is a binding or a workload, whatever its kind.

    Raises:
        UnknownTargetError: the target does not exist, or has no dependencies.
        ClientError: the cluster is unavailable, or refuses to read the target.
    """
    namespace = target.namespace or namespace
    reading = ChainReading(client, operator_namespace)
    bindings = BindingChains(reading, target, namespace)
    run = bindings.run if bindings_only else _Explaining(reading, target, namespace, bindings).run
    chains = await run()
    return Explanation(
        target=f"{target.kind}/{target.name}" if target.kind else f"namespace {namespace}",
        ready=all(chain.ready for chain in chains),
        chains=tuple(chains),
        # Several chains may meet the same object that cannot be read: each note is told once.
        notes=tuple(dict.fromkeys(reading.notes)),
    )


class _Explaining:
    def __init__(
        self,
        reading: ChainReading,
        target: ExplainedTarget,
        namespace: str,
        bindings: BindingChains,
    ) -> None:
        self._reading = reading
        self._client = reading.client
        self._target = target
        self._namespace = namespace
        self._bindings = bindings
        self._notes = reading.notes

    async def run(self) -> list[Chain]:
        """Return the chains of the target, by what its kind is."""
        target = self._target
        if target.version:
            await self._check_version()
        if target.of_binding:
            return await self._bindings.run()
        if target.is_kind(POSTGRESACCESSES):
            return [await self._object(POSTGRESACCESSES)]
        if target.is_kind(SECRETS):
            return [await self._secret()]
        if target.is_kind(APISERVICEBINDINGS):
            async with Overview(self._client) as overview:
                (bound,) = await overview.fetch(target.name)
            link = binding_link(bound)
            return [join(link.object, [link])]
        if mirrored := await self._mirrored():
            return [mirrored]
        # Last, since it costs requests: the kind is one that a provider brings, or else a
        # workload's.
        resource = await self._bound_kind()
        if resource:
            return [await self._object(resource)]
        try:
            return await self._bindings.run()
        except (UnknownTargetError, Forbidden) as error:
            if left := await self._left():
                return [left]
            if isinstance(error, Forbidden):
                raise
            raise UnknownTargetError(await self._missing(str(error))) from None

    async def _left(self) -> Chain | None:
        """Return the chain of an object that kbind v2 holds and no binding lists any more."""
        try:
            served = await self._client.discovery.resources()
            resource = next((kind for kind in served if self._target.is_kind(kind)), None)
            if resource is None or is_kubernetes(resource.group):
                return None
            namespace = self._namespace if resource.namespaced else ""
            obj = await find(self._client, resource, self._target.name, namespace)
        except ClientError:
            return None
        if obj is None or FINALIZER_SYNCER not in obj.meta.finalizers:
            return None
        self._notes.append(
            "kbind v2 synchronises it, by its finalizer, and you see no binding that lists its API"
        )
        return await self._object(resource)

    async def _mirrored(self) -> Chain | None:
        """Return the chain of a kind of kbind v2, or of v1alpha2's ClusterBinding of that name.

        None if the target is of another kind.

        Raises:
            UnknownTargetError: it does not exist, or both protocols have one of this name.
        """
        kinds = [kind for kind in (*KBIND_KINDS, PROVIDED) if self._target.is_kind(kind)]
        served = [kind for kind in kinds if await self._is_served(kind)]
        objs: dict[Resource, Object] = {}
        refused: Forbidden | None = None
        for kind in served:
            namespace = self._namespace if kind.namespaced else ""
            try:
                obj = await find(self._client, kind, self._target.name, namespace)
            except Forbidden as error:
                refused = error
                continue
            if obj is not None:
                objs[kind] = obj
        if len(objs) > 1:
            titles = " and ".join(
                f"{obj.kind} {obj.key} of {kind.group}" for kind, obj in objs.items()
            )
            names = " or ".join(
                f"{kind.kind.lower()}.{kind.group}/{self._target.name}" for kind in objs
            )
            raise UnknownTargetError(f"there are two of this name, {titles}: name it {names}")
        if not objs and refused is not None:
            raise refused
        if not objs and served:
            raise UnknownTargetError(await self._absence(served[0]))
        for kind, obj in objs.items():
            if kind == PROVIDED:
                link = verdict_link(
                    verdict_of(obj), name="provider", subject=f"{obj.kind} {obj.key}"
                )
                return join(link.object, patient([link], moment()))
            async with Overview(self._client) as overview:
                bound = await overview.look_at_mirrored(obj)
            links = binding_links(bound)
            return join(bound.title, patient(links, moment()))
        return None

    async def _is_served(self, kind: Resource) -> bool:
        try:
            await self._client.discovery.resource_by_plural(kind.group, kind.plural)
        except NotServed:
            return False
        return True

    async def _check_version(self) -> None:
        """Refuse a version of a custom kind that is not served, as one that a provider took away.

        Raises:
            UnknownTargetError: the version is not served.
        """
        served = await self._client.discovery.resources()
        resource = next((found for found in served if self._target.is_kind(found)), None)
        if resource is None:
            return
        try:
            crd = await find(self._client, CUSTOMRESOURCEDEFINITIONS, resource.group_resource)
        except ClientError:
            # Without the right to read it the version cannot be judged.
            return
        versions = crd_spec(crd).served if crd is not None else []
        if not versions or self._target.version in versions:
            return
        latest = resource.version if resource.version in versions else versions[0]
        raise UnknownTargetError(
            f"{resource.kind} is served in {', '.join(versions)} of {resource.group}, and not in"
            f" {self._target.version}: write apiVersion {resource.group}/{latest} in the"
            " manifests, with the fields of that version"
        )

    async def _missing(self, unbound: str) -> str:
        """Return which of kind, namespace and object is not there, or that nothing binds it.

        Args:
            unbound: the message about an object that no binding selects.
        """
        kind = self._target.kind
        try:
            served = await self._client.discovery.resources()
        except ClientError:
            # A group whose own server is down hides no binding.
            return unbound
        resource = next((found for found in served if self._target.is_kind(found)), None)
        if resource is None and any(map(self._target.is_kind, KBIND_KINDS)):
            return (
                f"the cluster does not serve {kind} of kbind v2: a konnector that serves v2"
                " installs its kinds, as `fairlead manifests konnector` has it"
            )
        if resource is None:
            words = {word for found in served for word in (found.kind.lower(), found.plural)}
            near = get_close_matches(kind.partition(".")[0], sorted(words), n=1)
            hint = f"did you mean {near[0]}/{self._target.name}?" if near else "correct the kind"
            return f"the cluster does not know the kind {kind}; {hint}"
        absence = await self._absence(resource)
        if absence:
            return absence
        if resource.group_resource in _WORKLOADS or not is_kubernetes(resource.group):
            return unbound
        return (
            f"{resource.kind} {self._namespace}/{self._target.name} is no workload and no service:"
            " name a workload, a ServiceBinding, a PostgresAccess, an APIServiceBinding, a Secret,"
            " or an object of a kind that a provider brings"
        )

    async def _absence(self, resource: Resource) -> str:
        """Return which of namespace and object is not there, "" if both are."""
        namespace = self._namespace if resource.namespaced else ""
        try:
            if await find(self._client, resource, self._target.name, namespace) is not None:
                return ""
            home = await find(self._client, NAMESPACES, namespace) if namespace else None
            if namespace and home is None:
                return f"namespace {namespace} does not exist; name another one with -n"
        except Forbidden:
            # Who may read neither still learns that the object is not there.
            pass
        except ApiError as error:
            return str(error)
        text = f"{resource.kind} {Key(namespace, self._target.name)} does not exist"
        try:
            listed = await self._client.list(resource, namespace)
            names = [found.meta.name for found in listed.items]
        except ClientError:
            names = []
        near = get_close_matches(self._target.name, names, n=1)
        return f"{text}; did you mean {near[0]}?" if near else text

    async def _bound_kind(self) -> Resource | None:
        """Return the target's kind, if a binding of either protocol brings it."""
        apis: list[tuple[str, str]] = []
        bindings: list[Object] = []
        try:
            bindings = await list_all(self._client, APISERVICEBINDINGS)
        except Forbidden:
            # A tenant without this right may still have workloads to explain.
            self._notes.append(
                "you may not list APIServiceBindings: what providers bring is not seen"
            )
        for binding in bindings:
            try:
                schemas = binding.decode(APIServiceBinding).status.bound_schemas
            except msgspec.ValidationError:
                # One binding that cannot be decoded must not hide the kinds of the others.
                continue
            apis += ((item.group, item.resource) for item in schemas)
        async with Overview(self._client) as overview:
            for api in await overview.mirrored_apis(self._namespace):
                plural, _, group = api.partition(".")
                apis.append((group, plural))
        for group, plural in apis:
            try:
                resource = await self._client.discovery.resource_by_plural(group, plural)
            except NotServed:
                # The CRD of this binding may be gone, or not established yet.
                continue
            if self._target.is_kind(resource):
                return resource
        return None

    async def _object(self, resource: Resource) -> Chain:
        """Return the chain of an object that may be a binding's service."""
        obj = await self._get(resource)
        text = f"{obj.kind} {obj.key}"
        secret = await self._secret_of(obj)
        links = [_object_link(obj), *secret, *await self._reading.beyond(resource, obj)]
        links = await advised(self._client, resource, obj, links)
        return join(text, patient(links, moment()))

    async def _get(self, resource: Resource) -> Object:
        namespace = self._namespace if resource.namespaced else ""
        key = Key(namespace, self._target.name)
        obj = await find(self._client, resource, key.name, namespace)
        if obj is None:
            raise UnknownTargetError(await self._absence(resource))
        return obj

    async def _secret_of(self, obj: Object) -> list[Link]:
        """Return the link of the Secret that an object generates or names."""
        name = _secret_named(obj)
        if not name:
            return []
        secret = await self._reading.read(SECRETS, Key(obj.meta.namespace, name))
        link = secret_link([secret], None)
        return [link] if link is not None else []

    async def _secret(self) -> Chain:
        """Return the chain of a Secret: its entries, and the access that generates it."""
        secret = await self._get(SECRETS)
        link = secret_link([read_object(f"Secret {secret.key}", secret)], None)
        links = [link] if link is not None else []
        access = await self._access_of(secret)
        if access is not None:
            links += [_object_link(access), *await self._reading.beyond(POSTGRESACCESSES, access)]
        elif _is_generated(secret):
            # A note tells why its access is not shown.
            pass
        elif ANNOTATION_RELATED_BINDING in secret.meta.annotations:
            self._notes.append(
                "a binding of kbind v2 copies it: condition RelatedResourcesFailing of the binding"
                " says what is wrong, if anything is, and fairlead bindings shows it"
            )
        elif secret.meta.labels.get(LABEL_OWNER) == "provider":
            self._notes.append(
                "a provider brings it: fairlead bindings tells how its APIServiceBinding stands"
            )
        else:
            await self._warn(secret)
        return join(f"Secret {secret.key}", patient(links, moment()))

    async def _access_of(self, secret: Object) -> Object | None:
        """Return the access that generates a Secret, or that is kept from it by another's."""
        owner = secret.meta.controller()
        if _is_generated(secret) and owner is not None:
            try:
                return await find(
                    self._client, POSTGRESACCESSES, owner.name, secret.meta.namespace
                )
            except ClientError as error:
                # The Secret itself was read: its own link is shown without the access.
                self._notes.append(f"{owner.kind} {owner.name}, which generates it: {error}")
                return None
        # Without the kind, or the right to list it, a stranger's Secret is all there is.
        with suppress(ClientError):
            listed = await self._client.list(POSTGRESACCESSES, secret.meta.namespace)
            for access in listed.items:
                conflict = role_by_status(access).reason == "SecretConflict"
                if conflict and _secret_named(access) == secret.meta.name:
                    return access
        return None

    async def _warn(self, obj: Object) -> None:
        """Note the last Warning about an object, such as a claimed one that is in conflict.

        An Event stays for an hour when its cause is gone, so that it breaks no link.
        """
        async with Overview(self._client) as overview:
            warnings = await overview.warnings([obj])
        event = warnings.get(obj.meta.uid)
        if event is None:
            return
        warning = event.decode(EventAbout)
        when = rough_duration(moment() - happened_at(event))
        text = ": ".join(part for part in (warning.reason, warning.message) if part)
        self._notes.append(f"{obj.kind} {obj.key}: warned {when} ago of {short(text)}")


_WORKLOADS = frozenset(
    {
        *("deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps"),
        *("jobs.batch", "cronjobs.batch", "pods", "replicationcontrollers", "podtemplates"),
    }
)
"""Kinds of Kubernetes that a ServiceBinding may select."""


def _object_link(obj: Object) -> Link:
    """Return the link of an object by its own status."""
    return verdict_link(verdict_of(obj), name="service", subject=f"{obj.kind} {obj.key}")


def _is_generated(secret: Object) -> bool:
    """Whether an access generates a Secret."""
    owner = secret.meta.controller()
    return owner is not None and owner.kind == POSTGRESACCESSES.kind


def _secret_named(obj: Object) -> str:
    """Return the Secret that an object generates, or names in ``.status.binding.name``."""
    # By the spec, so that a Secret that is still missing is named too; the status names it when it
    # is written.
    if obj.kind == POSTGRESACCESSES.kind:
        try:
            return obj.decode(PostgresAccess).spec.generated_secret
        except msgspec.ValidationError:
            return ""
    return secret_named(read_object("", obj))
