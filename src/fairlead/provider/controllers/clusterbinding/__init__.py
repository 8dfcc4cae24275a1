"""ClusterBinding: the condition Healthy, by the heartbeats of a consumer's konnector."""
