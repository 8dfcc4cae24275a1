"""What of the consumer's cluster is the konnector's own, and never a provider's to claim."""

from __future__ import annotations

from fairlead.api.kubebind import APIServiceBinding
from fairlead.api.meta import Key, Object
from fairlead.api.resource import SECRETS, Resource
from fairlead.runtime import Informer


_INDEX = "kubeconfig"


class Reserved:
    """The konnector's namespace, and the Secrets with kubeconfigs wherever they are.

    A claim as wide as all Secrets must not hand one provider the way to another, nor may a
    provider bring kubeconfigs to where they are read.
    """

    def __init__(self, bindings: Informer, namespace: str, *others: Informer) -> None:
        """Take the konnector's namespace, bindings, and whatever else refers to kubeconfigs."""
        self._informers = (bindings, *others)
        self._namespace = namespace
        for informer in self._informers:
            informer.add_index(_INDEX, _kubeconfig_secret)

    def has(self, resource: Resource, key: Key) -> bool:
        """Whether an object is among these."""
        if key.namespace == self._namespace:
            return True
        return resource == SECRETS and any(
            informer.by_index(_INDEX, str(key)) for informer in self._informers
        )


def _kubeconfig_secret(found: Object) -> list[str]:
    """Bindings and bundles have this field in common."""
    ref = found.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    return [str(Key(ref.namespace, ref.name))]
