"""The context of bindings of binding.operators.coreos.com."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from fairlead.api.keys import UnusableKeyError, key_in
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import SECRETS
from fairlead.api.servicebinding.common import EXCLUSIVE, REQUESTER_ANNOTATION
from fairlead.api.servicebinding.coreos import BindingPath, CoreosService, CoreosServiceBinding
from fairlead.api.servicebinding.proof import PROOF_ANNOTATION, foreign_services, is_proven
from fairlead.binding import bounds
from fairlead.binding.contexts.base import (
    BaseContext,
    FindWorkloads,
    InvalidBinding,
    ServicesRefused,
    decoded,
    part,
)
from fairlead.binding.options import DEFAULT_DENIED
from fairlead.binding.reads import Get, Lookup, ReadError, Snapshot
from fairlead.binding.services.service import (
    Service,
    ServiceReference,
    WorkloadReference,
    selector_dict,
)


_UNWRITABLE = {"apiVersion", "kind", "metadata", "status"}
"""Fields that a binding may not write: servers ignore it, or it would identify another object."""
_NOTHING: JSON = {
    "services": [{"group": "", "version": ""}],
    "application": {"group": "", "version": ""},
}


class CoreosContext(BaseContext):
    """One binding.operators.coreos.com ServiceBinding in one pass.

    Services of other namespaces are refused, since they would be read with the controller's
    rights. They are allowed with ``cross_namespace``, or if an admission webhook recorded the
    requester, which the key in the Secret ``requester_key`` proves, and it is none of
    ``denied_requesters``.

    Raises:
        InvalidBinding: the spec is contradictory.
        ServicesRefused: services of other namespaces are not allowed (by :meth:`open`).
        msgspec.ValidationError: the object does not fit its type.
    """

    def __init__(
        self,
        binding: Object,
        snapshot: Snapshot,
        *,
        cross_namespace: bool = False,
        requester_key: tuple[str, str] | None = None,
        denied_requesters: Sequence[str] = DEFAULT_DENIED,
        workloads: FindWorkloads | None = None,
    ) -> None:
        super().__init__(binding, snapshot, workloads=workloads)
        self._parsed = decoded(binding, CoreosServiceBinding, _NOTHING)
        spec = self._parsed.spec
        self._unread: ReadError | None = None
        self._cross_namespace = cross_namespace
        self._requester_key = requester_key
        self._denied_requesters = denied_requesters
        if not self.meta.deleting:
            self._validate()
            self.reader.cluster_services = self._may_name_foreign
        self.bind_as_files = spec.bind_as_files
        self.naming_strategy = spec.naming_strategy or (
            "none" if spec.bind_as_files else "uppercase"
        )
        self.mappings = list({item.name: item.value for item in spec.mappings}.items())
        self.detect_owned = spec.detect_binding_resources

    def _validate(self) -> None:
        spec = self._parsed.spec
        if spec.application.name and spec.application.label_selector is not None:
            raise InvalidBinding(
                f"{EXCLUSIVE}: remove spec.application.name or spec.application.labelSelector"
            )
        if len(spec.services) > bounds.SERVICES:
            raise InvalidBinding(
                f"spec.services has more than {bounds.SERVICES} services; make several bindings"
            )
        if self.spec_name() in {".", ".."}:
            raise InvalidBinding("spec.name becomes a directory: it cannot be '.' or '..'")
        if spec.application.binding_path:
            _validate_path(spec.application.binding_path.secret_path)

    async def open(self) -> None:
        """Refuse services of other namespaces unless they are allowed."""
        if not self.meta.deleting:
            await self._judge_foreign()
        if self._unread is None:
            await super().open()

    async def _judge_foreign(self) -> None:
        foreign = foreign_services(self._parsed.spec, self.meta.namespace)
        if not foreign or await self._may_name_foreign():
            return
        if self._requester_key is None:
            why = (
                "services of other namespaces are off, because the controller would read their"
                " Secrets with its own rights; run the controller with webhooks and"
                " --cross-namespace requester to read them with the rights of the requester, or"
                " with --cross-namespace true to read them with its own rights"
            )
        elif self._denial and await self._is_proven():
            why = (
                f"{self._denial[:200]}, who edited it last, may not request that"
                " (--cross-namespace-denied-requesters of the controller), because such an"
                " account may write what others have requested; change a label or an annotation"
                " of the binding as a user who may read the services"
            )
        else:
            why = (
                "no webhook has recorded the requester of this spec, so the controller cannot"
                " check any rights; change a label or an annotation of the binding while the"
                " webhook requester is on, as a user who may read the services; or run the"
                " controller with --cross-namespace true to read them with its own rights"
            )
        raise ServicesRefused(
            f"spec.services[{foreign[0]}].namespace is not the binding's own: {why}"
        )

    async def _may_name_foreign(self) -> bool:
        """Whether services of other namespaces, or cluster-scoped ones, are allowed.

        The flag allows them, or the proven record of a requester who is not denied.
        """
        if self._cross_namespace:
            return True
        return not self._denial and await self._is_proven()

    @cached_property
    def _denial(self) -> str:
        """The name of a requester who may not ask for such services; "" for others."""
        return self.reader.requester.denial(self._denied_requesters, self.meta.namespace)

    async def _is_proven(self) -> bool:
        """Whether an admission webhook recorded the requester of this spec.

        An unreadable key counts as a proof, and is reported later, when the services are read.
        """
        annotations, meta = self.meta.annotations, self.meta
        given = annotations.get(PROOF_ANNOTATION, "")
        if self._requester_key is None or not given or not self.reader.requester.is_known:
            return False
        try:
            secret = await self.reader.snapshot.get(Get(SECRETS, *self._requester_key))
            key = key_in(secret)
        except UnusableKeyError:
            return False
        except ReadError as error:
            if error.missing:
                return False
            self._unread = error
            return True
        requester = annotations[REQUESTER_ANNOTATION]
        spec = self._parsed.spec
        return is_proven(given, key, meta.namespace, meta.name, requester, spec)

    async def services(self) -> list[Service]:
        """Return the backing services; fail if the check of the requester could not be made."""
        if self._unread is not None:
            self.service_failure = self._unread.failure.code
            raise self._unread
        return await super().services()

    def _namespace(self, service: CoreosService) -> str:
        return self.meta.namespace if service.namespace is None else service.namespace

    def spec_name(self) -> str:
        """``spec.name``."""
        return self._parsed.spec.name

    def service_references(self) -> list[ServiceReference]:
        """Return the references of ``spec.services``."""
        return [
            ServiceReference(
                lookup=Lookup(
                    service.group, service.version, kind=service.kind, plural=service.resource
                ),
                namespace=self._namespace(service),
                name=service.name,
                id=service.id or "",
                place=f"spec.services[{position}]",
            )
            for position, service in enumerate(self._parsed.spec.services)
        ]

    def workload_reference(self) -> WorkloadReference:
        """``spec.application``."""
        application = self._parsed.spec.application
        path = application.binding_path or BindingPath()
        return WorkloadReference(
            lookup=Lookup(
                application.group,
                application.version,
                kind=application.kind,
                plural=application.resource,
            ),
            name=application.name,
            selector=selector_dict(application.label_selector),
            containers_path=path.containers_path,
            secret_path=path.secret_path,
        )

    @property
    def former_secret(self) -> str:
        """``status.secret``."""
        return status_secret(self.binding)

    def status(self, now: str) -> JSON:
        """Return conditions and the projected Secret, which this API has even if it is ""."""
        result = dict(self.status_before)
        result["conditions"] = self.conditions(now)
        result["secret"] = self.secret or self.former_secret
        return result


def _validate_path(path: str) -> None:
    """Refuse a secretPath at which no workload could keep a Secret's name."""
    if not path:
        return
    first, *rest = steps = path.split(".")
    field = f"spec.application.bindingPath.secretPath {path[:200]!r}"
    if len(steps) > bounds.PATH_STEPS:
        raise InvalidBinding(f"{field} has more than {bounds.PATH_STEPS} steps")
    if not all(step and step == step.strip() for step in steps):
        raise InvalidBinding(f"{field} has an empty step; write it like spec.login.secretName")
    is_label = first == "metadata" and len(rest) == 2 and rest[0] in {"labels", "annotations"}
    if first in _UNWRITABLE and not is_label:
        raise InvalidBinding(
            f"a binding may not write {field}: name a string of the workload's spec, or a label"
            " or annotation without dots in its key"
        )


def workload_kind(binding: Object) -> Lookup | None:
    """Return the kind of a binding's workloads; None without one."""
    reference = part(binding, "spec", "application")
    texts = [reference.get(field) or "" for field in ("group", "version", "kind", "resource")]
    if not all(isinstance(text, str) for text in texts) or not any(texts[2:]):
        return None
    group, version, kind, plural = texts
    return Lookup(group, version, kind=kind, plural=plural)


def status_secret(binding: Object) -> str:
    """Return ``status.secret``, even if the rest of the status is malformed."""
    secret = part(binding, "status").get("secret")
    return secret if isinstance(secret, str) else ""
