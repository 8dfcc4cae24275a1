"""The commands that speak to a provider's front door, and ``kubectl bind``, which reuses them.

``options`` finds the server and the token, ``sources`` fetch the response to bind, ``output``
prints, and the others are one command each.
"""
