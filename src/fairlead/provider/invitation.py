"""Invitation of a consumer: the document with a kubeconfig and a request, with which it binds.

A second invitation gives the same answer: the namespace is found by the identity, and existing
objects stay. The template is added to the recorded ones, whose resources the consumer may request.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import msgspec

from fairlead.api.addresses import is_loopback
from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    ANNOTATION_AUTHOR,
    ANNOTATION_CLUSTER_PRETTY_NAME,
    ANNOTATION_IDENTITY,
    API_VERSION,
    APISERVICEEXPORTTEMPLATES,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
    APIServiceExportTemplate,
    TemplateSpec,
    new_binding_response,
    request_from_template,
)
from fairlead.api.label_names import subdomain_errors
from fairlead.api.meta import JSON, Object
from fairlead.client import AlreadyExists, Client, Conflict, NotFound
from fairlead.client.lookups import find, list_all, unknown
from fairlead.provider.credentials import ensure_credentials
from fairlead.provider.identity import InviteError, ensure_cluster_namespace
from fairlead.provider.offer import record_of, with_template
from fairlead.provider.options import InviteOptions
from fairlead.provider.presence import NoProviderError, check_provider
from fairlead.runtime import commit


class TemplateMissingError(InviteError):
    """The template does not exist; the text names the existing ones."""


async def invite(
    client: Client,
    *,
    name: str,
    template: str,
    identity: str = "",
    author: str = "",
    binding_name: str = "",
    options: InviteOptions | None = None,
    requested_in: str = "",
    most: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> JSON:
    """Invite one consumer; return the BindingResponse in its wire form, which has a credential.

    The kubeconfig in it can do nothing outside the consumer's cluster namespace and, once there
    are exports, the provider namespaces made for it.

    Args:
        client: a client of the provider's cluster, with an administrator's rights.
        name: the consumer's name, for people.
        template: name of the APIServiceExportTemplate to bind.
        identity: the identity of the consumer's cluster; two invitations of one identity share a
            namespace.
        author: the person who invites; an identity stays with its first author.
        binding_name: the name of the request, and so of export and binding; default is the
            template's.
        options: the consumer's access to the provider; empty fields stay as they were.
        requested_in: the namespace of the request that asks for it; it stays the only one.
        most: consumers of this author; a new one beyond them is refused.
        progress: called with lines for the person who invites.

    Raises:
        TemplateMissingError: the template does not exist.
        OtherAuthorError: the identity is another author's, or another namespace's.
        TooManyConsumersError: the author has ``most`` already.
        InviteError: the invitation cannot be given; the message says what to do.
        ApiError: the server refused.
    """
    chosen = options or InviteOptions()
    request = binding_name or template
    # A template with an impossible name is reported as missing, with the existing ones.
    spec = await _template(client, template)
    if errors := subdomain_errors(request):
        raise InviteError(f"binding name {request!r} cannot be used: {errors[0]}")
    identity = identity or name
    namespace = await ensure_cluster_namespace(
        client,
        identity=identity,
        author=author,
        prefix=chosen.namespace_prefix,
        requested_in=requested_in,
        most=most,
    )
    # The record comes first: it refuses a consumer that is being revoked, which must not get
    # credentials again.
    await _record(client, _cluster_binding(namespace, name, chosen), template)
    kubeconfig, server = await ensure_credentials(client, namespace.meta.name, chosen)
    if progress is not None and server not in {chosen.external_address, client.config.server}:
        progress(
            f"{identity} keeps reaching this cluster at {server}, as it was invited before; "
            "--external-address changes that"
        )
    if progress is not None and is_loopback(urlsplit(server).hostname or ""):
        progress(
            f"{identity} gets {server}, which in a Pod is the Pod itself: for a konnector in a "
            "cluster invite with --external-address https://HOST:6443"
        )
    return new_binding_response(
        kubeconfig=kubeconfig,
        requests=[request_from_template(spec, name=request)],
        provider_namespace=namespace.meta.name,
        identity=identity,
    )


async def _template(client: Client, name: str) -> TemplateSpec:
    try:
        template = await find(client, APISERVICEEXPORTTEMPLATES, name)
    except NotFound:
        try:
            await check_provider(client, APISERVICEEXPORTTEMPLATES)
        except NoProviderError as error:
            raise InviteError(str(error)) from None
        raise
    if template is None:
        names = [item.meta.name for item in await list_all(client, APISERVICEEXPORTTEMPLATES)]
        raise TemplateMissingError(unknown(APISERVICEEXPORTTEMPLATES.kind, name, names))
    try:
        return template.decode(APIServiceExportTemplate).spec
    except msgspec.ValidationError as error:
        raise InviteError(
            f"APIServiceExportTemplate {name} is not valid: {field_message(error)}"
        ) from None


async def _record(client: Client, body: JSON, template: str) -> None:
    """Record the template in the consumer's ClusterBinding, which is created if it is missing.

    Raises:
        InviteError: the consumer is being revoked.
        ApiError: the server refused.
    """
    namespace, spec = body["metadata"]["namespace"], body["spec"]
    while True:
        stored = await find(client, CLUSTERBINDINGS, CLUSTER_BINDING_NAME, namespace)
        record = record_of(stored)
        if record.revoked:
            raise InviteError(
                f"the consumer of {namespace} is being revoked: finish that with `fairlead "
                f"provider revoke {namespace}`, and invite it then"
            )
        live = body if stored is None else stored.to_dict()
        old: JSON = live["spec"].get("serviceProviderSpec") or {}
        recorded = with_template(old, record, template)
        merged = live | {"spec": live["spec"] | spec | {"serviceProviderSpec": recorded}}
        # Its konnector writes heartbeats meanwhile.
        with suppress(AlreadyExists, Conflict):
            if stored is None:
                await client.create(CLUSTERBINDINGS, merged)
            else:
                await commit(client, CLUSTERBINDINGS, stored, merged)
            return


def _cluster_binding(namespace: Object, pretty_name: str, options: InviteOptions) -> JSON:
    keys = (ANNOTATION_IDENTITY, ANNOTATION_AUTHOR)
    annotations = {
        key: namespace.meta.annotations[key] for key in keys if key in namespace.meta.annotations
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterBinding",
        "metadata": {
            "name": CLUSTER_BINDING_NAME,
            "namespace": namespace.meta.name,
            "annotations": annotations | {ANNOTATION_CLUSTER_PRETTY_NAME: pretty_name},
        },
        "spec": {
            "kubeconfigSecretRef": {"name": KUBECONFIG_NAME, "key": KUBECONFIG_NAME},
            "providerPrettyName": options.pretty_name,
        },
    }
