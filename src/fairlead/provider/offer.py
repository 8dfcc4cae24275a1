"""Invitations of a consumer, and whether its requests stay within them.

The ClusterBinding of a consumer records the templates of its invitations in
``spec.serviceProviderSpec``, the field that kube-bind leaves to the provider: the consumer reads
it and may write the status beside it, never the spec. The consumer may request what these
templates offer at the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from fairlead.api.kubebind import (
    ExportResource,
    NamedRef,
    NamedResource,
    PermissionClaim,
    Selector,
    SelectorReference,
    TemplateSpec,
)
from fairlead.api.meta import JSON, Object
from fairlead.api.selectors import LabelSelectorTerms
from fairlead.provider import bounds


class InvitationRecord(msgspec.Struct, frozen=True):
    """The record of a consumer's invitations in its ClusterBinding.

    ``templates`` are their names, in order; None if they were not recorded, for a consumer that
    was invited before records existed. A consumer that is being revoked gets no more objects, and
    with ``clearing``, once its access is gone, the provider deletes the objects that it had.
    """

    templates: tuple[str, ...] | None = None
    revoked: bool = False
    clearing: bool = False


class Offer(NamedTuple):
    """A record and the templates that it names, None where there is no such template."""

    record: InvitationRecord
    templates: Mapping[str, TemplateSpec | None]


def record_of(binding: Object | None) -> InvitationRecord:
    """Return the record of a consumer; an empty one without a ClusterBinding."""
    if binding is None:
        return InvitationRecord()
    stored = binding.decode(_WithSpec).spec.service_provider_spec
    try:
        read = msgspec.convert(stored, _Stored)
    except msgspec.ValidationError:
        # A record that cannot be decoded offers no template. A revocation that has begun goes on
        # all the same.
        return InvitationRecord(revoked=stored.get("revoked") is True)
    templates = None
    if read.templates is not None:
        templates = tuple(dict.fromkeys(template.name for template in read.templates))
    return InvitationRecord(templates, read.revoked, read.revoked and read.clearing)


def with_template(service_provider_spec: JSON, record: InvitationRecord, template: str) -> JSON:
    """Return the serviceProviderSpec of a consumer that was invited to one more template."""
    names = dict.fromkeys([*(record.templates or ()), template])
    return service_provider_spec | {"templates": [{"name": name} for name in names]}


def with_revocation(service_provider_spec: JSON, *, clearing: bool | None = None) -> JSON:
    """Return the serviceProviderSpec of a consumer whose revocation has begun.

    ``clearing`` declares whether its objects are deleted; None leaves that as it is.
    """
    declared = {} if clearing is None else {"clearing": clearing}
    return service_provider_spec | {"templates": [], "revoked": True} | declared


def beyond(
    offer: Offer, resources: Iterable[ExportResource], claims: Iterable[PermissionClaim]
) -> str:
    """Return which resource or claim exceeds the consumer's invitation, and how; "" if none."""
    if offer.record.revoked:
        return "the provider is revoking this consumer's access"
    if offer.record.templates is None:
        return (
            "there is no record of this consumer's invitation, since an older version invited "
            "it: the provider has to invite it again with `fairlead provider invite`"
        )
    templates = {name: found for name, found in offer.templates.items() if found is not None}
    for index, resource in enumerate(resources):
        if why := _beyond_resources(resource, list(templates.values())):
            return f"spec.resources[{index}]: {_cut(resource.name)} {why}: {_described(offer)}"
    for index, claim in enumerate(claims):
        if why := _beyond_claims(claim, list(templates.values())):
            return f"spec.permissionClaims[{index}]: {_cut(claim.name)} {why}: {_described(offer)}"
    return ""


def _beyond_resources(resource: ExportResource, templates: Sequence[TemplateSpec]) -> str:
    offered = [
        offered
        for template in templates
        for offered in template.resources
        if offered.group_resource == resource.group_resource
    ]
    if not offered:
        return "is not in this consumer's invitation"
    # No versions means all of them.
    if any(not one.versions for one in offered):
        return ""
    versions = sorted({version for one in offered for version in one.versions})
    if resource.versions and set(resource.versions) <= set(versions):
        return ""
    text = f"versions {_listed(resource.versions)}" if resource.versions else "all versions"
    return f"is requested in {text}, and this consumer's invitation has {', '.join(versions)}"


