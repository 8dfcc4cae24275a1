"""Chains of services as a drawing and as rows: pure functions without I/O."""
