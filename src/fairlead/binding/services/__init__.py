"""Services: which entries they offer.

A ``service`` says by its annotations and its CRD's what to read (``definitions``); what was read
is ``items``.
"""