def _beyond_claims(claim: PermissionClaim, templates: Sequence[TemplateSpec]) -> str:
    offered = [
        offered.selector
        for template in templates
        for offered in template.permission_claims
        if offered.group_resource == claim.group_resource
    ]
    if not offered:
        return "is claimed, but is not in this consumer's invitation"
    if any(covers(one, claim.selector) for one in offered):
        return ""
    return "is claimed with a wider selector than in this consumer's invitation"


def covers(offered: Selector, requested: Selector) -> bool:
    """Whether ``offered`` certainly matches every object that ``requested`` matches.

    A selector matches in any of three ways, so that each part of the narrower one has to be in the
    same part of the wider one.
    """
    # A label selector without terms matches every object.
    if offered.label_selector is not None and not _requirements(offered.label_selector):
        return True
    return (
        (requested.label_selector is None or _labels_cover(offered, requested.label_selector))
        and all(_names_cover(offered.named_resources, one) for one in requested.named_resources)
        and all(_references_cover(offered.references, one) for one in requested.references)
    )


def _labels_cover(offered: Selector, requested: LabelSelectorTerms) -> bool:
    if offered.label_selector is None:
        return False
    have = _requirements(requested)
    return all(
        any(_implies(one, requirement) for one in have)
        for requirement in _requirements(offered.label_selector)
    )


class _Requirement(NamedTuple):
    key: str
    operator: str
    values: frozenset[str]


def _requirements(terms: LabelSelectorTerms) -> list[_Requirement]:
    labels = [
        _Requirement(key, "In", frozenset({value})) for key, value in terms.match_labels.items()
    ]
    expressions = [
        _Requirement(expression.key, expression.operator, frozenset(expression.values))
        for expression in terms.match_expressions
    ]
    return labels + expressions


def _implies(requested: _Requirement, offered: _Requirement) -> bool:
    """Whether labels that meet ``requested`` always meet ``offered``."""
    if requested.key != offered.key:
        return False
    # NotIn also matches objects that do not have the label at all, as it does in Kubernetes:
    # DoesNotExist therefore implies it, and Exists does not.
    match offered.operator, requested.operator:
        case "In", "In":
            return requested.values <= offered.values
        case "NotIn", "NotIn":
            return requested.values >= offered.values
        case "NotIn", "In":
            return not requested.values & offered.values
        case ("NotIn" | "DoesNotExist", "DoesNotExist") | ("Exists", "In" | "Exists"):
            return True
    return False


def _names_cover(offered: Iterable[NamedResource], requested: NamedResource) -> bool:
    return any(
        resource.name == requested.name and resource.namespace in {"", requested.namespace}
        for resource in offered
    )


def _references_cover(offered: Iterable[SelectorReference], requested: SelectorReference) -> bool:
    return any(
        reference.group_resource == requested.group_resource
        and reference.json_path == requested.json_path
        and (
            not reference.versions
            or (requested.versions and set(requested.versions) <= set(reference.versions))
        )
        for reference in offered
    )


def _described(offer: Offer) -> str:
    """Return the offers of a consumer's templates as text, with the remedy."""
    names = offer.record.templates or ()
    if not names:
        return "its invitation has no template; the provider has to invite it"
    texts = [_template(name, offer.templates.get(name)) for name in names[: bounds.NAMED]]
    if len(names) > bounds.NAMED:
        texts.append(f"and {len(names) - bounds.NAMED} more")
    return (
        f"{'; '.join(texts)}. Request no more than that, or ask the provider to change the "
        "template, or to invite you with another one"
    )


def _template(name: str, spec: TemplateSpec | None) -> str:
    if spec is None:
        return f"template {name} does not exist any more"
    text = f"template {name} offers {_listed(_resource(one) for one in spec.resources)}"
    if spec.permission_claims:
        text += f" with claims on {_listed(claim.name for claim in spec.permission_claims)}"
    return text


def _resource(resource: ExportResource) -> str:
    return " ".join([resource.name, "/".join(resource.versions)]).strip()


def _listed(names: Iterable[str]) -> str:
    listed = [_cut(name) for name in names]
    more = [f"{len(listed) - bounds.NAMED} more"] if len(listed) > bounds.NAMED else []
    return ", ".join([*listed[: bounds.NAMED], *more])


def _cut(name: str) -> str:
    """Cut a name, since a consumer may write a text of any length."""
    return name if len(name) <= bounds.NAME_CHARACTERS else f"{name[: bounds.NAME_CHARACTERS]}..."


class _Stored(msgspec.Struct):
    templates: list[NamedRef] | None = None
    revoked: bool = False
    clearing: bool = False


class _Spec(msgspec.Struct, rename="camel"):
    service_provider_spec: JSON = {}


class _WithSpec(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
