"""Connections: one link for each, its identity, its exports and its Lease."""
