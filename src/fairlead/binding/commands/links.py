"""The links that a binding has in a chain, and the objects that it refers to.

Pure functions of the objects that were read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from fairlead.api.conditions import Condition, get_condition, stored_conditions
from fairlead.api.decoding import field_message
from fairlead.api.links import Chain, Link, LinkName, join, verdict_link, wrong
from fairlead.api.meta import JSON, Key, Object, object_from_dict
from fairlead.api.reasons.conditions import state_of
from fairlead.api.reasons.model import State
from fairlead.api.reasons.servicebinding import CONTROLLER, SERVICE_BINDING
from fairlead.api.reasons.verdict import UNSEEN, short, verdict_of, written_at
from fairlead.api.resource import split_api_version
from fairlead.api.servicebinding.common import (
    APPLICATION_NOT_FOUND,
    COLLECTION_READY,
    ERROR_READING_SECRET,
    INJECTION_READY,
    NO_BINDING_DATA,
    READY,
    ROLLOUT_FAILING,
    SERVICE_AVAILABLE,
    SERVICE_MISSING_BINDING,
    SERVICE_NOT_FOUND,
)
from fairlead.api.servicebinding.coreos import COREOS_SERVICEBINDINGS, CoreosServiceBinding
from fairlead.api.servicebinding.spec import ServiceBinding
from fairlead.api.servicebinding.wishes import DEFAULT_MODE_ANNOTATION
from fairlead.binding import bounds
from fairlead.binding.expressions.fixedpath import read, read_list
from fairlead.binding.services.clients import is_private
from fairlead.binding.workloads.holdings import Holding, name_of, text_of_variable
from fairlead.binding.workloads.records import BindingRecord
from fairlead.binding.workloads.rollout import missing_pods, rollout_failure


Sight = Literal["there", "NotFound", "NotServed", "Forbidden", "Error"]


_REMARK = "remark: "

_SERVERS_MODE = 0o644
"""Mode of a Secret's files that API servers set where a volume has none."""

_UNDONE = "find out with metadata.managedFields who has removed it"


