"""Controllers: the work of kube-controller-manager and of the CRD machinery.

The ``reactor`` hands each published change to every controller, between requests and in order.
``crds`` accepts names, serves custom resources and cleans up; ``namespaces`` gives each namespace
its account and empties those that are deleted; ``garbage`` collects what has lost its owners;
``clusterroles`` aggregates rules. Those that need keys are in ``auth``.
"""
