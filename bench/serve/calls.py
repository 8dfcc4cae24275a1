"""A bind's own API calls, made one after the other by a bare client.

They are all the requests that the front door and the provider's controllers make for the bind of a
person who has just looked at what is offered, and of a cluster that is new. A test compares them
with what a sandbox is asked:

- The front door declares a BindableResourcesRequest. When a watch has told it the outcome, it
  reads the Secret with the answer, and deletes both.
- The provider's controller of such requests reads the template, finds that the identity has no
  namespace yet, and makes one. It makes a ClusterBinding, a ServiceAccount, a RoleBinding, a token
  and a kubeconfig there, each after a look whether it is there; it waits for the token to be
  filled in. It stores the answer in a Secret, and writes the request's status and an Event.
- The controller of ClusterBindings writes the status of the new one, and an Event, meanwhile.

The answer waits for all but that status and both Events, which the server is busy with all the
same. The bare client watches nothing but its token, decides nothing, and leaves the kinds
alone that the provider's controllers work on: it has twins of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from bench.loading import READY, Side, Write, delete, encoded, patch, post, twin
from fairlead.api.kubebind import (
    APISERVICEEXPORTTEMPLATES,
    BINDABLERESOURCESREQUESTS,
    BINDER_NAME,
    CLUSTER_BINDING_NAME,
    CLUSTERBINDINGS,
    KUBECONFIG_NAME,
)
from fairlead.api.meta import JSON
from fairlead.api.resource import (
    CLUSTERROLES,
    EVENTS,
    NAMESPACES,
    ROLEBINDINGS,
    SECRETS,
    SERVICEACCOUNTS,
    Resource,
)
from fairlead.client.wire import read_lines
from fairlead.provider.credentials import binder_role_binding
from fairlead.provider.tokens import ACCOUNT_ANNOTATION, TOKEN_TYPE


BARE_REQUESTS = twin(BINDABLERESOURCESREQUESTS)
BARE_BINDINGS = twin(CLUSTERBINDINGS)

_KUBECONFIG = 3000
"""Bytes of a consumer's kubeconfig, with a CA and a token."""
_RESPONSE = 2 * _KUBECONFIG
"""Bytes of the answer, which has the kubeconfig in base64."""


class _Secret(msgspec.Struct):
    data: dict[str, str] = {}


class _Items(msgspec.Struct):
    items: list[_Secret]


class _Event(msgspec.Struct):
    object: _Secret


class BareBind:
    """Makes the calls of binds of one template, whose requests are in ``namespace``."""

    def __init__(self, side: Side, namespace: str, template: str) -> None:
        self._side = side
        self._namespace = namespace
        self._template = template

    async def bind(self, name: str) -> float:
        """Time the calls of one bind, in a cluster namespace of this name."""
        begun = time.monotonic()
        for call in self.calls(name):
            if isinstance(call, str):
                await self._token(name, call)
            else:
                await self._side.send(call, missing=True)
        return time.monotonic() - begun

    def calls(self, name: str) -> Iterator[Write | str]:
        """The calls in their order; a path stands for a list of a token, until it is filled in."""
        request = f"bare-{name}"
        yield post(BARE_REQUESTS, self._namespace, _named(request, spec=self._spec(name)))
        yield _get(APISERVICEEXPORTTEMPLATES, "", self._template)
        yield Write("GET", NAMESPACES.path())
        yield post(NAMESPACES, "", _named(name, annotations={"bench/identity": name}))
        yield from _ensured(BARE_BINDINGS, name, CLUSTER_BINDING_NAME, spec=_BINDING)
        yield from _ensured(SERVICEACCOUNTS, name, BINDER_NAME)
        yield _get(CLUSTERROLES, "", BINDER_NAME)
        yield _get(ROLEBINDINGS, name, BINDER_NAME)
        yield post(ROLEBINDINGS, name, binder_role_binding(name))
        yield _get(SECRETS, name, KUBECONFIG_NAME)
        yield Write("GET", SECRETS.path(name))
        yield _get(SECRETS, name, BINDER_NAME)
        account = {ACCOUNT_ANNOTATION: BINDER_NAME}
        yield post(SECRETS, name, _named(BINDER_NAME, annotations=account, type=TOKEN_TYPE))
        yield f"{SECRETS.path(name)}?fieldSelector=metadata.name%3D{BINDER_NAME}"
        yield from _ensured(SECRETS, name, KUBECONFIG_NAME, data=_data(_KUBECONFIG))
        ready = {"status": {"conditions": [READY]}}
        yield patch(BARE_BINDINGS, name, CLUSTER_BINDING_NAME, ready, "status")
        yield _event(BARE_BINDINGS, name, CLUSTER_BINDING_NAME)
        yield from _ensured(SECRETS, self._namespace, request, data=_data(_RESPONSE))
        status = {"status": {"phase": "Succeeded", "namespace": name, "conditions": [READY]}}
        yield patch(BARE_REQUESTS, self._namespace, request, status, "status")
        yield _event(BARE_REQUESTS, self._namespace, request)
        yield _get(SECRETS, self._namespace, request)
        yield delete(BARE_REQUESTS, self._namespace, request)
        yield delete(SECRETS, self._namespace, request)

    def _spec(self, name: str) -> JSON:
        return {
            "templateRef": {"name": self._template},
            "clusterIdentity": {"identity": name, "prettyName": name},
            "author": "https://login.example.org/bare",
            "kubeconfigSecretRef": {"name": f"bare-{name}", "key": "binding-response"},
            "ttlAfterFinished": "10m",
        }

    async def _token(self, namespace: str, path: str) -> None:
        """List the token's Secret, and watch it as long as nothing has filled it in."""
        listed = await self._side.send(Write("GET", path))
        if any("token" in one.data for one in msgspec.json.decode(listed, type=_Items).items):
            return
        version = msgspec.json.decode(listed)["metadata"]["resourceVersion"]
        async with await self._side.watch(path, version) as answer:
            async for lines in read_lines(answer.content):
                for line in lines:
                    if "token" in msgspec.json.decode(line, type=_Event).object.data:
                        return
        raise RuntimeError(f"the watch of {namespace}'s token ended")


_BINDING: JSON = {
    "kubeconfigSecretRef": {"name": KUBECONFIG_NAME, "key": KUBECONFIG_NAME},
    "providerPrettyName": "bare",
    "serviceProviderSpec": {},
}


def _named(name: str, annotations: dict[str, str] | None = None, **more: Any) -> JSON:
    return {"metadata": {"name": name, "annotations": annotations or {}}, **more}


def _event(resource: Resource, namespace: str, name: str) -> Write:
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name,
        "namespace": namespace,
    }
    event: JSON = {
        "metadata": {"name": f"{name}.bare"},
        "involvedObject": reference,
        "reason": "Ready",
        "message": "everything is as it should be",
        "type": "Normal",
        "source": {"component": "bench"},
    }
    return post(EVENTS, namespace, event)


def _data(size: int) -> dict[str, str]:
    return encoded({"value": size * "v"})


def _get(resource: Resource, namespace: str, name: str) -> Write:
    return Write("GET", resource.path(namespace, name))


def _ensured(resource: Resource, namespace: str, name: str, **more: Any) -> Iterator[Write]:
    """Look whether it is there, and make it."""
    yield _get(resource, namespace, name)
    yield post(resource, namespace, _named(name, **more))
