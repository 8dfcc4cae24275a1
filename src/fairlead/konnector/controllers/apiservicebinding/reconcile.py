"""From the provider's export to the consumer's CRDs (kube-bind's APIServiceBindings document)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fairlead.api.kubebind import (
    ANNOTATION_API_APPROVED,
    ANNOTATION_BOUND_BY,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BindingStatus,
    BoundSchemaSpec,
    ConversionWebhook,
    ExportResource,
    GroupResource,
    PermissionClaim,
    approval_of,
    bindable,
    crd_from_bound_schema,
    crd_name,
)
from fairlead.api.kubebind.conditions import (
    CONNECTED,
    FIELDS_LOST,
    NAMES_TAKEN,
    SCHEMA_IN_SYNC,
    VERSIONS_REMOVED,
    WITHOUT_STATUS,
    KubeBindCondition,
    false,
    set_conditions,
    true,
)
from fairlead.api.kubebind.types import MOST_RESOURCES
from fairlead.api.meta import JSON, Object, OwnerReference
from fairlead.konnector import bounds
from fairlead.konnector.conversions import (
    acceptance,
    accepted_webhooks,
    consequences,
    installed_webhook,
    lacks_conversion,
    named_webhook,
    webhook,
    without_webhook,
)
from fairlead.konnector.crds import (
    describes,
    established,
    left_behind,
    loses,
    name_clashes,
    of_binding,
    owned,
    restored,
    sync_version,
    with_versions_of,
)


# The reasons up to ForeignCustomResourceDefinition are kube-bind's, the others are our own.
EXPORT_FAILED = "APIServiceExportFailed"
EXPORT_NOT_FOUND = "APIServiceExportNotFound"
SCHEMA_FETCH_FAILED = "BoundSchemaFetchFailed"
CRD_CREATE_FAILED = "CustomResourceDefinitionCreateFailed"
CRD_UPDATE_FAILED = "CustomResourceDefinitionUpdateFailed"
FOREIGN_CRD = "ForeignCustomResourceDefinition"
EXPORT_CHANGED = "APIServiceExportChanged"
OBJECT_INVALID = "ProviderObjectInvalid"
NOT_ESTABLISHED = "CustomResourceDefinitionNotEstablished"
NO_VERSION_SERVED = "NoVersionServed"
STORED_VERSIONS = "StoredVersions"
WEBHOOK_NOT_ACCEPTED = "WebhookNotAccepted"

NAMES_NOT_ACCEPTED = "NamesNotAccepted"
NO_STATUS_SUBRESOURCE = "NoStatusSubresource"

_OF_CRDS = frozenset({VERSIONS_REMOVED, NAMES_TAKEN, WITHOUT_STATUS})
"""Types of conditions that are absent unless the plan has what they are about."""


class BindingState(msgspec.Struct, frozen=True):
    """Facts about a binding, its export, and the CRDs that the export needs.

    ``schemas`` are the existing BoundSchemas by name, and ``approvals`` those that they carry, of
    groups of k8s.io; ``crds`` are the consumer's CRDs by name, of the export and of what was bound
    before, ``neighbours`` all of the groups in which the API server refuses a name of one of them;
    ``converged`` tells whether a CRD is the outcome of writing a spec; ``ours`` whether the
    binding uses this provider, and stays; ``retained`` are the provider namespaces that should go
    and are kept for the objects in them; ``running`` are the versions in which objects are written
    at the moment, by the names of BoundSchemas; ``unreadable`` has a message for each object of
    the provider that does not fit its type, and that is None or missing here.
    """

    binding: APIServiceBinding
    owner: OwnerReference
    export: APIServiceExport | None
    request: APIServiceExportRequest | None
    schemas: Mapping[str, BoundSchemaSpec]
    crds: Mapping[str, Object]
    provider_name: str
    converged: Callable[[JSON, Object], bool]
    ours: bool = True
    retained: Sequence[str] = ()
    running: Mapping[str, str] = {}
    unreadable: Sequence[str] = ()
    approvals: Mapping[str, str] = {}
    neighbours: Sequence[Object] = ()


class CRDWrite(msgspec.Struct, frozen=True):
    """A CRD to create (``old`` is None) or to replace."""

    name: str
    old: Object | None
    body: JSON


class BindingPlan(msgspec.Struct, frozen=True):
    """CRDs to write, and the conditions that are known before; ``connected`` False ends the pass.

    ``connected`` is None for a binding that is not ours: no object is written. ``removed`` has for
    each CRD with versions that the provider lacks the remedy. ``stopping`` tells that a CRD waits
    for the end of writes in a version that would lose fields by it. ``unaccepted`` has the message
    for each CRD that stays as it is, for its schema has a webhook that was not accepted.
    ``clashes`` has a message for each CRD with a name that another has taken, ``stateless`` the
    names of the CRDs without the status subresource.
    """

    connected: KubeBindCondition | None
    writes: list[CRDWrite] = []
    unestablished: list[str] = []
    bound: list[GroupResource] = []
    removed: list[str] = []
    stopping: bool = False
    unaccepted: list[str] = []
    clashes: list[str] = []
    stateless: list[str] = []


def reconcile(state: BindingState) -> BindingPlan:
    """Decide which CRDs the consumer's cluster needs for the export."""
    if not state.ours:
        return BindingPlan(None)
    if state.unreadable:
        # What is bound goes on as it is.
        text = f"on the provider, {state.unreadable[0]}: its administrator has to correct it"
        return BindingPlan(false(CONNECTED, OBJECT_INVALID, text))
    if state.export is None:
        return BindingPlan(_without_export(state))
    resources = state.export.spec.resources
    if len(resources) > MOST_RESOURCES and not state.binding.status.bound_schemas:
        # As many CRDs at once would end the API server; no provider of ours makes such an export.
        message = (
            f"the provider's APIServiceExport {state.owner.name} has {len(resources)} "
            f"resources, and a binding takes at most {MOST_RESOURCES}: ask for several exports"
        )
        return BindingPlan(false(CONNECTED, OBJECT_INVALID, message))
    missing = [item.name for item in resources if item.name not in state.schemas]
    if missing:
        message = f"the provider has no BoundSchema {', '.join(missing)} (yet)"
        return BindingPlan(false(CONNECTED, SCHEMA_FETCH_FAILED, message))
    wrong = [item.name for item in resources if not describes(state.schemas[item.name], item)]
    if wrong:
        message = (
            f"BoundSchema {', '.join(wrong)} does not describe the resource that its name says"
        )
        return BindingPlan(false(CONNECTED, SCHEMA_FETCH_FAILED, message))
    return _with_schemas(state, resources)


