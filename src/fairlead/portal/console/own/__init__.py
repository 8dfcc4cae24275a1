"""A cluster's own side, with the rights of the person who runs ``fairlead console``.

Nothing here watches: the person may lack the right, and how objects stand is compared with the
provider's copies, as ``fairlead bindings`` does. One look serves all pages that are open.
"""
