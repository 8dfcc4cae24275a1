"""The bundle of ``fairlead support``: what runs, and how it goes; no secrets.

What comes in: a client with the caller's rights. ``collecting`` reads versions, conditions,
Events, Pods, logs and metrics, and takes from each object only the fields that it lists.
``redaction`` removes the values of Secrets, and what has the form of a credential, from all texts.
What goes out: the files of the bundle, of which one names what could not be read.
"""
