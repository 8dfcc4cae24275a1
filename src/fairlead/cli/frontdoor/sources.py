"""Sources of the response to bind, each as a function of the consumer's client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import click
import msgspec
import yaml

from fairlead.api import yamltext
from fairlead.api.decoding import field_message
from fairlead.api.kubebind import (
    API_VERSION,
    BindingResponse,
    ExportRequestResponse,
    TemplateSpec,
    decode_binding_response,
    request_from_template,
)
from fairlead.api.kubebind.wire import without_nulls
from fairlead.api.meta import JSON, Object
from fairlead.api.resource import NAMESPACES, SECRETS
from fairlead.cli.frontdoor import browser
from fairlead.cli.frontdoor.options import Where, backend, find_server
from fairlead.cli.frontdoor.output import name_of
from fairlead.cli.printing import note
from fairlead.client import Client, NotFound
from fairlead.konnector.secrets import content


Fetch = Callable[[Client], Awaitable[BindingResponse]]
RESPONSE_KEYS = ("binding-response", "kubeconfig")
"""Keys of a Secret that may hold a BindingResponse: of kube-bind's controllers, and of its CLI."""


async def identity_of(client: Client, namespace: str = "kube-system") -> str:
    """Return the identity of a cluster: the uid of a namespace.

    Raises:
        ClientError: the namespace cannot be read.
    """
    return (await client.get(NAMESPACES, namespace)).meta.uid


class Identity(msgspec.Struct, frozen=True):
    """Identity of the consumer's cluster at the provider: given, or the uid of a namespace."""

    said: str = ""
    namespace: str = "kube-system"

    async def of(self, client: Client) -> str:
        """Return the identity of the client's cluster."""
        return self.said or await identity_of(client, self.namespace)


def template_source(
    where: Where, template: str, *, name: str, identity: Identity, dry: bool
) -> Fetch:
    """Return the source for a template, bound through the server by a signed-in person.

    Args:
        where: the server's options.
        template: its name.
        name: the binding's name, "" for the template's.
        identity: the cluster's identity.
        dry: whether the template is only read from the server, without a request to bind.
    """
    # Here and not in fetch: a wrong flag is reported before any request.
    entry = find_server(where)

    async def fetch(client: Client) -> BindingResponse:
        async with backend(where, entry) as server:
            if dry:
                items = await server.templates()
                note(server.warnings)
                return _offered(items, template, name or template)
            body: JSON = {
                "apiVersion": API_VERSION,
                "kind": "BindableResourcesRequest",
                "metadata": {"name": name or template},
                "spec": {
                    "templateRef": {"name": template},
                    "clusterIdentity": {"identity": await identity.of(client)},
                },
            }
            return await server.bind(body)

    return fetch


def _offered(items: Sequence[JSON], template: str, name: str) -> BindingResponse:
    """Return the BindingResponse that a bind of the template would get, without a kubeconfig.

    ``items`` are the templates that the server offers.
    """
    offer = next((item for item in items if name_of(item) == template), None)
    if offer is None:
        names = ", ".join(sorted(map(name_of, items))) or "nothing"
        raise click.ClickException(f"you are offered no template {template!r}, but {names}")
    try:
        spec = msgspec.convert(without_nulls(offer.get("spec")), TemplateSpec)
        request = msgspec.convert(request_from_template(spec, name=name), ExportRequestResponse)
    except msgspec.ValidationError as error:
        raise click.ClickException(
            f"template {template!r} cannot be read: {field_message(error)}"
        ) from None
    return BindingResponse(api_version=API_VERSION, kind="BindingResponse", requests=[request])


def page_source(
    where: Where, url: str, *, identity: Identity, seconds: float, skip_browser: bool
) -> Fetch:
    """Return the source for a person's choice on the provider's page."""
    entry = find_server(where, url)

    async def fetch(client: Client) -> BindingResponse:
        from fairlead.portal.client.handshakes import choose_on_page

        # Before a browser opens: an unreachable cluster is reported at once.
        mine = await identity.of(client)
        async with backend(where, entry, signed_in=False) as server:
            show = partial(browser.show, skip=skip_browser)
            return await choose_on_page(server, mine, show, timeout=seconds)

    return fetch


def secret_source(namespace: str, name: str, key: str) -> Fetch:
    """Return the source for a Secret of the consumer's cluster; "" tries the known keys."""

    async def fetch(client: Client) -> BindingResponse:
        secret = await _secret(client, namespace, name)
        keys = (key,) if key else RESPONSE_KEYS
        for candidate in keys:
            if data := content(secret, candidate):
                return _decoded(data, f"Secret {namespace}/{name}, key {candidate!r}")
        has = ", ".join(sorted(secret.to_dict().get("data") or {})) or "none"
        alternatives = " or ".join(map(repr, keys))
        raise click.ClickException(
            f"Secret {namespace}/{name} has no key {alternatives}: name one with --secret-key "
            f"(it has {has})"
        )

    return fetch


def remote_source(
    requests: list[ExportRequestResponse],
    kubeconfig: bytes,
    *,
    secret: tuple[str, str],
    namespace: str,
) -> Fetch:
    """Return the source for requests that are made with a kubeconfig of the provider.

    Args:
        requests: the wanted exports.
        kubeconfig: the kubeconfig of the provider; b"" if it is in a Secret.
        secret: namespace and name of that Secret.
        namespace: the cluster namespace, "" for that of the kubeconfig.
    """

    async def fetch(client: Client) -> BindingResponse:
        data = kubeconfig
        if not data:
            data = content(await _secret(client, *secret), "kubeconfig")
            if not data:
                where = "/".join(secret)
                raise click.ClickException(f"Secret {where} has no key 'kubeconfig'")
        if namespace:
            data = in_namespace(data, namespace)
        return BindingResponse(
            api_version=API_VERSION, kind="BindingResponse", kubeconfig=data, requests=requests
        )

    return fetch


def given(response: BindingResponse) -> Fetch:
    """Return the source for a response that was read from a file."""

    async def fetch(_client: Client) -> BindingResponse:
        return response

    return fetch


def in_namespace(kubeconfig: bytes, namespace: str) -> bytes:
    """Return the kubeconfig with another namespace in its current context, if it is valid."""
    try:
        document: Any = yamltext.load(kubeconfig, aliases=False, max_depth=64)
        for context in document["contexts"]:
            if context["name"] == document["current-context"]:
                context["context"]["namespace"] = namespace
    except (yamltext.YAMLError, ValueError, KeyError, TypeError):
        # What is wrong with it is told where the bind reads it.
        return kubeconfig
    return yaml.safe_dump(document, sort_keys=False).encode()


async def _secret(client: Client, namespace: str, name: str) -> Object:
    try:
        return await client.get(SECRETS, name, namespace)
    except NotFound as error:
        if not error.concerns(name):
            raise
        raise click.ClickException(f"there is no Secret {namespace}/{name}") from None


def _decoded(data: bytes, where: str) -> BindingResponse:
    try:
        return decode_binding_response(data)
    except ValueError as error:
        raise click.ClickException(f"{where}: {error}") from None
