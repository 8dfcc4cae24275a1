"""Owner references by which the garbage collector deletes objects with their binding."""

from __future__ import annotations

from fairlead.api.kbind.names import KBIND_KINDS
from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    APIServiceBinding,
)
from fairlead.api.meta import JSON, Key, Object


_OWNERS = {
    (owner.group, owner.kind)
    for owner in (APISERVICEBINDINGS, APISERVICEBINDINGBUNDLES, *KBIND_KINDS)
}


def secret_key(binding: Object) -> Key:
    """Return the Secret that a binding or a bundle refers to: their specs are alike."""
    ref = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    return Key(ref.namespace, ref.name)


def unowned(body: JSON) -> JSON:
    """Return the body of an object without owner references to what unbinding deletes.

    These are the bindings and bundles of v1alpha2, and the bindings and Connections of kbind v2.
    """
    metadata = dict(body["metadata"])
    owners = metadata.pop("ownerReferences", [])
    references = [
        reference
        for reference in owners
        if (reference["apiVersion"].partition("/")[0], reference["kind"]) not in _OWNERS
    ]
    if references:
        metadata["ownerReferences"] = references
    return {**body, "metadata": metadata}
