"""Documents that provider and consumer exchange outside any cluster.

A BindingProvider lists the ways to authenticate, a BindingResponse grants access and lists the
requests to make, and an Error gives the reason of a refusal.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from fairlead.api import unknownfields, yamltext
from fairlead.api.crd import object_schema
from fairlead.api.decoding import field_message
from fairlead.api.kubebind.catalogue import TemplateSpec
from fairlead.api.kubebind.names import API_VERSION
from fairlead.api.kubebind.types import APIServiceExportRequest, ExportRequestSpec
from fairlead.api.meta import JSON


T = TypeVar("T")

_REQUEST = "APIServiceExportRequest"


class NameOnly(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True):
    """Metadata with a name alone; the receiver adds the namespace."""

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
    """Session and subject of the authenticated caller."""

    sid: str = ""
    id: str = ""


class Authentication(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """Authentication of the caller."""

    oauth2_code_grant: OAuth2CodeGrant | None = msgspec.field(default=None, name="oauth2CodeGrant")


class OAuth2CodeGrantMethod(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """URL at which a browser authenticates."""

    authenticated_url: str = msgspec.field(name="authenticatedURL")


class AuthenticationMethod(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """One way to authenticate; ``method`` is the name of the field that describes it."""

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
    """Base of documents that carry apiVersion, and as kind the name of the class."""

    # Made by a factory, or omit_defaults would leave it out.
    api_version: str = msgspec.field(default_factory=lambda: API_VERSION)


class BindingProvider(_Document, kw_only=True, frozen=True):
    """Introduction of a provider: its version, its name and its ways to authenticate."""

    version: str = ""
    provider_pretty_name: str = ""
    authentication_methods: list[AuthenticationMethod] = []


class ErrorCode(StrEnum):
    """Codes of refused or failed requests."""

    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    AUTHORIZATION_FAILED = "AUTHORIZATION_FAILED"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    BAD_REQUEST = "BAD_REQUEST"
    CLUSTER_CONNECTION_FAILED = "CLUSTER_CONNECTION_FAILED"


class Error(_Document, kw_only=True, frozen=True):
    """Reason why a provider refused or failed a request over HTTP.

    ``code`` is an :class:`ErrorCode`, or a newer code of a later provider.
    """

    message: str
    code: str
    details: str = ""


class BindingResponse(
    msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, frozen=True
):
    """A provider's answer to a consumer: the kubeconfig, and the requests to make.

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
    *, kubeconfig: bytes, requests: list[JSON], provider_namespace: str, identity: str
) -> JSON:
    """Return the wire form of a BindingResponse.

    No caller was authenticated for it, but kube-bind's ``deploy`` rejects one without
    ``oauth2CodeGrant``: its ``id`` is the consumer's identity, its ``sid`` the cluster namespace.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": "BindingResponse",
        "authentication": {"oauth2CodeGrant": {"sid": provider_namespace, "id": identity}},
        "kubeconfig": base64.b64encode(kubeconfig).decode(),
        "requests": requests,
        "providerNamespace": provider_namespace,
    }


ANSWERS = ("BindingResponse", "BindingResourceResponse")
"""Kinds of the same document in kube-bind's HTTP answers and in its answers to a
BindableResourcesRequest; the latter has ``requests: null``."""

_MAX_DEPTH = 64
"""Levels of nested collections that an invitation's YAML may have."""
_MISTAKES = {
    "Config": "it is a kubeconfig, and an invitation has one in it",
    "Secret": (
        "an answer is base64-encoded in a Secret: kubectl get secret NAME "
        "-o jsonpath='{.data.binding-response}' | base64 -d"
    ),
    "APIServiceExportRequest": "it is what an invitation asks for: give it with --request",
    "APIServiceExportTemplate": "`fairlead provider invite` makes an invitation of a template",
}


