"""What the two sides hand each other outside any cluster: the BindingResponse and its requests."""

from __future__ import annotations

import base64

import msgspec

from fairlead.api.kubebind_catalogue import TemplateSpec
from fairlead.api.kubebind_names import API_VERSION
from fairlead.api.kubebind_types import ExportRequestSpec
from fairlead.api.meta import JSON


class NameOnly(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Metadata that is a name; the receiver decides the rest."""

    name: str = ""


class ExportRequestResponse(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """An APIServiceExportRequest for the consumer to create in its cluster namespace."""

    api_version: str
    kind: str
    metadata: NameOnly = NameOnly()
    spec: ExportRequestSpec


class OAuth2CodeGrant(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Who was authenticated, by session and subject."""

    sid: str = ""
    id: str = ""


class Authentication(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """How the caller was authenticated; empty for an invitation."""

    oauth2_code_grant: OAuth2CodeGrant | None = msgspec.field(default=None, name="oauth2CodeGrant")


class BindingResponse(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A provider's answer to a consumer: the way in, and what to ask for there.

    ``kubeconfig`` is bytes here and base64 on the wire.
    """

    api_version: str
    kind: str
    authentication: Authentication = Authentication()
    kubeconfig: bytes = b""
    requests: list[ExportRequestResponse] = []
    provider_namespace: str = ""
    binding_name: str = ""


def new_binding_response(
    *, kubeconfig: bytes, requests: list[JSON], provider_namespace: str
) -> JSON:
    """The wire form of a BindingResponse."""
    return {
        "apiVersion": API_VERSION,
        "kind": "BindingResponse",
        "authentication": {},
        "kubeconfig": base64.b64encode(kubeconfig).decode(),
        "requests": requests,
        "providerNamespace": provider_namespace,
    }


def decode_binding_response(data: bytes) -> BindingResponse:
    """A BindingResponse from its JSON.

    Raises:
        ValueError: it is none; the message names the field that is wrong.
    """
    try:
        response = msgspec.json.decode(data, type=BindingResponse)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a BindingResponse: {error}") from None
    if response.kind != "BindingResponse" or response.api_version != API_VERSION:
        raise ValueError(
            f"not a BindingResponse of {API_VERSION}: "
            f"kind is {response.kind!r}, apiVersion {response.api_version!r}"
        )
    return response


def request_from_template(template: TemplateSpec, *, name: str) -> JSON:
    """What a consumer asks for when it takes a template; metadata has the name alone."""
    spec = ExportRequestSpec(
        resources=template.resources,
        permission_claims=template.permission_claims,
        namespaces=template.namespaces,
        schema_update_policy=template.schema_update_policy,
    )
    return {
        "apiVersion": API_VERSION,
        "kind": "APIServiceExportRequest",
        "metadata": {"name": name},
        "spec": msgspec.to_builtins(spec),
    }
