"""Controllers: the work of kube-controller-manager and of the CRD machinery.

The ``reactor`` hands each published change to every controller, between requests and in order.
``crds`` accepts names, serves custom resources and cleans up. ``namespaces`` creates each
namespace's ServiceAccount and deletes the content of deleted namespaces. ``garbage`` deletes
objects whose owners are gone. ``clusterroles`` aggregates rules. The controllers that need keys
are in ``auth``.
"""
