"""Webhooks: record the requester of a binding, and validate bindings and mappings.

``rules`` and ``requester`` decide without I/O, ``serving`` serves them. Without webhooks the
pipeline reports the same errors in conditions.
"""
