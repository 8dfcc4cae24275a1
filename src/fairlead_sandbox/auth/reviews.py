"""The review APIs: a create request asks a question, its answer is not stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fairlead.api.meta import JSON
from fairlead.api.resource import Resource
from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import Authorizer
from fairlead_sandbox.auth.rules import RequestAttributes
from fairlead_sandbox.auth.tokens import ISSUER, TokenError, Tokens
from fairlead_sandbox.objects.core import User
from fairlead_sandbox.requests.bodies import read_spec
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.router import Handler, Router
from fairlead_sandbox.resources.types import ResourceType, Strategy
from fairlead_sandbox.schema.errors import FieldError, invalid


_AUTHORIZATION = "authorization.k8s.io"
_AUTHENTICATION = "authentication.k8s.io"
_KINDS = (
    (_AUTHORIZATION, "SubjectAccessReview", False),
    (_AUTHORIZATION, "LocalSubjectAccessReview", True),
    (_AUTHORIZATION, "SelfSubjectAccessReview", False),
    (_AUTHORIZATION, "SelfSubjectRulesReview", False),
    (_AUTHENTICATION, "TokenReview", False),
    (_AUTHENTICATION, "SelfSubjectReview", False),
)
"""Group and kind of each review, and whether it is namespaced."""


def review_types() -> list[ResourceType]:
    """Return the types of the review resources; create is their only verb."""
    return [_type(group, kind, namespaced=namespaced) for group, kind, namespaced in _KINDS]


def _type(group: str, kind: str, *, namespaced: bool) -> ResourceType:
    resource = Resource(group, "v1", f"{kind.lower()}s", kind, namespaced)
    return ResourceType(
        resource=resource,
        singular=kind.lower(),
        collection=resource.group_resource,
        strategy=Strategy(),
        list_kind=f"{kind}List",
        verbs=("create",),
    )


class Reviews:
    """Answers SubjectAccessReviews, TokenReviews and their relatives."""

    def __init__(self, authorizer: Authorizer, tokens: Tokens) -> None:
        self._authorizer = authorizer
        self._tokens = tokens

    def install(self, router: Router) -> None:
        """Register the handlers of the reviews with a router."""
        handlers: Mapping[str, Handler] = {
            "SubjectAccessReview": self.subject_access,
            "LocalSubjectAccessReview": self.subject_access,
            "SelfSubjectAccessReview": self.self_access,
            "SelfSubjectRulesReview": self.self_rules,
            "TokenReview": self.token,
            "SelfSubjectReview": self.self_subject,
        }
        for group, kind, _ in _KINDS:
            router.collections[f"{kind.lower()}s.{group}", "create"] = handlers[kind]

    async def subject_access(self, call: Call) -> Answer:
        """Answer a SubjectAccessReview or local one: whether the user in its spec is allowed."""
        spec = read_spec(call, call.type.resource.kind)
        user, groups = str(spec.get("user") or ""), tuple(spec.get("groups") or ())
        wrong = _check_attributes(spec)
        if not user and not groups:
            detail = "at least one of user or group must be specified"
            wrong.append(invalid("spec.user", "", detail))
        if call.info.namespace:
            wrong += _check_local(spec, call.info.namespace)
        if wrong:
            raise errors.invalid(_AUTHORIZATION, call.type.resource.kind, "", wrong)
        return self._decided(call, spec, User(user, groups))

    async def self_access(self, call: Call) -> Answer:
        """Answer a SelfSubjectAccessReview: whether its sender is allowed."""
        spec = read_spec(call, call.type.resource.kind)
        wrong = _check_attributes(spec)
        if wrong:
            raise errors.invalid(_AUTHORIZATION, call.type.resource.kind, "", wrong)
        return self._decided(call, spec, call.user)

    def _decided(self, call: Call, spec: JSON, user: User) -> Answer:
        decision = self._authorizer.decide(user, _attributes(spec))
        status: JSON = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return _answer(call, spec, status)

    async def self_rules(self, call: Call) -> Answer:
        """Answer a SelfSubjectRulesReview: the rules of its sender in a namespace."""
        spec = read_spec(call, call.type.resource.kind)
        if not spec.get("namespace"):
            raise errors.bad_request("no namespace on request")
        rules = self._authorizer.rules(call.user, spec["namespace"])
        status: JSON = {
            "resourceRules": [rule.to_json() for rule in rules.rules if not rule.urls],
            "nonResourceRules": [rule.to_json() for rule in rules.rules if rule.urls],
            "incomplete": bool(rules.problems),
        }
        if rules.problems:
            status["evaluationError"] = ", ".join(rules.problems)
        return _answer(call, {}, status)

    async def token(self, call: Call) -> Answer:
        """Answer a TokenReview: the user of the token, or the reason of its refusal."""
        spec = read_spec(call, call.type.resource.kind)
        token = spec.get("token")
        if not token:
            text = "token is required for TokenReview in authentication"
            raise errors.bad_request(text)
        audiences = tuple(spec.get("audiences") or (ISSUER,))
        try:
            verified = self._tokens.check(str(token), audiences)
        except TokenError as error:
            text = str(error)
            # kube-apiserver asks several authenticators in turn and lists the errors of all.
            text = text if text == "invalid bearer token" else f"[invalid bearer token, {text}]"
            return _answer(call, spec, {"user": {}, "error": text})
        # The token of a Secret names no audience and counts as one for this server.
        accepted = verified.audiences or (ISSUER,)
        status = {
            "authenticated": True,
            "user": _user_info(verified.user),
            "audiences": [one for one in audiences if one in accepted],
        }
        return _answer(call, spec, status)

    async def self_subject(self, call: Call) -> Answer:
        """Answer a SelfSubjectReview: its sender."""
        read_spec(call, call.type.resource.kind)
        return _answer(call, None, {"userInfo": _user_info(call.user)})


def _answer(call: Call, spec: JSON | None, status: JSON) -> Answer:
    resource = call.type.resource
    body: JSON = {
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": {},
    }
    if spec is not None:
        body["spec"] = spec
    return Answer(msgspec.json.encode(body | {"status": status}), 201)


def _user_info(user: User) -> JSON:
    info: JSON = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _part(spec: JSON, name: str) -> JSON | None:
    part = spec.get(name)
    return part if isinstance(part, dict) else None


def _check_attributes(spec: JSON) -> list[FieldError]:
    resource = _part(spec, "resourceAttributes")
    path = _part(spec, "nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [_invalid_path(path, detail)]
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec", None, detail)]
    return []


def _check_local(spec: JSON, namespace: str) -> list[FieldError]:
    resource = _part(spec, "resourceAttributes")
    path = _part(spec, "nonResourceAttributes")
    if path is not None:
        return [_invalid_path(path, "disallowed on this kind of request")]
    given = (resource or {}).get("namespace") or ""
    if given != namespace:
        field = "spec.resourceAttributes.namespace"
        return [invalid(field, given, "must match metadata.namespace")]
    return []


def _invalid_path(path: JSON, detail: str) -> FieldError:
    shown = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
    return invalid("spec.nonResourceAttributes", shown, detail)


def _attributes(spec: JSON) -> RequestAttributes:
    path = _part(spec, "nonResourceAttributes")
    if path is not None:
        return RequestAttributes(_text(path, "verb"), path=_text(path, "path") or "/")
    resource: Any = spec["resourceAttributes"]
    plural, subresource = _text(resource, "resource"), _text(resource, "subresource")
    return RequestAttributes(
        _text(resource, "verb"),
        _text(resource, "group"),
        f"{plural}/{subresource}" if subresource else plural,
        _text(resource, "namespace"),
        _text(resource, "name"),
    )


def _text(body: JSON, name: str) -> str:
    return str(body.get(name) or "")
