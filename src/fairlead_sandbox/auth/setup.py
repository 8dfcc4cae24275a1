"""Adds authentication and authorization to a control plane."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from fairlead.api import resource as names
from fairlead.api.certificates import Authority, key_pem, load_key, new_key
from fairlead.api.meta import JSON, Key
from fairlead.api.resource import Resource
from fairlead.api.timestamps import format_time, moment
from fairlead_sandbox import errors
from fairlead_sandbox.auth.authorizer import AlwaysAllow, Authorizer, Rbac
from fairlead_sandbox.auth.bootstrap import cluster_role_bindings, cluster_roles
from fairlead_sandbox.auth.credentials import RootCa, TokenSecrets
from fairlead_sandbox.auth.escalation import EscalationCheck
from fairlead_sandbox.auth.guard import ADMIN, ANONYMOUS, Guard
from fairlead_sandbox.auth.index import RbacIndex
from fairlead_sandbox.auth.pki import load_authority, write_secret
from fairlead_sandbox.auth.reviews import Reviews
from fairlead_sandbox.auth.tokens import ISSUER, BoundObject, KeySigner, Signer, Tokens
from fairlead_sandbox.controllers.clusterroles import Aggregator
from fairlead_sandbox.controllers.reactor import Reactor
from fairlead_sandbox.errors import QualifiedResource
from fairlead_sandbox.objects import writes
from fairlead_sandbox.objects.core import Core
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


class Secrets:
    """The CA, the token signer and the administrator's token of one control plane.

    Args:
        name: the name of the control plane, from which the CA's common name is made.
        folder: keeps the keys; None keeps them in memory.
        tls: whether there is a CA.
        signer: signs ServiceAccount tokens; None makes a key for them.

    Raises:
        OSError: the folder cannot be used.
        ValueError: a kept file cannot be read.
    """

    def __init__(
        self, name: str, folder: Path | None, *, tls: bool, signer: Signer | None = None
    ) -> None:
        self.authority: Authority | None = None
        if tls:
            common_name = f"{name}-ca"
            self.authority = (
                load_authority(folder, common_name)
                if folder
                else Authority.create(common_name, moment())
            )
        self.signer = signer or _key_signer(folder)
        self.admin_token = _stored(folder, "admin-token", _new_token).decode()

    @property
    def ca_pem(self) -> bytes:
        """The CA's certificate as PEM, empty without TLS."""
        return self.authority.pem if self.authority else b""


def _key_signer(folder: Path | None) -> Signer:
    return KeySigner(load_key(_stored(folder, "service-accounts.pem", _new_key_pem)))


def _new_key_pem() -> bytes:
    return key_pem(new_key())


def _new_token() -> bytes:
    return secrets.token_urlsafe(32).encode()


def _stored(folder: Path | None, name: str, make: Callable[[], bytes]) -> bytes:
    if folder is None:
        return make()
    path = folder / name
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(path, make(), durable=True)
    return path.read_bytes()


def install(
    core: Core,
    router: Router,
    reactor: Reactor,
    keys: Secrets,
    *,
    rbac: bool,
    host: str,
) -> Guard:
    """Add reviews, tokens, controllers and admission checks to a control plane; return its guard.

    Without ``rbac`` every request is allowed, and a request without credentials is the
    administrator's.
    """
    tokens = Tokens(core.store, keys.signer)
    index = RbacIndex(core.store)
    authorizer: Authorizer = Rbac(index) if rbac else AlwaysAllow()
    core.admission.append(EscalationCheck(index, authorizer))
    Reviews(authorizer, tokens).install(router)
    TokenRequests(tokens).install(router)
    aggregator = Aggregator(core)
    reactor.add(aggregator)
    reactor.add(TokenSecrets(core, tokens, keys.ca_pem))
    if keys.ca_pem:
        reactor.add(RootCa(core, keys.ca_pem))
    _bootstrap(core, names.CLUSTERROLES, cluster_roles())
    _bootstrap(core, names.CLUSTERROLEBINDINGS, cluster_role_bindings())
    # admin aggregates edit, which aggregates view, which aggregates a role with rules: each round
    # copies rules by one step, so the third one reaches admin.
    for _ in range(3):
        aggregator.reconcile()
    return Guard(
        keys.authority,
        tokens,
        keys.admin_token,
        authorizer,
        default=ANONYMOUS if rbac else ADMIN,
        host=host,
    )


def _bootstrap(core: Core, resource: Resource, bodies: Sequence[JSON]) -> None:
    type_ = core.registry.by_collection(resource.group_resource)
    if type_ is None:
        return
    for body in bodies:
        # kube-apiserver also restores changed default roles at each start (annotation autoupdate);
        # this only creates missing ones.
        if core.get(type_, Key("", body["metadata"]["name"])) is None:
            writes.create(core, type_, "", body)
