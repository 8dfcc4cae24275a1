"""The consumers of a provider's cluster: who they are, what they have, whether they are alive."""
