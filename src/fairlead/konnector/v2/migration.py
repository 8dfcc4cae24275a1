"""From an APIServiceBinding to a Connection with its bindings: what fits, and each write.

Nothing is deleted on the way. The CRD changes its owner: while it has one of both, the konnector
writes its objects by that protocol alone. A copy is taken over if its marks of v1alpha2 name this
consumer and the very object; with its marks, its fields change their owner in managedFields, so
that a field which the consumer removes later goes. Sources: kube-bind v1alpha2; kbind v2;
Kubernetes, server-side apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from fairlead.api.definitions import crd_schema, crd_spec, crd_status
from fairlead.api.kbind import schema_hash
from fairlead.api.kbind.names import (
    ANNOTATION_CONNECTION,
    ANNOTATION_CONSUMER_OBJECT_UID,
    ANNOTATION_SCHEMA_HASH,
    CONSUMER_CLUSTER_UID,
    FIELD_MANAGER,
    FINALIZER_SYNCER,
    LABEL_EXPORTED,
    LABEL_MANAGED,
    LEASE_NAMESPACE,
)
from fairlead.api.kbind.names import ANNOTATION_DELETION_POLICY as KBIND_DELETION_POLICY
from fairlead.api.kbind.names import DELETION_POLICY_ORPHAN as KBIND_ORPHAN
from fairlead.api.kbind.types import SchemaPolicy
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    APIServiceNamespace,
    PermissionClaim,
    binding_of_crd,
    crd_name,
)
from fairlead.api.kubebind.names import (
    ANNOTATION_BOUND_BY,
    ANNOTATION_CLUSTER_NAMESPACE,
    ANNOTATION_CONSUMER_NAMESPACE,
    ANNOTATION_CONSUMER_UID,
    ANNOTATION_PROVIDER_NAMESPACE,
    ANNOTATION_PROVIDER_UID,
)
from fairlead.api.kubebind.names import FINALIZER_SYNCER as FORMER_SYNCER
from fairlead.api.manifests import RBAC_GROUP, READ_VERBS, rule
from fairlead.api.meta import JSON, Key, Object
from fairlead.api.resource import CUSTOMRESOURCEDEFINITIONS, LEASES, NAMESPACES, Resource
from fairlead.api.versions import crd_versions
from fairlead.konnector import bounds
from fairlead.konnector.policies.copies import is_orphan
from fairlead.konnector.policies.estate import unowned
from fairlead.konnector.policies.merge import transferred
from fairlead.konnector.v2.bindings.coverage import BindingSummary
from fairlead.konnector.v2.bindings.crds import pulled, usable_resource


_OF_COPIES = (ANNOTATION_CLUSTER_NAMESPACE, ANNOTATION_CONSUMER_NAMESPACE, ANNOTATION_CONSUMER_UID)
"""Annotations of a copy in v1alpha2."""
_OF_OBJECTS = (ANNOTATION_PROVIDER_NAMESPACE, ANNOTATION_PROVIDER_UID)
"""Annotations of a consumer's object in v1alpha2."""
_MEMBERS = {"apiVersion", "kind", "metadata", "spec", "status"}
"""Members of an object that kbind v2 knows."""
OBJECT_VERBS = (*READ_VERBS, "create", "patch", "delete")
"""Verbs on bound kinds at the provider."""


class MigrationState(msgspec.Struct, frozen=True, kw_only=True):
    """A binding before it is moved, as both clusters have it.

    ``export`` and ``request`` are the provider's, None without one. ``namespaces`` are its
    APIServiceNamespaces, ``offered`` its CRDs by name: those that are missing could not be read.
    ``crds`` are the consumer's by name. ``connection`` tells whether a Connection has the
    binding's name already. ``others`` are bindings of kbind v2 other than those of a migration.
    ``hold`` is the message about copies that are held, "" without any.
    """

    binding: Object
    export: APIServiceExport | None
    request: APIServiceExportRequest | None = None
    namespaces: Sequence[Object] = ()
    crds: Mapping[str, Object] = {}
    offered: Mapping[str, Object] = {}
    connection: bool = False
    others: Sequence[BindingSummary] = ()
    hold: str = ""


class MigrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a binding becomes, or the reasons why it cannot be moved.

    ``apis`` are names of CRDs. ``places`` are the namespaces of Bindings, "" for a ClusterBinding.
    ``unlabelled`` are the CRDs that the provider does not offer yet. ``notes`` are for the person
    who moves the binding.
    """

    name: str
    apis: Sequence[str]
    places: Sequence[str] = ("",)
    schema: SchemaPolicy = SchemaPolicy()
    misfits: Sequence[str] = ()
    unlabelled: Sequence[str] = ()
    notes: Sequence[str] = ()

    def steps(self, namespace: str) -> list[str]:
        """Return the steps in their order; ``namespace`` is the konnector's."""
        kind = ", ".join(
            f"Binding {place}/{self.name}" if place else f"ClusterBinding {self.name}"
            for place in self.places
        )
        apis = ", ".join(self.apis)
        return [
            f"store the provider's kubeconfig in Secret {namespace}/{self.name}-kubeconfig",
            f"give the konnector its rights for {kind}",
            f"create {kind} for {apis}, and wait until the konnector takes it up",
            f"hand CustomResourceDefinition {apis} over to Connection {self.name}",
            f"delete APIServiceBinding {self.name}, which owns nothing any more",
            "mark each copy as one of kbind v2, and replace the finalizer of each object",
            f"create Connection {self.name}, and wait until all is Ready",
            f"delete the rights and the Secret of APIServiceBinding {self.name}",
        ]


def plan(state: MigrationState) -> MigrationPlan:
    """Decide whether a binding can be moved, and to which objects."""
    name, parsed = state.binding.meta.name, state.binding.decode(APIServiceBinding)
    apis = [crd_name(item.resource, item.group) for item in parsed.status.bound_schemas]
    misfits = [*_of_binding(state, parsed, apis)]
    if state.export is None:
        misfits.append(
            f"the provider has no APIServiceExport {name}, so the place of the copies is unknown"
        )
        return MigrationPlan(name=name, apis=apis, misfits=misfits)
    misfits += _of_isolation(state, state.export, apis)
    misfits += _of_claims(parsed.status.permission_claims)
    for api in apis:
        misfits += _of_crd(state, api)
    request = state.request
    follows = request is not None and request.spec.schema_update_policy == "Always"
    scoped = state.export.spec.informer_scope == "Namespaced"
    namespaced = all(crd_spec(crd).namespaced for crd in state.crds.values())
    names = sorted(obj.meta.name for obj in state.namespaces) if scoped and namespaced else []
    # Without any object there is no namespace yet.
    places = names or [""]
    unlabelled = [
        api
        for api in apis
        if api in state.offered and state.offered[api].meta.labels.get(LABEL_EXPORTED) != "true"
    ]
    return MigrationPlan(
        name=name,
        apis=apis,
        places=places,
        schema=SchemaPolicy(update_policy="Always" if follows else "Once"),
        misfits=misfits,
        unlabelled=unlabelled,
        notes=_notes(state, places, follows=follows),
    )


def _of_binding(
    state: MigrationState, parsed: APIServiceBinding, apis: Sequence[str]
) -> Iterable[str]:
    name = state.binding.meta.name
    if state.binding.meta.deleting:
        yield f"APIServiceBinding {name} is being deleted"
    owner = state.binding.meta.controller()
    if owner is not None and owner.kind == APISERVICEBINDINGBUNDLES.kind:
        yield (
            f"{owner.kind} {owner.name} created APIServiceBinding {name}, and would create it "
            f"again: delete it first with `kubectl delete apiservicebindingbundle {owner.name} "
            "--cascade=orphan`; autoBind of a Connection replaces it"
        )
    if not apis:
        yield f"APIServiceBinding {name} has bound nothing yet"
    if state.hold:
        yield f"copies of APIServiceBinding {name} are held: {state.hold}"
    if state.connection:
        yield f"Connection {name} already exists, and would synchronize the objects too early"
    for api in apis:
        crd = state.crds.get(api)
        if crd is None or not crd.meta.owned_by(state.binding.meta.uid):
            other = binding_of_crd(crd.meta) if crd is not None else ""
            if crd is not None and is_handed_over(crd, name):
                continue
            of = (
                f"belongs to APIServiceBinding {other}"
                if other
                else "does not belong to this binding"
            )
            yield (
                f"CustomResourceDefinition {api} does not exist"
                if crd is None
                else f"CustomResourceDefinition {api} {of}"
            )
        for binding in state.others:
            if api in binding.apis:
                kind = "ClusterBinding" if binding.whole else "Binding"
                yield f"{kind} {binding.key} of kbind v2 lists {api} already"
    for webhook in parsed.status.conversion_webhooks or ():
        yield (
            f"webhook {webhook.url} converts {webhook.name}, and kbind v2 does not convert "
            "versions"
        )