class SeenObject(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a read: ``text`` names the object, ``problem`` says why it was not read."""

    text: str
    sight: Sight
    body: JSON = {}
    key: Key = Key("", "")
    problem: str = ""

    @property
    def deleting(self) -> bool:
        """Whether the object is being deleted."""
        return bool((self.body.get("metadata") or {}).get("deletionTimestamp"))


def read_object(text: str, obj: Object) -> SeenObject:
    """Return the result of a successful read."""
    return SeenObject(text=text, sight="there", body=obj.to_dict(), key=obj.key)


class BoundWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """A selected workload with the binding's record."""

    workload: SeenObject
    record: BindingRecord | None = None


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


class ToldBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A binding of either API: its references and its status; ``secret`` is the projected one."""

    text: str
    uid: str = ""
    workload: Reference | None = None
    services: tuple[Reference, ...] = ()
    secret: str = ""
    conditions: Sequence[Condition] = ()
    fresh: bool = True
    deleting: bool = False
    problem: str = ""
    written: str = ""
    """When the binding's spec was last written, as far as it says so."""

    def condition(self, type_: str) -> Condition | None:
        """Return a condition by its type."""
        return get_condition(self.conditions, type_)

    @property
    def ready(self) -> bool:
        """Whether Ready is True for the present spec."""
        condition = self.condition(READY)
        return (
            self.fresh
            and not self.problem
            and condition is not None
            and condition.status == "True"
        )

    @property
    def collected(self) -> bool:
        """Whether all entries of its services are collected."""
        # Only servicebinding.io has ServiceAvailable.
        conditions = (self.condition(type_) for type_ in (SERVICE_AVAILABLE, COLLECTION_READY))
        present = [one for one in conditions if one is not None]
        return bool(present) and all(one.status == "True" for one in present)


def secret_named(service: SeenObject) -> str:
    """Return the Secret that a service names, or is; "" without one."""
    if service.body.get("kind") == "Secret" and service.body.get("apiVersion") == "v1":
        return service.key.name
    value: object = service.body
    for name in ("status", "binding", "name"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def binding_link(binding: ToldBinding) -> Link:
    """Return the link of a binding, by its status."""
    subject = _Subject("binding", binding.text)

    def unseen(text: str) -> Link:
        return msgspec.structs.replace(subject.broken(UNSEEN, text), since=binding.written)

    if binding.problem:
        return subject.broken("InvalidSpec", binding.problem)
    if binding.condition(READY) is None:
        return unseen("no controller has processed it yet")
    if not binding.fresh:
        return unseen("no controller has processed the last change yet")
    if binding.deleting:
        text = "is being deleted, and waits until no workload has anything of it"
        return subject.link("waiting", text, remedy=CONTROLLER)
    # From cause to effect: Ready only repeats one of the others.
    for type_ in (SERVICE_AVAILABLE, COLLECTION_READY, INJECTION_READY, READY):
        condition = binding.condition(type_)
        if condition is not None and condition.status != "True":
            state = state_of(condition)
            return msgspec.structs.replace(
                subject.broken(condition.reason, condition.message),
                state=state,
                since=condition.last_transition_time,
            )
    injected = binding.condition(INJECTION_READY)
    remark = injected.message if injected is not None else ""
    return subject.link("ok", f"is Ready; {_REMARK}{remark}" if remark else "is Ready")


def workload_links(
    bound: Iterable[BoundWorkload],
    binding: ToldBinding,
    reference: str,
    containers: Sequence[str] = (),
) -> list[Link]:
    """Return the links of workloads, those with a problem first.

    Args:
        bound: the selected workloads.
        binding: the binding's status.
        reference: the description of its selection, for when it is empty.
        containers: names of the only containers to bind.
    """
    links = [_workload_link(one, binding, containers) for one in bound]
    if not links:
        subject = _Subject("workload", reference)
        remedy = "correct the selector, or label the workload as it says"
        return [subject.broken(APPLICATION_NOT_FOUND, "selects nothing", remedy)]
    well = [one for one in links if _is_plain(one)]
    wrong = sorted((one for one in links if not _is_plain(one)), key=_urgency)
    if len(well) > bounds.NAMED:
        text = f"{len(well)} workloads"
        well = [Link(name="workload", object=text, state="ok", about=f"have {binding.secret}")]
    return [*wrong, *well]


def _is_plain(link: Link) -> bool:
    return link.state == "ok" and _REMARK not in link.about


def _urgency(link: Link) -> int:
    return ("failed", "waiting", "unknown", "ok").index(link.state)


class _Subject(NamedTuple):
    """The object of a link, which is made by its state, or by the reason of a failure."""

    name: LinkName
    object: str

    def link(self, state: State, text: str, remedy: str = "") -> Link:
        return Link(name=self.name, object=self.object, state=state, about=text, remedy=remedy)

    def broken(self, reason: str, text: str, remedy: str = "") -> Link:
        name, subject = self.name, self.object
        return wrong(SERVICE_BINDING, reason, name=name, subject=subject, text=text, remedy=remedy)


def _workload_link(bound: BoundWorkload, binding: ToldBinding, containers: Sequence[str]) -> Link:
    workload, record = bound.workload, bound.record

    subject = _Subject("workload", workload.text)
    if workload.sight == "NotServed":
        remedy = "install its CRD, or correct the kind of the reference"
        return subject.broken(APPLICATION_NOT_FOUND, workload.problem, remedy)
    if workload.sight == "NotFound":
        return subject.broken(APPLICATION_NOT_FOUND, "is not there")
    if workload.sight != "there":
        failing = binding.condition(ROLLOUT_FAILING)
        # The condition tells of workloads that the caller may not read.
        if failing is not None and failing.status == "True":
            return subject.broken(failing.reason, failing.message)
        return subject.link("unknown", workload.problem)
    absent = _absent_containers(workload.body, containers)
    if record is None and binding.ready and absent and len(absent) == len(containers):
        text = f"has nothing of the binding: {_has_none(workload.body, absent)}"
        return subject.broken("NotProjected", text, "correct spec.workload.containers")
    # Bound before there were records, or the record was lost: the workload alone cannot tell.
    if record is None and binding.ready:
        return subject.link("unknown", "has no record of the binding, which says that it is bound")
    if record is None:
        return subject.broken("NotProjected", "has nothing of the binding")
    if binding.secret and record.secret != binding.secret:
        text = f"still has Secret {record.secret}, in the place of {binding.secret}"
        return subject.broken("NotProjected", text)
    holding = Holding(workload.body, record)
    lost = holding.lost()
    if lost:
        text = f"was bound, and has lost {', '.join(lost)}"
        return subject.broken("NotProjected", text, _UNDONE)
    failure = rollout_failure(workload.body)
    if failure is not None:
        stuck = subject.broken(failure.reason, f"has Secret {record.secret}, but {failure.text}")
        return msgspec.structs.replace(stuck, since=failure.since)
    text = f"has Secret {record.secret} {_places(record)}".rstrip()
    remarks = [f"{_REMARK}{text}" for text in _file_remarks(workload.body, holding)]
    if absent:
        remarks.append(f"{_REMARK}{_has_none(workload.body, absent)}")
    return subject.link(
        "ok", "; ".join(filter(None, [text, missing_pods(workload.body), *remarks]))
    )


def _container_names(body: JSON) -> list[str]:
    """Return the names of a Pod template's containers, [] for a workload without one."""
    containers: list[str] = []
    for kind in ("initContainers", "containers"):
        listed = read_list(body, ("spec", "template", "spec", kind))
        containers += [name for item in listed if (name := name_of(item)) is not None]
    return containers


def _absent_containers(body: JSON, containers: Sequence[str]) -> list[str]:
    """Return the names that no container of a workload has, [] where the workload hides them."""
    there = _container_names(body)
    return [name for name in containers if name not in there] if there else []


def _has_none(body: JSON, absent: Sequence[str]) -> str:
    return (
        f"no container has the name {', '.join(absent)} of spec.workload.containers; there are"
        f" {', '.join(_container_names(body))}"
    )


def _file_remarks(body: JSON, holding: Holding) -> Iterator[str]:
    """Yield remarks on containers that cannot read the binding's files, or not use their key.

    A kubelet lets ``fsGroup`` read the files of a Secret, which belong to root. The Pods' user is
    judged by the template alone: an image may have another one.

    Sources: https://kubernetes.io/docs/tasks/configure-pod-container/security-context/,
    https://www.postgresql.org/docs/current/libpq-ssl.html#LIBPQ-SSL-CLIENTCERT.
    """
    path = holding.record.volumes
    volume = next(filter(holding.is_volume, read_list(body, path)), None)
    if volume is None:
        return
    number = volume["secret"].get("defaultMode")
    mode = number if isinstance(number, int) else _SERVERS_MODE
    pod = read(body, (*path[:-1], "securityContext"))
    pod = pod if isinstance(pod, dict) else {}
    for container in holding.containers():
        mounts = container.volume_mounts(create=False)
        places = [item["mountPath"] for item in mounts if holding.is_mount(container, item)]
        if not places:
            continue
        own = read(container.body, ("securityContext",))
        security = pod | {
            name: value
            for name, value in (own.items() if isinstance(own, dict) else ())
            if value is not None
        }
        if not _reads(mode, security):
            unable = (
                "cannot" if not mode & 0o040 or "runAsGroup" in security else "may be unable to"
            )
            yield (
                f"{container} does not run as root, and {unable} read the files, whose mode is "
                f"{mode:04o}: set securityContext.fsGroup in the Pod template"
            )
        key = next((i for i in container.env(create=False) if name_of(i) == "PGSSLKEY"), None)
        own_key = (text_of_variable(key) or "").startswith(tuple(f"{place}/" for place in places))
        if own_key and not is_private(mode):
            yield (
                f"libpq does not use the key of {container}, which others may read by the files' "
                f'mode {mode:04o}: set annotation {DEFAULT_MODE_ANNOTATION} to "0440", and '
                "securityContext.fsGroup in the Pod template where it does not run as root"
            )


def _reads(mode: int, security: JSON) -> bool:
    """Whether a container with this security context reads a Secret's files of this mode."""
    user = security.get("runAsUser")
    root = not security.get("runAsNonRoot") if user is None else user == 0
    if root or mode & 0o004 or security.get("fsGroup") is not None:
        return True
    groups = security.get("supplementalGroups")
    of_root = security.get("runAsGroup") == 0 or (isinstance(groups, list) and 0 in groups)
    return bool(mode & 0o040) and of_root


def _places(record: BindingRecord) -> str:
    bound = [one for place in record.containers for one in place.bound.values()]
    mounts = sorted({one.mount for one in bound if one.mount})
    variables = sorted({name for one in bound for name in (*one.env, *one.texts)})
    parts = [f"at {', '.join(mounts)}"] if mounts else []
    if variables:
        parts.append(f"as {len(variables)} variable{'' if len(variables) == 1 else 's'}")
    if any(one.env_from for one in bound):
        parts.append("as its environment")
    return " and ".join(parts)


def service_link(seen_service: SeenObject, binding: ToldBinding) -> Link:
    """Return the link of a service, by its conditions and its entries."""
    subject = _Subject("service", seen_service.text)
    if seen_service.sight == "NotServed":
        remedy = "install its CRD, bind it with fairlead bind, or correct the reference"
        return subject.broken(SERVICE_NOT_FOUND, seen_service.problem, remedy)
    if seen_service.sight == "NotFound":
        return subject.broken(SERVICE_NOT_FOUND, "is not there")
    if seen_service.sight != "there":
        return subject.link("unknown", seen_service.problem)
    if seen_service.deleting:
        return subject.broken("Deleting", "is being deleted")
    name = secret_named(seen_service)
    verdict = verdict_of(object_from_dict(seen_service.body))
    service = verdict_link(verdict, name="service", subject=seen_service.text)
    # Work that goes on beside Ready and a Secret that is named breaks nothing.
    goes_on = name and verdict.state == "waiting" and verdict.type != READY
    if service.state != "ok" and not goes_on:
        remedy = (
            _mend(seen_service)
            if seen_service.body.get("kind") == "PostgresAccess"
            else service.remedy
        )
        return msgspec.structs.replace(service, remedy=remedy)
    if name:
        is_it = seen_service.body.get("kind") == "Secret"
        return subject.link("ok", "is the Secret itself" if is_it else f"names Secret {name}")
    # No Secret is named, and yet all entries are there: annotations define them.
    if binding.collected:
        return subject.link("ok", "offers what its annotations say")
    return subject.broken(
        SERVICE_MISSING_BINDING, "names no Secret yet in status.binding.name", _mend(seen_service)
    )


def _mend(service: SeenObject) -> str:
    if service.body.get("kind") == "PostgresAccess":
        return f"fairlead postgres explain {service.key.name} -n {service.key.namespace}"
    return SERVICE_BINDING.helps("NotReady")


def secret_link(secrets: Sequence[SeenObject], own: SeenObject | None) -> Link | None:
    """Return the link of the Secrets: those that services name, and the binding's own.

    Return None while no Secret is named.
    """
    every = [*secrets, *([own] if own is not None else [])]
    if not every:
        return None
    for secret in every:
        if secret.sight == "NotFound":
            return _missing_secret(secret, own=secret is own and secret not in secrets)
    hidden = next((one for one in every if one.sight != "there"), None)
    if hidden is not None:
        return Link(name="Secret", object=hidden.text, state="unknown", about=hidden.problem)
    empty = next((one for one in every if not one.body.get("data")), None)
    if empty is not None:
        subject = _Subject("Secret", empty.text)
        return subject.broken(
            NO_BINDING_DATA, "has no entries", "have the service's operator write them"
        )
    last = every[-1]
    count = len(last.body.get("data") or {})
    text = f"has {count} {'entry' if count == 1 else 'entries'}"
    return Link(name="Secret", object=last.text, state="ok", about=text)


def _missing_secret(secret: SeenObject, *, own: bool) -> Link:
    if own:
        text, remedy = "which the binding created, is missing", CONTROLLER
    else:
        text = "which the service names, has not arrived"
        remedy = (
            "have the service's operator write it; if kube-bind brings it, fairlead bindings"
            " says why it is missing"
        )
    subject = _Subject("Secret", secret.text)
    return subject.broken(ERROR_READING_SECRET, text, remedy)


def chain_of(binding: ToldBinding, links: Iterable[Link]) -> Chain:
    """Join the links of a binding.

    A binding whose service does not exist fails because of it, and so does a workload whose
    binding is not Ready.
    """
    every = list(links)
    # The binding repeats of a missing workload what that link says with its own remedy.
    misses = any(one.name == "workload" and one.reason == APPLICATION_NOT_FOUND for one in every)

    def follows(link: Link, broken: Collection[LinkName]) -> bool:
        if link.name == "workload":
            # A workload that is missing or is not served fails by itself.
            return "binding" in broken and link.reason == "NotProjected"
        if link.name == "binding":
            repeats = misses and link.reason == APPLICATION_NOT_FOUND
            # A binding that has collected all fails for another reason, such as its workload.
            return repeats or (not binding.collected and bool(broken))
        return bool(set(broken) - {"Secret" if link.name == "service" else link.name})

    return join(binding.text, every, follows=follows, ready=binding.ready)


def wish_of(binding: Object) -> ToldBinding:
    """Return the references and the status of a binding of either API."""
    group = binding.api_version.partition("/")[0]
    body = binding.to_dict().get("status")
    status: JSON = body if isinstance(body, dict) else {}
    # The coreos API has no observedGeneration.
    by_status = ToldBinding(
        text=f"ServiceBinding {binding.key} ({group})",
        uid=binding.meta.uid,
        conditions=stored_conditions(binding.to_dict()),
        fresh=status.get("observedGeneration", binding.meta.generation) == binding.meta.generation,
        deleting=binding.meta.deleting,
        written=written_at(binding),
    )
    try:
        if group == COREOS_SERVICEBINDINGS.group:
            return _coreos(binding, by_status)
        return _spec(binding, by_status)
    except msgspec.ValidationError as error:
        return msgspec.structs.replace(by_status, problem=field_message(error))


def _spec(binding: Object, status: ToldBinding) -> ToldBinding:
    parsed = binding.decode(ServiceBinding)
    workload, service = parsed.spec.workload, parsed.spec.service
    reference = _of_kind(
        binding, workload.api_version, workload.kind, workload.name, workload.selector
    )
    secret = parsed.status.binding.name if parsed.status and parsed.status.binding else ""
    return msgspec.structs.replace(
        status,
        secret=secret,
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


def _coreos(binding: Object, status: ToldBinding) -> ToldBinding:
    parsed = binding.decode(CoreosServiceBinding)
    application, here = parsed.spec.application, binding.meta.namespace
    return msgspec.structs.replace(
        status,
        secret=parsed.status.secret if parsed.status else "",
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
