"""Routing: the resource and the handler of a request, without an HTTP library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from fairlead_sandbox import errors
from fairlead_sandbox.objects.core import Core, User
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers import patch, read, scale, write
from fairlead_sandbox.requests.handlers.read import existing
from fairlead_sandbox.requests.info import RequestInfo, mended
from fairlead_sandbox.requests.negotiation import negotiate
from fairlead_sandbox.resources.types import ResourceType


Handler = Callable[[Call], Awaitable[Answer]]

_COLLECTION: Mapping[str, Handler] = {
    "list": read.list_,
    "create": write.create,
    "deletecollection": write.delete_collection,
}
_OBJECT: Mapping[str, Handler] = {
    "get": read.get,
    "update": write.update,
    "patch": patch.patch,
    "delete": write.delete,
}
_STATUS: Mapping[str, Handler] = {
    "get": read.get,
    "update": write.update,
    "patch": patch.patch,
}
_SCALE: Mapping[str, Handler] = {
    "get": scale.get,
    "update": scale.update,
    "patch": scale.patch,
}
_POD_STREAMS = {
    "log": ("get",),
    "exec": ("get", "create"),
    "attach": ("get", "create"),
    "portforward": ("get", "create"),
}
"""Subresources that need a running Pod, with their verbs."""
VERSION = {
    "major": "1",
    "minor": "37",
    # What follows "-" would be a version before 1.37 to tools that compare versions.
    "gitVersion": "v1.37.2+fairlead",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""Body of ``/version``; kubectl warns if minor versions differ by more than one."""


class Router:
    """Finds resources and handlers; ``auth`` registers further handlers."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.subresources: dict[tuple[str, str, str], Handler] = {
            ("namespaces", "finalize", "update"): write.finalize,
            **{
                ("pods", name, verb): not_running
                for name, verbs in _POD_STREAMS.items()
                for verb in verbs
            },
        }
        """Handlers by (group resource, subresource, verb), beyond status and scale."""
        self.collections: dict[tuple[str, str], Handler] = {}
        """Handlers by (group resource, verb) that replace the general ones."""

    def find(self, info: RequestInfo) -> ResourceType:
        """Return the resource of a request.

        Raises:
            StatusError: 404, there is no such resource.
        """
        type_ = self._core.registry.get(info.group, info.version, info.resource)
        if type_ is None or info.rest:
            raise errors.no_such_resource()
        # Kubernetes' RequestInfo sets the namespace for the path of a namespace itself too, so it
        # is no sign of a wrong scope there.
        if info.namespace and not type_.resource.namespaced and info.resource != "namespaces":
            raise errors.no_such_resource()
        return type_

    @property
    def healthy(self) -> bool:
        """Whether the store can write changes to its disk."""
        return not self._core.store.failure

    def is_built_in(self, info: RequestInfo) -> bool:
        """Whether the group of the request has resources that no CRD defines."""
        return any(
            not type_.custom and type_.resource.group == info.group
            for type_ in self._core.registry.all()
        )

    def call(
        self,
        info: RequestInfo,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
        user: User,
    ) -> Call:
        """Return the call that a request makes.

        Raises:
            StatusError: 404 for an unknown resource, 406 for a form that cannot be written.
        """
        type_ = self.find(info)
        accept = negotiate(headers.get("Accept", "*/*"))
        content_type = mended(headers.get("Content-Type", ""))
        agent = mended(headers.get("User-Agent", ""))
        return Call(self._core, type_, info, query, accept, body, content_type, user, agent)

    def handler(self, call: Call) -> Handler:
        """Return the handler of a call.

        Raises:
            StatusError: 404 for an unknown subresource, 405 for a verb that the resource lacks.
        """
        info, name = call.info, str(call.type.group_resource)
        needs_namespace = call.type.resource.namespaced and not info.namespace
        if info.subresource:
            special = self.subresources.get((name, info.subresource, info.verb))
            if special is not None:
                return special
            if info.subresource not in call.type.subresources:
                if call.type.custom:
                    # The handler of custom resources in kube-apiserver parses the path itself and
                    # answers about the object; for a built-in kind there is no route.
                    raise errors.not_found(call.type.group_resource, info.name)
                raise errors.no_such_resource()
            table = {"status": _STATUS, "scale": _SCALE}.get(info.subresource, {})
        elif info.name:
            if needs_namespace:
                raise errors.no_such_resource()
            table = _OBJECT
        else:
            table = self._collection(name)
            # Only list and watch go across namespaces: a create or deletecollection without a
            # namespace has no route in kube-apiserver, which answers 405.
            if needs_namespace and info.verb not in {"list", "watch"}:
                table = {}
        # type.verbs has the verbs of the resource itself; those of a subresource are in its table.
        if info.verb not in table or not (info.subresource or info.verb in call.type.verbs):
            raise errors.method_not_allowed()
        return table[info.verb]

    def _collection(self, name: str) -> Mapping[str, Handler]:
        special = {
            verb: handler for (owner, verb), handler in self.collections.items() if owner == name
        }
        return {**_COLLECTION, **special} if special else _COLLECTION


def non_resource(path: str, query: Mapping[str, str], *, healthy: bool) -> Answer | None:
    """Return the answer for health checks and ``/version``; None for other paths."""
    name = path.strip("/")
    if name == "version":
        return Answer(msgspec.json.encode(VERSION))
    if name.split("/")[0] not in {"healthz", "livez", "readyz"}:
        return None
    if healthy and "verbose" not in query:
        return Answer(b"ok", content_type="text/plain")
    checks = f"[+]ping ok\n[{'+' if healthy else '-'}]log {'ok' if healthy else 'failed'}\n"
    text = f"{checks}{name} check {'passed' if healthy else 'failed'}\n"
    return Answer(text.encode(), 200 if healthy else 500, content_type="text/plain")


def page_not_found() -> Answer:
    """Return the 404 in plain text for a path without a handler."""
    return Answer(b"404 page not found\n", 404, content_type="text/plain")


async def not_running(call: Call) -> Answer:
    """Refuse a stream of a Pod, as kube-apiserver does for a Pod without a node.

    Raises:
        StatusError: always; 404 if there is no such Pod.
    """
    name = existing(call).key.name
    text = f"pod {name} does not have a host assigned: the sandbox runs no Pods"
    raise errors.bad_request(text)
