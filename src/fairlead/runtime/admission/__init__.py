"""Serving of admission webhooks: a TLS server, its certificate, and the CA bundle of its clients.

``server`` answers AdmissionReviews in every replica of a program. ``certificates`` decides what
the shared Secret has to hold; ``keeping`` runs in the leader alone and writes the Secret and the
``caBundle`` of the webhook configurations. Needs the extra ``webhooks``.
"""
