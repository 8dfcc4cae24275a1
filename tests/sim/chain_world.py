"""What the scenario ``chain`` consists of: an offer, accounts, bindings and programs."""

from __future__ import annotations

from functools import partial
from random import Random

from tests.sim.planes import Plane
from tests.sim.programs import Program

from fairlead.api.meta import JSON, Object
from fairlead.api.resource import Resource
from fairlead.api.servicebinding.spec import SERVICEBINDINGS
from fairlead.binding import app as binding_app
from fairlead.binding import manifests as binding_manifests
from fairlead.binding.options import DEFAULT_NAMESPACE as BINDING_NAMESPACE
from fairlead.konnector import app as konnector_app
from fairlead.konnector import manifests as konnector_manifests
from fairlead.konnector.options import DEFAULT_NAMESPACE as KONNECTOR_NAMESPACE
from fairlead.konnector.options import Options
from fairlead.provider import app as provider_app
from fairlead.provider import manifests as provider_manifests
from fairlead.provider.options import DEFAULT_NAMESPACE as PROVIDER_NAMESPACE


ACCOUNTS = Resource("chain.example.org", "v1", "accounts", "Account")
SHOP = "shop"
"""The namespace of the app team."""


def secret_of(account: Object) -> str:
    """The Secret that the status of an account names, "" for none."""
    status = account.to_dict().get("status") or {}
    return str((status.get("binding") or {}).get("name", ""))


def account(name: str) -> JSON:
    """An account, which says nothing but its name."""
    return {
        "apiVersion": ACCOUNTS.api_version,
        "kind": ACCOUNTS.kind,
        "metadata": {"name": name, "namespace": SHOP},
        "spec": {},
    }


def binding(name: str, dice: Random) -> JSON:
    """A binding of an account to the Deployment of its name."""
    spec: JSON = {
        "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "service": {"apiVersion": ACCOUNTS.api_version, "kind": ACCOUNTS.kind, "name": name},
    }
    if dice.random() < 0.5:
        spec["type"] = "mysql"
    return {
        "apiVersion": SERVICEBINDINGS.api_version,
        "kind": SERVICEBINDINGS.kind,
        "metadata": {"name": name, "namespace": SHOP},
        "spec": spec,
    }


def template() -> JSON:
    """The offer: accounts, and the Secrets that they name."""
    path = {"name": "status.binding.name", "namespace": "metadata.namespace"}
    reference = {"group": ACCOUNTS.group, "resource": ACCOUNTS.plural, "versions": ["v1"]}
    claim = {
        "group": "",
        "resource": "secrets",
        "selector": {"references": [{**reference, "jsonPath": path}]},
    }
    return {
        "apiVersion": "kube-bind.io/v1alpha2",
        "kind": "APIServiceExportTemplate",
        "metadata": {"name": "accounts"},
        "spec": {
            "scope": "Namespaced",
            "resources": [reference],
            "permissionClaims": [claim],
        },
    }


def programs(provider: Plane, consumer: Plane) -> list[tuple[str, Plane, Program]]:
    """All programs, with where they run."""
    konnector = partial(konnector_app.build, options=Options(install_crds=False))
    name, lease = konnector_manifests.NAME, konnector_manifests.LEASE
    offering, projecting = provider_manifests.NAME, binding_manifests.NAME
    return [
        (
            "provider",
            provider,
            Program(offering, PROVIDER_NAMESPACE, offering, provider_app.build),
        ),
        ("konnector", consumer, Program(name, KONNECTOR_NAMESPACE, lease, konnector)),
        (
            "binding",
            consumer,
            Program(projecting, BINDING_NAMESPACE, projecting, binding_app.build),
        ),
    ]
