"""Pages of ``fairlead console`` about the consumer's cluster, with the caller's own rights.

It polls and does not watch: the caller may lack the right, and states are compared with the
provider's copies, as ``fairlead bindings`` does. All open pages share each look.
"""
