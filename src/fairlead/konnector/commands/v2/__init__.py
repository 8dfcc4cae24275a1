"""The commands of a consumer's side for kbind v2: bind, accept and unbind.

``targets`` names what a command is about, ``plan`` says which objects and roles belong to a bind,
``checks`` looks at both clusters before the first write, ``waiting`` waits for the konnector, and
``undo`` takes back what a bind has written that failed.
"""
