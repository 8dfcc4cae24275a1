"""The routes of kube-bind's protocol: the catalogue, and binding."""
