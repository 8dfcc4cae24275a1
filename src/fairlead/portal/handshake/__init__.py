"""The routes of kube-bind's protocol: lists of templates, binds, and what a person may bind."""
