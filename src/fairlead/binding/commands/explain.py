"""``fairlead binding explain``: the reads of a cluster for the chains; nothing is written.

Objects that the caller may not read are noted, and judged by the binding's status alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from fairlead.api.conditions import stored_conditions
from fairlead.api.links import Chain, Link, patient
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.reasons.verdict import short, written_at
from fairlead.api.resource import SECRETS, Resource, split_api_version
from fairlead.api.selectors import SelectorError
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS, CoreosServiceBinding
from fairlead.api.servicebinding.spec import SERVICEBINDINGS, ServiceBinding
from fairlead.api.timestamps import moment
from fairlead.binding import bounds
from fairlead.binding.commands.chain import (
    BoundWorkload,
    SeenObject,
    ToldBinding,
    binding_link,
    chain,
    read_object,
    secret_link,
    secret_named,
    service_link,
    workload_links,
)
from fairlead.binding.services.service import label_selector
from fairlead.binding.workloads.records import BindingRecord, read_records
from fairlead.client import ApiError, Client, ClientError, Forbidden, NotFound, NotServed
from fairlead.client.lookups import binding_of, find


Beyond: TypeAlias = Callable[[Resource, Object], Awaitable[Sequence[Link]]]
"""Function that returns the links behind a service, such as its provider's."""


class UnknownTargetError(ClientError):
    """The target does not exist, or cannot be explained."""


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """A reference of a binding: to one object, or with a ``selector`` to several."""

    group: str
    version: str
    kind: str = ""
    plural: str = ""
    namespace: str
    name: str = ""
    selector: JSON | None = None
    containers: tuple[str, ...] = ()
    """Names of the containers to bind; all are bound without one."""

    @property
    def shown(self) -> str:
        """The kind, or the plural without a kind."""
        return self.kind or self.plural

    @property
    def text(self) -> str:
        """The kind with namespace and name, or with the terms of the selector."""
        if self.selector is not None:
            return f"{self.shown} in {self.namespace} by the selector {_terms(self.selector)}"
        return f"{self.shown} {Key(self.namespace, self.name)}"


class KnownBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The used fields of a binding of either API."""

    binding: ToldBinding
    uid: str
    workload: Reference | None = None
    services: tuple[Reference, ...] = ()


class ExplainedTarget(msgspec.Struct, frozen=True):
    """The target to explain: a workload or a binding; a kind of "" means all bindings.

    ``version`` is that of the kind, as in ``widgets.v1.example.org``; "" is any.
    """

    kind: str = ""
    name: str = ""
    version: str = ""

    @property
    def of_binding(self) -> bool:
        """Whether the target's kind is ServiceBinding or is missing, which means all bindings."""
        return self.kind.partition(".")[0] in {"", *_BINDING_WORDS}

    def is_api(self, resource: Resource) -> bool:
        """Whether the target's API group is missing or is the group of ``resource``."""
        group = self.kind.partition(".")[2]
        return group in {"", resource.group}

    def is_kind(self, resource: Resource) -> bool:
        """Whether the target's kind is ``resource``, by one of the names that kubectl accepts."""
        words = {resource.kind.lower(), resource.plural, *_SHORT.get(resource.plural, ())}
        return self.kind in words | {f"{word}.{resource.group}" for word in words}


_BINDING_WORDS = frozenset({"servicebinding", "servicebindings", "sbr", "sbrs"})
_SHORT = {
    "deployments": ("deploy",),
    "statefulsets": ("sts",),
    "daemonsets": ("ds",),
    "replicasets": ("rs",),
    "cronjobs": ("cj",),
}


def parse_target(text: str) -> ExplainedTarget:
    """Parse ``deployment/web`` or ``servicebinding/web-db``; "" means all bindings.

    Raises:
        ValueError: the text has another form.
    """
    if not text:
        return ExplainedTarget()
    kind, _, name = text.partition("/")
    if not kind or not name or "/" in name:
        raise ValueError(
            f"{text!r} is not a target: use deployment/NAME, servicebinding/NAME, or nothing for "
            "all bindings of the namespace"
        )
    plural, _, rest = kind.lower().partition(".")
    version, _, group = rest.partition(".")
    if _VERSION.fullmatch(version) and group:
        return ExplainedTarget(f"{plural}.{group}", name, version)
    return ExplainedTarget(kind.lower(), name)


