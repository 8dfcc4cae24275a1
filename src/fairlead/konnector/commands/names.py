"""The common name of request, export and APIServiceBinding.

If the name is taken by something else, it gets a number. Binding the same again finds the name of
the first time, because the objects under it are equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from fairlead.api.kubebind import (
    APISERVICEBINDINGS,
    APISERVICEEXPORTREQUESTS,
    APISERVICEEXPORTS,
    APIServiceBinding,
    APIServiceExport,
    APIServiceExportRequest,
    BindingResponse,
    ClusterSecretKeyRef,
    ExportRequestResponse,
    NameOnly,
)
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import Object
from fairlead.client import Client
from fairlead.client.lookups import find, list_all
from fairlead.konnector.commands.request import BindError, Progress, difference, in_vain


ATTEMPTS = 20
"""Numbers that are tried before a person has to choose a name."""
_MAX_NAME = 253


def with_name(response: BindingResponse, name: str) -> BindingResponse:
    """Return the response with its one request under another name; "" keeps the provider's.

    Raises:
        ValueError: the response has several requests, or the name is invalid for objects.
    """
    if name and len(response.requests) > 1:
        names = ", ".join(request.metadata.name for request in response.requests)
        raise ValueError(
            f"--name is for an invitation with one request; this one has several: {names}"
        )
    if name and (errors := subdomain_errors(name)):
        raise ValueError(f"{name!r} cannot be the name of an object: {errors[0]}")
    # bindingName is the proposal of the provider; kube-bind makes one for its web page alone.
    chosen = name or response.binding_name
    if not chosen or len(response.requests) != 1:
        return response
    requests = [named(response.requests[0], chosen)]
    return msgspec.structs.replace(response, requests=requests, binding_name=chosen)


def named(request: ExportRequestResponse, name: str) -> ExportRequestResponse:
    """Return the request under a name."""
    return msgspec.structs.replace(request, metadata=NameOnly(name=name))


def candidates(base: str, taken: Collection[str]) -> Iterator[str]:
    """Yield the names to try: first ``taken`` ones that are the base with a number, then all."""
    every = [_numbered(base, number) for number in range(1, ATTEMPTS + 1)]
    yield from (name for name in every if name in taken)
    yield from (name for name in every if name not in taken)


def _numbered(base: str, number: int) -> str:
    if number == 1:
        return base
    suffix = f"-{number}"
    # A dot that is left at the cut would make a label begin with "-".
    return base[: _MAX_NAME - len(suffix)].rstrip("-.") + suffix


async def bindings_by_name(client: Client) -> dict[str, Object]:
    """Return the consumer's APIServiceBindings."""
    return {found.meta.name: found for found in await list_all(client, APISERVICEBINDINGS)}


async def choose_name(
    bindings: Mapping[str, Object],
    provider: Client,
    request: ExportRequestResponse,
    secret: ClusterSecretKeyRef,
    *,
    namespace: str,
    progress: Progress,
) -> str:
    """Return the first name that is free on both sides, or that stands for the same request.

    Args:
        bindings: the consumer's, by name.
        provider: a client with the invitation's credentials.
        request: the wanted export, under the wanted name.
        secret: the consumer's Secret with the provider's kubeconfig.
        namespace: the cluster namespace.
        progress: called if the name is not the wanted one.

    Raises:
        BindError: the object of this name is being deleted, or all names are taken.
        ClientError: the provider cannot be reached, or does not allow it.
    """
    base = request.metadata.name
    mine = {name for name, found in bindings.items() if secret_of(found) == secret}
    reasons: dict[str, str] = {}
    for name in candidates(base, mine):
        taken = ""
        if name in bindings and name not in mine:
            taken = f"APIServiceBinding {name} uses another kubeconfig Secret"
        taken = taken or await _taken_there(provider, named(request, name), namespace)
        if not taken:
            _check_deletion(bindings.get(name))
            if name != base:
                progress(_message(base, name, reasons.get(base, "")))
            return name
        reasons[name] = taken
    raise BindError(
        f"all names from {base} to {_numbered(base, ATTEMPTS)} are taken; {reasons[base]}: "
        "choose another with --name"
    )


def _message(base: str, name: str, reason: str) -> str:
    if reason:
        return f"the name {base} is taken ({reason}): using {name}"
    return f"it is already bound as {name}: using that name"


def _check_deletion(binding: Object | None) -> None:
    if binding is not None and binding.meta.deleting:
        raise BindError(
            f"APIServiceBinding {binding.meta.name} is being deleted: wait until it is gone"
        )


def secret_of(binding: Object) -> ClusterSecretKeyRef:
    """Return the Secret with the provider's kubeconfig that a binding names."""
    return binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref


async def _taken_there(provider: Client, request: ExportRequestResponse, namespace: str) -> str:
    """Return how the provider's objects differ from the request of this name, else ""."""
    name = request.metadata.name
    export = await find(provider, APISERVICEEXPORTS, name, namespace)
    if export is not None:
        if export.meta.deleting:
            raise BindError(
                f"the provider's APIServiceExport {name} is being deleted: wait until it is gone"
            )
        spec = export.decode(APIServiceExport).spec
        return difference(request, export, spec.resources, spec.permission_claims)
    existing = await find(provider, APISERVICEEXPORTREQUESTS, name, namespace)
    if existing is None or await in_vain(provider, existing):
        return ""
    existing_spec = existing.decode(APIServiceExportRequest).spec
    return difference(request, existing, existing_spec.resources, existing_spec.permission_claims)


async def check_unbound(
    bindings: Collection[str],
    provider: Client,
    request: ExportRequestResponse,
    *,
    namespace: str,
) -> None:
    """Raise if a resource of the request is exported to this cluster under another name.

    A provider's BoundSchemas have the names of their resources, so that a second export of one
    would never become ready.

    Args:
        bindings: the names of the consumer's.
        provider: a client with the invitation's credentials.
        request: the wanted export, under its final name.
        namespace: the cluster namespace.

    Raises:
        BindError: something is; says what to do.
        ClientError: the provider cannot be reached, or does not allow it.
    """
    names = {item.name for item in request.spec.resources}
    for export in (await provider.list(APISERVICEEXPORTS, namespace)).items:
        other = export.meta.name
        spec = export.decode(APIServiceExport).spec
        both = sorted(names & {item.name for item in spec.resources})
        if not both or other == request.metadata.name:
            continue
        again = named(request, other)
        remedy = ""
        if other in bindings:
            remedy = f"run `fairlead unbind {other}`, and "
        elif not difference(again, export, spec.resources, spec.permission_claims):
            remedy = f"bind it with --name {other}, or "
        raise BindError(
            f"the provider exports {', '.join(both)} to this cluster already, as "
            f"APIServiceExport {other}: {remedy}ask the provider's team to delete it in "
            f"namespace {namespace}"
        )