def accepted_claims(state: BindingState) -> list[PermissionClaim]:
    """Return the claims that the export had when it was first bound.

    The person who bound it agreed to these; a provider that recreates its export with wider claims
    gains nothing.
    """
    old = state.binding.status
    if state.export is None or old.bound_schemas:
        return old.permission_claims
    return state.export.spec.permission_claims


def accepted_conversions(state: BindingState) -> list[ConversionWebhook]:
    """Return the accepted conversion webhooks; before the first record, the installed ones."""
    return accepted_webhooks(state.binding.status, _installed(state))


def adopted_conversions(state: BindingState) -> list[ConversionWebhook]:
    """Return the webhooks of a former version, which count as accepted and are recorded now."""
    if not state.ours or state.binding.status.conversion_webhooks is not None:
        return []
    return accepted_conversions(state)


def changed_claims(state: BindingState) -> str:
    """Return the message about claims that differ from the accepted ones, "" if none does."""
    if state.export is None or state.export.spec.permission_claims == accepted_claims(state):
        return ""
    return (
        f"the provider has changed the claims of APIServiceExport {state.owner.name}; the "
        "claims that were accepted when it was bound stay in force: to accept the new ones, "
        "delete the binding and bind again"
    )


def failure(*, created: bool, name: str, message: str) -> KubeBindCondition:
    """Return the condition Connected after a refused write of a CRD."""
    reason, verb = (CRD_CREATE_FAILED, "created") if created else (CRD_UPDATE_FAILED, "updated")
    return false(CONNECTED, reason, f"CustomResourceDefinition {name} cannot be {verb}: {message}")