_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")


class BindingExplanation(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requested chains; ``ready`` if none of them is broken."""

    target: str
    ready: bool
    chains: tuple[Chain, ...]
    notes: tuple[str, ...] = ()


async def explain(
    client: Client, target: ExplainedTarget, namespace: str, beyond: Beyond | None = None
) -> BindingExplanation:
    """Explain bindings with their dependencies.

    Args:
        client: a client with the caller's rights.
        target: the target.
        namespace: its namespace.
        beyond: finds the links behind a service.

    Raises:
        UnknownTargetError: the binding does not exist, or none selects the workload.
        ClientError: the cluster is unavailable, or forbids to list bindings.
    """
    explaining = _Explaining(client, target, namespace, beyond)
    chains = await explaining.run()
    return BindingExplanation(
        target=f"{target.kind}/{target.name}" if target.kind else f"namespace {namespace}",
        ready=all(one.ready for one in chains),
        chains=tuple(chains),
        notes=tuple(dict.fromkeys(explaining.notes)),
    )


class _Explaining:
    def __init__(
        self, client: Client, target: ExplainedTarget, namespace: str, beyond: Beyond | None
    ) -> None:
        self._client = client
        self._target = target
        self._namespace = namespace
        self._beyond = beyond
        self._slots = asyncio.Semaphore(bounds.EXPLAINED_AT_ONCE)
        self.notes: list[str] = []

    async def run(self) -> list[Chain]:
        """Return the chains, ordered by binding."""
        wishes = await self._wishes()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._chain(one)) for one in wishes]
        links = [link for task in tasks if (link := task.result()) is not None]
        if not links and not self._target.of_binding:
            raise UnknownTargetError(
                f"no ServiceBinding of namespace {self._namespace} selects"
                f" {self._target.kind}/{self._target.name}: create one, or correct its"
                " reference to the workload"
            )
        return links

    async def _wishes(self) -> list[KnownBinding]:
        """Return the bindings that may concern the target."""
        bindings: list[KnownBinding] = []
        is_known = False
        for resource in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS):
            if self._target.of_binding and not self._target.is_api(resource):
                continue
            try:
                listed = await self._client.list(resource, self._namespace)
            # One of the two APIs may not be installed.
            except NotFound as error:
                if not error.unserved:
                    raise
                continue
            is_known = True
            bindings += [wish_of(one) for one in listed.items if self._is_wanted(one)]
        if not is_known:
            for resource in (SERVICEBINDINGS, COREOS_SERVICEBINDINGS):
                if provided := await binding_of(self._client, resource):
                    raise UnknownTargetError(
                        f"APIServiceBinding {provided} brings {resource.group_resource} to this"
                        f" cluster, and its provider serves them: fairlead bindings {provided}"
                        " --objects tells how they stand"
                    )
            raise UnknownTargetError(
                "the cluster does not know ServiceBinding: install the controllers, or the CRDs"
                " with fairlead crds binding | kubectl apply -f -"
            )
        if self._target.of_binding and self._target.name and not bindings:
            raise UnknownTargetError(
                f"ServiceBinding {Key(self._namespace, self._target.name)} does not exist"
            )
        return bindings

    def _is_wanted(self, binding: Object) -> bool:
        target = self._target
        return not target.of_binding or not target.name or binding.meta.name == target.name

    async def _chain(self, wish: KnownBinding) -> Chain | None:
        """Return the chain of a binding; None if it does not concern the target."""
        async with self._slots:
            bound = await self._workloads(wish)
            if bound is None:
                return None
            links = [binding_link(wish.binding)]
            if wish.workload is not None:
                reference = wish.workload
                links += workload_links(bound, wish.binding, reference.text, reference.containers)
            links += await self._sources(wish)
        return chain(wish.binding, patient(links, moment()))

    async def _sources(self, wish: KnownBinding) -> list[Link]:
        links: list[Link] = []
        named: list[SeenObject] = []
        for reference in wish.services:
            service, resource, obj = await self._read(reference)
            links.append(service_link(service, wish.binding))
            name = secret_named(service)
            if name:
                named.append(await self._secret(reference.namespace, name))
            if self._beyond is not None and resource is not None and obj is not None:
                try:
                    links += await self._beyond(resource, obj)
                except ClientError as error:
                    self.notes.append(f"where {service.text} comes from is not known: {error}")
        own = None
        keys = {one.key for one in named}
        # A Secret that is projected as it is was read as the service's.
        if wish.binding.secret and Key(self._namespace, wish.binding.secret) not in keys:
            own = await self._secret(self._namespace, wish.binding.secret)
        secret = secret_link(named, own)
        return [*links, *([secret] if secret is not None else [])]

    async def _secret(self, namespace: str, name: str) -> SeenObject:
        return (await self._find(SECRETS, namespace, name, f"Secret {Key(namespace, name)}"))[0]

    async def _read(
        self, reference: Reference
    ) -> tuple[SeenObject, Resource | None, Object | None]:
        """Read an object, with its resource if that is served."""
        resource = await self._resource(reference)
        if isinstance(resource, SeenObject):
            return resource, None, None
        namespace = reference.namespace if resource.namespaced else ""
        text = f"{resource.kind} {Key(namespace, reference.name)}"
        service, obj = await self._find(resource, namespace, reference.name, text)
        return service, resource, obj

    async def _resource(self, reference: Reference) -> Resource | SeenObject:
        discovery = self._client.discovery
        group, version = reference.group, reference.version
        try:
            if reference.plural:
                return await discovery.resource_by_plural(group, reference.plural, version)
            api_version = f"{group}/{version}" if group else version
            return await discovery.resource_for(api_version, reference.kind)
        except NotServed:
            api_version = f"{group}/{version}" if group else version
            problem = f"the cluster does not know {reference.shown} of {api_version}"
            return SeenObject(text=reference.text, sight="NotServed", problem=problem)

    async def _find(
        self, resource: Resource, namespace: str, name: str, text: str
    ) -> tuple[SeenObject, Object | None]:
        key = Key(namespace, name)
        try:
            obj = await find(self._client, resource, name, namespace) if name else None
        except Forbidden:
            self.notes.append(f"you may not read {text}")
            return SeenObject(
                text=text, sight="Forbidden", key=key, problem="you may not read it"
            ), None
        except ApiError as error:
            return SeenObject(text=text, sight="Error", key=key, problem=str(error)), None
        if obj is None:
            return SeenObject(text=text, sight="NotFound", key=key), None
        return read_object(text, obj), obj

    async def _workloads(self, wish: KnownBinding) -> list[BoundWorkload] | None:
        """Return the selected workloads; None if the target is another workload."""
        reference, target = wish.workload, self._target
        if reference is None:
            return [] if target.of_binding else None
        resource = await self._resource(reference)
        if isinstance(resource, SeenObject):
            return [BoundWorkload(workload=resource)] if target.of_binding else None
        if not target.of_binding and not target.is_kind(resource):
            return None
        workloads = await self._selected(resource, reference)
        if not target.of_binding:
            workloads = [one for one in workloads if one.key.name == target.name]
            if not workloads:
                return None
        return [BoundWorkload(workload=one, record=_record(one, wish.uid)) for one in workloads]

    async def _selected(self, resource: Resource, reference: Reference) -> list[SeenObject]:
        if reference.selector is None:
            if not reference.name:
                return []
            text = f"{resource.kind} {Key(reference.namespace, reference.name)}"
            workload, _ = await self._find(resource, reference.namespace, reference.name, text)
            return [workload]
        try:
            matcher = label_selector(reference.selector)
            listed = await self._client.list(resource, reference.namespace)
        except SelectorError as error:
            return [SeenObject(text=reference.text, sight="Error", problem=str(error))]
        except Forbidden:
            self.notes.append(f"you may not list {resource.group_resource}")
            problem = "you may not list them"
            return [SeenObject(text=reference.text, sight="Forbidden", problem=problem)]
        return [
            read_object(f"{resource.kind} {item.key}", item)
            for item in listed.items
            if matcher.matches(item.meta.labels)
        ]


def _record(workload: SeenObject, uid: str) -> BindingRecord | None:
    annotations = (workload.body.get("metadata") or {}).get("annotations") or {}
    return read_records(annotations).get(uid)


def wish_of(binding: Object) -> KnownBinding:
    """Return the references and the status of a binding of either API."""
    group = binding.api_version.partition("/")[0]
    body = binding.to_dict().get("status")
    status: JSON = body if isinstance(body, dict) else {}
    # The coreos API has no observedGeneration.
    binding_told = ToldBinding(
        text=f"ServiceBinding {binding.key} ({group})",
        conditions=stored_conditions(binding.to_dict()),
        fresh=status.get("observedGeneration", binding.meta.generation) == binding.meta.generation,
        deleting=binding.meta.deleting,
        written=written_at(binding),
    )
    try:
        if group == COREOS_SERVICEBINDINGS.group:
            return _coreos(binding, binding_told)
        return _spec(binding, binding_told)
    except msgspec.ValidationError as error:
        return KnownBinding(
            binding=msgspec.structs.replace(binding_told, problem=str(error)), uid=binding.meta.uid
        )


def _spec(binding: Object, status: ToldBinding) -> KnownBinding:
    parsed = binding.decode(ServiceBinding)
    workload, service = parsed.spec.workload, parsed.spec.service
    reference = _of_kind(
        binding, workload.api_version, workload.kind, workload.name, workload.selector
    )
    secret = parsed.status.binding.name if parsed.status and parsed.status.binding else ""
    return KnownBinding(
        binding=msgspec.structs.replace(status, secret=secret),
        uid=binding.meta.uid,
        workload=msgspec.structs.replace(reference, containers=tuple(workload.containers or ())),
        services=(_of_kind(binding, service.api_version, service.kind, service.name),),
    )


def _of_kind(
    binding: Object, api_version: str, kind: str, name: str, selector: Any = None
) -> Reference:
    group, version = split_api_version(api_version)
    return Reference(
        group=group,
        version=version,
        kind=kind,
        namespace=binding.meta.namespace,
        name=name,
        selector=_selector(selector),
    )


def _coreos(binding: Object, status: ToldBinding) -> KnownBinding:
    parsed = binding.decode(CoreosServiceBinding)
    application, here = parsed.spec.application, binding.meta.namespace
    return KnownBinding(
        binding=msgspec.structs.replace(
            status, secret=parsed.status.secret if parsed.status else ""
        ),
        uid=binding.meta.uid,
        workload=Reference(
            group=application.group,
            version=application.version,
            kind=application.kind,
            plural=application.resource,
            namespace=here,
            name=application.name,
            selector=_selector(application.label_selector),
        ),
        services=tuple(
            Reference(
                group=service.group,
                version=service.version,
                kind=service.kind,
                plural=service.resource,
                namespace=here if service.namespace is None else service.namespace,
                name=service.name,
            )
            for service in parsed.spec.services
        ),
    )


def _terms(selector: JSON) -> str:
    """Return the terms of a selector as kubectl takes them, cut to a line."""
    labels = [f"{name}={value}" for name, value in (selector.get("matchLabels") or {}).items()]
    expressions = [
        " ".join([term["key"], term["operator"].lower(), *_values(term)])
        for term in selector.get("matchExpressions") or []
    ]
    return short(",".join([*labels, *expressions]) or "of all")


def _values(term: JSON) -> list[str]:
    values = term.get("values")
    return [f"({','.join(values)})"] if values else []


def _selector(value: Any) -> JSON | None:
    if value is None:
        return None
    selector: JSON = msgspec.to_builtins(value)
    return selector
