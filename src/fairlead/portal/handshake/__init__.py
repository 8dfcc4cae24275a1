"""The routes of kube-bind's wire: what is offered, and binding it."""
