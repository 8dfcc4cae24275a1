"""The provider's side of kube-bind: from an invitation to a consumer's rights, and their end.

``invitation`` makes a cluster namespace for a consumer's identity, with a ServiceAccount, its
``credentials`` and a ClusterBinding, and returns the document with which the consumer binds.
``controllers`` then answer the objects that the consumer's konnector creates in that namespace:
they make schemas and an export, provider namespaces, and ``rights`` in these. ``commands`` list
consumers, rotate their credentials and revoke them.
"""
