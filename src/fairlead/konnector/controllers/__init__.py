"""The konnector's controllers: each watches one kind of kube-bind and keeps one thing true.

``bindingsecret`` checks the kubeconfig of a binding and ``connections`` joins its provider.
For each provider ``clusterbinding`` keeps the heartbeat, ``bundle`` binds what is exported,
``apiservicebinding`` brings CRDs, and ``apiserviceexport`` starts and stops the syncers.
``namespacelifecycle`` and ``unbind`` take away what is not wanted any more.
"""
