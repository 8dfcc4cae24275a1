"""Workloads: the operations of a binding on them, and its records.

``operations`` is the interface of handlers, ``workload`` an object in Kubernetes. A projection is
recorded on the workload (``records``), which tells the binding's items from those of others
(``holdings``). ``projection`` adds and removes them, and ``takeover`` infers the records of
projections without one.
"""
