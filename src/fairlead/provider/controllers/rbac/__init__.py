"""Rights of consumers in the provider's cluster, exactly as their exports need them."""
