"""Contexts: the interface through which handlers read and write, one per API.

``protocol`` is the interface: handlers need no more. ``base`` implements it, and ``coreos`` and
``spec`` have the fields of the two APIs. Behind ``base``, ``reader`` reads services and Secrets
with the rights of the user who edited the binding last, ``workloads`` finds workloads,
``superseded`` former Secrets, and ``outcome`` has what a pass writes and says.
"""
