"""APIServiceNamespace: a namespace in the provider's cluster for one of a consumer's."""