def status(
    state: BindingState, plan: BindingPlan, failures: list[KubeBindCondition], *, now: str
) -> BindingStatus:
    """Return the binding's status after the plan; one pass sets each condition once."""
    old = state.binding.status
    connected = failures[0] if failures else plan.connected
    if connected is None:
        return old
    conditions = [connected]
    former = old.conditions
    if connected.status == "True":
        conditions.append(_schema_in_sync(plan))
        former = [condition for condition in former if condition.type not in _OF_CRDS]
    elif connected.reason == FIELDS_LOST:
        # The export repeats this one, by which the provider's team learns of it.
        conditions.append(false(SCHEMA_IN_SYNC, FIELDS_LOST, connected.message))
    if plan.removed:
        message = "; ".join(plan.removed)
        conditions.append(
            KubeBindCondition(VERSIONS_REMOVED, "True", reason=STORED_VERSIONS, message=message)
        )
    if plan.clashes:
        conditions.append(_names_taken(plan))
    if plan.stateless:
        conditions.append(_without_status(plan))
    # A resource that was once bound stays in the list, so that an export which shrinks and grows
    # again needs no new agreement.
    bound = old.bound_schemas + [item for item in plan.bound if item not in old.bound_schemas]
    return msgspec.structs.replace(
        old,
        conditions=set_conditions(former, *conditions, now=now, summary=True),
        bound_schemas=bound,
        permission_claims=accepted_claims(state),
        conversion_webhooks=accepted_conversions(state),
        provider_pretty_name=state.provider_name[: bounds.NAME_CHARACTERS]
        or old.provider_pretty_name,
    )


def no_export(binding: APIServiceBinding) -> str:
    """Return the message about a binding without an export on the provider."""
    what = f"the provider has no APIServiceExport {binding.metadata.name}"
    if binding.status.bound_schemas:
        return (
            f"{what} any more: its administrator has deleted it, or revoked this consumer's access"
        )
    return what


def _without_export(state: BindingState) -> KubeBindCondition:
    name = state.owner.name
    if state.request is not None and state.request.status.phase == "Failed":
        text = state.request.status.terminal_message or "the provider gave no reason"
        message = f"the provider refused APIServiceExportRequest {name}: {text}"
        return false(CONNECTED, EXPORT_FAILED, message)
    message = no_export(state.binding)
    # Who reads the condition alone has no other advice.
    if state.binding.status.bound_schemas:
        message += ". Ask the provider's team; `fairlead bind` with an invitation binds it again"
    else:
        message += ": `fairlead bind` with its invitation requests it"
    if state.retained:
        message += (
            f"; it keeps provider namespace {', '.join(sorted(state.retained))}, which still holds"
            " synced objects: see condition NamespaceReady of the APIServiceNamespace"
        )
    return false(CONNECTED, EXPORT_NOT_FOUND, message)


def _with_schemas(state: BindingState, resources: list[ExportResource]) -> BindingPlan:
    writes: list[CRDWrite] = []
    unestablished: list[str] = []
    removed: list[str] = []
    stopping = False
    unaccepted: list[str] = []
    connected = true(CONNECTED)
    if why := left_behind(state.request):
        connected = false(
            CONNECTED,
            FIELDS_LOST,
            f"the konnector writes nothing, since the provider reports: {why}",
        )
    bound = [GroupResource(group=item.group, resource=item.resource) for item in resources]
    for resource, item in zip(resources, bound, strict=True):
        name = crd_name(resource.resource, resource.group)
        # A refusal of one kind does not keep the others from being bound.
        if refused := _not_agreed(state, item):
            connected = refused
            continue
        schema, crd = state.schemas[resource.name], state.crds.get(name)
        if not schema.served:
            connected = _unserved(schema)
            continue
        ours = crd is not None and (owned(crd, state.owner) or restored(crd, state.owner))
        refusal = _not_accepted(state, item, named_webhook(schema))
        if refusal and crd is None:
            connected = false(CONNECTED, WEBHOOK_NOT_ACCEPTED, refusal)
            continue
        approval = state.approvals.get(resource.name, "")
        body = crd_from_bound_schema(schema, owner=state.owner, approval=approval)
        if crd is not None and not ours:
            connected = _foreign(name)
        else:
            gone: list[str] = []
            if crd is not None and refusal:
                # Nothing of the new schema is taken over: without the webhook the server would
                # convert between its versions by dropping fields.
                body = _agreed_body(state, item, crd)
                if lacks_conversion(state.binding.status, schema, crd):
                    refusal += (
                        ". Until then the konnector copies no content, since without "
                        "conversion a version drops the fields that it does not have"
                    )
                unaccepted.append(refusal)
            elif crd is not None:
                body, gone = with_versions_of(body, crd)
            # Before anything is written: fewer fields in a CRD are fewer fields in its objects. A
            # webhook that was withdrawn goes in any case, and no content crosses without it.
            if not refusal and (why := sync_version(schema, crd, body).why):
                connected = _lossy(schema, crd, why)
                continue
            removed += [_removed(schema, gone)] if gone else []
            running = state.running.get(resource.name, "")
            # A CRD that is being deleted is not written: its objects go first, and a new one is
            # made after that.
            if crd is None or not (
                crd.meta.deleting
                or (
                    _marked(crd, state.owner)
                    and approval in {"", approval_of(crd.meta)}
                    and state.converged(body, crd)
                )
            ):
                lossy = crd is not None and running and loses(schema, crd, body, running)
                if lossy and not refusal:
                    stopping = True
                else:
                    written = _body(body, crd, state.owner, approval)
                    writes.append(CRDWrite(name, crd, written))
        if crd is None or not established(crd):
            unestablished.append(name)
    agreed = [item for item in bound if _not_agreed(state, item) is None]
    return BindingPlan(
        connected,
        writes,
        unestablished,
        agreed,
        removed,
        stopping,
        unaccepted,
        clashes=_clashes(state, agreed),
        stateless=_stateless(state, agreed),
    )


