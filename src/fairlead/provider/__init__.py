"""The provider's side of kube-bind: from an invitation to a consumer's rights, and their end.

``invitation`` makes a cluster namespace for a consumer's identity, with a ServiceAccount, its
``credentials`` and a ClusterBinding, and writes down what the consumer needs to bind. What its
konnector then writes in that namespace, ``controllers`` carry out: schemas and an export, provider
namespaces, ``rights`` in them. ``commands`` is what people do: they list consumers, rotate their
credentials and revoke them.
"""