def decode_binding_response(data: bytes) -> BindingResponse:
    """Decode a provider's answer from JSON or YAML, under either name.

    Raises:
        ValueError: the data is no such answer; the message names the wrong field.
    """
    what = " or ".join(ANSWERS)
    documents = read_documents(data)
    if len(documents) > 1:
        raise ValueError(f"no {what}: these are {len(documents)} documents")
    _check_kind(documents[0], ANSWERS)
    response = _convert(documents[0], BindingResponse, what)
    for index, request in enumerate(response.requests):
        kind = (request.api_version, request.kind)
        if kind != (API_VERSION, _REQUEST):
            received = f"kind {request.kind!r}, apiVersion {request.api_version!r}"
            raise ValueError(
                f"requests[{index}] is not an {_REQUEST} of {API_VERSION}: {received}"
            )
    return response


def decode_export_requests(data: bytes) -> list[ExportRequestResponse]:
    """Decode APIServiceExportRequests from JSON or YAML, one or more documents, or a List.

    Of their metadata the name alone counts: the receiver decides the rest.

    Raises:
        ValueError: the data has no such requests; the message names the wrong field.
    """
    requests: list[JSON] = []
    for document in read_documents(data):
        is_list = isinstance(document, dict) and document.get("kind") == "List"
        requests += document.get("items") or [] if is_list else [document]
    schema = object_schema(APIServiceExportRequest)
    for document in requests:
        _check_kind(document, (_REQUEST,))
        # A person who writes a request by hand means every field of it; a server would drop the
        # unknown ones.
        if why := unknownfields.refusal(document, schema):
            metadata = document.get("metadata")
            name = metadata.get("name", "") if isinstance(metadata, dict) else ""
            raise ValueError(f"{_REQUEST} {name}: {why}")
    return [_convert(document, ExportRequestResponse, _REQUEST) for document in requests]


def read_documents(data: bytes) -> list[Any]:
    """Return the documents of a file in JSON or YAML, without members that are null.

    Raises:
        ValueError: it is empty, or neither; the text continues a sentence about the file.
    """
    try:
        # This also takes the byte order mark that editors on Windows put before UTF-8.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it {yamltext.refusal(error)}") from None
    if not text.strip("\0 \t\r\n"):
        raise ValueError("it is empty")
    try:
        documents = [without_nulls(one) for one in _parse(text) if one is not None]
    except (yamltext.YAMLError, ValueError, RecursionError) as error:
        raise ValueError(f"it {yamltext.refusal(error)}") from None
    if not documents:
        raise ValueError("it is empty")
    return documents


def _parse(text: str) -> list[Any]:
    # JSON may be indented by tabs, which libyaml refuses.
    if text.lstrip().startswith("{"):
        # YAML in flow style begins with a brace too: it is tried next.
        with suppress(msgspec.DecodeError, RecursionError):
            return [msgspec.json.decode(text)]
    return yamltext.load_all(text, aliases=False, max_depth=_MAX_DEPTH)


def without_nulls(value: Any) -> Any:
    """Remove members that are null: Go writes null for an absent list or map."""
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    return value


def _check_kind(document: Any, kinds: Sequence[str]) -> None:
    what = " or ".join(kinds)
    if not isinstance(document, dict):
        raise ValueError(  # noqa: TRY004  the file is wrong, not the program
            f"no {what}: it is not an object with apiVersion and kind"
        )
    kind, version = document.get("kind", ""), document.get("apiVersion", "")
    if kind in kinds and version == API_VERSION:
        return
    mistake = _MISTAKES.get(str(kind), "")
    raise ValueError(
        f"no {what} of {API_VERSION}: kind is {kind!r}, apiVersion {version!r}"
        + (f"; {mistake}" if mistake and kind not in kinds else "")
    )


def _convert(document: JSON, type_: type[T], what: str) -> T:
    try:
        return msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise ValueError(f"no {what}: {field_message(error)}") from None


def request_from_template(template: TemplateSpec, *, name: str) -> JSON:
    """Return the APIServiceExportRequest for a template; its metadata has the name alone."""
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
