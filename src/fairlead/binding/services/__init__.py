"""Services and their entries.

The annotations of a ``service`` and of its CRD define what to read (``definitions``); the results
are ``items``.
"""
