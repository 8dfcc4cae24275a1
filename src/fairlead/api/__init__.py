"""What Kubernetes objects look like, without any I/O.

What comes in: the JSON of an object. It becomes an ``Object``: typed metadata beside the immutable
bytes (``meta``), which decode into the types of the resources that Fairlead works on. What goes
out: bodies to write, and the CRDs that describe these types, generated from them (``crd``).

``resource`` names resources and their paths, ``conditions``, ``selectors``, ``patch``, ``status``,
``durations`` and ``timestamps`` are the parts that many kinds share, and ``manifests`` writes what
is applied with kubectl. ``kubebind`` has the types of kube-bind.io/v1alpha2, ``servicebinding``
those of Service Binding, and ``postgresaccess`` those of access.k8s.delta10.nl/v1. Everything may
import this package, and it imports nothing of Fairlead.
"""
