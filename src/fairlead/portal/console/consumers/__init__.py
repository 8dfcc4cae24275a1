"""Consumers, for administrators: who they are, what they have, and what can be done to them."""