def _of_isolation(
    state: MigrationState, export: APIServiceExport, apis: Sequence[str]
) -> Iterable[str]:
    isolation = export.spec.isolation
    for api in apis:
        crd = state.crds.get(api)
        if crd is not None and not crd_spec(crd).namespaced and isolation != "None":
            yield (
                f"{api} is cluster-scoped, and isolation {isolation} gives its copies other "
                "names than their objects: kbind v2 has the same names on both sides"
            )
    moved = []
    for obj in state.namespaces:
        assigned = obj.decode(APIServiceNamespace).status.namespace
        if assigned and assigned != obj.meta.name:
            moved.append(f"{obj.meta.name} is {assigned} there")
    if moved:
        shown = ", ".join(moved[: bounds.NAMED])
        more = f" and {len(moved) - bounds.NAMED} more" if len(moved) > bounds.NAMED else ""
        yield (
            f"namespaces have other names at the provider ({shown}{more}): kbind v2 has the same "
            "names on both sides, which a provider with isolation None gives"
        )


def _of_claims(claims: Sequence[PermissionClaim]) -> Iterable[str]:
    for claim in claims:
        what = claim.resource
        if claim.group or what not in {"secrets", "configmaps"}:
            yield f"it claims {claim.name}, and kbind v2 copies only Secrets and ConfigMaps"
        elif claim.selector.references:
            yield (
                f"it claims {what} that objects refer to: kbind v2 selects only by labels "
                "and names"
            )
        else:
            yield (
                f"it claims {what} by labels or names: their copies go with APIServiceBinding, so "
                "bind anew, with a rule in relatedResources for them"
            )


def _of_crd(state: MigrationState, api: str) -> Iterable[str]:
    crd, offered = state.crds.get(api), state.offered.get(api)
    if crd is None:
        return
    spec = crd_spec(crd)
    members = _other_members(crd, spec.stored)
    if members:
        yield (
            f"objects of {api} have {', '.join(members)} beside spec, which kbind v2 does not copy"
        )
    if offered is None:
        return
    there = crd_spec(offered)
    if there.conversion is not None and there.conversion.strategy != "None":
        yield f"the provider converts {api} by a webhook, and kbind v2 does not convert versions"
        return
    if there.namespaced != spec.namespaced:
        yield f"{api} is {there.scope} at the provider and {spec.scope} here"
    resource = there.readable() if _follows(state) else usable_resource(offered, crd)
    if resource is None:
        yield f"no version of {api} is served in both clusters"
        return
    stored = crd_status(crd).stored_versions or []
    left = [name for name in stored if name != resource.version]
    if _follows(state) and left:
        yield (
            f"objects of {api} may be stored in {', '.join(left)} here, and kbind v2 serves "
            f"only {resource.version}: write all of them once, then take the others out of "
            "status.storedVersions of the CustomResourceDefinition"
        )
        return
    now = crd.to_dict()["spec"]
    after = pulled(offered, "", resource.version)["spec"] if _follows(state) else now
    clusters = (
        crd_versions("this cluster's", after, stored, now),
        crd_versions("the provider's", offered.to_dict()["spec"]),
    )
    losses = [loss for cluster in clusters for loss in cluster.losses(resource.version)]
    if losses:
        yield f"objects of {api} would lose fields: {'; '.join(losses)}"


