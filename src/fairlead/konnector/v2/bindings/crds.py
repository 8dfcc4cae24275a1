"""The consumer's CRD of a bound API: pulled from the provider, and never taken from others.

A CRD is ours if it has our label and names its Connection; only such a one is replaced or deleted.
It is made with exactly one version, the stored one if the provider serves it, and keeps a former
one unserved while objects may be stored in it. Source: kbind v2, but for the latter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from fairlead.api.definitions import crd_spec
from fairlead.api.kbind import SchemaPolicy, schema_hash
from fairlead.api.kbind.names import (
    ANNOTATION_CONNECTION,
    ANNOTATION_NEVER_BOUND,
    ANNOTATION_SCHEMA_HASH,
    API_NOT_EXPORTED,
    CONVERSION_REFUSED,
    FOREIGN_CRD,
    LABEL_MANAGED,
    NO_VERSION_SERVED,
    PENDING,
)
from fairlead.api.kubebind import binding_of_crd
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.konnector.crds import established, with_versions_of
from fairlead.konnector.policies.copies import LAST_APPLIED


_V1ALPHA2 = "kube-bind.io/"
"""Prefix of the keys of the other protocol, which do not cross."""


class Fault(msgspec.Struct, frozen=True):
    """Reason and message of an API that is not synchronised.

    An event ends a ``passing`` one. Of a ``refused`` write no event tells when it is accepted.
    """

    reason: str
    message: str
    passing: bool = False
    refused: bool = False


class CRDPlan(msgspec.Struct, frozen=True):
    """The write of a CRD that is next, or the fault that keeps its API from being bound."""

    action: Literal["", "create", "replace"] = ""
    body: JSON | None = None
    fault: Fault | None = None


def owner_of(crd: Object | None) -> str:
    """Return the name of the Connection that owns a CRD, "" if none does."""
    return crd.meta.annotations.get(ANNOTATION_CONNECTION, "") if crd is not None else ""


def is_made(crd: Object) -> bool:
    """Whether a konnector has made a CRD, and it is marked so."""
    return (
        bool(owner_of(crd))
        and crd.meta.labels.get(LABEL_MANAGED) == "true"
        and ANNOTATION_SCHEMA_HASH in crd.meta.annotations
    )


def plan_crd(
    api: str,
    connection: str,
    policy: SchemaPolicy,
    offered: Object | None,
    crd: Object | None,
    *,
    left: bool = False,
    unread: Fault | None = None,
    bound: bool = True,
) -> CRDPlan:
    """Return the write of the consumer's CRD that is next for an API.

    Args:
        api: name of the API, which is the CRD's.
        connection: name of the Connection that the API is bound by.
        policy: which CRDs the Connection makes and updates.
        offered: the provider's CRD; None if it does not offer one.
        crd: the consumer's CRD, None without one.
        left: whether the Connection that owned the CRD is gone.
        unread: why the schemas of ``offered`` are not known, None if they are.
        bound: whether a binding covers objects of the API; pullPolicy All pulls others too.
    """
    if (taken := _taken(api, connection, policy, crd, left=left)) is not None:
        return CRDPlan(fault=taken)
    if offered is None:
        return CRDPlan(fault=unread or _unoffered(api, connection, policy))
    version, fault = _version(api, offered)
    if fault is not None:
        return CRDPlan(fault=fault)
    if crd is not None and crd.meta.deleting:
        return CRDPlan(
            fault=Fault(
                PENDING,
                f"CustomResourceDefinition {api} is being deleted; it is installed again when it "
                "is gone",
            )
        )
    if policy.pull_policy == "None":
        return _unpulled(api, connection, crd)
    first = bound and crd is not None and ANNOTATION_NEVER_BOUND in crd.meta.annotations
    if policy.update_policy == "Once" and crd is not None and owner_of(crd) == connection:
        return (
            CRDPlan("replace", _replaced(crd, crd.to_dict(), bound=True)) if first else CRDPlan()
        )
    if unread is not None:
        installed = crd is not None and owner_of(crd) == connection
        # What is installed goes on while the provider's schema cannot be compared with it.
        return CRDPlan() if installed and unread.reason == PENDING else CRDPlan(fault=unread)
    body = pulled(offered, connection, version)
    if crd is None:
        if not bound:
            body["metadata"]["annotations"][ANNOTATION_NEVER_BOUND] = "true"
        return CRDPlan("create", body)
    written = {
        key: body["metadata"]["annotations"][key]
        for key in (ANNOTATION_CONNECTION, ANNOTATION_SCHEMA_HASH)
    }
    if written.items() <= crd.meta.annotations.items() and not first:
        return CRDPlan()
    return CRDPlan("replace", _replaced(crd, body, bound=bound))


def usable_resource(offered: Object | None, crd: Object | None) -> Resource | None:
    """Return the resource in which both clusters serve a kind; None if there is none.

    The version that the consumer stores comes first.
    """
    if crd is None or not established(crd):
        return None
    spec = crd_spec(crd)
    served = spec.served if offered is None else crd_spec(offered).served
    versions = sorted(spec.served, key=lambda name: name != spec.stored)
    return next((spec.resource(name) for name in versions if name in served), None)


def unusable(api: str, offered: Object | None, crd: Object | None) -> Fault:
    """Return the fault of a CRD that has no resource which both clusters serve."""
    if crd is None or not established(crd) or offered is None:
        return Fault(PENDING, f"CustomResourceDefinition {api} is not served in this cluster yet")
    here, there = (", ".join(crd_spec(obj).served) or "none" for obj in (crd, offered))
    return Fault(
        NO_VERSION_SERVED,
        f"the two clusters serve no common version of {api}: this one serves {here}, and the "
        f"provider {there}; with schema.updatePolicy Once or pullPolicy None you have to "
        "change its CustomResourceDefinition yourself",
    )


def takes_status(crd: Object, version: str) -> bool:
    """Whether a CRD has the subresource ``status`` in a version."""
    for entry in crd.to_dict()["spec"]["versions"]:
        if entry["name"] == version:
            return (entry.get("subresources") or {}).get("status") is not None
    return False


def pulled(offered: Object, connection: str, version: str) -> JSON:
    """Return the consumer's CRD of a provider's, with one version of it."""
    spec = dict(offered.to_dict()["spec"])
    entry = next(entry for entry in spec["versions"] if entry["name"] == version)
    spec["versions"] = [{**entry, "served": True, "storage": True}]
    # One version needs no conversion.
    spec["conversion"] = {"strategy": "None"}
    spec.pop("preserveUnknownFields", None)
    annotations = _crossing(offered.meta.annotations)
    annotations.pop(LAST_APPLIED, None)
    annotations[ANNOTATION_CONNECTION] = connection
    annotations[ANNOTATION_SCHEMA_HASH] = schema_hash(spec)
    return {
        "apiVersion": offered.api_version,
        "kind": offered.kind,
        "metadata": {
            "name": offered.meta.name,
            "labels": {**_crossing(offered.meta.labels), LABEL_MANAGED: "true"},
            "annotations": annotations,
        },
        "spec": spec,
    }


def _crossing(keys: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in keys.items() if not name.startswith(_V1ALPHA2)}


def _replaced(crd: Object, body: JSON, *, bound: bool) -> JSON:
    """Return the CRD with another spec, for a PUT; labels and annotations of others stay."""
    old = crd.to_dict()
    metadata = {**old["metadata"]}
    metadata.pop("managedFields", None)
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), **(body["metadata"].get(field) or {})}
    if bound:
        metadata["annotations"].pop(ANNOTATION_NEVER_BOUND, None)
    replaced = {**old, "metadata": metadata, "spec": body["spec"]}
    # Objects may be stored in a version that the provider does not serve any more.
    return with_versions_of(replaced, crd)[0]


def _unpulled(api: str, connection: str, crd: Object | None) -> CRDPlan:
    """Return what becomes of a CRD that the user has to make."""
    if crd is None:
        return CRDPlan(
            fault=Fault(
                PENDING,
                f"there is no CustomResourceDefinition {api} in this cluster, and Connection "
                f"{connection} creates none (schema.pullPolicy None): create it",
            )
        )
    if owner_of(crd) == connection:
        return CRDPlan()
    # The label stays off: it marks what a konnector has made, and may delete.
    marks: JSON = {"metadata": {"labels": {}, "annotations": {ANNOTATION_CONNECTION: connection}}}
    return CRDPlan("replace", _replaced(crd, {**crd.to_dict(), **marks}, bound=True))


def _taken(
    api: str, connection: str, policy: SchemaPolicy, crd: Object | None, *, left: bool
) -> Fault | None:
    """Return why a CRD cannot be used for this Connection, None if it can."""
    if crd is None or crd.meta.deleting:
        return None
    if owner := binding_of_crd(crd.meta):
        return Fault(
            FOREIGN_CRD,
            f"CustomResourceDefinition {api} belongs to APIServiceBinding {owner}: unbind that "
            "first",
        )
    owner = owner_of(crd)
    if owner and owner != connection and not left:
        return Fault(
            FOREIGN_CRD,
            f"Connection {owner} already binds {api}, and all its objects go there: bind it "
            "with that Connection, or unbind it there and delete its CustomResourceDefinition",
        )
    if policy.pull_policy != "None" and not is_made(crd):
        return Fault(
            FOREIGN_CRD,
            f"CustomResourceDefinition {api} already exists in this cluster, and no konnector "
            "created it: delete it if its objects are not needed, or set schema.pullPolicy "
            f"None of Connection {connection} to use it as it is",
        )
    return None


def _unoffered(api: str, connection: str, policy: SchemaPolicy) -> Fault:
    label = "the provider has to label its CustomResourceDefinition core.kbind.io/exported=true"
    serve = (
        "the provider has to serve it with the verbs get, list, watch, create, patch and delete"
    )
    remedy = serve if policy.source == "OpenAPI" else label
    message = f"the provider of Connection {connection} does not offer {api}: {remedy}"
    return Fault(API_NOT_EXPORTED, message)


def _version(api: str, offered: Object) -> tuple[str, Fault | None]:
    """Return the version of a provider's CRD in which it is bound, or the fault."""
    try:
        spec = crd_spec(offered)
    except msgspec.ValidationError as error:
        return "", Fault(PENDING, f"the provider's {api} cannot be read: {error}")
    if spec.conversion is not None and spec.conversion.strategy != "None":
        return "", Fault(
            CONVERSION_REFUSED,
            f"the provider converts {api} with a webhook, which serves only the provider's own "
            "cluster: ask it for a CustomResourceDefinition with conversion strategy None",
        )
    resource = spec.readable()
    if resource is None:
        return "", Fault(
            NO_VERSION_SERVED, f"the provider serves no version of {api}: ask it to serve one"
        )
    return resource.version, None
