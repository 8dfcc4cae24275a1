"""The languages in bindings, with the same semantics as in the original operators.

Values are found by :mod:`fairlead.api.jsonpath`. ``fixedpath`` is the part of it that has field
steps alone, along which values can be written. ``gotemplate`` renders entries and names
(https://pkg.go.dev/text/template). What tenants write has to end: templates and paths have bounds,
and an error names the one that they went beyond.
"""
