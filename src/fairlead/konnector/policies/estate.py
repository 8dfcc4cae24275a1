"""Owner references by which the garbage collector deletes objects with their binding."""

from __future__ import annotations

from fairlead.api.kubebind import (
    APISERVICEBINDINGBUNDLES,
    APISERVICEBINDINGS,
    GROUP,
    APIServiceBinding,
)
from fairlead.api.meta import JSON, Key, Object


_OWNERS = {APISERVICEBINDINGS.kind, APISERVICEBINDINGBUNDLES.kind}


def secret_key(binding: Object) -> Key:
    """Return the Secret that a binding or a bundle refers to: their specs are alike."""
    ref = binding.decode(APIServiceBinding).spec.kubeconfig_secret_ref
    return Key(ref.namespace, ref.name)


def unowned(body: JSON) -> JSON:
    """Return the body of an object without owner references to bindings and bundles."""
    metadata = dict(body["metadata"])
    owners = metadata.pop("ownerReferences", [])
    references = [
        reference
        for reference in owners
        if not (reference["kind"] in _OWNERS and reference["apiVersion"].startswith(f"{GROUP}/"))
    ]
    if references:
        metadata["ownerReferences"] = references
    return {**body, "metadata": metadata}