def _follows(state: MigrationState) -> bool:
    request = state.request
    return request is not None and request.spec.schema_update_policy == "Always"


def _other_members(crd: Object, version: str) -> list[str]:
    schema = crd_schema(crd, version) or {}
    return sorted((schema.get("properties") or {}).keys() - _MEMBERS)


def _notes(state: MigrationState, places: Sequence[str], *, follows: bool) -> list[str]:
    notes = [
        "labels and annotations of objects are no longer synchronized: copies keep what they have"
    ]
    if places != [""]:
        notes.append("each other namespace with objects needs its own Binding")
    for api, crd in sorted(state.crds.items()):
        offered = state.offered.get(api)
        resource = crd_spec(offered).readable() if offered is not None else None
        served = crd_spec(crd).served
        if follows and resource is not None and served != [resource.version]:
            gone = ", ".join(name for name in served if name != resource.version)
            notes.append(
                f"only version {resource.version} of {api} is served, and no longer {gone}"
            )
    return notes


def handed_over(crd: Object, connection: str) -> JSON:
    """Return a CRD of an APIServiceBinding as one of a Connection, for a PUT.

    The hash is of its own spec, as if the konnector of kbind v2 had made it: so that is replaced
    by the rules of the Connection.
    """
    body = unowned(crd.to_dict())
    metadata = {**body["metadata"]}
    metadata.pop("managedFields", None)
    annotations = dict(metadata.get("annotations") or {})
    # By this one a konnector of v1alpha2 would take the CRD back.
    annotations.pop(ANNOTATION_BOUND_BY, None)
    annotations[ANNOTATION_CONNECTION] = connection
    annotations[ANNOTATION_SCHEMA_HASH] = schema_hash(body["spec"])
    metadata["annotations"] = annotations
    metadata["labels"] = {**(metadata.get("labels") or {}), LABEL_MANAGED: "true"}
    return {**body, "metadata": metadata}


def is_handed_over(crd: Object, connection: str) -> bool:
    """Whether a CRD is a Connection's, and no APIServiceBinding's any more."""
    owner = crd.meta.annotations.get(ANNOTATION_CONNECTION)
    return owner == connection and not binding_of_crd(crd.meta)


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """The marks of a consumer's copies, by both protocols.

    ``cluster_namespace`` is its namespace at the provider, ``cluster_uid`` its cluster's uid.
    """

    cluster_namespace: str
    cluster_uid: str

    def is_former(self, obj: Object, copy: Object) -> bool:
        """Whether a copy has the marks of v1alpha2 that prove it to be of this very object."""
        annotations = copy.meta.annotations
        return (
            annotations.get(ANNOTATION_CLUSTER_NAMESPACE) == self.cluster_namespace
            and annotations.get(ANNOTATION_CONSUMER_UID) == obj.meta.uid
        )

    def copy_patch(self, obj: Object, copy: Object) -> JSON | None:
        """Return the merge patch that makes a copy one of kbind v2; None if it is not to be."""
        if not self.is_former(obj, copy):
            return None
        meta = copy.meta
        marks: dict[str, str | None] = dict.fromkeys(_OF_COPIES)
        marks[CONSUMER_CLUSTER_UID] = self.cluster_uid
        marks[ANNOTATION_CONSUMER_OBJECT_UID] = obj.meta.uid
        metadata: JSON = {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "labels": {LABEL_MANAGED: "true"},
            "annotations": marks,
        }
        # A cluster-scoped copy would go with the consumer's namespace at the provider.
        owners = [
            msgspec.to_builtins(owner)
            for owner in meta.owner_references
            if (owner.kind, owner.name) != (NAMESPACES.kind, self.cluster_namespace)
        ]
        if len(owners) != len(meta.owner_references):
            metadata["ownerReferences"] = owners
        managers = transferred(copy.to_dict(), FIELD_MANAGER, _MARKED)
        if managers is not None:
            metadata["managedFields"] = managers
        return {"metadata": metadata}


_MARKED: JSON = {
    "f:labels": {f"f:{LABEL_MANAGED}": {}},
    "f:annotations": {
        f"f:{CONSUMER_CLUSTER_UID}": {},
        f"f:{ANNOTATION_CONSUMER_OBJECT_UID}": {},
    },
}
"""Metadata of a copy that a konnector of kbind v2 applies, as fields of managedFields."""


