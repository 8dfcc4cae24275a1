"""From a request to its handler and from an error to its answer; no HTTP library here."""

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
"""The subresources of Pods that need one that runs, with their verbs."""
VERSION = {
    "major": "1",
    "minor": "31",
    "gitVersion": "v1.31.0-fairlead",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
"""The document of ``/version``; kubectl compares its numbers with its own."""


class Router:
    """Finds resources and handlers; other parts add handlers of their own."""

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
        """The resource of a request.

        Raises:
            StatusError: 404, there is no such resource.
        """
        type_ = self._core.registry.get(info.group, info.version, info.resource)
        if type_ is None or info.rest:
            raise errors.no_such_resource()
        # As in Kubernetes' RequestInfo, the path of a namespace is read as being in that
        # namespace.
        if info.namespace and not type_.resource.namespaced and info.resource != "namespaces":
            raise errors.no_such_resource()
        return type_

    @property
    def healthy(self) -> bool:
        """Whether changes can be stored."""
        return not self._core.store.failure

    def is_built_in(self, info: RequestInfo) -> bool:
        """Whether the group has resources that no CRD defines."""
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
        """The request, read.

        Raises:
            StatusError: 404 or 406.
        """
        type_ = self.find(info)
        accept = negotiate(headers.get("Accept", "*/*"))
        content_type = mended(headers.get("Content-Type", ""))
        agent = mended(headers.get("User-Agent", ""))
        return Call(self._core, type_, info, query, accept, body, content_type, user, agent)

    def handler(self, call: Call) -> Handler:
        """Return the handler of a call.

        Raises:
            StatusError: 404 for an unknown subresource, 405 for a verb that it has not.
        """
        info, name = call.info, str(call.type.group_resource)
        needs_namespace = call.type.resource.namespaced and not info.namespace
        if info.subresource:
            special = self.subresources.get((name, info.subresource, info.verb))
            if special is not None:
                return special
            if info.subresource not in call.type.subresources:
                if call.type.custom:
                    raise errors.not_found(call.type.group_resource, info.name)
                raise errors.no_such_resource()
            table = {"status": _STATUS, "scale": _SCALE}.get(info.subresource, {})
        elif info.name:
            if needs_namespace:
                raise errors.no_such_resource()
            table = _OBJECT
        else:
            table = self._collection(name)
            if needs_namespace and info.verb not in {"list", "watch"}:
                table = {}
        if info.verb not in table or not (info.subresource or info.verb in call.type.verbs):
            raise errors.method_not_allowed()
        return table[info.verb]

    def _collection(self, name: str) -> Mapping[str, Handler]:
        special = {
            verb: handler for (owner, verb), handler in self.collections.items() if owner == name
        }
        return {**_COLLECTION, **special} if special else _COLLECTION


def non_resource(path: str, query: Mapping[str, str], *, healthy: bool) -> Answer | None:
    """Health and version; None for other paths."""
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
    """The answer for a path that nothing knows."""
    return Answer(b"404 page not found\n", 404, content_type="text/plain")


async def not_running(call: Call) -> Answer:
    """Refuse, as any server does for a Pod that no node has.

    Raises:
        StatusError: always; 404 when there is no such Pod.
    """
    name = existing(call).key.name
    text = f"pod {name} does not have a host assigned: the sandbox runs no Pods"
    raise errors.bad_request(text)
