"""Chains of services as a tree and as rows: pure functions without I/O."""