def object_patch(obj: Object) -> JSON | None:
    """Return the merge patch that makes a consumer's object one of kbind v2; None if it is."""
    meta = obj.meta
    annotations: dict[str, str | None] = {
        name: None for name in _OF_OBJECTS if name in meta.annotations
    }
    # The former one is its user's, and may be kept in a repository.
    if is_orphan(meta) and meta.annotations.get(KBIND_DELETION_POLICY) != KBIND_ORPHAN:
        annotations[KBIND_DELETION_POLICY] = KBIND_ORPHAN
    finalizers = meta.without_finalizer(FORMER_SYNCER)
    # Servers refuse a new finalizer on an object that is being deleted.
    if FORMER_SYNCER in meta.finalizers and not meta.deleting:
        finalizers = [*finalizers, *({FINALIZER_SYNCER} - set(finalizers))]
    if not annotations and finalizers == meta.finalizers:
        return None
    metadata: JSON = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    if annotations:
        metadata["annotations"] = annotations
    if finalizers != meta.finalizers:
        metadata["finalizers"] = finalizers
    return {"metadata": metadata}


class ProviderRight(msgspec.Struct, frozen=True):
    """A verb on a resource that the consumer's account needs at the provider."""

    resource: Resource
    verb: str
    key: Key = Key("", "")

    def __str__(self) -> str:
        where = f" in namespace {self.key.namespace}" if self.key.namespace else ""
        return f"{self.verb} {self.resource.group_resource} {self.key.name}".rstrip() + where


def provider_rights(resources: Sequence[Resource], places: Sequence[str]) -> list[ProviderRight]:
    """Return the rights without which kbind v2 does not work for these kinds and places."""
    identity = ProviderRight(NAMESPACES, "get", Key("", "kube-system"))
    rights = [identity, *(ProviderRight(CUSTOMRESOURCEDEFINITIONS, verb) for verb in READ_VERBS)]
    rights += [
        ProviderRight(resource, verb, Key(place, ""))
        for place in places
        for resource in resources
        for verb in OBJECT_VERBS
    ]
    return rights + ([ProviderRight(NAMESPACES, "create")] if "" in places else [])


def provider_roles(
    name: str, user: str, resources: Sequence[Resource], places: Sequence[str]
) -> list[JSON]:
    """Return the objects by which the provider gives a consumer's account these rights.

    Args:
        name: a name for the roles, which tells the consumer and its binding.
        user: the account's user name.
        resources: the bound kinds.
        places: namespaces of the Bindings, "" for the whole cluster.
    """
    kinds = [rule(kind.group, [kind.plural], OBJECT_VERBS) for kind in resources]
    crds = CUSTOMRESOURCEDEFINITIONS
    whole = [
        rule("", ["namespaces"], ("get",), names=["kube-system"]),
        rule(crds.group, [crds.plural], READ_VERBS),
    ]
    if "" in places:
        whole += [*kinds, rule("", ["namespaces"], ("create",))]
    leases = [rule(LEASES.group, [LEASES.plural], ("get", "create", "update"))]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": LEASE_NAMESPACE}}
    return [
        *_granted(name, user, "", whole),
        namespace,
        *_granted(name, user, LEASE_NAMESPACE, leases),
        *(part for place in places if place for part in _granted(name, user, place, kinds)),
    ]


def _granted(name: str, user: str, namespace: str, rules: Sequence[JSON]) -> list[JSON]:
    kind = "Role" if namespace else "ClusterRole"
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    version = f"{RBAC_GROUP}/v1"
    return [
        {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": version,
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": RBAC_GROUP, "kind": kind, "name": name},
            "subjects": [_subject(user)],
        },
    ]


def _subject(user: str) -> JSON:
    prefix, _, account = user.rpartition("system:serviceaccount:")
    namespace, colon, name = account.partition(":")
    if not prefix and colon and user.startswith("system:serviceaccount:"):
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"kind": "User", "apiGroup": RBAC_GROUP, "name": user}
