"""Answers reads from a server, with errors that fit a condition."""

from __future__ import annotations

from fairlead.api.meta import JSON
from fairlead.api.resource import SUBJECTACCESSREVIEWS, Resource
from fairlead.api.servicebinding.common import CONTROLLER_LABEL
from fairlead.binding.reads import (
    Answer,
    Get,
    ListAll,
    Lookup,
    Marked,
    Read,
    ReadFailure,
    RightsReview,
)
from fairlead.client import (
    BadRequest,
    Client,
    ClientError,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
)


_WORKLOAD_VERBS = "get, list, watch and patch"
_SERVICE_VERBS = "get, list and watch"


async def fetch(client: Client, read: Read) -> Answer:
    """Return the answer to a read; a refusal is an answer too.

    Raises:
        ConnectionFailed: the server is unavailable, so no status can be written either.
    """
    try:
        match read:
            case Get():
                return await _get(client, read)
            case ListAll():
                labels = str(read.labels)
                listed = await client.list(read.resource, read.namespace, labels=labels)
                return tuple(listed.items)
            case Marked():
                return await _marked(client, read)
            case Lookup():
                return await _lookup(client, read)
            case RightsReview():
                return bool(await review(client, read))
    except Forbidden as error:
        return ReadFailure("Forbidden", _remedy(error, read))
    except (BadRequest, Invalid) as error:
        # The request is malformed, so a retry cannot help.
        return ReadFailure("Invalid", str(error))
    except ConnectionFailed:
        raise
    except ClientError as error:
        return ReadFailure("Error", str(error))


async def _get(client: Client, read: Get) -> Answer:
    missing = ReadFailure("NotFound", f'{read.resource.group_resource} "{read.name}" not found')
    # An empty name would make the path that of the collection.
    if not read.name or (read.resource.namespaced and not read.namespace):
        return missing
    namespace = read.namespace if read.resource.namespaced else ""
    try:
        return await client.get(read.resource, read.name, namespace)
    except NotFound:
        return missing


async def _marked(client: Client, read: Marked) -> Answer:
    """List a namespace's metadata and filter them, if no watch has them."""
    try:
        listed = await client.list(read.resource, read.namespace, metadata_only=True)
    except NotFound:
        return ReadFailure("NotFound", f"{read.resource.group_resource} is not served")
    return tuple(item for item in listed.items if read.matches(item.meta))


async def _lookup(client: Client, read: Lookup) -> Answer:
    api_version = f"{read.group}/{read.version}" if read.group else read.version
    try:
        if read.plural:
            return await client.discovery.resource_by_plural(read.group, read.plural, read.version)
        if read.kind:
            return await client.discovery.resource_for(api_version, read.kind)
    except NotServed:
        what = f'kind "{read.kind}"' if not read.plural else f'resource "{read.plural}"'
        remedy = "install its CRD, or correct the reference"
        return ReadFailure(
            "NoMatch", f'no matches for {what} in version "{api_version}": {remedy}'
        )
    return ReadFailure("NoMatch", "Kind undefined: the reference needs a kind or a resource")


async def review(client: Client, read: RightsReview) -> bool | None:
    """Return whether a user has a right (SubjectAccessReview); None without a verdict."""
    attributes: JSON = {
        "namespace": read.namespace,
        "verb": read.verb,
        "group": read.resource.group,
        "version": read.resource.version,
        "resource": read.resource.plural,
        "name": read.name,
    }
    spec = {"user": read.user, "groups": list(read.groups), "resourceAttributes": attributes}
    body: JSON = {
        "apiVersion": SUBJECTACCESSREVIEWS.api_version,
        "kind": SUBJECTACCESSREVIEWS.kind,
        "spec": spec,
    }
    try:
        answer = await client.create(SUBJECTACCESSREVIEWS, body)
    except ClientError:
        return None
    status = answer.to_dict().get("status") or {}
    return status.get("allowed") is True


def _remedy(error: Forbidden, read: Read) -> str:
    if not isinstance(read, Get | ListAll | Marked):
        return str(error)
    verbs = _WORKLOAD_VERBS if read.spec_only else _SERVICE_VERBS
    return "; ".join([str(error), *grants(error, read.resource, verbs)])


def grants(error: Forbidden, resource: Resource, verbs: str) -> list[str]:
    """Return the remedy for a missing right; none where a webhook, policy or quota refused."""
    if not error.lacks_right:
        return []
    place = f"{verbs} on {resource.group_resource}"
    return [f"grant {place} with a ClusterRole labelled {CONTROLLER_LABEL}=true"]
