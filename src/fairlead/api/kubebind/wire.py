"""What the two sides hand each other outside any cluster.

A BindingProvider says how to be let in, a BindingResponse lets in and says what to ask for, and
an Error says why not.
"""

from __future__ import annotations

import base64
from enum import StrEnum

import msgspec

from fairlead.api.kubebind.catalogue import TemplateSpec
from fairlead.api.kubebind.names import API_VERSION
from fairlead.api.kubebind.types import ExportRequestSpec
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


class OAuth2CodeGrantMethod(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Where a browser authenticates."""

    authenticated_url: str = msgspec.field(name="authenticatedURL")


class AuthenticationMethod(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """One way to be let in; ``method`` is the name of the field that describes it."""

    method: str
    oauth2_code_grant: OAuth2CodeGrantMethod | None = msgspec.field(
        default=None, name="oauth2CodeGrant"
    )


class _Document(
    msgspec.Struct,
    rename="camel",
    omit_defaults=True,
    kw_only=True,
    frozen=True,
    tag_field="kind",
    tag=str,
):
    """What always says its apiVersion, and its kind, the name of the class."""

    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)


class BindingProvider(_Document, kw_only=True, frozen=True):
    """How a provider introduces itself to whoever asks its address."""

    version: str = ""
    provider_pretty_name: str = ""
    authentication_methods: list[AuthenticationMethod] = []


class ErrorCode(StrEnum):
    """The kinds of refusal."""

    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    AUTHORIZATION_FAILED = "AUTHORIZATION_FAILED"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    BAD_REQUEST = "BAD_REQUEST"
    CLUSTER_CONNECTION_FAILED = "CLUSTER_CONNECTION_FAILED"


class Error(_Document, kw_only=True, frozen=True):
    """Why a provider did not do what it was asked for over HTTP.

    ``code`` is an :class:`ErrorCode`, or one that a later provider has come to know.
    """

    message: str
    code: str
    details: str = ""


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
