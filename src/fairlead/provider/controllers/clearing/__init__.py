"""Deletion of a revoked consumer's objects, once its access is gone."""
