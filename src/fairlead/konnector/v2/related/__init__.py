"""Related resources of kbind v2: Secrets and ConfigMaps beside the objects that a binding binds.

``rules`` says which rules of a binding hold, ``plan`` which copies are to be written and deleted,
and ``copies`` watches the originals and the copies, and writes.
"""
