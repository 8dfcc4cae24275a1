"""Serving admission webhooks: a TLS server, its certificate, and the bundle that servers trust.

``server`` answers AdmissionReviews, every replica of a program the same. ``certificates`` decides
what the shared Secret has to hold, and ``keeping`` is who leads: it writes the Secret and the
``caBundle`` of the webhook configurations. Needs the extra ``webhooks``.
"""
