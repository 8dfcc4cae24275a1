"""Impersonation: the ``Impersonate-*`` headers, by which a user acts as another one."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from aiohttp import web

from fairlead_sandbox.auth.authorizer import Authorizer, forbidden
from fairlead_sandbox.auth.rules import RequestAttributes
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.info import RequestInfo, mended


_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"


def impersonated(user: User, request: web.BaseRequest, authorizer: Authorizer) -> User:
    """Return the user that the headers of a request impersonate, if ``user`` may impersonate it.

    Raises:
        StatusError: 500, as kube-apiserver answers, when no user is named; 403 when it is not
            allowed.
    """
    headers = request.headers
    name = mended(headers.get("Impersonate-User", ""))
    groups = tuple(map(mended, headers.getall("Impersonate-Group", [])))
    uid = mended(headers.get("Impersonate-Uid", ""))
    extra = _extra(request)
    if not name:
        text = (
            f'Internal Server Error: "{request.path}": requested impersonation headers '
            "without impersonating a user"
        )
        raise StatusError(500, "InternalError", text)
    # Each part of the identity needs a right of its own: the user, every group, the uid and every
    # value of an extra field.
    for asked in _asked(name, groups, uid, extra):
        decision = authorizer.decide(user, asked)
        if not decision.allowed:
            raise _refused(user, asked, decision.reason)
    return User(name, _groups(name, groups), uid, extra)


def _extra(request: web.BaseRequest) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    for header, value in request.headers.items():
        if header.lower().startswith(_EXTRA):
            # Keys such as example.com/project come percent-encoded, because the name of a header
            # has no slash.
            key = unquote(header[len(_EXTRA) :].lower())
            result[key] = (*result.get(key, ()), mended(value))
    return result


def _asked(
    name: str, groups: tuple[str, ...], uid: str, extra: dict[str, tuple[str, ...]]
) -> Iterator[RequestAttributes]:
    parts = name.split(":")
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        yield RequestAttributes("impersonate", "", "serviceaccounts", parts[2], parts[3])
    else:
        yield RequestAttributes("impersonate", "", "users", "", name)
    for group in groups:
        yield RequestAttributes("impersonate", "", "groups", "", group)
    if uid:
        yield RequestAttributes("impersonate", _AUTHENTICATION, "uids", "", uid)
    for key, values in extra.items():
        for value in values:
            yield RequestAttributes("impersonate", _AUTHENTICATION, f"userextras/{key}", "", value)


def _groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups of an impersonated user, with those that kube-apiserver adds to them."""
    parts = name.split(":")
    # The groups that a token of the account would give, unless the request names groups itself.
    if not groups and name.startswith("system:serviceaccount:") and len(parts) == 4:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{parts[2]}")
    if name == "system:anonymous":
        return groups or ("system:unauthenticated",)
    if {"system:authenticated", "system:unauthenticated"} & set(groups):
        return groups
    return (*groups, "system:authenticated")


def _refused(user: User, asked: RequestAttributes, reason: str) -> StatusError:
    resource, _, subresource = asked.resource.partition("/")
    info = RequestInfo(
        path="",
        verb=asked.verb,
        is_resource=True,
        group=asked.group,
        namespace=asked.namespace,
        resource=resource,
        subresource=subresource,
        name=asked.name,
    )
    return forbidden(user, info, reason)