def _clashes(state: BindingState, agreed: Sequence[GroupResource]) -> list[str]:
    """Return a message for each CRD of the binding with a name that another one has taken."""
    crds = (state.crds.get(crd_name(item.resource, item.group)) for item in agreed)
    return [
        _clash(crd, clash)
        for crd in crds
        if crd is not None
        and owned(crd, state.owner)
        and (clash := name_clashes(crd, state.neighbours))
    ]


def _stateless(state: BindingState, agreed: Sequence[GroupResource]) -> list[str]:
    """Return the names of the CRDs in whose version of synchronisation no status crosses."""
    names: list[str] = []
    for item in agreed:
        schema, name = state.schemas[item.name], crd_name(item.resource, item.group)
        if all(
            version.subresources.status is not None
            for version in schema.versions
            if version.served
        ):
            # Which version it is takes a comparison of schemas, which may be large.
            continue
        version = sync_version(schema, state.crds.get(name)).name
        if version and schema.version(version).subresources.status is None:
            names.append(name)
    return names


def _installed(state: BindingState) -> list[ConversionWebhook]:
    """Return the webhooks of the binding's own CRDs."""
    bound = list(state.binding.status.bound_schemas)
    bound += state.export.spec.resources if state.export is not None else []
    webhooks: list[ConversionWebhook] = []
    for item in bound:
        crd = state.crds.get(crd_name(item.resource, item.group))
        if crd is None or not (owned(crd, state.owner) or restored(crd, state.owner)):
            continue
        conversion = webhook(item, installed_webhook(crd))
        if conversion.url and conversion not in webhooks:
            webhooks.append(conversion)
    return webhooks


def _not_accepted(state: BindingState, item: GroupResource, url: str) -> str:
    """Return the message about a webhook that was not accepted, "" if there is none."""
    if not url or webhook(item, url) in accepted_conversions(state):
        return ""
    remedy = acceptance(state.owner.name, url)
    return f"{consequences(item, url)}. It is not installed: {remedy}"


def _agreed_body(state: BindingState, item: GroupResource, crd: Object) -> JSON:
    """Return the body of a CRD as it was agreed to: as it is, without a withdrawn webhook."""
    url = installed_webhook(crd)
    is_accepted = not url or webhook(item, url) in accepted_conversions(state)
    return crd.to_dict() if is_accepted else without_webhook(crd)


def _unserved(schema: BoundSchemaSpec) -> KubeBindCondition:
    names = ", ".join(version.name for version in schema.versions)
    message = (
        "the provider no longer serves any version of "
        f"{crd_name(schema.names.plural, schema.group)} (it has {names}): its administrator "
        "has to serve one; until then the konnector writes nothing"
    )
    return false(CONNECTED, NO_VERSION_SERVED, message)


def _lossy(schema: BoundSchemaSpec, crd: Object | None, why: str) -> KubeBindCondition:
    name = crd_name(schema.names.plural, schema.group)
    served = "serve a version with all fields of the one in which it stores objects"
    if crd is None:
        message = f"{name} is not bound, since its objects would lose fields: {why}"
        return false(CONNECTED, FIELDS_LOST, f"{message}. The provider has to {served}")
    going = sync_version(schema, crd).name
    what = (
        f"the CustomResourceDefinition stays as it is, and objects are synchronised in {going}"
        if going
        else "the konnector does not write to objects and their copies"
    )
    message = (
        f"objects of {name} would lose fields: {why}. So {what}. The provider has to {served}; "
        f"if you do not need these fields here, remove them with `kubectl edit crd {name}`"
    )
    return false(CONNECTED, FIELDS_LOST, message)


