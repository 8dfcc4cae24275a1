"""One binding for each export of a provider, as an APIServiceBindingBundle asks for them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairlead.api.kubebind import (
    API_VERSION,
    APISERVICEBINDINGS,
    APIServiceBindingBundle,
    ConditionsStatus,
)
from fairlead.api.kubebind.conditions import SYNCED, KubeBindCondition, false, set_conditions, true
from fairlead.api.meta import JSON, ObjectMeta, OwnerReference
from fairlead.konnector import bounds


PROVIDER_CLIENT_ERROR = "ProviderClientError"
LIST_EXPORTS_FAILED = "ListExportsFailed"
LIST_BINDINGS_FAILED = "ListBindingsFailed"
SYNC_ERRORS = "SyncErrors"


class BundleState(msgspec.Struct, frozen=True):
    """Facts for a decision.

    ``exports`` are the provider's by name, with whether each is being deleted; ``bindings`` all of
    the consumer by name. ``client_error``, ``exports_error`` and ``bindings_error`` each give the
    reason why facts are missing, "" if none are; ``waiting`` is True if they are expected soon.
    ``gone`` are exports whose absence the provider has confirmed.
    """

    bundle: APIServiceBindingBundle
    owner: OwnerReference
    secret_valid: KubeBindCondition
    exports: Mapping[str, bool]
    bindings: Mapping[str, ObjectMeta]
    waiting: bool = False
    client_error: str = ""
    exports_error: str = ""
    bindings_error: str = ""
    gone: frozenset[str] = frozenset()


class BundlePlan(msgspec.Struct, frozen=True):
    """Bindings to create and to delete; exports to ask the provider about; the obstacle.

    ``beyond`` are exports that are not bound, since the bundle has as many bindings as one may.
    """

    create: list[JSON] = []
    delete: list[ObjectMeta] = []
    missing: list[str] = []
    foreign: list[str] = []
    beyond: list[str] = []
    obstacle: KubeBindCondition | None = None
    waiting: bool = False


def reconcile(state: BundleState) -> BundlePlan:
    """Decide which bindings a bundle creates and deletes; none if it is being deleted itself.

    A binding whose export is missing is deleted only after the provider has confirmed that this
    export is gone: with the binding go its CRDs, and all their objects.
    """
    obstacle = _obstacle(state)
    if obstacle is not None or state.waiting or state.bundle.metadata.deleting:
        return BundlePlan(obstacle=obstacle, waiting=obstacle is None)
    owned = {name: meta for name, meta in state.bindings.items() if _owned(state, meta)}
    missing = sorted(
        name for name, meta in owned.items() if name not in state.exports and not meta.deleting
    )
    unbound = sorted(
        name for name, going in state.exports.items() if not (going or name in state.bindings)
    )
    room = max(bounds.BINDINGS - len(owned), 0)
    return BundlePlan(
        # Each binding has the name of its export, for kube-bind joins the two by it.
        create=[_binding(state, name) for name in unbound[:room]],
        beyond=unbound[room:],
        delete=[owned[name] for name in missing if name in state.gone],
        missing=missing,
        foreign=sorted(state.exports.keys() & (state.bindings.keys() - owned.keys())),
    )


def status(
    state: BundleState, plan: BundlePlan, failures: Mapping[str, str], *, now: str
) -> ConditionsStatus:
    """Return the bundle's status after the plan was carried out.

    Args:
        state: the facts of the pass.
        plan: the plan that was carried out.
        failures: the failed creations, deletions and questions: the reasons by binding.
        now: the transition time of what has changed.
    """
    old = state.bundle.status
    synced = plan.obstacle or _synced(plan, failures)
    current = [state.secret_valid]
    if not plan.waiting:
        current.append(synced)
    conditions = set_conditions(old.conditions, *current, now=now, summary=True)
    return msgspec.structs.replace(old, conditions=conditions)


def _obstacle(state: BundleState) -> KubeBindCondition | None:
    if state.secret_valid.status != "True":
        message = (
            "the konnector cannot connect to the provider without its kubeconfig: see SecretValid"
        )
        return false(SYNCED, PROVIDER_CLIENT_ERROR, message)
    if state.client_error:
        return false(SYNCED, PROVIDER_CLIENT_ERROR, state.client_error)
    if state.bindings_error:
        message = f"the APIServiceBindings cannot be listed: {state.bindings_error}"
        return false(SYNCED, LIST_BINDINGS_FAILED, message)
    if state.exports_error:
        message = f"the provider's APIServiceExports cannot be listed: {state.exports_error}"
        return false(SYNCED, LIST_EXPORTS_FAILED, message)
    return None


def _synced(plan: BundlePlan, failures: Mapping[str, str]) -> KubeBindCondition:
    wrong = {name: _foreign(name) for name in plan.foreign} | dict(failures)
    wrong |= {name: _beyond(name) for name in plan.beyond}
    if not wrong:
        return true(SYNCED)
    messages = [message for _, message in sorted(wrong.items())]
    more = [f"and {len(messages) - bounds.NAMED} more"] if len(messages) > bounds.NAMED else []
    count = f"{len(messages)} error" + ("s" if len(messages) > 1 else "")
    message = f"{count}: {'; '.join(messages[: bounds.NAMED] + more)}"
    return false(SYNCED, SYNC_ERRORS, message, severity="Warning")


def _foreign(name: str) -> str:
    return (
        f"APIServiceBinding {name} exists and does not belong to this bundle: delete it, and "
        "the bundle creates its own, or ask the provider for an export of another name"
    )


def _beyond(name: str) -> str:
    return (
        f"APIServiceExport {name} is not bound, since a bundle binds {bounds.BINDINGS} exports "
        "at most: bind this one by itself, or ask the provider to remove others"
    )


def _owned(state: BundleState, meta: ObjectMeta) -> bool:
    """Whether the bundle is the controller of a binding, by kind, name and uid."""
    owner, controller = state.owner, meta.controller()
    # As kube-bind tests it: a bundle that was made anew under the name has another uid.
    return controller is not None and (controller.kind, controller.name, controller.uid) == (
        owner.kind,
        owner.name,
        owner.uid,
    )


def _binding(state: BundleState, name: str) -> JSON:
    ref = state.bundle.spec.kubeconfig_secret_ref
    return {
        "apiVersion": API_VERSION,
        "kind": APISERVICEBINDINGS.kind,
        "metadata": {"name": name, "ownerReferences": [msgspec.to_builtins(state.owner)]},
        "spec": {"kubeconfigSecretRef": msgspec.to_builtins(ref)},
    }
