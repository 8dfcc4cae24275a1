"""The commands of kube-bind: the consumer's side, the provider's side, and both programs."""