def _removed(schema: BoundSchemaSpec, gone: Sequence[str]) -> str:
    name, version = crd_name(schema.names.plural, schema.group), sync_version(schema, None).name
    storage = next((one.name for one in schema.versions if one.storage), version)
    removed = ", ".join(gone)
    message = (
        f"the provider no longer has version {removed} of {name}, in which objects may be "
        "stored here: the CustomResourceDefinition keeps it, not served, and objects are "
        f"synchronised in {version}. Clients of {removed} in this cluster have to use "
        f"{version}. To remove the version, write every object once (`kubectl get {name} -A -o "
        "json | kubectl replace -f -`), then "
    )
    patch = f'{{"status":{{"storedVersions":["{storage}"]}}}}'
    command = f"kubectl patch crd {name} --subresource=status --type=merge -p '{patch}'"
    return f"{message}`{command}`; the provider can serve it again as well"


def _not_agreed(state: BindingState, item: GroupResource) -> KubeBindCondition | None:
    """Return the condition for a resource of the export that gets no CRD, else None.

    The person who bound agreed to the export as it was then, and kinds of Kubernetes and kube-bind
    no provider may bring, whether they are installed here or not.
    """
    old = state.binding.status.bound_schemas
    if not bindable(item.group):
        message = f"{item.name} is a kind of Kubernetes or kube-bind, which no provider can bring"
        return false(CONNECTED, FOREIGN_CRD, message)
    # An empty list is the first bind: what the export has now is agreed to.
    if old and item not in old:
        message = (
            f"the provider now exports {item.name} too: to accept it, delete the binding and "
            "bind again"
        )
        return false(CONNECTED, EXPORT_CHANGED, message)
    return None


def _body(body: JSON, crd: Object | None, owner: OwnerReference, approval: str) -> JSON:
    """Return the body for a CRD; an existing one keeps its metadata, which others may extend."""
    if crd is None:
        return body
    result = {**of_binding(crd, owner), "spec": body["spec"]}
    if approval:
        result["metadata"]["annotations"][ANNOTATION_API_APPROVED] = approval
    return result


def _marked(crd: Object, owner: OwnerReference) -> bool:
    """Whether a binding owns the CRD, and is named by the annotation that a backup restores."""
    return owned(crd, owner) and crd.meta.annotations.get(ANNOTATION_BOUND_BY) == owner.name


def _clash(crd: Object, clash: str) -> str:
    stands = "is served without this name" if established(crd) else "is not established"
    return (
        f"CustomResourceDefinition {crd.meta.name} {stands}: {clash}. To free the name, remove "
        "it from the other CustomResourceDefinition, or delete that one if its objects are not "
        "needed"
    )


def _names_taken(plan: BindingPlan) -> KubeBindCondition:
    message = "; ".join(plan.clashes[: bounds.NAMED])
    return KubeBindCondition(NAMES_TAKEN, "True", reason=NAMES_NOT_ACCEPTED, message=message)


def _without_status(plan: BindingPlan) -> KubeBindCondition:
    names = ", ".join(plan.stateless)
    message = (
        f"the status of {names} does not come back, since the provider's "
        "CustomResourceDefinition has no status subresource: what the provider's program "
        "writes into the status stays in the provider's cluster"
    )
    return KubeBindCondition(WITHOUT_STATUS, "True", reason=NO_STATUS_SUBRESOURCE, message=message)


def _foreign(name: str) -> KubeBindCondition:
    message = (
        f"CustomResourceDefinition {name} exists and does not belong to this binding: delete "
        "it, or the binding that owns it, if its objects are not needed"
    )
    return false(CONNECTED, FOREIGN_CRD, message)


def _schema_in_sync(plan: BindingPlan) -> KubeBindCondition:
    if plan.unaccepted:
        message = "; ".join(plan.unaccepted[: bounds.NAMED])
        if len(plan.unaccepted) > bounds.NAMED:
            message += f"; and {len(plan.unaccepted) - bounds.NAMED} more"
        return false(SCHEMA_IN_SYNC, WEBHOOK_NOT_ACCEPTED, message, severity="Warning")
    if plan.unestablished and plan.clashes:
        return false(SCHEMA_IN_SYNC, NAMES_NOT_ACCEPTED, "; ".join(plan.clashes[: bounds.NAMED]))
    if plan.unestablished:
        message = f"waiting for CustomResourceDefinition {', '.join(plan.unestablished)}"
        return false(SCHEMA_IN_SYNC, NOT_ESTABLISHED, message, severity="Info")
    return true(SCHEMA_IN_SYNC)
