"""Types of Kubernetes objects, without any I/O.

The JSON of an object becomes an ``Object``: typed metadata beside the immutable bytes (``meta``),
which decode into the types of the resources that Fairlead works on. In the other direction this
package makes bodies to write, and generates the CRDs of these types (``crd``).

``resource`` names resources and their paths, ``conditions``, ``selectors``, ``patch``, ``status``,
``durations`` and ``timestamps`` are parts of many kinds, and ``manifests`` writes the
objects that are applied with kubectl. ``kubebind`` has the types of kube-bind.io/v1alpha2,
``servicebinding`` those of Service Binding, and ``postgresaccess`` those of
access.k8s.delta10.nl/v1. Every package may import this one, and it imports nothing of Fairlead.
"""
