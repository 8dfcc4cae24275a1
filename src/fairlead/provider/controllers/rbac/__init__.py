"""What a consumer may do in the provider's cluster: exactly what its exports say."""
