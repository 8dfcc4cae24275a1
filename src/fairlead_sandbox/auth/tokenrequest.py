"""The subresource ``serviceaccounts/token``, which issues tokens that expire (TokenRequest)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from fairlead.api.meta import JSON, Key
from fairlead.api.timestamps import format_time, moment
from fairlead_sandbox import errors
from fairlead_sandbox.auth.tokens import ISSUER, BoundObject, Tokens
from fairlead_sandbox.errors import QualifiedResource
from fairlead_sandbox.requests.bodies import read_spec
from fairlead_sandbox.requests.calls import Answer, Call
from fairlead_sandbox.requests.handlers.read import existing
from fairlead_sandbox.requests.router import Router
from fairlead_sandbox.schema.errors import FieldError, invalid
from fairlead_sandbox.storage.records import Record


_GROUP = "authentication.k8s.io"
_SHORTEST = 600
"""Shortest lifetime of a token in seconds, by kube-apiserver's validation."""
_LONGEST = 2**32
"""Longest lifetime of a token in seconds, by kube-apiserver's validation."""
_DEFAULT = 3600
"""Lifetime of a token in seconds, if the request names none."""
_BOUND = {"Pod": "pods", "Secret": "secrets"}
"""Kinds that a token can be bound to, with their collections."""


class TokenRequests:
    """Answers TokenRequests."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def install(self, router: Router) -> None:
        """Register the handler of the subresource with a router."""
        router.subresources["serviceaccounts", "token", "create"] = self.create

    async def create(self, call: Call) -> Answer:
        """Issue a token for a ServiceAccount."""
        account = existing(call)
        spec = read_spec(call, "TokenRequest")
        seconds = _seconds(spec)
        bound = _bound(call, account.key, spec.get("boundObjectRef"))
        audiences = list(spec.get("audiences") or (ISSUER,))
        token, expires = self._tokens.issue(account, audiences, seconds, bound)
        answer = {
            "kind": "TokenRequest",
            "apiVersion": f"{_GROUP}/v1",
            "metadata": {
                "name": account.key.name,
                "namespace": account.key.namespace,
                "creationTimestamp": format_time(moment()),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {
                "token": token,
                "expirationTimestamp": format_time(datetime.fromtimestamp(expires, UTC)),
            },
        }
        return Answer(msgspec.json.encode(answer), 201)


def _seconds(spec: JSON) -> int:
    seconds = spec.get("expirationSeconds")
    if seconds is None:
        return _DEFAULT
    wrong: list[FieldError] = []
    field = "spec.expirationSeconds"
    if seconds < _SHORTEST:
        wrong.append(invalid(field, seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > _LONGEST:
        detail = "may not specify a duration larger than 2^32 seconds"
        wrong.append(invalid(field, seconds, detail))
    if wrong:
        raise errors.invalid(_GROUP, "TokenRequest", "", wrong)
    return int(seconds)


def _account_of(pod: Record) -> Any:
    return (pod.to_dict().get("spec") or {}).get("serviceAccountName")


def _bound(call: Call, account: Key, reference: Any) -> BoundObject | None:
    if not isinstance(reference, dict):
        return None
    kind, name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    collection = _BOUND.get(kind)
    if collection is None or reference.get("apiVersion") != "v1":
        version = reference.get("apiVersion") or ""
        shown = version if "/" in version else f"/{version}"
        text = f"cannot bind token to object of type {shown}, Kind={kind}"
        raise errors.bad_request(text)
    resource = QualifiedResource("", collection)
    record = call.core.store.collection(collection).get(Key(account.namespace, name))
    if record is None:
        raise errors.not_found(resource, name)
    if kind == "Pod" and _account_of(record) != account.name:
        text = (
            f'cannot bind token for serviceaccount "{account.name}" to pod running with '
            "different serviceaccount name."
        )
        raise errors.bad_request(text)
    # The uid is optional; with one the token is never bound to a later object of the same name.
    uid = str(reference.get("uid") or "")
    if uid not in {"", record.meta.uid}:
        text = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(resource, name, text)
    return BoundObject(collection, record.key, record.meta.uid)
