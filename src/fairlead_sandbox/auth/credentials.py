"""Controllers of token Secrets and of the CA's ConfigMaps.

A Secret of type ``kubernetes.io/service-account-token`` gets its token and is deleted with its
ServiceAccount. Every namespace has the ConfigMap ``kube-root-ca.crt``. In a cluster both are the
work of kube-controller-manager.
"""

from __future__ import annotations

import base64

from fairlead.api import resource as names
from fairlead.api.meta import Key
from fairlead_sandbox.auth.tokens import Tokens
from fairlead_sandbox.objects import deletes, writes
from fairlead_sandbox.objects.core import Core
from fairlead_sandbox.storage.records import Change, Record


_SECRETS = names.SECRETS.group_resource
_ACCOUNTS = names.SERVICEACCOUNTS.group_resource
_NAMESPACES = names.NAMESPACES.group_resource
_CONFIGMAPS = names.CONFIGMAPS.group_resource
_TYPE = "kubernetes.io/service-account-token"
_MARK = f'"{_TYPE}"'.encode()
"""The type as stored JSON has it; finding it in the bytes spares decoding other Secrets."""
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"
_ROOT_CA = "kube-root-ca.crt"


class TokenSecrets:
    """Fills in token Secrets, and deletes those whose ServiceAccount has gone."""

    def __init__(self, core: Core, tokens: Tokens, ca_pem: bytes) -> None:
        self._core = core
        self._tokens = tokens
        self._ca = base64.b64encode(ca_pem).decode()

    def __call__(self, change: Change) -> None:
        """Reconcile a changed token Secret, or all of an account that was created or deleted."""
        key = change.record.key
        if change.collection == _SECRETS:
            if change.type != "DELETED" and _MARK in change.record.raw:
                self._reconcile(key)
        elif change.collection == _ACCOUNTS and change.type != "MODIFIED":
            secrets = self._core.store.collection(_SECRETS)
            for record in list(secrets.list(key.namespace)):
                if _MARK in record.raw:
                    self._reconcile(record.key)

    def _reconcile(self, key: Key) -> None:
        record = self._core.store.collection(_SECRETS).get(key)
        type_ = self._core.registry.by_collection(_SECRETS)
        if record is None or type_ is None:
            return
        body = record.to_dict()
        if body.get("type") != _TYPE or record.meta.deletion_timestamp:
            return
        annotations = body["metadata"].get("annotations") or {}
        account = self._account(Key(key.namespace, annotations.get(_NAME, "")))
        # A Secret with another uid belongs to an earlier account of the same name.
        if account is None or annotations.get(_UID, account.meta.uid) != account.meta.uid:
            deletes.delete(self._core, type_, record)
            return
        data = dict(body.get("data") or {})
        # A token that stands there is kept: it does not expire, and clients have it.
        if not data.get("token"):
            token = self._tokens.issue_legacy(account, key.name)
            data["token"] = base64.b64encode(token.encode()).decode()
        data["namespace"] = base64.b64encode(key.namespace.encode()).decode()
        if self._ca:
            data["ca.crt"] = self._ca
        body["metadata"]["annotations"] = annotations | {_UID: account.meta.uid}
        if data != body.get("data") or annotations.get(_UID) != account.meta.uid:
            body["data"] = data
            writes.finish(self._core, type_, key, body)

    def _account(self, key: Key) -> Record | None:
        return self._core.store.collection(_ACCOUNTS).get(key)


class RootCa:
    """Keeps the ConfigMap ``kube-root-ca.crt`` in every namespace."""

    def __init__(self, core: Core, ca_pem: bytes) -> None:
        self._core = core
        self._data = {"ca.crt": ca_pem.decode()}

    def __call__(self, change: Change) -> None:
        """Reconcile the ConfigMap of a changed namespace, or the ConfigMap that has changed."""
        key = change.record.key
        if change.collection == _NAMESPACES and change.type != "DELETED":
            self._reconcile(key.name)
        elif change.collection == _CONFIGMAPS and key.name == _ROOT_CA:
            self._reconcile(key.namespace)

    def _reconcile(self, namespace: str) -> None:
        owner = self._core.store.collection(_NAMESPACES).get(Key("", namespace))
        type_ = self._core.registry.by_collection(_CONFIGMAPS)
        if owner is None or owner.meta.deletion_timestamp or type_ is None:
            return
        record = self._core.get(type_, Key(namespace, _ROOT_CA))
        if record is None:
            body = {"metadata": {"name": _ROOT_CA}, "data": dict(self._data)}
            writes.create(self._core, type_, namespace, body)
            return
        body = record.to_dict()
        if body.get("data") != self._data and not record.meta.deletion_timestamp:
            writes.finish(self._core, type_, record.key, body | {"data": dict(self._data)})
