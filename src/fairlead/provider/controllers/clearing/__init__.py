"""Clears away what a revoked consumer had, once its access is gone."""
