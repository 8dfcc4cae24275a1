"""Impersonation: the ``Impersonate-*`` headers, by which a user acts as another one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import unquote

from aiohttp import web

from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import MASTERS, Authorizer, attributes, forbidden
from fairlead_sandbox.auth.rules import RequestAttributes
from fairlead_sandbox.errors import StatusError
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.info import RequestInfo, mended
from fairlead_sandbox.schema.errors import go_value


_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_NODE = "system:node:"


def impersonated(
    user: User, request: web.BaseRequest, info: RequestInfo, authorizer: Authorizer
) -> User:
    """Return the user that the headers of a request impersonate, if ``user`` may impersonate it.

    Constrained impersonation, which allows one verb on one resource, is asked for before the verb
    ``impersonate``, which allows everything that the impersonated user may; of several refusals
    the first is told, as in kube-apiserver
    (https://kubernetes.io/docs/reference/access-authn-authz/user-impersonation/).

    Raises:
        StatusError: 400 when no user is named; 403 when it is not allowed.
    """
    headers = request.headers
    name = mended(headers.get("Impersonate-User", ""))
    groups = tuple(map(mended, headers.getall("Impersonate-Group", [])))
    identity = User(name, groups, mended(headers.get("Impersonate-Uid", "")), _extra(request))
    if not name:
        raise errors.bad_request(
            f"requested {_go_user(identity)} without impersonating a user name"
        )
    refusals = []
    for rights in (*_constrained(identity, info), tuple(_parts(identity, "impersonate"))):
        refusal = _refusal(user, rights, authorizer)
        if refusal is None:
            return User(name, _groups(name, groups), identity.uid, identity.extra)
        refusals.append(refusal)
    raise refusals[0]


def _refusal(
    user: User, rights: Iterable[RequestAttributes], authorizer: Authorizer
) -> StatusError | None:
    """Return the 403 of the first thing that the user may not do; None if it may do all."""
    for right in rights:
        decision = authorizer.decide(user, right)
        if not decision.allowed:
            return _forbidden(user, right, decision.reason)
    return None


def _constrained(identity: User, info: RequestInfo) -> Iterator[tuple[RequestAttributes, ...]]:
    """Yield the rights that each mode of constrained impersonation needs for this user."""
    name_alone = not (identity.groups or identity.uid or identity.extra)
    if _account(identity.name):
        mode = "serviceaccount" if name_alone else ""
    elif identity.name.startswith(_NODE):
        # A node may also be impersonated by what runs on it; the sandbox has no nodes.
        mode = "arbitrary-node" if name_alone else ""
    else:
        # These groups and empty names only the verb impersonate can give.
        mode = "" if {MASTERS, ""} & {*identity.groups} else "user-info"
    if mode:
        request = attributes(info)
        verb = f"impersonate-on:{mode}:{request.verb}"
        parts = _parts(identity, f"impersonate:{mode}", _AUTHENTICATION)
        yield (request._replace(verb=verb), *parts)


def _extra(request: web.BaseRequest) -> dict[str, tuple[str, ...]]:
    result: dict[str, tuple[str, ...]] = {}
    for header, value in request.headers.items():
        if header.lower().startswith(_EXTRA):
            # Keys such as example.com/project come percent-encoded, because the name of a header
            # has no slash.
            key = unquote(header[len(_EXTRA) :].lower())
            result[key] = (*result.get(key, ()), mended(value))
    return result


def _account(name: str) -> tuple[str, str] | None:
    """Return namespace and name of the ServiceAccount whose user it is; None for other users."""
    parts = name.split(":")
    if name.startswith("system:serviceaccount:") and len(parts) == 4:
        return parts[2], parts[3]
    return None


def _parts(identity: User, verb: str, group: str = "") -> Iterator[RequestAttributes]:
    """The right that each part of the identity needs: name, groups, uid, values of extra."""
    account = _account(identity.name)
    if account:
        yield RequestAttributes(verb, group, "serviceaccounts", *account)
    elif group and identity.name.startswith(_NODE):
        node = identity.name.removeprefix(_NODE)
        yield RequestAttributes(verb, group, "nodes", "", node)
    else:
        yield RequestAttributes(verb, group, "users", "", identity.name)
    if identity.uid:
        yield RequestAttributes(verb, _AUTHENTICATION, "uids", "", identity.uid)
    for name in identity.groups:
        yield RequestAttributes(verb, group, "groups", "", name)
    for key, values in identity.extra.items():
        for value in values:
            yield RequestAttributes(verb, _AUTHENTICATION, f"userextras/{key}", "", value)


def _go_user(user: User) -> str:
    """The user as Go prints a pointer to ``user.DefaultInfo``."""
    groups = f"{{{', '.join(map(go_value, user.groups))}}}" if user.groups else "(nil)"
    extra = (
        f"{go_value(key)}:[]string{{{', '.join(map(go_value, values))}}}"
        for key, values in user.extra.items()
    )
    shown = f"{{{', '.join(extra)}}}" if user.extra else "(nil)"
    return (
        f"&user.DefaultInfo{{Name:{go_value(user.name)}, UID:{go_value(user.uid)}, "
        f"Groups:[]string{groups}, Extra:map[string][]string{shown}}}"
    )


def _groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return the groups of an impersonated user, with those that kube-apiserver adds to them."""
    account = _account(name)
    # The groups that a token of the account would give, unless the request names groups itself.
    if not groups and account:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if name == "system:anonymous":
        return groups or ("system:unauthenticated",)
    if {"system:authenticated", "system:unauthenticated"} & set(groups):
        return groups
    return (*groups, "system:authenticated")


def _forbidden(user: User, attributes: RequestAttributes, reason: str) -> StatusError:
    resource, _, subresource = attributes.resource.partition("/")
    info = RequestInfo(
        path="",
        verb=attributes.verb,
        is_resource=True,
        group=attributes.group,
        namespace=attributes.namespace,
        resource=resource,
        subresource=subresource,
        name=attributes.name,
    )
    return forbidden(user, info, reason)
