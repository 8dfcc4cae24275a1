"""Deletes the objects of a revoked consumer, once its access is gone."""
