"""ClusterBinding: whether a consumer's konnector is alive."""
